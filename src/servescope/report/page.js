"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const views = new Map();


  // The columns of a legend must be known before the layout; an expression of the width comes too late.
  function columns(place) {
    const spec = data.figures[place.dataset.figure];
    const colour = (spec.encoding || spec.layer[0].encoding).color;
    const names = (colour && colour.scale && colour.scale.domain) || [""];
    const widest = Math.min(170, 7 * Math.max(...names.map((name) => name.length))) + 26;
    return Math.max(1, Math.floor((place.clientWidth - 60) / widest));
  }

  async function draw(place, name) {
    const look = data.themes[theme()];
    const config = { ...look, legend: { ...look.legend, columns: columns(place) } };
    // "ast": expressions are interpreted, so the page needs no right to evaluate text as code.
    const options = { actions: false, ast: true, renderer: "svg", config };
    try {
      if (views.has(name)) views.get(name).finalize();
      views.set(name, await vegaEmbed(place, data.figures[name], options));
    } catch (error) {
      place.textContent = "This figure could not be drawn here; it is in the folder figures/ beside the page.";
      console.error(name, error);
    }
  }

  async function drawAll() {
    root.dataset.drawn = "0";
    for (const place of document.querySelectorAll(".chart")) await draw(place, place.dataset.figure);
    root.dataset.drawn = String(views.size);
  }

  let drawing = Promise.resolve();
  function redraw() {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} page`);
    drawing = drawing.then(drawAll);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    redraw();
  });
  system.addEventListener("change", redraw);
  const places = [...document.querySelectorAll(".chart")];
  const layout = () => places.map(columns).join();
  let drawnFor = layout();
  let pause = 0;
  window.addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if (layout() !== drawnFor) redraw();
      drawnFor = layout();
    }, 150);
  });
  redraw();
})();
