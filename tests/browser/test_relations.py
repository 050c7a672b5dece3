"""Workflows beside others: compared, as a family, and where their time goes."""

import re

import pytest
from playwright.sync_api import Route, expect

from browser.conftest import Look
from browser.panels import Panels

pytestmark = pytest.mark.slow


def test_two_workflows_are_compared_from_their_first_difference(look: Look) -> None:
    with look("stories") as page:
        Panels(page, "wf=tea")
        page.get_by_role("link", name="compare").click()
        page.get_by_role("table", name="Workflows to compare with").get_by_role("link", name="tea-d").click()
        first = page.get_by_role("region", name="first difference")
        expect(first).to_contain_text("Different outputs")
        change = first.get_by_role("article", name="prompt changed")
        expect(change.locator("del")).to_contain_text("about")
        expect(change.locator("ins").first).to_contain_text("for")
        expect(change.locator(".words")).to_contain_text("tea? a page")
        path = page.get_by_role("table", name="Steps of both").get_by_role("row")
        expect(path.filter(has_text="build")).to_have_attribute("aria-current", "true")
        timing = page.get_by_role("table", name="Time of each node").get_by_role("row")
        expect(timing).to_have_count(4)
        values = page.get_by_role("region", name="values").get_by_role("article")
        expect(values).to_have_count(3)
        first.get_by_role("link", name="build").nth(1).click()
        expect(page).to_have_url(re.compile("wf=tea-d"))
        expect(page.get_by_role("tree", name="outputs")).to_contain_text("a page for tea-d")


@pytest.mark.parametrize(("first", "late"), [("workflows", "lineage"), ("lineage", "workflows")])
def test_workflows_to_compare_with_appear_together(look: Look, first: str, late: str) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with look("stories") as page:
        Panels(page, "wf=tea")
        page.route(f"**/api/v1/{late}?*", hold)
        with page.expect_request(f"**/api/v1/{late}?*"), page.expect_response(f"**/api/v1/{first}?*"):
            page.get_by_role("link", name="compare").click()
        page.evaluate("() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)))")
        panel = page.get_by_role("region", name="The other workflow")
        expect(panel.locator(".empty")).to_have_text("…")
        for route in held:
            route.continue_()
        expect(panel.get_by_role("link")).to_have_text(["tea-b", "tea-c", "tea-d"])


def test_a_family_is_a_tree_of_forks_and_of_runs_inside(look: Look) -> None:
    with look("stories") as page:
        Panels(page, "wf=tea-c")
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Lineage").click()
        tree = page.get_by_role("tree", name="Family of tea-c").get_by_role("treeitem")
        expect(tree).to_have_count(4)
        for level, name in enumerate(("tea", "tea-b", "tea-c", "tea-d"), 1):
            expect(tree.nth(level - 1)).to_have_attribute("data-id", name)
            expect(tree.nth(level - 1)).to_have_attribute("aria-level", str(level))
        expect(tree.nth(2)).to_have_attribute("aria-current", "true")
        tree.nth(3).get_by_role("link", name="tea-d", exact=True).click()
        expect(page.get_by_role("link", name="fork of tea-c at 0")).to_be_visible()
        page.evaluate("location.hash = '#/lineage?of=nest'")
        inside = page.get_by_role("tree", name="Family of nest").get_by_role("treeitem")
        expect(inside).to_have_count(4)
        expect(inside.last).to_have_attribute("aria-level", "4")


def test_the_critical_path_and_usual_times_show_where_time_goes(look: Look) -> None:
    with look("demo") as page:
        shown = Panels(page, "wf=ticket-1")
        expect(shown.rows.locator(".critical").first).to_be_visible()
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Bottleneck").click()
        table = page.get_by_role("table", name="Nodes on the critical path")
        path = table.get_by_role("row")
        expect(path.filter(has_text=re.compile("writing / draft"))).to_be_visible()
        shares = [int(text) for text in re.findall(r"(\d+)%", " ".join(path.all_inner_texts()))]
        assert shares == sorted(shares, reverse=True)
        nodes = page.get_by_role("table", name="Nodes of the last runs")
        expect(nodes.get_by_role("columnheader", name=re.compile("^p95$"))).to_be_visible()
        counted = nodes.get_by_role("row").filter(has=page.get_by_role("cell", name="writing", exact=True))
        expect(counted.get_by_role("cell").nth(8)).to_have_text("47")
        expect(nodes.get_by_role("row").filter(has_text="writing / draft")).to_be_visible()
        table.get_by_role("link", name="writing", exact=True).click()
        expect(shown.box("writing")).to_have_attribute("aria-pressed", "true")
