"""What a page tells beyond ended steps: nodes that left no result, and who added what to a list."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import looking_at
from support.ui_serving import Served, serving

from browser.graphs import agent
from browser.panels import Panels
from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node
from hypergraph.exceptions import AmbiguousStepError
from hypergraph.testing.conformance.samples import commit, opened
from hypergraph.ui.export import page as saved_page

pytestmark = pytest.mark.slow


@node(output_name="receipt", repeatable=False)
def charge(order: str) -> str:
    return f"receipt for {order}"


paying = Graph([charge], name="paying")
buying = Graph([paying.as_node()], name="buying")


def leave_no_result(store: SqliteCheckpointer, graph: Graph, wf: str) -> None:
    """Write a run whose process died in `charge`, and the resume that was refused."""
    given = {"inputs": {"order": "tea"}}
    claims = [opened(store, wf, **given)]
    if graph is buying:
        below = {"parent_id": wf, "node_name": "paying", "parent_superstep": 0}
        claims.append(opened(store, f"{wf}/paying", **given, **below))
    commit(store, claims[-1], running="charge")
    for claim in claims:
        store.backend.release(claim)
    with pytest.raises(AmbiguousStepError):
        SyncRunner(checkpointer=store).run(graph, order="tea", workflow_id=wf)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("appended") / "appended.db"
    with SqliteCheckpointer(found) as store:
        leave_no_result(store, paying, "pay")
        leave_no_result(store, buying, "buy")
        given = {"messages": [{"role": "system", "content": "Be kind."}]}
        SyncRunner(checkpointer=store).run(agent, given, said="tea", workflow_id="chat")
    return found


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[Served]:
    with serving(file, "--read-only") as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served) as opened_page:
        yield opened_page


def test_a_node_that_left_no_result_is_named_with_what_to_do(page: Page) -> None:
    shown = Panels(page, "wf=pay")
    told = page.get_by_label("Without a result")
    expect(told).to_contain_text("charge began without leaving a result")
    expect(told).to_contain_text("resume with its on_ambiguous set")
    expect(shown.row("charge")).to_contain_text("began without leaving a result")
    expect(shown.box("charge")).to_have_class(re.compile("is-failed"))
    told.get_by_role("button", name="show in the graph").click()
    expect(shown.box("charge")).to_have_attribute("aria-pressed", "true")


def test_it_is_named_around_the_run_that_it_belongs_to(page: Page) -> None:
    shown = Panels(page, "wf=buy")
    expect(shown.box("paying/charge")).to_have_class(re.compile("is-failed"))
    expect(shown.row("paying / charge")).to_contain_text("began without leaving a result")
    page.get_by_label("Without a result").get_by_role("link", name="buy/paying").click()
    expect(page.get_by_label("Without a result")).to_contain_text("charge began without leaving a result")
    expect(page.locator(".title .id")).to_have_text("buy/paying")


def test_the_list_and_the_errors_say_so(page: Page) -> None:
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="pay", exact=True))
    expect(row.locator(".why-failed")).to_have_text("charge began without leaving a result")
    page.get_by_role("link", name="errors by reason").click()
    group = page.get_by_role("table", name="Errors by reason").get_by_role("row")
    expect(group).to_have_count(1)
    expect(group).to_contain_text("no result in charge")
    expect(group).to_contain_text("resume with its on_ambiguous set")


def says_who_added_what(page: Page) -> None:
    shown = Panels(page, "wf=chat&step=3&tab=step")
    output = shown.outputs.get_by_role("treeitem").first
    expect(output).to_contain_text("added 1 item: tool: 'a page on tea'")
    output.locator(".fold").first.click()
    items = output.locator(".inside .branch")
    expect(items).to_have_count(4)
    expect(items.locator(".said")).to_have_text(["given", "listen 0", "ask 1", "act 3"])
    expect(items.locator(".v-preview")).to_have_text(
        ["system: 'Be kind.'", "user: 'tea'", "assistant: 'on tea'", "tool: 'a page on tea'"]
    )


def test_a_step_shows_what_it_added_and_who_added_the_rest(page: Page) -> None:
    says_who_added_what(page)
    shown = Panels(page, "wf=chat&step=4&tab=step")
    taken = shown.inputs.get_by_role("treeitem").first
    expect(taken).to_contain_text("messages")  # of this step, no more of the one before
    taken.locator(".fold").first.click()
    expect(taken.locator(".said")).to_have_text(["given", "listen 0", "ask 1", "act 3"])


def test_a_conversation_names_the_steps_that_added_to_it(page: Page) -> None:
    shown = Panels(page, "wf=chat")
    line = page.locator('[data-key="messages"]').first
    line.hover()
    line.get_by_role("button", name="large").first.click()
    said = page.get_by_role("list", name="Conversation").locator("> li")
    expect(said.nth(0)).not_to_contain_text("listen")
    expect(said.nth(1)).to_contain_text("listen 0")
    said.nth(3).get_by_role("button", name="act 3").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(shown.slider).to_have_value("3")
    expect(shown.outputs).to_contain_text("added 1 item: tool: 'a page on tea'")


def test_a_saved_page_says_the_same(browser: Browser, file: Path, tmp_path: Path) -> None:
    with SqliteCheckpointer(file) as store:
        for wf in ("chat", "pay"):
            (tmp_path / f"{wf}.html").write_bytes(saved_page(store, wf))
    context = browser.new_context(offline=True)
    opened_page = context.new_page()
    opened_page.goto((tmp_path / "chat.html").as_uri())
    expect(opened_page.locator(".title .badge")).to_be_visible()
    says_who_added_what(opened_page)
    opened_page.goto((tmp_path / "pay.html").as_uri())
    expect(opened_page.get_by_label("Without a result")).to_contain_text("charge began without leaving")
    context.close()
