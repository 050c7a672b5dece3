"""The list: filtered, searched, sorted, and one click away from what failed."""

import re

from playwright.sync_api import Page, expect

from browser.conftest import Look


def ids(page: Page) -> list[str]:
    return page.locator("td.of-id a").all_inner_texts()


def test_workflows_are_filtered_searched_and_sorted_and_the_address_remembers_it(look: Look) -> None:
    with look("stories") as page:
        expect(page.get_by_role("link", name="tea-d", exact=True)).to_be_visible()
        page.get_by_role("button", name="failed").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        assert sorted(ids(page)) == ["broken", "deep"]
        page.get_by_role("button", name="failed").click()
        page.get_by_label("Graph").fill("answers")
        expect(page.locator("tbody tr")).to_have_count(4)
        page.get_by_role("button", name="Workflow", exact=True).click()
        page.get_by_role("button", name="Workflow ↓").click()
        expect(page.get_by_role("columnheader", name="Workflow ↑")).to_have_attribute(
            "aria-sort", "ascending"
        )
        assert ids(page) == ["tea", "tea-b", "tea-c", "tea-d"]
        expect(page).to_have_url(re.compile("graph=answers&sort=id-up"))
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(4)
        assert ids(page) == ["tea", "tea-b", "tea-c", "tea-d"]
