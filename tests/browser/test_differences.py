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
