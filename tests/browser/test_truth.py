"""What the page states is true while runs go on, pause, fail, restart and vanish; no reload is needed."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import looking_at
from support.ui_serving import Served, serving

from browser.graphs import gated, newsletter, rounds, shares
from browser.panels import Panels
from browser.test_live import say, stepped
from hypergraph import AsyncRunner, Graph, SqliteCheckpointer, SyncRunner, node

pytestmark = pytest.mark.slow

APPS = [word for name in ("shares", "newsletter", "flaky") for word in ("--app", f"browser.graphs:{name}")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that the tests of this file write to."""
    file = tmp_path_factory.mktemp("truth") / "truth.db"
    with SqliteCheckpointer(file) as store:
        SyncRunner(checkpointer=store).run(gated, kind="short", workflow_id="gated")
    return file


@pytest.fixture(scope="module")
def served(database: Path) -> Iterator[Served]:
    with serving(database, *APPS) as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served, but="404 (Not Found)") as opened:
        expect(opened.get_by_role("status", name="Live: changes appear as they happen")).to_be_visible()
        yield opened


@contextmanager
def beside(work: Any) -> Iterator[Future[Any]]:
    """Run something in another thread: in this one Playwright's event loop is running."""
    with ThreadPoolExecutor(1) as other:
        yield other.submit(work)


def test_steps_that_end_out_of_order_are_all_shown(page: Page, database: Path) -> None:
    may_end = {name: threading.Event() for name in ("slow", "other", "quick")}

    def waiting(name: str) -> Any:
        async def work(x: int) -> int:
            await asyncio.to_thread(may_end[name].wait, 30)
            return x

        work.__name__ = name
        return node(output_name=f"by_{name}")(work)

    @node(output_name="total")
    def add(by_slow: int, by_other: int, by_quick: int) -> int:
        return by_slow + by_other + by_quick

    graph = Graph([*map(waiting, may_end), add], name="beside")

    async def run() -> None:
        await AsyncRunner(checkpointer=str(database)).run(graph, x=1, workflow_id="beside")

    shown = Panels(page)
    page.evaluate("() => { location.hash = '#/workflow?wf=beside' }")  # before the run exists
    expect(page.get_by_role("alert")).to_contain_text("not found")
    with beside(lambda: asyncio.run(run())) as running:
        try:
            may_end["quick"].set()
            expect(shown.row("quick")).to_have_count(1)  # the page found it without a reload
            expect(page.get_by_role("alert")).to_have_count(0)
            expect(shown.box("slow")).to_have_attribute("data-status", "active")
            may_end["other"].set()
            expect(shown.row("other")).to_have_count(1)
        finally:
            for event in may_end.values():
                event.set()
        running.result(30)
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(shown.row("slow")).to_have_count(1)
    expect(shown.rows.get_by_role("row")).to_have_count(4)
    expect(shown.box("slow")).to_have_attribute("data-status", "completed")


def test_an_answered_pause_is_no_longer_paused(page: Page, database: Path) -> None:
    with SqliteCheckpointer(database) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(newsletter, topic="tea", workflow_id="asked")
        shown = Panels(page, "wf=asked")
        expect(shown.box("approve")).to_have_attribute("data-status", "paused")
        runner.run(newsletter, approved=True, workflow_id="asked")
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(shown.box("approve")).to_have_attribute("data-status", "completed")
    expect(shown.rows.locator('[aria-label="paused"]')).to_have_count(0)
    expect(page.get_by_text("Waits for an answer")).to_have_count(0)


def test_only_the_branch_that_was_chosen_is_lit(page: Page) -> None:
    Panels(page, "wf=gated")
    lit = page.locator("svg.graph .edge.control.done")
    expect(lit).to_have_count(1)
    expect(lit).to_have_attribute("data-edge", "pick brief")


