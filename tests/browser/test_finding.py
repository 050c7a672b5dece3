"""The list finds runs by inputs, outputs and errors; totals and orders are those of all workflows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.browsing import looking_at, open_workflow
from support.ui_serving import Served, serving

from browser.graphs import desk, flaky, newsletter, triage
from browser.test_live import say, stepped
from hypergraph import SqliteCheckpointer, SyncRunner

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("finding") / "found.db"
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        for number in range(60):
            runner.run(newsletter, topic=f"subject {number}", workflow_id=f"letter-{number:02}")
        for host in ("bad.example", "worse.bad.example"):
            runner.run(flaky, address=host, workflow_id=host, error_handling="continue")
        tickets = [{"text": f"{number}", "number": number} for number in range(40)]
        runner.map(triage, ticket=tickets, map_over="ticket", workflow_id="batch", error_handling="continue")
    with serving(file, "--app", "browser.graphs:flaky") as running, stepped(file, "going") as process:
        say(process, "one")
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served, but="400 (Bad Request)") as opened:
        yield opened


def test_rows_say_why_they_failed_where_they_are_and_what_they_were_given(page: Page) -> None:
    def row(name: str) -> object:
        return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))

    expect(row("bad.example")).to_contain_text("ConnectionError in pull: bad.example is down")
    expect(row("letter-59")).to_contain_text("topic='subject 59'")
    expect(row("batch")).to_contain_text("40 items, 1 failed")
    expect(row("going")).to_contain_text("at listen")
    expect(row("going")).to_contain_text("so far")
    expect(page.get_by_role("button", name="paused")).to_contain_text("60")
    expect(page.get_by_role("button", name="failed")).to_contain_text("2")


def test_inputs_are_searched_the_match_is_shown_and_the_total_is_said(page: Page) -> None:
    page.get_by_role("searchbox", name="Search").fill("subject 07")
    expect(page.get_by_text("No workflow matches these filters.")).to_be_visible()
    page.get_by_role("searchbox", name="Search").fill("subject 59")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".match")).to_have_text("input topic subject 59")
    expect(page.locator(".more")).to_contain_text("1 of 1 workflow · all")
    page.get_by_role("searchbox", name="Search").fill("is down")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator(".match").first).to_contain_text("error in pull")


def test_an_order_is_that_of_all_workflows_and_half_a_filter_keeps_the_rows(page: Page) -> None:
    first = page.locator("tbody tr").first
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Workflow").click()
    page.get_by_role("button", name="Workflow").click()
    expect(first).to_contain_text("bad.example")
    page.get_by_role("button", name="Show 100 more").click()
    expect(page.locator("tbody tr")).to_have_count(64)
    page.get_by_role("searchbox", name="Where").fill("duration >")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(first).to_contain_text("bad.example")


def test_rows_of_another_order_are_not_added(page: Page) -> None:
    held: list[Route] | None = []

    def hold(route: Route) -> None:
        if held is None:
            route.continue_()
        else:
            held.append(route)

    expect(page.locator("tbody tr")).to_have_count(50)
    page.route("**/api/v1/workflows?*", hold)
    with page.expect_request("**/api/v1/workflows?*"):
        page.get_by_role("button", name="Workflow").click()
    expect(page.get_by_role("button", name="Show 100 more")).to_be_disabled()
    waiting, held = held, None
    for route in waiting:
        route.continue_()
    page.get_by_role("button", name="Show 100 more").click()
    expect(page.locator("tbody tr")).to_have_count(64)


def test_errors_are_grouped_and_resumed_together(page: Page) -> None:
    page.get_by_role("link", name="errors by reason").click()
    table = page.get_by_role("table", name="Errors by reason")
    expect(table.get_by_role("row")).to_have_count(3)
    group = table.get_by_role("row").filter(has_text="worse.bad.example is down")
    expect(group).to_contain_text("ConnectionError in pull")
    group.get_by_role("button", name="resume these").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(group.locator("td").first).to_have_text("1 2 attempts")  # it has failed once more


def test_failed_items_of_completed_runs_are_resumed_together(browser: Browser, tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "desk.db") as store:
        for name in ("one", "two"):
            ticket = [{"text": "13", "number": 13}, {"text": "7", "number": 7}]
            SyncRunner(checkpointer=store).run(desk, ticket=ticket, workflow_id=name)
    with (
        serving(tmp_path / "desk.db", "--app", "browser.graphs:desk") as running,
        looking_at(browser, running) as page,
    ):
        page.get_by_role("link", name="errors by reason").click()
        group = page.get_by_role("row").filter(has_text="nobody answered 13")
        expect(group.locator("td").first).to_have_text("2")
        group.get_by_role("button", name="resume these").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(group.locator("td").first).to_have_text("2 4 attempts")  # each has failed once more
        open_workflow(page, "wf=one")
        page.get_by_role("button", name="resume", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        page.get_by_role("link", name="All workflows").click()
        page.get_by_role("link", name="errors by reason").click()
        expect(group.locator("td").first).to_have_text("2 5 attempts")


def test_a_view_is_saved_under_a_name(page: Page) -> None:
    page.get_by_role("button", name="failed").click()
    page.get_by_role("button", name="save view").click()
    page.get_by_role("dialog").get_by_label("name").fill("broken")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("link", name="All workflows").click()
    page.get_by_role("combobox", name="Saved views").select_option("broken")
    expect(page.locator("tbody tr")).to_have_count(2)
