"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const views = new Map();
  const drawnAs = new Map(); // figure -> look and legend columns that it was drawn with

  // Figures of a hidden part have no width; they are drawn when the part is shown.
  const shown = () => [...document.querySelectorAll(".chart")].filter((place) => !place.closest("[hidden]"));

  function colourOf(spec) {
    if (spec.encoding && spec.encoding.color) return spec.encoding.color;
    for (const part of spec.layer || []) {
      const found = colourOf(part);
      if (found) return found;
    }
    return null;
  }

  // The columns of a legend must be known before the layout; an expression of the width comes too late.
  function columns(place) {
    const colour = colourOf(data.figures[place.dataset.figure]);
    const domain = (colour && colour.scale && colour.scale.domain) || [];
    const names = ["", ...domain.filter((name) => typeof name === "string")];
    const widest = Math.min(170, 7 * Math.max(...names.map((name) => name.length))) + 26;
    return Math.max(1, Math.floor((place.clientWidth - 60) / widest));
  }

  const wanted = (place) => `${theme()} ${columns(place)}`;

  async function draw(place, name) {
    const look = data.themes[theme()];
    const config = { ...look, legend: { ...look.legend, columns: columns(place) } };
    // "ast": expressions are interpreted, so the page needs no right to evaluate text as code.
    const options = { actions: false, ast: true, renderer: "svg", config };
    drawnAs.set(name, wanted(place));
    try {
      if (views.has(name)) views.get(name).finalize();
      views.set(name, await vegaEmbed(place, data.figures[name], options));
    } catch (error) {
      place.textContent = "This figure could not be drawn here; it is in the folder figures/ beside the page.";
      console.error(name, error);
    }
  }

  async function drawShown() {
    root.dataset.drawn = "0";
    for (const place of shown()) {
      const name = place.dataset.figure;
      if (drawnAs.get(name) !== wanted(place)) await draw(place, name);
    }
    root.dataset.drawn = String(shown().filter((place) => views.has(place.dataset.figure)).length);
  }

  let drawing = Promise.resolve();
  function redraw() {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} page`);
    root.dataset.drawn = "0";
    drawing = drawing.then(drawShown);
  }

  const parts = [...document.querySelectorAll(".part")];
  function show(part) {
    for (const other of parts) other.hidden = other !== part;
    for (const tab of document.querySelectorAll(".tab")) {
      tab.setAttribute("aria-selected", String(tab.getAttribute("aria-controls") === part.id));
    }
    window.dispatchEvent(new Event("resize")); // charts drawn before take the width that there is now
    redraw();
  }

  // An address of something in the hidden part shows that part first.
  function follow() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = target && target.closest(".part");
    if (!part || !part.hidden) return;
    show(part);
    if (target !== part) target.scrollIntoView();
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    redraw();
  });
  system.addEventListener("change", redraw);
  let pause = 0;
  window.addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if (shown().some((place) => drawnAs.get(place.dataset.figure) !== wanted(place))) redraw();
    }, 150);
  });
  for (const part of parts.slice(1)) part.hidden = true;
  window.addEventListener("hashchange", follow);
  redraw();
  follow();
})();
