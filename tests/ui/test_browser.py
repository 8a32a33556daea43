"""The pages in Chromium: charts, drawn samples, the editor, cancelling, and that nothing else runs or is asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import snapdb
from tests.support.hostile import HOSTILE, create_hostile
from tests.support.places import ROOT
from tests.support.refusals import RECORD
from tests.support.site import SHOP
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE, until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium"),
]
PICTURES = os.environ.get("SNAPDB_SCREENSHOTS")
"""A folder for a screenshot of each page, or None."""
SHOWN = ("overview", "sample", "difference")
"""The pages whose screenshots are in the documentation. SNAPDB_RECORD=1 takes them again."""
PAGES = {
    "overview": "",
    "tables": "tables",
    "table": "tables/bought",
    "versions": "versions",
    "graph": "graphs/shop",
    "snapshots": "snapshots",
    "snapshot": "snapshots/now",
    "difference": "snapshots/now?against=january",
    "sampler": "samplers/train",
    "sample": "samplers/recent/sample?seeds=4",
    "tasks": "tasks",
    "task": "tasks/good",
    "run": "runs/good/1",
    "caches": "caches",
    "sql": "sql?q=SELECT%20*%20FROM%20bought",
}
ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range"


NEXT = """() => {
  const next = document.querySelector('[hx-trigger=revealed]');
  if (next) next.scrollIntoView();
  return next !== null;
}"""
"""Scrolls to the next panel that is not loaded, if there is one."""


@dataclass
class Window:
    """A page of the browser, and what it should not do."""

    page: Any
    base: str
    said: list[str] = field(default_factory=list)
    """Messages on the console, errors, dialogs, and requests to other addresses."""

    def open(self, path: str) -> None:
        """Open a page, and wait until all of its panels are there."""
        self.page.goto(self.base + path)
        self.settle()

    def settle(self) -> None:
        """Scroll down, so that all panels load, and wait for them."""
        until(lambda: not self.page.evaluate(NEXT))
        self.page.wait_for_selector(".htmx-request", state="detached")
        self.page.evaluate("window.scrollTo(0, 0)")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))


def served(path: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "snapdb_cli", "ui", str(path), "--no-open", "--port", "8451"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        own = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield own
        own.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browser") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


@pytest.fixture(scope="module")
def address(shop: Path) -> Iterator[str]:
    process, address = served(shop)
    yield address
    process.kill()
    process.communicate(timeout=PATIENCE)


def window(browser: Any, address: str, width: int = 1400, scheme: str = "light", **options: Any) -> Window:
    """A page in a context of its own, which is signed in."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    own = Window(page, address.split("?", maxsplit=1)[0])
    origin = ("/".join(address.split("/")[:3]) + "/", "data:,")
    page.on("console", lambda message: own.said.append(message.text))
    page.on("pageerror", lambda error: own.said.append(str(error)))
    page.on("dialog", lambda dialog: (own.said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: own.said.extend([] if request.url.startswith(origin) else [request.url]))
    page.goto(address)
    return own


@pytest.fixture(scope="module")
def shown(browser: Any, address: str) -> Iterator[Window]:
    own = window(browser, address)
    yield own
    own.page.context.close()


LOOKS = [(1400, "light"), (390, "dark")] + [(1400, "dark"), (390, "light")] * SOAK


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_drawn_and_fits(browser: Any, address: str, width: int, scheme: str) -> None:
    own = window(browser, address, width, scheme)
    for name, path in PAGES.items():
        own.open(path)
        if PICTURES:
            own.page.wait_for_load_state("networkidle")
            Path(PICTURES).mkdir(exist_ok=True)
            own.page.screenshot(path=f"{PICTURES}/{name}-{width}-{scheme}.png", full_page=True)
        if RECORD and name in SHOWN and scheme == "light":
            own.page.wait_for_load_state("networkidle")
            own.page.screenshot(path=ROOT / "docs" / "pictures" / f"ui-{name}.png")
        assert own.page.query_selector_all(".failure") == [], name
        assert own.page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert own.said == [], name
    own.page.context.close()


def contrast(one: list[float], other: list[float]) -> float:
    """The contrast ratio of two colours, as WCAG 2 defines it."""

    def luminance(color: list[float]) -> float:
        parts = [c / 255 for c in color[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLORS = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('svg, canvas, .uplot') || !element.checkVisibility()) continue;
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own) continue;
    let ground = element, back = [0, 0, 0, 0];
    while (ground && back.length > 3 && back[3] === 0) {
      back = parse(getComputedStyle(ground).backgroundColor);
      ground = ground.parentElement;
    }
    if (back.length > 3 && back[3] < 1) continue;
    const name = `${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 30)}`;
    found.push([name, parse(getComputedStyle(element).color), back]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_background(browser: Any, address: str, scheme: str) -> None:
    own = window(browser, address, scheme=scheme)
    for path in ("", "snapshots/now?against=january", "tasks", "sql", "samplers/train", "tables/tabel"):
        own.open(path)
        for name, color, ground in own.page.evaluate(COLORS):
            assert contrast(color, ground) >= 4.5, (path, name, color, ground)
    own.page.context.close()


def test_growth_is_a_chart_to_point_at(shown: Window) -> None:
    shown.open("")
    shown.page.wait_for_selector(".uplot canvas")
    assert all(name in shown.text(".u-legend") for name in ("bought", "customer", "product"))
    shown.page.hover(".u-over")
    until(lambda: re.search(r"bought[^a-z]*\d", shown.text(".u-legend")))


def test_a_drawn_sample_tells_what_is_clicked(shown: Window, shop: Path) -> None:
    shown.open("samplers/recent/sample?seeds=3&batch=1")
    shown.page.wait_for_selector(".graph.live canvas")
    with snapdb.connect(shop, read_only=True) as db:
        drawing = db.draw("recent", batch=1, seeds=3)
    counts = shown.page.evaluate("[snapdbSample.nodes().length, snapdbSample.edges().length]")
    assert counts == [len(drawing.nodes), len(drawing.edges)]
    properties = "e.source().data('properties').id, e.target().data('properties').id"
    ends = shown.page.evaluate(f"snapdbSample.edges().map(e => [{properties}])")
    assert ends == [[edge.source, edge.target] for edge in drawing.edges]
    assert shown.page.evaluate("snapdbSample.edges('.late').length") == 0
    assert shown.page.evaluate("snapdbSample.nodes('.seed').length") == sum(node.is_seed for node in drawing.nodes)
    looks = shown.page.evaluate("snapdbSample.nodes().map(n => n.data('shape') + n.data('color'))")
    assert len(set(looks)) == len(drawing.node_types)
    place = shown.page.evaluate("(({ x, y }) => [x, y])(snapdbSample.nodes('.seed')[0].renderedPosition())")
    box = shown.page.query_selector(".graph").bounding_box()
    shown.page.mouse.click(box["x"] + place[0], box["y"] + place[1])
    shown.page.wait_for_selector(".chosen dd")
    (seed, *_) = (node for node in drawing.nodes if node.is_seed)
    told = shown.text(".chosen")
    assert seed.key in told
    assert all(name in told for name, _ in seed.features)
    shown.page.evaluate("(() => { snapdbSample.elements().unselect(); snapdbSample.edges()[0].select(); })()")
    until(lambda: "e id" in shown.text(".chosen"))
    assert str(drawing.edges[0].e_id) in shown.text(".chosen")
    assert shown.said == []


def test_the_editor_runs_completes_and_remembers(shown: Window) -> None:
    shown.open("sql")
    page = shown.page
    page.fill("#text", "SELECT count(*) AS n FROM bough")
    page.press("#text", "End")
    page.press("#text", "Control+Space")
    until(lambda: page.input_value("#text").endswith("FROM bought"))
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#result td")
    assert shown.text("#result td") == "1300"
    until(lambda: shown.text("#took").endswith(" s"))
    page.fill("#text", "SELECT * FROM nothing")
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#result .failure")
    page.wait_for_selector("#history option:nth-child(3)", state="attached")
    page.select_option("#history", index=2)
    assert page.input_value("#text") == "SELECT count(*) AS n FROM bought"
    with page.expect_download() as download:
        page.click("button[value=csv]")
    assert Path(download.value.path()).read_text() == "n\n1300\n"
    assert shown.said == []


def test_cancel_and_closing_the_tab_end_a_statement(browser: Any, address: str, shop: Path) -> None:
    own = window(browser, address)
    context = own.page.context
    own.page.goto(own.base + "sql")
    for end in ("cancel", "close", "cancel", "close", "cancel", "close"):  # more than there may be at once
        own.page.fill("#text", ENDLESS)
        own.page.press("#text", "Control+Enter")
        own.page.wait_for_selector("#sql.htmx-request")
        if end == "cancel":
            own.page.click("#sql [data-cancel]")
            own.page.wait_for_selector("#result:has-text('Cancelled')")
        else:
            own.page.close()
            own.page = context.new_page()
            own.page.goto(own.base + "sql")
    own.page.fill("#text", "SELECT 42 AS x")
    own.page.press("#text", "Control+Enter")
    own.page.wait_for_selector("#result td")
    assert own.text("#result td") == "42"
    own.page.context.close()


def test_a_newer_version_is_told_and_the_page_stays(shown: Window, shop: Path) -> None:
    shown.open("tables")
    shown.page.wait_for_load_state("networkidle")
    with snapdb.connect(shop) as db:
        db.execute("CREATE TABLE newer AS SELECT 1 AS a")
    shown.page.wait_for_selector("#newer a")
    assert "newer" not in shown.text("main")
    shown.page.click("#newer a")
    shown.settle()
    assert "newer" in shown.text("main")
    with snapdb.connect(shop) as db:
        db.execute("DROP TABLE newer")


def test_pages_work_by_keyboard(shown: Window) -> None:
    shown.open("")
    page = shown.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"overview", "snapshots", "SQL", "bought"} <= reached


def test_without_scripts_all_is_there(browser: Any, address: str) -> None:
    own = window(browser, address, java_script_enabled=False)
    own.page.goto(own.base)
    own.page.wait_for_selector("svg.timeline")
    assert own.page.query_selector("svg.growth")
    own.page.goto(own.base + "samplers/train/sample")
    own.page.wait_for_selector("svg.snapdb-sample")
    own.page.goto(own.base + "sql")
    own.page.fill("#text", "SELECT 42 AS x")
    own.page.click("#sql .buttons button")
    own.page.wait_for_selector("#result td")
    assert own.text("#result td") == "42"
    own.page.context.close()


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    create_hostile(tmp_path / "shop.snapdb")
    process, address = served(tmp_path / "shop.snapdb")
    try:
        own = window(browser, address)
        for path in ("", "tables", "graphs", "snapshots", "samplers", "tasks", "versions"):
            own.open(path)
            assert HOSTILE[0] in own.page.content().replace("&lt;", "<").replace("&gt;", ">"), path
        own.open("samplers")
        links = own.page.evaluate("[...document.querySelectorAll('td:first-child a')].map(a => a.href + '/sample')")
        assert len(links) == len(HOSTILE)
        for link in links:
            own.open(link.removeprefix(own.base))
            assert own.page.query_selector_all(".failure") == [], link
        assert own.said == []
        own.page.context.close()
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def test_the_vendored_files_are_those_of_their_packages() -> None:
    folder = ROOT / "ui" / "snapdb_ui" / "static" / "vendor"
    versions = {"htmx.min.js": "2.0.11", "cytoscape.min.js": "3.34.4", "uPlot.iife.min.js": "1.6.32"}
    script = (ROOT / "ui" / "vendor.py").read_text()
    for name, version in versions.items():
        assert (folder / name).exists()
        assert json.dumps(version) in script
