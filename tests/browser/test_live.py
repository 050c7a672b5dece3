"""What runs now is shown as it happens, by push: nobody reloads, nobody asks again and again."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect
from support.browsing import looking_at
from support.ui_serving import environment, serving

from browser.panels import Panels
from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow


@contextmanager
def stepped(database: Path, workflow_id: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run that takes a step for each line written to it."""
    command = [sys.executable, "-m", "browser.stepped", str(database), workflow_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")


def test_a_run_appears_grows_and_ends_while_it_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    database = tmp_path / "live.db"
    with stepped(database, "before") as process:
        say(process, "stop")
        assert process.wait(20) == 0
    with serving(database) as served, looking_at(browser, served) as page:
        expect(page.get_by_text("1 of 1 workflow")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("live")
        loaded: list[str] = []
        page.on("framenavigated", lambda frame: loaded.append(frame.url))
        with stepped(database, "growing") as process:
            row = page.get_by_role("row").filter(has_text="growing")
            expect(row).to_contain_text("active")
            page.get_by_role("link", name="growing").click()
            expect(page.locator(".title .badge")).to_have_text("active")
            shown = Panels(page)
            for count, word in enumerate(("one", "two", "three"), 1):
                say(process, word)
                expect(shown.row("listen")).to_have_count(count)
                expect(shown.value("heard")).to_contain_text(f"'{word}'")
                expect(shown.slider).to_have_value(str(2 * count))
            say(process, "stop")
            expect(page.locator(".title .badge")).to_have_text("completed")
            expect(shown.box("listen")).to_have_attribute("data-status", "completed")
            assert process.wait(20) == 0
        page.get_by_role("link", name="All workflows").click()
        expect(row).to_contain_text("completed")
        assert all("#" in address for address in loaded), "the page was loaded again"


def test_a_change_before_the_page_is_live_is_not_missed(browser: Browser, tmp_path: Path) -> None:
    database = tmp_path / "early.db"
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with stepped(database, "early") as process, serving(database) as served:
        say(process, "one")
        with looking_at(browser, served) as page:
            expect(page.get_by_role("status")).to_have_text("live")
            page.route("**/api/v1/events", hold)
            page.get_by_role("link", name="early").click()
            with page.expect_request("**/api/v1/events"):
                page.reload()
            shown = Panels(page)
            expect(shown.row("listen")).to_have_count(1)
            say(process, "stop")
            assert process.wait(20) == 0
            for route in held:
                route.continue_()
            expect(page.locator(".title .badge")).to_have_text("completed")


def test_more_tabs_than_a_browser_has_connections_are_all_live(browser: Browser, tmp_path: Path) -> None:
    database = tmp_path / "tabs.db"
    SqliteCheckpointer(database).open()
    with serving(database) as served, looking_at(browser, served) as first:
        expect(first.get_by_role("status")).to_have_text("live")
        tabs = [first.context.new_page() for _ in range(6)]
        for tab in tabs:
            tab.goto(served.address)
            expect(tab.get_by_role("status")).to_have_text("live")
        with stepped(database, "shown"):
            for tab in (first, *tabs):
                expect(tab.get_by_role("row").filter(has_text="shown")).to_contain_text("active")
            first.close()  # the one that listens for the others
            expect(tabs[0].get_by_role("status")).to_have_text("live")
        with stepped(database, "later"):
            for tab in tabs:
                expect(tab.get_by_role("row").filter(has_text="later")).to_contain_text("active")


@pytest.mark.parametrize("first", ["columns", "workflow"])
def test_a_run_shown_as_completed_has_all_its_steps(browser: Browser, tmp_path: Path, first: str) -> None:
    database = tmp_path / "late.db"
    held: dict[str, Route] = {}

    def hold(route: Route) -> None:
        if held.setdefault(urlsplit(route.request.url).path.rsplit("/", 1)[1], route) is not route:
            route.continue_()

    with stepped(database, "late") as process, serving(database) as served:
        say(process, "one")
        with looking_at(browser, served) as page:
            expect(
                page.get_by_role("row").filter(has_text="late").get_by_role("cell", name="3", exact=True)
            ).to_be_visible()
            page.route("**/api/v1/events", lambda route: None)  # nothing is told of later changes
            page.reload()
            page.route(re.compile(r"/api/v1/(columns|workflow)\?"), hold)
            with page.expect_request("**/api/v1/columns?*"), page.expect_request("**/api/v1/workflow?*"):
                page.get_by_role("link", name="late").click()
            early = held["columns"].fetch()  # the steps as of now, shown later
            say(process, "stop")
            assert process.wait(20) == 0
            release = {
                "columns": lambda: held["columns"].fulfill(response=early),
                "workflow": held["workflow"].continue_,
            }
            shown = Panels(page)
            release.pop(first)()
            if first == "columns":
                expect(shown.row("listen")).to_have_count(1)
            else:
                expect(page.locator(".title .badge")).to_have_text("completed")
            release.popitem()[1]()
            expect(page.locator(".title .badge")).to_have_text("completed")
            shown.slider.press("End")
            expect(shown.value("heard")).to_contain_text("'stop'")
            expect(shown.slider).to_have_value("4")
