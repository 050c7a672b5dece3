"""The list: filtered, searched, sorted, and one click away from what failed."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from browser.checking import go
from browser.conftest import Look

pytestmark = pytest.mark.slow


def ids(page: Page) -> list[str]:
    return page.locator("td.of-id a").all_inner_texts()


def test_workflows_are_filtered_searched_and_sorted_and_the_address_remembers_it(look: Look) -> None:
    with look("stories") as page:
        expect(page.get_by_role("link", name="tea-d", exact=True)).to_be_visible()
        page.get_by_role("button", name="failed").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        assert sorted(ids(page)) == ["broken", "deep", "retried"]
        page.get_by_label("Search").fill("busy")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Search").fill("")
        page.get_by_label("Where").fill("node:divide status=failed")
        expect(page.locator("tbody tr")).to_have_count(2)
        assert sorted(ids(page)) == ["broken", "deep"]  # in the second one inside a nested run
        page.get_by_label("Where").fill("")
        page.get_by_role("button", name="failed").click()
        page.get_by_label("Graph").fill("answers")
        expect(page.locator("tbody tr")).to_have_count(4)
        page.get_by_role("button", name="Workflow", exact=True).click()
        page.get_by_role("button", name="Workflow ↓").click()
        expect(page.get_by_role("columnheader", name="Workflow ↑")).to_have_attribute(
            "aria-sort", "ascending"
        )
        expect(page.locator("td.of-id a")).to_have_text(["tea", "tea-b", "tea-c", "tea-d"])
        expect(page).to_have_url(re.compile("graph=answers&sort=id-up"))
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(4)
        expect(page.locator("td.of-id a")).to_have_text(["tea", "tea-b", "tea-c", "tea-d"])


def test_rows_do_not_move_when_their_details_arrive(look: Look) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with look("stories") as page:
        expect(page.locator(".why-failed").first).to_be_visible()
        page.route("**/api/v1/row_details?*", hold)
        with page.expect_request("**/api/v1/row_details?*"):
            page.reload()
        last = page.locator("td.of-id a").last
        before = last.bounding_box()
        assert page.locator(".why-failed").count() == 0
        for route in held:
            route.continue_()
        expect(page.locator(".why-failed").first).to_be_visible()
        assert last.bounding_box() == before


def test_items_that_failed_inside_a_run_are_counted(look: Look) -> None:
    def answer(route: Route) -> None:
        body = route.fetch().json()
        for found in body.get("items", [body]):
            found["failed_inside"] = 2 if found["id"] == "nest" else 0
        route.fulfill(json=body)

    with look("stories") as page:
        page.route("**/api/v1/workflow*", answer)
        page.reload()  # at once: the page has access before its first answer
        row = page.locator("tbody tr").filter(has=page.get_by_role("link", name="nest", exact=True))
        expect(row).to_contain_text("2 failed inside")
        row.click()
        expect(page.locator(".title")).to_contain_text("2 failed inside")


def test_a_long_list_comes_in_pages(look: Look) -> None:
    with look("long") as page:
        go(page, "", "tbody tr", parent="batch")
        expect(page.get_by_text("50 of 1,000 workflows")).to_be_visible()
        page.get_by_role("button", name="Show 100 more").click()
        expect(page.get_by_text("150 of 1,000 workflows")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(150)
        assert len(set(ids(page))) == 150
        page.get_by_role("button", name="failed").click()
        expect(page.get_by_text("10 of 10 workflows")).to_be_visible()


def test_a_condition_that_cannot_be_read_says_why(look: Look) -> None:
    with look("stories", but="400 (Bad Request)") as page:
        page.get_by_label("Where").fill("duration >")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Where").fill("")
        expect(page.get_by_role("link", name="tea-d", exact=True)).to_be_visible()
