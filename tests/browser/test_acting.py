"""What can be done with a workflow: fork, resume, answer, tag, delete; and why not."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import looking_at
from support.ui_serving import Served, serving

from browser.conftest import Look
from browser.graphs import newsletter
from browser.panels import Panels
from hypergraph import Graph, SyncRunner, interrupt
from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow


@dataclass
class Refund:
    amount: int
    pay_by: Literal["card", "voucher"] = "card"


APPS = [word for name in ("answers", "shares", "newsletter") for word in ("--app", f"browser.graphs:{name}")]


@pytest.fixture(scope="module")
def served(databases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of a copy that may be changed, and that may run graphs."""
    folder = tmp_path_factory.mktemp("acting")
    for kept in databases.glob("stories.db*"):
        copy = shutil.copytree if kept.is_dir() else shutil.copy
        copy(kept, folder / kept.name)
    with serving(folder / "stories.db", *APPS) as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    late = "404 (Not Found)"  # who hears of a deletion may ask for what is gone before the page has left it
    with looking_at(browser, served, but=late) as opened:
        yield opened


def test_a_fork_runs_on_from_here_with_an_edited_value(page: Page) -> None:
    shown = Panels(page, "wf=tea&at=0")
    page.get_by_role("button", name="fork from superstep 0").click()
    dialog = page.get_by_role("dialog", name="Fork tea")
    dialog.get_by_label("id of the fork").fill("tea-edited")
    dialog.get_by_role("button", name="Edit documents").click()
    editor = dialog.get_by_role("textbox", name="documents")
    expect(editor).to_have_value('[\n  "a page about tea"\n]')
    editor.fill('["a page')
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(dialog.get_by_role("button", name="Fork and run")).to_be_disabled()
    editor.fill('["an edited page"]')
    dialog.get_by_role("button", name="Fork and run").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("link", name="fork of tea at 0")).to_be_visible()
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(shown.row("build")).to_have_attribute("aria-selected", "true")  # the first step of its own
    expect(page.get_by_role("link", name="compare with parent")).to_be_visible()
    shown.slider.press("End")
    expect(shown.value("answer")).to_have_text("'An answer to tea? an edited page'")


def test_a_failed_run_is_resumed_with_another_value(page: Page) -> None:
    shown = Panels(page, "wf=broken")
    page.get_by_role("button", name="resume").click()
    dialog = page.get_by_role("dialog", name="Resume broken")
    dialog.get_by_role("button", name="Edit by").click()
    dialog.get_by_role("spinbutton", name="by").fill("3")
    dialog.get_by_role("button", name="Resume").click()
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(shown.row("write_report")).to_be_visible()
    shown.slider.press("End")
    expect(shown.value("report")).to_have_text("'2.0 each'")


def test_a_paused_run_gets_its_answer(page: Page) -> None:
    shown = Panels(page, "wf=newsletter")
    expect(page.locator(".title .badge")).to_have_text("paused")
    page.get_by_role("button", name="answer").click()
    dialog = page.get_by_role("dialog", name="Answer newsletter")
    expect(dialog).to_contain_text("About tea")
    dialog.get_by_role("button", name="true").click()
    dialog.get_by_role("button", name="Answer and resume").click()
    expect(page.locator(".title .badge")).to_have_text("completed")
    expect(shown.row("send")).to_be_visible()
    shown.slider.press("End")
    expect(shown.value("sent")).to_have_text("'About tea: True'")


def test_tags_are_set_and_workflows_are_deleted_after_a_question(page: Page) -> None:
    Panels(page, "wf=tea-d")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Tags").click()
    dialog = page.get_by_role("dialog", name="Tags of tea-d")
    dialog.get_by_label("new tag").fill("kept")
    dialog.get_by_label("its value").fill("no")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("kept=no")).to_be_visible()
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete tea-d?")
    question.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("kept=no")).to_be_visible()
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    question.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="workflows")).to_be_visible()
    expect(page.get_by_role("link", name="tea-c", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="tea-d", exact=True)).to_have_count(0)


