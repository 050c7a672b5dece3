"""The page loads, lists, opens and moves, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import apart, looking_at, open_workflow
from support.ui_serving import Served, serving, write_story

from hypergraph import SqliteCheckpointer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = tmp_path_factory.mktemp("page") / "runs.db"
    apart(write_story(SqliteCheckpointer(database)))
    with serving(database) as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served) as opened:
        yield opened


@pytest.mark.slow
def test_the_list_shows_workflows_and_filters_them(page: Page) -> None:
    expect(page.get_by_role("link", name="loop-1")).to_be_visible()
    page.get_by_role("button", name="failed").click()
    expect(page.get_by_role("link", name="loop-1")).to_be_hidden()
    expect(page.get_by_role("link", name="inverse-1")).to_be_visible()


@pytest.mark.slow
def test_a_click_on_a_failed_workflow_shows_what_its_failing_step_took(page: Page) -> None:
    page.get_by_role("link", name="inverse-1").click()
    inputs = page.get_by_role("tree", name="inputs")
    expect(inputs.get_by_role("treeitem")).to_have_count(2)
    expect(page.get_by_label("Error")).to_contain_text("ZeroDivisionError: x is 0")


@pytest.mark.slow
def test_the_slider_moves_graph_waterfall_and_state(page: Page) -> None:
    open_workflow(page, "wf=loop-1")
    slider = page.get_by_role("slider", name="Superstep")
    slider.focus()
    slider.press("Home")
    expect(page.get_by_text("as of superstep 0")).to_be_visible()
    expect(page.locator('[data-path="bump"]')).to_have_attribute("data-status", "pending")
    expect(page.locator('[data-key="n"] .v-preview')).to_have_text("0")
    slider.press("End")
    expect(page.locator('[data-path="bump"]')).to_have_attribute("data-status", "completed")
    expect(page.locator('[data-key="n"] .v-preview')).to_have_text("5")


@pytest.mark.slow
def test_back_leads_to_the_list(page: Page) -> None:
    page.get_by_role("link", name="loop-1").click()
    expect(page.get_by_role("heading", name="loop")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="workflows")).to_be_visible()
