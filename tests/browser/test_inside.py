"""What nodes do inside is shown where it happened: calls, attempts, waiting, amounts, progress, streams."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import apart, looking_at
from support.ui_serving import Served, environment, serving

from browser.graphs import climb, deep_shares, sleepers, thinking, triage
from browser.panels import Panels
from browser.test_live import say
from hypergraph import AsyncRunner, SqliteCheckpointer, SyncRunner

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("inside") / "inside.db"
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(thinking, question="where is my tea", workflow_id="thinking")
        runner.run(climb, scored=0, total=0, until=30, workflow_id="climb")
        for _ in range(2):
            runner.run(deep_shares, source={"rows": 3}, by=0, workflow_id="again", error_handling="continue")
        tickets = [{"text": f"{number}", "number": number} for number in range(20)]
        runner.map(triage, ticket=tickets, map_over="ticket", workflow_id="batch", error_handling="continue")
        asyncs = AsyncRunner(checkpointer=store)

        async def queue() -> None:
            await asyncs.run(sleepers, number=1, workflow_id="queue", max_concurrency=1)

        apart(queue())
    return file


@pytest.fixture(scope="module")
def served(database: Path) -> Iterator[Served]:
    with serving(database) as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served, but="404 (Not Found)") as opened:
        yield opened


def test_calls_attempts_and_amounts_are_rows_of_their_step(page: Page) -> None:
    shown = Panels(page, "wf=thinking")
    expect(page.locator(".title")).to_contain_text("210 tokens")
    expect(shown.row("think")).to_contain_text("0.002 cost, 120 tokens")
    shown.row("think").get_by_role("button", name="Unfold").click()
    expect(shown.rows.locator(".row-call")).to_have_text(
        [re.compile(r"^·split(<1|\d+)ms$"), re.compile(r"^·order(<1|\d+)ms$")]
    )
    shown.row("look_up").get_by_role("button", name="Unfold").click()
    expect(shown.rows.locator(".row-attempt")).to_have_count(2)
    expect(shown.rows.locator(".row-attempt").first).to_contain_text("ConnectionError: call 1")
    page.get_by_role("link", name="All workflows").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="thinking", exact=True))
    expect(row).to_contain_text("210 tokens")
    page.get_by_role("link", name="bottlenecks").click()
    table = page.get_by_role("table", name="Nodes of the last runs")
    expect(table.get_by_role("row").filter(has_text="score")).to_contain_text("435 tokens")


def test_waiting_for_a_slot_stands_apart_from_running(page: Page) -> None:
    shown = Panels(page, "wf=queue")
    expect(shown.row("sleeper_0").locator(".queued")).to_have_count(0)
    waits = [shown.row(name).locator(".queued").bounding_box() for name in ("sleeper_1", "sleeper_2")]
    assert all(waits)
    assert 0 < waits[0]["width"] < waits[1]["width"]
    shown.row("sleeper_2").click()
    expect(shown.details).to_contain_text("waited for a free slot")


def test_rounds_of_a_long_loop_fold_and_the_cursor_moves_through_them(page: Page) -> None:
    shown = Panels(page, "wf=climb")
    expect(shown.rows).to_have_attribute("aria-rowcount", "30")
    last = shown.rows.locator(".row-round").last
    expect(last).to_contain_text("round 30")
    last.get_by_role("button", name="Unfold").click()
    expect(shown.row("score")).to_have_count(1)
    expect(shown.row("score")).to_contain_text("29 tokens")
    page.locator("main").focus()
    page.keyboard.press("Home")
    first = shown.rows.get_by_role("row", name="round 1 3 steps")
    expect(first).to_have_attribute("aria-selected", "true")
    expect(shown.value("total")).to_have_text("0")
    shown.rows.get_by_role("row", name="round 3 3 steps").click()
    expect(shown.slider).to_have_value("6")


def test_a_nested_run_that_two_attempts_share_is_below_the_last_one(page: Page) -> None:
    shown = Panels(page, "wf=again")
    expect(shown.row("middle")).to_have_count(2)
    expect(shown.row("load")).to_have_count(1)
    expect(shown.row("divide")).to_have_count(2)
    expect(shown.row("middle").first.get_by_role("button", name="Fold")).to_have_count(0)
    expect(shown.row("middle").last.get_by_role("button", name="Fold")).to_have_count(1)
    bars = [shown.row("middle").nth(place).locator(".bar").bounding_box() for place in (0, 1)]
    assert bars[0] is not None
    assert bars[1] is not None
    assert bars[0]["x"] < bars[1]["x"]


def test_an_item_says_why_it_failed_and_the_strip_leads_to_items(page: Page) -> None:
    Panels(page, "wf=batch")
    expect(page.locator(".row-item").first).to_contain_text("TimeoutError in reply_to: nobody answered 13")
    strip = page.locator(".map-strip svg")
    box = strip.bounding_box()
    assert box is not None
    strip.click(position={"x": box["width"] * 5.5 / 20, "y": 5})
    expect(page.locator(".title .id")).to_have_text("batch/item-5")


def test_progress_calls_and_chunks_are_shown_as_they_come(page: Page, database: Path) -> None:
    command = [sys.executable, "-m", "browser.reporting", str(database), "told"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1, env=environment()) as process:
        try:
            say(process, "one")
            page.evaluate("() => { location.hash = '#/workflow?wf=told' }")
            bar = page.get_by_role("progressbar", name="Progress")
            expect(bar).to_have_attribute("aria-valuetext", "25% · 1/4 · one")
            expect(page.locator(".row-call")).to_contain_text(["keep 0"])
            page.get_by_role("tab", name="stream").click()
            expect(page.locator("pre.stream")).to_have_text("one ")
            say(process, "two")
            expect(page.locator("pre.stream")).to_have_text("one two ")
            expect(bar).to_have_attribute("aria-valuetext", "50% · 2/4 · two")
            say(process, "three\nfour")
            expect(page.locator(".title .badge")).to_have_text("completed")
            expect(page.get_by_role("status").filter(has_text="chunk")).to_have_text("4 chunks, ended")
            expect(bar).to_have_count(0)
        finally:
            process.kill()