def test_a_repeated_failure_and_a_fork_show_their_own_outcome(page: Page, database: Path) -> None:
    broken = {"source": {"rows": 6}, "by": 0}
    with SqliteCheckpointer(database) as store:
        SyncRunner(checkpointer=store).run(shares, broken, workflow_id="fails", error_handling="continue")
    shown = Panels(page, "wf=fails")
    error = page.get_by_label("Error", exact=True)
    expect(error).to_contain_text("by is 0")
    page.get_by_role("button", name="resume", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(shown.row("divide")).to_have_count(2)
    expect(page.locator(".title .badge")).to_have_text("failed")
    expect(error).to_contain_text("by is 0")
    expect(page.locator("[data-step]")).to_have_attribute("data-step", "2")  # the newer failure
    page.get_by_role("button", name="fork").click()
    dialog = page.get_by_role("dialog", name="Fork fails")
    dialog.get_by_label("id of the fork").fill("works")
    dialog.get_by_role("button", name="Edit by").click()
    dialog.get_by_role("spinbutton", name="by").fill("3")
    dialog.get_by_role("button", name="Fork and run").click()
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(page.get_by_role("link", name="compare with parent")).to_be_visible()
    expect(error).to_have_count(0)
    expect(shown.box("divide")).to_have_attribute("data-status", "completed")


def test_a_run_is_followed_until_it_is_pinned_and_again_by_the_key_end(page: Page, database: Path) -> None:
    with stepped(database, "followed") as process:
        shown = Panels(page)
        say(process, "one")
        page.evaluate("() => { location.hash = '#/workflow?wf=followed' }")
        expect(shown.row("listen")).to_have_count(1)
        page.locator("main").focus()
        page.keyboard.press("Home")
        expect(shown.slider).to_have_value("0")
        say(process, "two")
        expect(shown.row("listen")).to_have_count(2)
        expect(shown.slider).to_have_value("0")
        page.get_by_role("button", name="follow").click()
        expect(shown.slider).to_have_value("4")
        page.keyboard.press("Home")
        page.keyboard.press("End")
        say(process, "three")
        expect(shown.slider).to_have_value("6")
        process.kill()
        process.wait()
        expect(page.get_by_text("owner process is gone")).to_be_visible()  # the store has not changed


def test_nested_panels_show_the_same_round(page: Page, database: Path) -> None:
    with SqliteCheckpointer(database) as store:
        SyncRunner(checkpointer=store).run(rounds, topic="tea", workflow_id="rounds")
    shown = Panels(page, "wf=rounds")
    shown.row("draft", 1).click()
    expect(shown.outputs).to_contain_text("draft 1")
    expect(shown.value("text")).to_have_text("'tea draft 1'")
    expect(shown.box("revise/check")).to_have_attribute("data-status", "pending")
    expect(page.get_by_text("as of superstep 0 of revise")).to_be_visible()
    shown.row("draft", 2).click()
    expect(shown.value("text")).to_have_text("'tea draft 2'")
    expect(shown.slider).to_have_attribute("max", re.compile("[3-9]"))  # the supersteps of the nested run
    page.locator("main").focus()
    page.keyboard.press("ArrowLeft")
    expect(shown.value("text")).to_have_text("'tea draft 1'")
    expect(shown.row("check", 1)).to_have_attribute("aria-selected", "true")


def test_a_server_that_restarts_is_found_again_and_a_lost_database_is_not_made_anew(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "restarted.db"
    with SqliteCheckpointer(file) as store:
        SyncRunner(checkpointer=store).run(gated, kind="short", workflow_id="kept")
    with serving(file) as first:
        port = str(first.port)
        with looking_at(browser, first, but="Failed to load resource") as page:
            expect(page.get_by_text("1 of 1 workflow")).to_be_visible()
            first.stop()
            expect(page.get_by_role("status")).to_have_text("offline")
            with serving(file, "--port", port):
                expect(page.get_by_role("status")).to_have_text("live")
                page.reload()
                expect(page.get_by_role("link", name="kept")).to_be_visible()
                for left in tmp_path.glob("restarted.db*"):
                    left.unlink()
                expect(page.get_by_role("alert")).to_contain_text("restarted.db")
                page.wait_for_timeout(500)
                assert not file.exists()
