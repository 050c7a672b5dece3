"""Whatever stands in a store is text: it never becomes an element, runs, or hides."""

import re

import pytest
from playwright.sync_api import Page, expect

from browser.checking import found, go
from browser.conftest import Look
from browser.graphs import MARKUP, NASTY

pytestmark = pytest.mark.slow


def spelled(text: str) -> str:
    """Return a text as the page shows it, with what cannot be seen spelled out."""
    return re.sub(r"[^ -~]", lambda found: f"\\u{ord(found[0]):04x}", text)


def walk_through(page: Page, text: str) -> None:
    """Look at everything that a workflow's page tells of one attack."""
    go(page, "workflow", ".error-line", wf=text)
    expect(page.locator(".title .id")).to_contain_text(spelled(text)[:30])
    expect(page.locator(".trouble")).to_contain_text(MARKUP)
    page.locator(".state .key .line").last.click()
    page.locator(".state .inside .line").nth(1).click()
    expect(page.locator(".state .inside .inside").first).to_contain_text(NASTY[1])
    assert found(page, "injected") == []
    page.get_by_role("slider").press("Home")
    page.get_by_role("tab", name="changed").click()
    page.locator(".change").first.wait_for()
    page.locator(".state .origin button").first.click()
    expect(page.get_by_role("tree", name="outputs")).to_contain_text(spelled(text))
    assert found(page, "injected") == []


@pytest.mark.parametrize("texts", [NASTY[:5], NASTY[5:]], ids=["markup", "characters"])
def test_names_values_and_errors_stay_text_in_every_panel(look: Look, texts: list[str]) -> None:
    with look("hostile") as page:
        expect(page.locator("tbody tr")).to_have_count(len(NASTY) + 1)
        assert found(page, "injected") == []
        for text in texts:
            walk_through(page, text)


def views(page: Page, text: str, other: str) -> list[str]:
    wrong: list[str] = []
    for view, params, shows in (
        ("compare", {"a": text, "b": other}, ".change"),
        ("compare", {"a": text}, ".chooser"),
        ("lineage", {"of": text}, ".family-row"),
        ("bottleneck", {"of": text}, ".stats-panel"),
        ("workflow", {"wf": "many"}, ".row-item"),
        ("stats", {}, ".stats-panel tr"),
        ("", {"search": text}, "main .panel"),
        ("workflow", {"wf": f"{text} is not there"}, ".failure"),
    ):
        go(page, view, shows, **params)
        wrong += [f"{view}: {one}" for one in found(page, "injected")]
    return wrong


@pytest.mark.parametrize("number", [1, 6, 7])
def test_names_values_and_errors_stay_text_in_every_view(look: Look, number: int) -> None:
    with look("hostile", but="404 (Not Found)") as page:
        assert views(page, NASTY[number], NASTY[number - 1]) == []


BLOCKED = """async () => {
  const blocked = [];
  addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
  const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more));
  add("script", { textContent: "harmed = 1" });
  add("style", { textContent: "body { display: none }" });
  add("base", { href: "/elsewhere" });
  const button = document.createElement("button");
  button.setAttribute("onclick", "harmed = 1");
  button.click();
  const moment = () => new Promise((done) => setTimeout(done, 20));
  for (let look = 0; look < 100 && blocked.length < 4; look++) await moment();
  return { blocked, harmed: window.harmed ?? null };
}"""


def test_the_policy_of_the_page_blocks_what_nobody_of_us_wrote(look: Look) -> None:
    with look("stories", but="Content Security Policy") as page:
        page.locator("tbody tr").first.wait_for()
        seen = page.evaluate(BLOCKED)
        assert seen["harmed"] is None
        assert set(seen["blocked"]) == {"script-src-elem", "script-src-attr", "style-src-elem", "base-uri"}
