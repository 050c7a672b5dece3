"""For everybody: names and roles, contrast in both themes, nothing cut off, and every view by keys alone."""

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.checking import found, go
from browser.conftest import Look
from browser.panels import Panels

pytestmark = pytest.mark.slow

VIEWS: list[tuple[str, str, str, dict[str, str]]] = [  # the database, the view, what it shows, its parameters
    ("stories", "", "table.list", {}),
    ("stories", "workflow", ".wrow", {"wf": "loop", "at": "3", "key": "n"}),
    ("stories", "workflow", ".traceback", {"wf": "deep"}),
    ("stories", "workflow", ".pause", {"wf": "newsletter"}),
    ("stories", "compare", ".change", {"a": "tea", "b": "tea-d"}),
    ("stories", "compare", ".chooser a", {"a": "tea"}),
    ("stories", "lineage", ".family-row", {"of": "tea-c"}),
    ("demo", "workflow", ".wrow", {"wf": "ticket-1"}),
    ("demo", "bottleneck", ".stats-panel tr", {"of": "ticket-1"}),
    ("demo", "stats", ".stats-panel tr", {}),
    ("long", "workflow", ".row-item", {"wf": "batch"}),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("database", ["stories", "demo", "long"])
def test_every_view_has_names_roles_and_contrast(look: Look, database: str, scheme: str) -> None:
    wrong: dict[str, list[str]] = {}
    with look(database, color_scheme=scheme, reduced_motion="reduce") as page:
        for _, view, shows, params in (one for one in VIEWS if one[0] == database):
            go(page, view, shows, **params)
            problems = found(page, "unlabelled", "faint", "overflowing")
            if problems:
                wrong[f"{view} {params}"] = problems
    assert wrong == {}


def test_a_narrow_window_cuts_nothing_off(look: Look) -> None:
    wrong: dict[str, list[str]] = {}
    with look("stories", viewport={"width": 900, "height": 700}) as page:
        for _, view, shows, params in (one for one in VIEWS if one[0] == "stories"):
            go(page, view, shows, **params)
            if problems := found(page, "overflowing"):
                wrong[f"{view} {params}"] = problems
    assert wrong == {}


def test_the_theme_follows_the_system_until_somebody_chooses(look: Look) -> None:
    with look("stories", color_scheme="dark") as page:
        root = page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        page.emulate_media(color_scheme="light")
        expect(root).to_have_attribute("data-theme", "light")
        page.get_by_role("button", name="Dark theme").click()
        expect(root).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(root).to_have_attribute("data-theme", "dark")


FOCUS_IS_SEEN = """element => [element, ...element.querySelectorAll(".shape")].some((part) => {
  const look = () => {
    const style = getComputedStyle(part);
    return [style.outline, style.boxShadow, style.stroke, style.strokeWidth].join();
  };
  const before = look();
  element.blur();
  const after = look();
  element.focus({ focusVisible: true });
  return before !== after;
})"""


def tab_to(page: Page, wanted: Locator, most: int = 60) -> None:
    """Press Tab until something has the focus, and hold that it can be seen there."""
    wanted.wait_for()
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            assert wanted.evaluate(FOCUS_IS_SEEN), f"the focus on {wanted} cannot be seen"
            return
    pytest.fail(f"{wanted} cannot be reached by Tab")


def test_a_failed_run_is_found_and_understood_by_keys_alone(look: Look) -> None:
    with look("stories") as page:
        tab_to(page, page.get_by_role("button", name="failed"))
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(3)
        tab_to(page, page.get_by_role("link", name="broken"))
        page.keyboard.press("Enter")
        expect(page.get_by_label("Error", exact=True)).to_be_visible()
        shown = Panels(page)
        expect(shown.box("divide")).to_have_attribute("aria-pressed", "true")
        tab_to(page, shown.box("divide"))
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(shown.row("load")).to_have_attribute("aria-selected", "true")
        tab_to(page, shown.rows)
        page.keyboard.press("ArrowDown")
        expect(shown.row("divide")).to_have_attribute("aria-selected", "true")
        tab_to(page, shown.slider)
        page.keyboard.press("Home")
        expect(shown.slider).to_have_value("0")
        tab_to(page, shown.state.get_by_role("treeitem").first)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(shown.state.get_by_role("treeitem").first.locator(".origin")).to_be_visible()
        tab_to(page, page.get_by_role("tab", selected=True))
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", selected=True)).to_be_focused()


def test_menus_and_dialogs_are_opened_used_and_left_by_keys(look: Look) -> None:
    with look("stories") as page:
        Panels(page, "wf=tea")
        more = page.get_by_role("button", name="More")
        tab_to(page, more)
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("End")
        expect(page.get_by_role("menuitem").last).to_be_focused()
        page.keyboard.press("Escape")
        expect(more).to_be_focused()
        fork = page.get_by_role("button", name="fork from superstep")
        tab_to(page, fork)
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("read-only")
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(fork).to_be_focused()
        more.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        tab_to(page, page.get_by_role("tree").get_by_role("link", name="tea-b", exact=True))
        page.keyboard.press("Enter")
        tab_to(page, page.get_by_role("link", name="compare", exact=True))
        page.keyboard.press("Enter")
        box = page.get_by_role("searchbox", name="workflow id")
        tab_to(page, box)
        page.keyboard.type("tea-d")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="first difference")).to_be_visible()


def test_the_first_tab_offers_to_skip_to_the_content(look: Look) -> None:
    with look("stories") as page:
        page.locator("tbody tr").first.wait_for()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()


def test_the_checks_find_what_they_look_for(look: Look) -> None:
    with look("stories") as page:
        page.locator("tbody tr").first.wait_for()
        page.evaluate("""() => {
          const add = (name, attributes, text) => {
            const made = document.createElement(name);
            for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
            made.textContent = text;
            document.querySelector("main").append(made);
            return made;
          };
          add("button", {}, "");
          add("p", { class: "faint" }, "hardly seen").style.color = "rgb(128 128 128 / 80%)";
          add("a", { href: "javascript:void 0" }, "press \u202e");
          add("h1", {}, "wide").style.cssText = "width: 2000px";
        }""")
        wrong = found(page, "unlabelled", "faint", "overflowing", "injected")
    expected = ["no name: <button", "2 of h1", "faint: p.faint", "out of the window: wide", "href=javascript"]
    for one in [*expected, "text holds %u202E"]:
        assert any(one in problem for problem in wrong), (one, wrong)
