"""One workflow: graph, waterfall, state, step and slider always show the same moment."""

import re

import pytest
from playwright.sync_api import Route, expect

from browser.conftest import Look
from browser.panels import Panels

pytestmark = pytest.mark.slow


def test_row_node_key_and_slider_move_together_and_the_address_holds_them(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=loop")
        shown.row("bump", 3).click()
        shown.shows(8, "bump", shown.row("bump", 3), n="3", double="4")
        shown.box("twice").click()
        shown.shows(6, "twice", shown.row("twice", 3), n="2")
        shown.slider.fill("8")
        expect(shown.value("n")).to_have_text("3")  # or the buttons are those of the moment before
        page.locator('[data-key="n"] .line').first.click()
        page.locator('[data-key="n"]').get_by_role("button", name="bump").first.click()
        shown.shows(8, "bump", shown.row("bump", 3), n="3")
        shown.slider.press("Home")
        shown.shows(0, "twice", shown.row("twice", 1), n="0", double="0")
        expect(shown.box("bump")).to_have_attribute("data-status", "pending")
        expect(page).to_have_url(re.compile(r"wf=loop&(?=.*at=0)(?=.*key=n)(?=.*node=twice)"))
        page.reload()
        shown.shows(0, "twice", shown.row("twice", 1), n="0")
        expect(page.locator('[data-key="n"] .origin')).to_be_visible()


def test_back_takes_a_selection_back(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=loop")
        shown.row("bump", 3).click()
        shown.row("bump", 5).click()
        shown.shows(14, "bump", shown.row("bump", 5), n="5")
        page.go_back()
        shown.shows(8, "bump", shown.row("bump", 3), n="3")


def test_the_graph_is_the_one_stored_with_the_run_four_levels_deep(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=nest")
        expect(shown.box("second/third/fourth")).to_have_attribute("data-status", "completed")
        shown.row("plant").click()
        expect(shown.outputs.get_by_text("leaf")).to_be_visible()
        expect(shown.row("plant")).to_have_attribute("aria-level", "4")
        shown.row("third").get_by_role("button", name="Fold").click()
        expect(shown.row("plant")).to_have_count(0)
        shown.row("third").get_by_role("button", name="Unfold").click()
        expect(shown.row("plant")).to_have_count(1)


def test_time_is_travelled_by_slider_keys_and_play(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=loop")
        shown.slider.fill("6")
        shown.shows(6, "twice", shown.row("twice", 3), n="2", double="4")
        page.locator("main").focus()
        page.keyboard.press("ArrowRight")
        shown.shows(7, "enough", shown.row("enough", 3), n="2", double="4")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        shown.shows(5, "bump", shown.row("bump", 2), n="2", double="2")
        page.keyboard.press("End")
        expect(shown.slider).to_have_value("19")
        page.get_by_role("button", name="Play").click()
        expect(shown.slider).to_have_value(re.compile("^[2-9]$"))
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Play")).to_be_visible()
        moment = int(shown.slider.input_value())
        expect(shown.value("n")).to_have_text(str((moment + 1) // 3))


def test_any_two_supersteps_are_compared(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=loop&at=11&tab=changes")
        change = page.get_by_role("article", name="n changed")
        expect(change.locator(".removed pre")).to_have_text("3")  # the page is ready to be typed into
        page.get_by_role("spinbutton", name="after").fill("2")
        page.get_by_role("spinbutton", name="after").press("Enter")
        expect(change.locator(".removed pre")).to_have_text("1")
        expect(change.locator(".added pre")).to_have_text("4")
        shown.row("bump", 6).click(modifiers=["Shift"])
        expect(shown.slider).to_have_value("17")
        expect(page.get_by_role("spinbutton", name="after")).to_have_value("11")
        expect(change.locator(".added pre")).to_have_text("6")


def test_what_is_half_typed_stays_when_the_page_is_drawn_again(look: Look) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with look("stories") as page:
        expect(page.get_by_role("status")).to_have_text("live")  # else its own request would be held
        page.route("**/api/v1/events", hold)
        Panels(page, "wf=loop&at=11&tab=changes")
        with page.expect_request("**/api/v1/events"):
            page.reload()
        change = page.get_by_role("article", name="n changed")
        expect(change.locator(".removed pre")).to_have_text("3")
        after = page.get_by_role("spinbutton", name="after")
        after.fill("2")
        with page.expect_response("**/api/v1/changes?*"):  # the page is drawn again with its first event
            held[0].continue_()
        page.evaluate("() => new Promise(requestAnimationFrame)")
        after.press("Enter")
        expect(change.locator(".removed pre")).to_have_text("1")


def test_one_click_in_the_list_leads_to_what_the_failing_step_took(look: Look) -> None:
    with look("stories") as page:
        page.get_by_role("link", name="deep", exact=True).click()
        error = page.get_by_label("Error", exact=True)
        expect(error).to_contain_text("ZeroDivisionError: by is 0")
        inputs = page.get_by_role("tree", name="inputs")
        expect(inputs.get_by_role("treeitem")).to_have_count(2)
        expect(inputs.get_by_role("treeitem").first).to_contain_text("[0, 1, 2, 3, 4, 5]")
        expect(inputs.get_by_role("treeitem").first).to_contain_text("v1")
        expect(page.get_by_label("Traceback")).to_contain_text("in divide")
        row = page.get_by_role("row").filter(has_text=re.compile(r"^\s*divide"))
        expect(row).to_have_attribute("aria-selected", "true")
        expect(page.locator("svg.graph .chosen")).to_have_attribute("data-path", "middle/shares/divide")
        inputs.get_by_role("button", name="load").click()
        outputs = page.get_by_role("tree", name="outputs")
        expect(outputs.get_by_role("treeitem").first).to_contain_text("loaded")


def test_attempts_are_counted_and_each_failure_is_told(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=retried")
        expect(page.get_by_label("Error", exact=True)).to_contain_text("ConnectionError: tea.example is busy")
        expect(page.get_by_label("Error", exact=True)).to_contain_text("attempt 2: ")
        expect(shown.row("fetch")).to_contain_text("↻3")


def test_what_a_paused_run_waits_for_is_selected(look: Look) -> None:
    with look("stories") as page:
        page.get_by_role("link", name="newsletter").click()
        expect(page.get_by_label("Waiting")).to_contain_text("About tea")
        expect(page.locator("svg.graph .chosen")).to_have_attribute("data-path", "approve")


def test_visits_are_picked_and_jumped_between(look: Look) -> None:
    with look("stories") as page:
        shown = Panels(page, "wf=loop")
        shown.box("bump").click()
        picker = page.get_by_role("combobox", name="Visit of bump")
        expect(picker).to_have_value("5")
        picker.select_option(label="2")
        shown.shows(5, "bump", shown.row("bump", 2), n="2")
        page.locator("main").focus()
        page.keyboard.press("]")
        shown.shows(8, "bump", shown.row("bump", 3), n="3")
        page.keyboard.press("[")
        page.keyboard.press("[")
        shown.shows(2, "bump", shown.row("bump", 1), n="1")
        expect(page.get_by_role("button", name="Earlier visit")).to_be_disabled()
