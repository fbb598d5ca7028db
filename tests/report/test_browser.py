"""The page in a real browser: drawn, readable, quiet, and asking for nothing."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from servescope.report.charts import FIGURES, draw_all
from servescope.report.page import PAGE, render, write_page
from servescope.report.saved import read_saved
from tests.report import block_sample, sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

webdriver = pytest.importorskip("selenium.webdriver")

BROWSER = next(
    (found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its chromedriver here")

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
WAIT_S = 30
LOOKS = [(400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")]

CHARTS = """
return [...document.querySelectorAll(".chart")].map(place => {
  const svg = place.querySelector("svg"), frame = svg && svg.getBoundingClientRect();
  const marks = svg ? [...svg.querySelectorAll(".role-mark path, .role-mark rect, .role-mark text")] : [];
  const boxes = marks.map(mark => mark.getBoundingClientRect());
  const cut = svg ? [...svg.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return text.textContent && (box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
  }).map(text => text.textContent) : [];
  return {name: place.dataset.figure, width: frame ? frame.width : 0, height: frame ? frame.height : 0,
          room: place.getBoundingClientRect().width, cut,
          marks: boxes.filter(box => box.width + box.height > 2).length};
});
"""
SMALLEST_TEXT = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let least = [1e9, ""];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
  const size = parseFloat(getComputedStyle(element).fontSize);
  if (size < least[0]) least = [size, node.textContent];
}
return least;
"""
WIDER_THAN_THE_WINDOW = """
return [...document.querySelectorAll("body *")].filter(element => !element.closest(".scroll, .skip, script"))
  .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
  .map(element => element.tagName + "." + element.className);
"""
NAMES_OF_TABLES = """
return [...document.querySelectorAll("#tables td code")].map(name =>
  [name.textContent, name.getClientRects().length]);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = sample.write(tmp_path_factory.mktemp("browser") / "out")
    return render(folder).as_uri()


@pytest.fixture(scope="module", params=["session", "block"])
def cache_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The page of a sweep of caches, and how many figures it has."""
    folder: Path = tmp_path_factory.mktemp("cache") / "out"
    more: dict[str, Any] = {"policy": "fifo,lru,vllm,s3fifo,gdsf,workload_aware,belady,belady_bypass"}
    if request.param == "session":
        more = {
            "credit": "prefix",
            "policy": "lru,fifo,s3fifo,bound",
            "capacity": "1%,10%,50%",
            "curve": True,
        }
    result, document = block_sample.swept(cached=0.5, unit=request.param, **more)
    write_page(result.tables, document, folder, figures=False)
    return (folder / PAGE).as_uri(), len(draw_all(read_saved(folder))[0])


def _wait(browser: Any, figures: int = len(FIGURES)) -> None:
    end = time.monotonic() + WAIT_S
    while browser.execute_script("return document.documentElement.dataset.drawn") != str(figures):
        assert time.monotonic() < end, "the figures were not drawn in time"
        time.sleep(0.05)


def _open(browser: Any, address: str, width: int, look: str, figures: int = len(FIGURES)) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": look}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(address)
    _wait(browser, figures)


def _requested(browser: Any) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def _brightness(browser: Any, selector: str, what: str) -> float:
    script = f"return getComputedStyle(document.querySelector('{selector}')).{what}"
    parts = browser.execute_script(script).strip("rgba()").split(",")[:3]
    return sum(float(part) for part in parts) / 3


@pytest.mark.parametrize(("width", "look"), LOOKS)
def test_every_figure_is_drawn_and_the_page_is_readable(
    browser: Any, address: str, width: int, look: str
) -> None:
    _open(browser, address, width, look)
    assert _readable(browser, width) == list(FIGURES)
    paper = _brightness(browser, "body", "backgroundColor")
    ink = _brightness(browser, "body", "color")
    label = _brightness(browser, ".chart svg .role-axis-label text", "fill")
    assert (
        (paper > 230 and ink < 80 and label < 130)
        if look == "light"
        else (paper < 40 and ink > 200 and label > 140)
    )
    assert browser.get_log("browser") == []
    assert set(_requested(browser)) <= {address, "data:,"}


def _readable(browser: Any, width: int) -> list[str]:
    """Names of the figures, once each is drawn, nothing is cut or too wide, and text is large enough."""
    charts = browser.execute_script(CHARTS)
    for chart in charts:
        assert chart["marks"] >= 1, chart
        assert chart["height"] > 100 and 200 < chart["width"] <= chart["room"] + 1, chart
        assert chart["cut"] == [], chart
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(WIDER_THAN_THE_WINDOW) == []
    size, where = browser.execute_script(SMALLEST_TEXT)
    assert size >= 11, where
    return [chart["name"] for chart in charts]


@pytest.mark.parametrize(("width", "look"), [(400, "dark"), (1600, "light")])
def test_the_page_of_a_sweep_of_caches_is_readable(
    browser: Any, cache_page: tuple[str, int], width: int, look: str
) -> None:
    address, figures = cache_page
    _open(browser, address, width, look, figures)
    assert figures >= 4 and len(_readable(browser, width)) == figures
    names = browser.execute_script(NAMES_OF_TABLES)
    assert names and all(lines == 1 for _, lines in names), names
    assert browser.get_log("browser") == []
    assert set(_requested(browser)) <= {address, "data:,"}


def test_names_from_the_trace_run_nothing(browser: Any, address: str) -> None:
    _open(browser, address, 1600, "light")
    assert browser.execute_script("return typeof window.broken") == "undefined"
    assert browser.execute_script("return document.querySelectorAll('img, iframe').length") == 0


def test_the_toggle_redraws_the_page_in_the_other_look(browser: Any, address: str) -> None:
    _open(browser, address, 1600, "light")
    toggle = browser.find_element("id", "theme")
    assert toggle.text == "Dark"
    toggle.click()
    _wait(browser)
    assert toggle.text == "Light"
    assert _brightness(browser, "body", "backgroundColor") < 40
    assert _brightness(browser, ".chart svg .role-axis-label text", "fill") > 140
    assert all(chart["marks"] for chart in browser.execute_script(CHARTS))
    toggle.click()
    _wait(browser)
    assert _brightness(browser, "body", "backgroundColor") > 230
    assert browser.get_log("browser") == []


def test_pointing_at_a_mark_shows_its_numbers_as_text(browser: Any, address: str) -> None:
    _open(browser, address, 1600, "light")
    bar = browser.find_element("css selector", "[data-figure=block_reuse] .mark-rect path:nth-of-type(7)")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)
    webdriver.ActionChains(browser).move_to_element(bar).perform()
    tooltip = browser.find_element("id", "vg-tooltip-element")
    end = time.monotonic() + WAIT_S
    while "visible" not in tooltip.get_attribute("class"):
        assert time.monotonic() < end, "no tooltip"
        time.sleep(0.05)
    assert "</script><img src=" in tooltip.text and "%" in tooltip.text
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.get_log("browser") == []


def test_every_chart_can_be_reached_by_keyboard_and_has_words(browser: Any, address: str) -> None:
    _open(browser, address, 400, "light")
    reached = browser.execute_script("""
      return [...document.querySelectorAll(".chart")].map(place => {
        place.focus();
        const words = place.getAttribute("aria-label");
        return document.activeElement === place && words.length > 30;
      });
    """)
    assert reached == [True] * len(FIGURES)