def test_a_graph_the_server_was_not_given_is_not_run(page: Page) -> None:
    Panels(page, "wf=loop")
    fork = page.get_by_role("button", name="fork from superstep")
    expect(fork).to_have_attribute("title", re.compile("was not given the graph"))  # permissions are loaded
    fork.click(force=True)
    refusal = page.get_by_role("dialog", name="Not possible: fork")
    expect(refusal).to_contain_text("The server was not given the graph loop")
    refusal.get_by_role("button", name="Close").click()
    expect(refusal).to_have_count(0)


def test_a_page_that_only_shows_says_so_where_something_could_be_done(look: Look) -> None:
    with look("stories") as page:
        Panels(page, "wf=broken")
        for button in ("resume", "fork from superstep"):
            found = page.get_by_role("button", name=button)
            expect(found).to_have_attribute("aria-disabled", "true")
            expect(found).to_have_attribute("title", "The server is read-only (--read-only)")
        page.get_by_role("button", name="More").click()
        for item in ("Tags", "Delete"):
            expect(page.get_by_role("menuitem", name=item)).to_have_attribute("aria-disabled", "true")


def test_items_of_a_map_are_answered_without_their_graph(browser: Browser, tmp_path: Path) -> None:
    database = tmp_path / "maps.db"
    with SqliteCheckpointer(database) as store:
        runner = SyncRunner(checkpointer=store)
        runner.map(newsletter, topic=["tea", "milk"], map_over="topic", workflow_id="batch")
        with serving(database) as served, looking_at(browser, served) as page:
            Panels(page, "wf=batch")
            page.get_by_role("button", name="answer").click()
            dialog = page.get_by_role("dialog", name="Answer batch")
            expect(dialog).to_contain_text("item-0/approve asks")
            dialog.get_by_label("answer to").select_option("item-1.approved")
            expect(dialog).to_contain_text("About milk")
            dialog.get_by_role("button", name="true").click()
            dialog.get_by_role("button", name="Answer", exact=True).click()
            expect(dialog).to_have_count(0)
        answers = {question.keys[0]: question.step.answer for question in store.questions("batch")}
    assert answers == {"item-0.approved": None, "item-1.approved": {"approved": True}}


def test_a_run_is_started_from_a_form_and_one_that_waits_is_cancelled(page: Page) -> None:
    page.get_by_role("button", name="start a run").click()
    dialog = page.get_by_role("dialog", name="Start a run")
    dialog.get_by_label("graph").select_option("newsletter")
    expect(dialog.get_by_role("button", name="Start")).to_be_disabled()
    dialog.get_by_label("topic").fill("a new subject")
    dialog.get_by_label("id of the run").fill("started")
    dialog.get_by_role("button", name="Start").click()
    shown = Panels(page)
    expect(page.locator(".title .badge")).to_have_text("paused")
    expect(shown.value("draft")).to_have_text("'About a new subject'")
    expect(page.get_by_role("button", name="answer")).to_have_class(re.compile("primary"))
    page.get_by_role("button", name="cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".title .badge")).to_have_text("stopped")


def test_a_typed_question_has_a_form(browser: Browser, tmp_path: Path) -> None:
    @interrupt("refund")
    def decide(claim: str) -> Refund | None:
        return None

    @interrupt("approved")
    def approve(claim: str) -> bool | None:
        return None

    database = tmp_path / "claims.db"
    with SqliteCheckpointer(database) as store:
        SyncRunner(checkpointer=store).run(
            Graph([decide, approve], name="claims"), claim="a cup", workflow_id="c"
        )
        with serving(database) as served, looking_at(browser, served) as page:
            Panels(page, "wf=c")
            page.get_by_role("button", name="answer").click()
            dialog = page.get_by_role("dialog", name="Answer c")
            dialog.get_by_label("answer to").select_option("approved")
            expect(dialog.get_by_role("radio", name="Approve")).to_be_visible()
            expect(dialog.get_by_role("radio", name="Reject")).to_be_visible()
            dialog.get_by_label("answer to").select_option("refund")
            expect(dialog.get_by_role("button", name="Answer", exact=True)).to_be_disabled()
            dialog.get_by_label("amount").fill("8")
            dialog.get_by_label("voucher").check()
            dialog.get_by_role("button", name="Answer", exact=True).click()
            expect(dialog).to_have_count(0)
        answers = [question.step.answer for question in store.questions("c")]
    assert answers == [{"refund": {"amount": 8, "pay_by": "voucher"}}, None]
