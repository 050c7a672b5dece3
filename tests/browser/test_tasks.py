"""What people come for takes them three clicks at most, and five to change something; to type is no click."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browsing import looking_at
from support.ui_serving import Served, serving

from browser.graphs import agent, rounds, thinking, triage
from browser.panels import Panels
from browser.test_live import say, stepped
from hypergraph import SqliteCheckpointer, SyncRunner

pytestmark = pytest.mark.slow


class User:
    """Someone who clicks, three times at most."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks, self.most = page, 0, 3

    def click(self, place: Locator) -> None:
        self.clicks += 1
        assert self.clicks <= self.most, f"click {self.clicks} on {place}"
        place.click()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("tasks") / "tasks.db"
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        tickets = [{"text": f"{number}", "number": number} for number in range(50)]
        runner.map(triage, ticket=tickets, map_over="ticket", workflow_id="fifty", error_handling="continue")
        runner.run(rounds, topic="tea", workflow_id="wrong")
        runner.run(thinking, question="where is my tea", workflow_id="costly")
        given = {"messages": [{"role": "system", "content": "Be kind."}]}
        runner.run(agent, given, said="hello", workflow_id="chat")
    with serving(file, "--app", "browser.graphs:rounds") as running, stepped(file, "going") as process:
        say(process, "one")
        yield running


@pytest.fixture
def user(browser: Browser, served: Served) -> Iterator[User]:
    with looking_at(browser, served) as page:
        yield User(page)


def test_which_of_fifty_failed_and_why(user: User) -> None:
    user.click(user.page.get_by_role("link", name="fifty", exact=True))
    expect(user.page.locator(".row-item").first).to_contain_text("#13")
    expect(user.page.locator(".row-item").first).to_contain_text(
        "TimeoutError in reply_to: nobody answered 13"
    )
    expect(user.page.get_by_label("Error", exact=True)).to_contain_text("nobody answered 13")


def test_the_state_before_a_wrong_answer_in_a_nested_loop(user: User) -> None:
    user.click(user.page.get_by_role("link", name="wrong", exact=True))
    shown = Panels(user.page)
    user.click(shown.rows.locator(".wrow").filter(has_text="⟳2").first)
    expect(user.page.locator(".where button")).to_be_visible()
    user.click(user.page.get_by_role("button", name=re.compile("^fork from superstep")))
    dialog = user.page.get_by_role("dialog")
    edit = dialog.get_by_role("button", name="Edit topic")
    expect(edit).to_be_visible()
    user.most = 5  # edited, and run again
    user.click(edit)
    dialog.get_by_role("textbox", name="topic").fill("coffee")
    user.click(dialog.get_by_role("button", name="Fork and run"))
    expect(user.page.locator(".title")).to_contain_text("fork of wrong")
    expect(user.page.locator(".title .badge")).to_have_text("completed")
    shown.slider.press("End")
    expect(shown.value("printed")).to_have_text("'COFFEE DRAFT 3'")


def test_the_bottleneck_of_the_last_hundred_runs(user: User) -> None:
    user.click(user.page.get_by_role("link", name="bottlenecks"))
    table = user.page.get_by_role("table", name="Nodes of the last runs")
    expect(table.get_by_role("columnheader", name="self", exact=True)).to_be_visible()
    expect(table.get_by_role("row").nth(1)).to_contain_text("%")


def test_every_run_whose_input_contained_a_word(user: User) -> None:
    user.page.get_by_role("searchbox", name="Search").fill("where is my tea")
    expect(user.page.locator("tbody tr")).to_have_count(1)
    expect(user.page.locator(".match")).to_contain_text("input question where is my tea")
    assert user.clicks == 0


def test_what_runs_now_for_how_long_and_where(user: User) -> None:
    row = user.page.get_by_role("row").filter(has=user.page.get_by_role("link", name="going", exact=True))
    expect(row).to_contain_text("so far")
    expect(row).to_contain_text("at listen")
    assert user.clicks == 0


def test_what_a_run_cost(user: User) -> None:
    row = user.page.get_by_role("row").filter(has=user.page.get_by_role("link", name="costly", exact=True))
    expect(row).to_contain_text("0.002 cost, 210 tokens")
    user.click(user.page.get_by_role("link", name="costly", exact=True))
    expect(Panels(user.page).row("think")).to_contain_text("120 tokens")


def test_messages_are_read_as_a_chat(user: User) -> None:
    user.click(user.page.get_by_role("link", name="chat", exact=True))
    line = user.page.locator('[data-key="messages"]').first
    line.hover()
    user.click(line.get_by_role("button", name="large").first)
    expect(user.page.get_by_role("list", name="Conversation")).to_contain_text("Be kind.")
