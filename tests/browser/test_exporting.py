"""One workflow as a file: it opens offline with the same page, and comes back by import."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import PATIENCE_MS, looking_at
from support.ui_serving import Served, serving

from browser.checking import found
from browser.conftest import Look
from browser.graphs import MARKUP, NASTY
from browser.panels import Panels

pytestmark = pytest.mark.slow


def saved(page: Page, name: str, file: Path) -> Path:
    """Export the open workflow by the menu."""
    page.get_by_role("button", name="More").click()
    with page.expect_download() as started:
        page.get_by_role("menuitem", name=name).click()
    started.value.save_as(file)
    return file


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page without any network: whatever it asks for but files and data fails the test."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles: list[str] = []
    page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda sent: sent.url.startswith(("file:", "data:")) or troubles.append(sent.url))
    yield page
    context.close()
    assert troubles == [], troubles


def test_a_workflow_is_one_file_that_opens_offline_and_travels_in_time(
    look: Look, offline: Page, tmp_path: Path
) -> None:
    with look("stories") as page:
        Panels(page, "wf=loop")
        file = saved(page, "Export as a page", tmp_path / "loop.html")
    offline.goto(file.as_uri())
    offline.locator(".title .badge").wait_for()
    shown = Panels(offline, "wf=loop")
    shown.slider.press("Home")
    shown.shows(0, "twice", shown.row("twice", 1), n="0", double="0")
    shown.row("bump", 3).click()
    shown.shows(8, "bump", shown.row("bump", 3), n="3", double="4")
    offline.get_by_role("tab", name="changed").click()
    change = offline.get_by_role("article", name="n changed")
    expect(change.locator(".removed pre")).to_have_text("2")
    expect(change.locator(".added pre")).to_have_text("3")
    expect(offline.get_by_role("button", name="fork from superstep")).to_have_attribute(
        "title", "This page is an exported copy and is read-only"
    )


def test_a_file_of_a_hostile_workflow_does_no_harm(look: Look, offline: Page, tmp_path: Path) -> None:
    with look("hostile") as page:
        page.get_by_role("link", name="javascript:harmed=1").first.click()
        page.locator(".error-line").wait_for()
        file = saved(page, "Export as a page", tmp_path / "hostile.html")
    assert NASTY[1] not in file.read_text()
    offline.goto(file.as_uri())
    expect(offline.locator(".trouble")).to_contain_text(MARKUP)
    wrong = found(offline, "injected")
    assert wrong == ["injected: 3 scripts"]  # the documents are one


@pytest.fixture
def served(databases: Path, tmp_path: Path) -> Iterator[Served]:
    """The server of a store that may be changed."""
    with serving(shutil.copy(databases / "demo.db", tmp_path / "copy.db")) as running:
        yield running


def test_an_export_comes_back_by_import(look: Look, browser: Browser, served: Served, tmp_path: Path) -> None:
    with look("stories") as page:
        Panels(page, "wf=deep")
        file = saved(page, "Export as JSON", tmp_path / "deep.json")
    with looking_at(browser, served) as page:
        expect(page.get_by_role("link", name="ticket-1")).to_be_visible()
        page.get_by_role("button", name="import").click()
        dialog = page.get_by_role("dialog", name="Import a workflow")
        dialog.get_by_label("file").set_input_files(file)
        dialog.get_by_role("button", name="Import").click()
        expect(page.get_by_label("Error", exact=True)).to_contain_text("ZeroDivisionError: by is 0")
        expect(page).to_have_url(re.compile("wf=deep"))
        expect(page.get_by_role("tree", name="inputs")).to_contain_text("[0, 1, 2, 3, 4, 5]")
