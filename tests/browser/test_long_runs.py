"""20,000 steps are as smooth as 200."""

import re

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Look
from browser.databases import LONG, SHORT
from browser.panels import Panels

pytestmark = pytest.mark.slow

MOVES = 41
MEDIAN_OF_MOVES = """async (moves) => {
  const slider = document.querySelector('input[type="range"]');
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const last = Number(slider.max);
  const times = [];
  for (let move = 0; move < moves; move++) {
    const began = performance.now();
    slider.value = String(Math.floor((move * 7919) % last));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await Promise.resolve();
    slider.getBoundingClientRect();
    times.push(performance.now() - began);
    await drawn();
  }
  return times.sort((a, b) => a - b)[moves >> 1];
}"""


def median_of_moves(page: Page, steps: int) -> float:
    shown = Panels(page, f"wf=loop-{steps}")
    expect(shown.rows).to_have_attribute("aria-rowcount", f"{steps // 3 + 1}")  # a row for each round
    return float(page.evaluate(MEDIAN_OF_MOVES, MOVES))


def test_a_move_of_the_slider_takes_as_long_for_twenty_thousand_steps_as_for_two_hundred(look: Look) -> None:
    with look("long") as page:
        for _ in range(5):
            short, long = median_of_moves(page, SHORT), median_of_moves(page, LONG)
            if long <= 2 * short + 1:  # a timer of the browser may be as coarse as this
                break
        else:
            pytest.fail(f"{long} ms for a move among {LONG} steps, {short} ms among {SHORT}")


def test_few_rows_of_twenty_thousand_are_in_the_document(look: Look) -> None:
    with look("long") as page:
        shown = Panels(page, f"wf=loop-{LONG}")
        rows = shown.rows.get_by_role("row")
        expect(rows.first).to_be_visible()
        for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
            shown.slider.press(key)
            expect(shown.rows.locator('[aria-selected="true"]')).to_be_visible()
            assert rows.count() <= 200
        shown.slider.press("End")
        expect(shown.value("n")).to_have_text(str(LONG // 3))
        assert page.evaluate("document.querySelectorAll('*').length") < 1_500
        page.get_by_role("button", name="Earlier visit").wait_for()
        picker = page.get_by_role("spinbutton", name="Visit of enough")
        picker.fill("3000")
        picker.press("Enter")
        chosen = shown.rows.locator('[aria-selected="true"]')
        expect(chosen).to_contain_text(re.compile("round (3,000|3,001|2,999)"))
        chosen.get_by_role("button", name="Unfold").click()
        expect(shown.row("enough", 3000)).to_have_attribute("aria-selected", "true")
        expect(shown.value("n")).to_have_text("2999")
