"""Maps: one strip of cells, items labelled by what they took, failed first, a page at a time."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect
from support.browsing import looking_at
from support.ui_serving import serving

from browser.conftest import Look
from browser.panels import Panels
from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.views.graph import graph as overlaid

pytestmark = pytest.mark.slow


def test_a_thousand_items_are_a_strip_and_pages_failed_first(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=batch")
        strip = page.get_by_role("img", name=re.compile("^1,000 items: "))
        expect(strip).to_have_attribute("aria-label", re.compile("10 failed"))
        labels = shown.rows.get_by_role("link")
        for place, number in enumerate(range(13, 1000, 100)):
            expect(labels.nth(place)).to_contain_text(f"'ticket {number} '")
        expect(labels.nth(10)).to_contain_text("'ticket 0 '")
        expect(page.get_by_label("Error", exact=True)).to_contain_text("nobody answered ticket 13")
        opened = 2  # the steps of the first item, of which the failing one is selected
        expect(shown.rows).to_have_attribute("aria-rowcount", str(50 + opened + 1))
        shown.rows.focus()
        for _ in range(6):
            page.keyboard.press("PageDown")
        page.keyboard.press("Enter")
        expect(shown.rows).to_have_attribute("aria-rowcount", str(100 + opened + 1))
        assert page.get_by_role("row").count() < 200


def test_the_first_page_of_items_is_loaded_once_however_late_it_comes(look: Look) -> None:
    held: list[Route] = []
    asked: list[str] = []

    def hold_first(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            held.append(route)
        else:
            route.continue_()

    with look("long") as page:
        page.route("**/api/v1/items?**", hold_first)
        with page.expect_response(re.compile(r"/api/v1/columns\?.*id=batch(&|$)")):
            shown = Panels(page, "wf=batch")
        page.evaluate("() => new Promise(requestAnimationFrame)")  # the failing step is looked for
        held[0].continue_()
        expect(page.get_by_label("Error", exact=True)).to_contain_text("nobody answered ticket 13")
        expect(shown.rows).to_have_attribute("aria-rowcount", "53")
        assert not [address for address in asked if "cursor=" in address]


def test_a_failed_item_opens_at_its_failing_step(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=batch")
        shown.rows.get_by_role("link").first.click()
        expect(page.get_by_label("Error", exact=True)).to_contain_text(
            "TimeoutError: nobody answered ticket 13"
        )
        expect(page.get_by_role("link", name="inside batch")).to_be_visible()


def test_a_map_inside_a_run_is_one_folded_row_with_a_strip(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=desk")
        row = shown.row("triage")
        expect(row).to_have_attribute("aria-expanded", "false")
        expect(row.get_by_role("img", name=re.compile("^30 items: .*1 failed"))).to_be_visible()
        expect(shown.rows).to_have_attribute("aria-rowcount", "1")
        row.get_by_role("button", name="Unfold").click()
        expect(shown.rows).to_have_attribute("aria-rowcount", "31")
        expect(shown.rows.get_by_role("row").nth(1)).to_contain_text("ticket 13")


def test_items_with_keys_are_listed_by_their_keys(browser: Browser, tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "keyed.db") as store:
        graph = Graph([FunctionNode(lambda path, depth: 1 // depth, "read", "n")])
        options: dict[str, Any] = {"map_over": ["path", "depth"], "key": "path", "error_handling": "continue"}
        SyncRunner(checkpointer=store).map(
            graph, path=["a.csv", "b.csv"], depth=[1, 0], workflow_id="files", **options
        )
    with serving(tmp_path / "keyed.db") as served, looking_at(browser, served) as page:
        links = Panels(page, "wf=files").rows.get_by_role("link")
        expect(links.nth(0)).to_have_text("b.csv")
        expect(links.nth(0)).to_have_attribute("title", "depth=0, path='b.csv'")
        expect(links.nth(1)).to_have_text("a.csv")


KILLED = """
import asyncio, os, sys
from hypergraph import AsyncRunner, Graph, node

@node(output_name="a")
async def fetch(x: int) -> int:
    return x

@node(output_name="b")
async def post(a: int) -> int:
    await asyncio.sleep(0.05 if a < 4 else 60)
    if a == 3:
        await asyncio.sleep(0.3)  # the steps of the others are written
        os._exit(9)
    return a

@node(output_name="n")
def select(xs: list[int]) -> int:
    return len(xs)

each = Graph([fetch, post], name="one").as_node(name="each").with_inputs(x="xs").map_over("xs")
runner = AsyncRunner(checkpointer=sys.argv[1])
asyncio.run(runner.run(Graph([select, each], name="outer"), xs=list(range(8)), workflow_id="w"))
"""


def test_nodes_inside_a_map_that_was_killed_have_their_counts(browser: Browser, tmp_path: Path) -> None:
    database = tmp_path / "killed.db"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(database)], check=False)
    assert ended.returncode == 9
    with SqliteCheckpointer(database) as store:
        told = overlaid(store, "w", depth=1)["overlay"]
    assert told["each/fetch"]["runs"] > 3
    with serving(database) as served, looking_at(browser, served) as page:
        shown = Panels(page, "wf=w")
        page.locator('svg.graph [data-path="each"]').first.wait_for()
        for path in ("each/fetch", "each/post"):
            expect(shown.box(path)).not_to_have_attribute("data-status", "pending")
            expect(shown.box(path)).to_contain_text(str(told[path]["runs"]))
