"""The page on large things, in a real browser: maps, loops, graphs, nested levels, long runs, many workflows.

At full size: a map of 2,000 items, a loop of 500 rounds, graphs of 80 and 500 nodes, four nested levels,
20,000 steps and 100,000 workflows. The note says how long a move of the slider took.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from browser import graphs
from browser.panels import Panels
from browser.test_large import SMALLEST, wide
from playwright.sync_api import Page, expect
from support.browsing import launched, looking_at
from support.ui_serving import serving

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node
from proofs.outcome import Outcome, scaled

NAME = "the page on large things"
ITEMS, ROUNDS, NODES, STEPS, WORKFLOWS = 2_000, 500, 500, 20_000, 100_000
MOVES = """async (moves) => {
  const slider = document.querySelector('input[type="range"]');
  const times = [];
  for (let move = 0; move < moves; move++) {
    const began = performance.now();
    slider.value = String(Math.floor((move * 7919) % Number(slider.max)));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await Promise.resolve();
    slider.getBoundingClientRect();
    times.push(performance.now() - began);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return times.sort((a, b) => a - b)[Math.floor(moves * 0.95)];
}"""


@node(output_name="deepest")
def deepest(seed: int) -> int:
    return seed + 1


def nested(levels: int) -> Graph:
    """Return a graph inside of graphs."""
    graph = Graph([deepest], name=f"level_{levels}")
    for level in range(levels - 1, 0, -1):
        graph = Graph([graph.as_node()], name=f"level_{level}")
    return graph


def write(file: Path, scale: float) -> dict[str, int]:
    """Write the runs; return how many of each there are."""
    sizes = {
        "items": scaled(ITEMS, scale, 40),
        "rounds": scaled(ROUNDS, scale, 30),
        "nodes": scaled(NODES, scale, 80),
        "steps": scaled(STEPS, scale, 300),
        "workflows": scaled(WORKFLOWS, scale, 1_000),
    }
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(graphs.newsletter, topic="tea", workflow_id="sample")
        tickets = [{"text": f"{number}", "number": number} for number in range(sizes["items"])]
        options = {"map_over": "ticket", "error_handling": "continue"}
        runner.map(graphs.triage, ticket=tickets, workflow_id="map", **options)
        for name, rounds in (("rounds", sizes["rounds"]), ("steps", sizes["steps"] // 3)):
            runner.run(graphs.loop, {"n": 0, "until": rounds}, workflow_id=name, max_iterations=STEPS)
        for count in {80, sizes["nodes"]}:
            runner.run(wide(count), seed=1, workflow_id=f"wide-{count}")
        runner.run(nested(4), seed=1, workflow_id="nested")
    with closing(sqlite3.connect(file)) as database, database:
        _multiply(database, sizes["workflows"])
    return sizes


def _multiply(database: sqlite3.Connection, count: int) -> None:
    """Add copies of the sample, which are older than all other runs."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(workflows)")]
    rest = ", ".join(name for name in columns if name not in ("key", "id", "created_at"))
    first = database.execute("SELECT max(key) + 1 FROM workflows").fetchone()[0]
    database.execute(
        f"""WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
        INSERT INTO workflows (key, id, created_at, {rest})
        SELECT ? + n, 'copy-' || n, created_at - 1000000 - n, {rest} FROM workflows, numbers WHERE id = 'sample'""",  # noqa: E501
        (count - 1, first),
    )


def a_map(page: Page, sizes: dict[str, int]) -> str:
    shown = Panels(page, "wf=map")
    expect(page.get_by_role("img", name=re.compile(f"^{sizes['items']:,} items: ")).first).to_be_visible()
    expect(shown.rows.locator(".row-item").first).to_contain_text("TimeoutError in reply_to")
    assert shown.rows.get_by_role("row").count() < 200
    return ""


def a_loop(page: Page, sizes: dict[str, int]) -> str:
    shown = Panels(page, "wf=rounds")
    expect(shown.rows).to_have_attribute("aria-rowcount", str(sizes["rounds"] + 1))  # the first has no gate
    page.locator("main").focus()
    page.keyboard.press("Home")
    expect(shown.slider).to_have_value("0")
    page.keyboard.press("End")
    expect(shown.value("n")).to_have_text(str(sizes["rounds"]))
    return ""


def large_graphs(page: Page, sizes: dict[str, int]) -> str:
    for count in sorted({80, sizes["nodes"]}):
        shown = Panels(page, f"wf=wide-{count}")
        expect(shown.box("node_0")).to_be_visible()
        assert page.evaluate(SMALLEST) >= 11
        expect(page.get_by_role("img", name="Map of the graph")).to_be_visible()
        page.get_by_role("searchbox", name="Find a node").fill(f"node_{count - 1}")
        page.keyboard.press("Enter")
        expect(shown.box(f"node_{count - 1}")).to_be_in_viewport()
        expect(shown.value(f"out_{count - 1}")).to_be_visible()
    return ""


def four_levels(page: Page, sizes: dict[str, int]) -> str:
    shown = Panels(page, "wf=nested")
    shown.row("deepest").click()
    way = page.locator(".where button")
    expect(way).to_have_text("level_2 / level_3 / level_4")
    expect(shown.value("deepest")).to_have_text("2")
    for name in ("level_2 / level_3", "level_2"):
        way.click()
        expect(way).to_have_text(name)
    return ""


def a_long_run(page: Page, sizes: dict[str, int]) -> str:
    Panels(page, "wf=steps")
    expect(page.get_by_role("slider", name="Superstep")).to_be_enabled()
    return f"p95 of a move {page.evaluate(MOVES, 41):.0f} ms"


def many_workflows(page: Page, sizes: dict[str, int]) -> str:
    page.evaluate("() => { location.hash = '#/' }")
    total = sizes["workflows"] + 6
    expect(page.locator(".more")).to_contain_text(re.compile(rf"50 of {total // 1000},?\d+ workflows"))
    page.get_by_role("button", name="Workflow").click()
    expect(page.locator("tbody tr").first).to_contain_text("wide")
    page.get_by_role("searchbox", name="Search").fill("nested")
    expect(page.locator(".match").first).to_contain_text("nested")
    return ""


CASES: tuple[Callable[[Page, dict[str, int]], str], ...] = (
    *(a_map, a_loop, large_graphs, four_levels, a_long_run, many_workflows),
)


def prove(*, scale: float, seed: int) -> Outcome:
    """Look at each of them."""
    outcome = Outcome(NAME)
    expect.set_options(timeout=60_000)
    with tempfile.TemporaryDirectory() as folder:
        sizes = write(file := Path(folder) / "large.db", scale)
        with serving(file, "--read-only") as served, launched() as browser:
            notes = []
            for case in CASES:
                try:
                    with looking_at(browser, served) as page:
                        notes.append(case(page, sizes))
                    outcome.count()
                except Exception:
                    outcome.count(f"{case.__name__} of {sizes}, scale {scale}:\n{traceback.format_exc()}")
    outcome.note = ", ".join(filter(None, notes))
    return outcome
