"""Pages for those who deploy and operate: replays of stored runs, queues and workers."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.browsing import looking_at
from support.ui_serving import Served, serving

from browser.graphs import bump, enough, flaky, loop, twice
from browser.panels import Panels
from hypergraph import Graph, SqliteCheckpointer, SyncRunner

pytestmark = pytest.mark.slow

CLUSTER = {
    "queues": [
        {
            "name": "mail",
            "application": "shop",
            "paused": True,
            "waiting": 12,
            "delayed": 1,
            "running": 3,
            "oldest": 75.5,
            "concurrency": 4,
            "worker_concurrency": None,
            "limit": [100, 60.0],
            "partition_concurrency": None,
        }
    ],
    "workers": [
        {"executor_id": "w-1", "alive": True, "host": "10.0.0.7", "up": 7200.0, "silent": 0.4, "running": 3},
        {"executor_id": "w-2", "alive": False, "host": "", "up": None, "silent": None, "running": 2},
    ],
    "schedules": [
        {
            "name": "nightly",
            "cron": "0 3 * * *",
            "timezone": "UTC",
            "queue": "mail",
            "graph": "desk",
            "paused": False,
            "backfill": False,
            "last": None,
        }
    ],
    "submitted": [
        {
            "id": "order-7",
            "status": "waiting",
            "queue": "mail",
            "worker": "",
            "priority": 2,
            "submitted": 1_700_000_000_000,
            "due": None,
        }
    ],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("operating") / "operated.db"
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(loop, n=0, until=2, workflow_id="same")
        old = Graph([bump, twice.with_name("thrice"), enough], name="loop")
        runner.run(old, n=0, until=2, workflow_id="before")
        runner.run(flaky, address="bad.example", workflow_id="bad", error_handling="continue")
    with serving(file, "--app", "browser.graphs:loop") as running:
        yield running


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with looking_at(browser, served) as opened:
        yield opened


def test_a_replay_names_causes_and_shows_the_differing_step_in_the_graph(page: Page) -> None:
    page.get_by_role("link", name="replay").click()
    report = page.get_by_role("region", name="what would differ")
    expect(report).to_contain_text("1 run of 2 would differ")
    causes = page.get_by_role("table", name="Causes").get_by_role("row")
    expect(causes).to_have_count(2)
    expect(causes.nth(1).get_by_role("link")).to_have_text(re.compile(r"before at \d"))
    expect(Panels(page).box("bump")).to_be_visible()
    page.get_by_role("link", name="open before").click()
    expect(page.locator(".title .id")).to_have_text("before")


def test_queues_workers_schedules_and_submitted_runs_are_listed(page: Page) -> None:
    def answer(route: Route) -> None:
        name = route.request.url.split("?")[0].rsplit("/", 1)[1]
        route.fulfill(json={"schema": f"hypergraph.{name}/1", "items": CLUSTER[name]})

    for name in CLUSTER:
        page.route(f"**/api/v1/{name}?*", answer)
    page.evaluate("() => { location.hash = '#/cluster' }")
    expect(page.get_by_text("1 worker alive")).to_be_visible()
    queue = page.get_by_role("table", name="queues").get_by_role("row").nth(1)
    expect(queue).to_contain_text("mail")
    expect(queue).to_contain_text("1m16s")
    expect(queue).to_contain_text("4 at once, 100 in 1m00s")
    expect(page.get_by_role("table", name="workers").get_by_role("row").nth(2)).to_contain_text("gone")
    expect(page.get_by_role("table", name="schedules")).to_contain_text("nightly")
    page.get_by_role("button", name="dead").click()
    expect(page.get_by_role("table", name="submitted runs")).to_contain_text("order-7")
