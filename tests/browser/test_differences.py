"""Differences show what changed: appended items, changed paths, changed words."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import looking_at
from support.ui_serving import serving

from browser.panels import Panels
from hypergraph import END, Graph, SqliteCheckpointer, SyncRunner, node, route

pytestmark = pytest.mark.slow


@node(output_name=("log", "plan", "text"))
def extend(log: list[str], plan: dict[str, object], text: str) -> tuple[list[str], dict[str, object], str]:
    grown = {**plan, "round": len(log), "goals": {"first": "tea", "second": f"goal {len(log)}"}}
    return [*log, f"entry {len(log)}"], grown, text.replace("quick", "slow")


@route(targets=["extend", END])
def is_long(log: list[str]) -> str:
    return END if len(log) > 42 else "extend"


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file: Path = tmp_path_factory.mktemp("differences") / "grown.db"
    given = {
        "log": [f"entry {n} " + "x" * 80 for n in range(40)],
        "plan": {"kept": 1},
        "text": "the quick brown fox",
    }
    with SqliteCheckpointer(file) as store:
        SyncRunner(checkpointer=store).run(
            Graph([extend, is_long], name="growing"), given, workflow_id="growing"
        )
    with serving(file, "--read-only") as served, looking_at(browser, served) as opened:
        yield opened


def test_changes_name_appended_items_changed_paths_and_changed_words(page: Page) -> None:
    Panels(page, "wf=growing&at=2&from=0&tab=changes")
    log = page.get_by_role("article", name="log changed")
    expect(log).to_contain_text("40 items → 41 items")
    expect(log.locator("[data-path]")).to_have_count(1)
    expect(log.locator('[data-path="/40"] .added pre')).to_have_text("entry 40")
    plan = page.get_by_role("article", name="plan changed")
    expect(plan.locator('[data-path="/goals"]')).to_be_visible()
    expect(plan.locator('[data-path="/kept"]')).to_have_count(0)
    text = page.get_by_role("article", name="text changed")
    expect(text.locator("del")).to_have_text("quick")
    expect(text.locator("ins")).to_have_text("slow")


@node(output_name="total")
def double(x: int) -> int:
    return 2 * x


@pytest.fixture
def two_maps(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with SqliteCheckpointer(tmp_path / "maps.db") as store:
        runner, graph = SyncRunner(checkpointer=store), Graph([double], name="doubling")
        for name, numbers in (("monday", [1, 2]), ("tuesday", [1, 5, 7])):
            runner.map(graph, x=numbers, map_over="x", workflow_id=name)
    with serving(tmp_path / "maps.db", "--read-only") as served, looking_at(browser, served) as opened:
        yield opened


def test_two_maps_name_the_items_that_differ(two_maps: Page) -> None:
    two_maps.evaluate("location.hash = '#/compare?a=monday&b=tuesday'")
    inside = two_maps.get_by_role("table", name="Differences inside")
    expect(inside.get_by_role("row")).to_have_count(1)
    expect(inside).to_contain_text("item-1")
    expect(inside).to_contain_text("Different outputs")
    expect(two_maps.get_by_text("only in b:")).to_contain_text("tuesday/item-2")
    inside.get_by_role("link", name="item-1").click()
    expect(two_maps.get_by_role("article", name="total changed").first).to_be_visible()
