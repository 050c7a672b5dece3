"""Maps: one strip of cells, items labelled by what they took, failed first, a page at a time."""

import re

import pytest
from playwright.sync_api import Route, expect

from browser.conftest import Look
from browser.panels import Panels

pytestmark = pytest.mark.slow


def test_a_thousand_items_are_a_strip_and_pages_failed_first(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=batch")
        strip = page.get_by_role("img", name=re.compile("^1,000 items: "))
        expect(strip).to_have_attribute("aria-label", re.compile("10 failed"))
        labels = shown.rows.get_by_role("link")
        for place, number in enumerate(range(13, 1000, 100)):
            expect(labels.nth(place)).to_contain_text(f"'ticket {number} '")
        expect(labels.nth(10)).to_contain_text("'ticket 0 '")
        expect(page.get_by_label("Error", exact=True)).to_contain_text("nobody answered ticket 13")
        opened = 2  # the steps of the first item, of which the failing one is selected
        expect(shown.rows).to_have_attribute("aria-rowcount", str(50 + opened + 1))
        shown.rows.focus()
        for _ in range(6):
            page.keyboard.press("PageDown")
        page.keyboard.press("Enter")
        expect(shown.rows).to_have_attribute("aria-rowcount", str(100 + opened + 1))
        assert page.get_by_role("row").count() < 200


def test_the_first_page_of_items_is_loaded_once_however_late_it_comes(look: Look) -> None:
    held: list[Route] = []
    asked: list[str] = []

    def hold_first(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            held.append(route)
        else:
            route.continue_()

    with look("long") as page:
        page.route("**/api/v1/items?**", hold_first)
        with page.expect_response(re.compile(r"/api/v1/columns\?.*id=batch(&|$)")):
            shown = Panels(page, "wf=batch")
        page.evaluate("() => new Promise(requestAnimationFrame)")  # the failing step is looked for
        held[0].continue_()
        expect(page.get_by_label("Error", exact=True)).to_contain_text("nobody answered ticket 13")
        expect(shown.rows).to_have_attribute("aria-rowcount", "53")
        assert not [address for address in asked if "cursor=" in address]


def test_a_failed_item_opens_at_its_failing_step(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=batch")
        shown.rows.get_by_role("link").first.click()
        expect(page.get_by_label("Error", exact=True)).to_contain_text(
            "TimeoutError: nobody answered ticket 13"
        )
        expect(page.get_by_role("link", name="inside batch")).to_be_visible()


def test_a_map_inside_a_run_is_one_folded_row_with_a_strip(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, "wf=desk")
        row = shown.row("triage")
        expect(row).to_have_attribute("aria-expanded", "false")
        expect(row.get_by_role("img", name=re.compile("^30 items: .*1 failed"))).to_be_visible()
        expect(shown.rows).to_have_attribute("aria-rowcount", "1")
        row.get_by_role("button", name="Unfold").click()
        expect(shown.rows).to_have_attribute("aria-rowcount", "31")
        expect(shown.rows.get_by_role("row").nth(1)).to_contain_text("ticket 13")
