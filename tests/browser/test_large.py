"""A graph of 80 nodes opens readable, a pause of minutes is folded, a zoom is drawn with the pointer."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import looking_at
from support.ui_serving import serving

from browser.graphs import nest, newsletter
from browser.panels import Panels
from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node

pytestmark = pytest.mark.slow

SMALLEST = """() => Math.min(...[...document.querySelectorAll("svg.graph text")].map((text) =>
  parseFloat(getComputedStyle(text).fontSize) * text.getCTM().a))"""


def wide(count: int) -> Graph:
    """Return a graph of layers of eight nodes, each of which takes from the layer before."""

    def made(number: int) -> Any:
        takes = "seed" if number < 8 else f"out_{number - 8}"
        names: dict[str, Any] = {}
        exec(f"def node_{number}({takes}: int) -> int: return {takes} + 1", names)
        return node(output_name=f"out_{number}")(names[f"node_{number}"])

    return Graph([made(number) for number in range(count)], name="wide")


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file: Path = tmp_path_factory.mktemp("large") / "large.db"
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(wide(80), seed=1, workflow_id="wide")
        runner.run(newsletter, topic="tea", workflow_id="asked")
        runner.run(newsletter, approved=True, workflow_id="asked")
        runner.run(nest, seed=7, workflow_id="nest")
    with closing(sqlite3.connect(file)) as database, database:
        late = 8 * 60 * 1_000_000  # the answer came after eight minutes
        database.execute(
            "UPDATE steps SET created_at = created_at + ? "
            "WHERE superstep > 0 AND workflow = (SELECT key FROM workflows WHERE id = 'asked')",
            (late,),
        )
        database.execute(  # the outer step was recorded long after its end; nested runs are drawn open
            "UPDATE steps SET created_at = created_at + 900000 "
            "WHERE workflow = (SELECT key FROM workflows WHERE id = 'nest')"
        )
    with serving(file, "--read-only") as served, looking_at(browser, served) as opened:
        yield opened


def test_a_large_graph_opens_at_its_beginning_in_letters_one_can_read(page: Page) -> None:
    shown = Panels(page, "wf=wide")
    expect(shown.box("seed")).to_be_in_viewport()
    assert page.evaluate(SMALLEST) >= 11
    expect(page.get_by_role("img", name="Map of the graph")).to_be_visible()
    expect(page.locator(".entry")).to_have_count(8)
    page.get_by_role("searchbox", name="Find a node").fill("node_77")
    page.get_by_role("searchbox", name="Find a node").press("Enter")
    expect(shown.box("node_77")).to_have_attribute("aria-pressed", "true")
    expect(shown.box("node_77")).to_be_in_viewport()
    expect(page.locator(".edge.on-path")).to_have_count(10)
    panel = page.get_by_role("region", name="graph")
    before = panel.bounding_box()
    page.locator("main").focus()
    page.keyboard.press("g")
    expect(page.get_by_role("button", name="Whole page")).to_have_attribute("aria-pressed", "true")
    after = panel.bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > 2 * before["width"]
    page.keyboard.press("g")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("earlier and later visit")
    page.keyboard.press("Escape")


def test_a_long_pause_is_folded_and_a_range_is_zoomed_into(page: Page) -> None:
    Panels(page, "wf=asked")
    expect(page.locator(".idle-note")).to_contain_text("waited 8m00s for an answer (folded)")
    axis = page.get_by_role("img", name="Time axis")
    box = axis.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 8, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="whole time")).to_be_visible()
    page.get_by_role("button", name="whole time").click()
    expect(page.get_by_role("button", name="whole time")).to_have_count(0)


def test_a_nested_run_is_not_drawn_before_its_step(page: Page) -> None:
    shown = Panels(page, "wf=nest")
    bars = shown.rows.locator(".wrow .bar")
    expect(bars).to_have_count(4)
    lefts = bars.evaluate_all("bars => bars.map((bar) => parseFloat(bar.style.left))")
    assert lefts == sorted(lefts)
