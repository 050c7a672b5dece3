"""Values: type and size first, the rest a page at a time, with who wrote them and who reads them."""

import re

import pytest
from playwright.sync_api import Locator, expect

from browser.conftest import Look
from browser.panels import Panels

pytestmark = pytest.mark.slow


def inside(item: Locator) -> Locator:
    """Return the lines right below one that is open."""
    return item.locator(".inside").first.locator("> [role=treeitem]")


def test_a_large_value_is_opened_a_page_at_a_time(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=library")
        key = page.locator('[data-key="shelf"]')
        key.locator(".line").first.click()
        expect(key.locator(".origin")).to_contain_text("written by collect")
        expect(key.locator(".origin")).to_contain_text("read by count")
        expect(key.locator(".origin")).to_contain_text("kept outside of the database")
        rows = inside(key).filter(has_text=re.compile("rows"))
        expect(rows).to_contain_text("list · 2,000 items")
        rows.locator(".line").first.click()
        items = inside(rows)
        expect(items.first).to_be_visible()
        count = items.count()
        assert count <= 200
        rows.get_by_role("button", name="show more of").click()
        expect(items.nth(count)).to_be_visible()
        items.nth(count).locator(".line").first.click()
        expect(items.nth(count)).to_contain_text(f"row {count}")
        shown.box("count").click()
        expect(shown.outputs).to_contain_text("2000")


def test_a_long_text_is_read_on_demand(look: Look) -> None:
    with look("stories") as page:
        Panels(page, "wf=library&key=shelf")
        text = inside(page.locator('[data-key="shelf"]')).filter(has_text=re.compile("text"))
        text.locator(".line").first.click()
        long = text.locator("pre.long")
        expect(long).to_be_visible()
        before = len(long.inner_text())
        assert before < 24_000
        text.get_by_role("button", name="show more of").click()
        grown = "([text, before]) => text.textContent.length > before"
        page.wait_for_function(grown, arg=[long.element_handle(), before])


def test_a_value_that_is_gone_says_so(look: Look) -> None:
    with look("stories", but="404 (Not Found)") as page:
        Panels(page, "wf=lost&key=shelf")
        key = page.locator('[data-key="shelf"]')
        expect(key.locator(".problem").first).to_be_visible()
        expect(page.locator('[data-key="count"] .v-preview')).to_have_text("1900")


def test_an_appended_list_is_a_conversation(look: Look) -> None:
    with look("chat") as page:
        shown = Panels(page, "wf=chat&key=messages")
        items = inside(page.locator('[data-key="messages"]'))
        expect(items.first).to_be_visible()
        expect(items.nth(0).locator(".said")).to_have_text("given")  # the list began with it
        expect(items.nth(1)).to_contain_text("user: 'question 0'")
        expect(items.nth(1).locator(".said")).to_have_text("listen 0")
        expect(items.nth(2).locator(".said")).to_have_text("ask 1")
        expect(items.nth(3).locator(".said")).to_have_text("act 3")
        items.nth(3).get_by_role("button", name="act").click()
        expect(shown.outputs).to_contain_text("messages")
        expect(shown.slider).to_have_value("3")
