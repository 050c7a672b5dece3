"""The page and agents over Postgres: every route and tool answers, news come, a long list is quick."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from checkpointers.postgres.test_scaling import filled
from support.agents import Agent, agent
from support.postgres import psycopg, server
from support.ui_serving import ASKED, Served, loop, serving, write_story

from hypergraph import SyncRunner
from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.ui.actions import ACTIONS
from hypergraph.ui.api import CLUSTER, QUERIES
from hypergraph.views.schemas import json_schema

pytestmark = pytest.mark.slow  # a server takes a second to start

APPS = [word for name in ("loop", "review", "inverse") for word in ("--app", f"support.ui_serving:{name}")]
TOOLS: dict[str, dict[str, Any]] = {
    "list_workflows": {"status": "failed"},
    "show_workflow": {"workflow_id": "map-1"},
    "list_steps": {"workflow_id": "loop-1"},
    "show_step": {"workflow_id": "loop-1", "index": 1},
    "get_state": {"workflow_id": "loop-1"},
    "get_value": {"workflow_id": "loop-1", "key": "n"},
    "diff_workflows": {"a": "loop-1", "b": "health"},
    "why": {"workflow_id": "loop-1", "key": "n"},
    "stats": {},
    "errors": {},
    "timeline": {"workflow_id": "map-1"},
    "lineage": {"workflow_id": "loop-1"},
    "search": {"text": "about tea"},
}


@pytest.fixture(scope="module")
def dsn() -> str:
    """A database with a run of each kind; the address has a password, which this server does not ask for."""
    address = server().create().replace("postgres:@", "postgres:s3cr3t@")
    assert "s3cr3t" in address
    store = PostgresCheckpointer(address)
    asyncio.run(write_story(store))
    store.close()
    return address


@pytest.fixture(scope="module")
def page(dsn: str) -> Iterator[Served]:
    with serving(dsn, *APPS) as running:
        yield running


def test_without_workers_there_is_no_cluster_and_a_replay_walks_the_runs(page: Served) -> None:
    assert page.ask("about").document["cluster"] is True
    for name in CLUSTER:
        answer = page.ask(name)
        assert (answer.status, answer.document["error"]["code"]) == (404, "not_found")
    replayed = page.ask("replay", graph="loop").document
    assert (replayed["runs"], replayed["differ"]) == (8, 0)
    assert page.ask("replay", graph="lop").status == 409


def test_every_question_is_asked_here() -> None:
    assert ASKED.keys() == QUERIES.keys()


@pytest.mark.parametrize("question", ASKED)
def test_a_question_is_answered_with_a_read_model(page: Served, question: str) -> None:
    answer = page.ask(question, **ASKED[question])
    assert answer.status == 200, answer.body
    jsonschema.validate(answer.document, json_schema(question))


def test_the_page_says_where_it_is_without_the_password(page: Served, dsn: str) -> None:
    assert page.request("/").status == 200
    about = page.ask("about")
    assert about.document["database"] in dsn
    assert b"s3cr3t" not in about.body
    html = page.ask("export", id="loop-1", format="html")
    assert html.status == 200
    assert b"s3cr3t" not in html.body


def settled(page: Served, workflow_id: str, but: str = "active") -> str:
    """Return the status of a workflow once it is another one: news tell when to look."""
    with page.listening() as news:
        while True:
            found = page.ask("workflow", id=workflow_id)
            if found.status == 200 and found.document["status"] not in ("active", but):
                return str(found.document["status"])
            next(news)


def test_every_wish_is_granted(page: Served) -> None:
    wishes: dict[str, dict[str, Any]] = {
        "start": {"graph": "loop", "values": {"n": 0}, "id": "begun"},
        "fork": {"id": "loop-1", "at": 3, "values": {"n": 4}, "new_id": "edited"},
        "answer": {"id": "review-1", "answer": True},
        "resume": {"id": "inverse-1", "values": {"x": 4}},
        "tag": {"id": "loop-1", "set": {"a": "1"}},
        "delete": {"id": "outer-1"},
        "import": {
            "content": page.ask("export", id="loop-1", format="json").body.decode(),
            "new_id": "again",
        },
    }
    assert {*wishes, "cancel"} == ACTIONS.keys()
    for name, wish in wishes.items():
        answer = page.wish(name, **wish)
        assert answer.status == 200, (name, answer.body)
    assert settled(page, "edited") == settled(page, "begun") == "completed"
    refused = page.wish("cancel", id="begun")
    assert (refused.status, "nothing to cancel" in refused.body.decode()) == (409, True), refused.body
    assert settled(page, "review-1", but="paused") == "completed"
    assert settled(page, "inverse-1", but="failed") == "completed"
    assert page.ask("workflow", id="outer-1/inside").status == 404
    assert page.ask("value", id="again", key="n").document["value"] == 5


def test_what_another_process_writes_is_news(page: Served, dsn: str) -> None:
    with page.listening() as news:
        SyncRunner(checkpointer=PostgresCheckpointer(dsn)).run(loop, {"n": 0}, workflow_id="newest")
        while "newest" not in next(news)["workflows"]:
            pass


@pytest.fixture(scope="module")
def looking(dsn: str) -> Iterator[Agent]:
    with agent(dsn) as made:
        yield made


@pytest.mark.parametrize("tool", TOOLS)
def test_an_agent_is_answered(looking: Agent, tool: str) -> None:
    assert looking.ask(tool, **TOOLS[tool])["schema"].startswith("hypergraph.")


def seconds(page: Served) -> float:
    began = time.perf_counter()
    assert page.ask("workflows", limit=50).status == 200
    return time.perf_counter() - began


def test_the_first_page_of_20000_workflows_costs_at_most_twice_that_of_1000() -> None:
    stores = [filled(1_000), filled(20_000)]
    addresses = [store.backend.database.address.conninfo for store in stores]
    names = [psycopg.conninfo.conninfo_to_dict(found)["dbname"] for found in addresses]
    with serving(server().dsn(names[0])) as small, serving(server().dsn(names[1])) as large:
        assert large.ask("workflows").document["total"] == 20_000
        short = long = math.inf
        for number in range(400):  # on a busy machine, until each was undisturbed once
            short, long = min(short, seconds(small)), min(long, seconds(large))
            if number >= 40 and long <= 2 * short:
                break
    ratio = long / short
    print(f"first page over HTTP, 100,000 workflows against 1,000: {ratio:.2f}x")
    assert ratio <= 2
