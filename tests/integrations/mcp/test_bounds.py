"""Whatever a store holds, an agent gets whole, short documents, and can page through all of it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import agent_graphs
from support.agent_graphs import BIG, MANY_ITEMS, MANY_KEYS, ORDER
from support.agents import LIMIT, Agent, agent
from support.processes import Elsewhere, elsewhere  # noqa: F401 - a fixture

from hypergraph.integrations.mcp.bounds import fitted, page_of, readable

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e01ef]"
)
WF = f"w {ORDER}"


@pytest.fixture(scope="module")
def hostile(elsewhere: Elsewhere, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:  # noqa: F811
    file = tmp_path_factory.mktemp("hostile") / "hostile.db"
    elsewhere(agent_graphs.store_hostile_things, str(file))
    with agent(file) as made:
        yield made


@pytest.fixture(scope="module")
def far(elsewhere: Elsewhere, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:  # noqa: F811
    file = tmp_path_factory.mktemp("far") / "far.db"
    elsewhere(agent_graphs.count_far, str(file))
    with agent(file) as made:
        yield made


# --- on documents alone -----------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=1000),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=300), inner, max_size=30),
    max_leaves=20,
)


def size(document: Any) -> int:
    return len(json.dumps(document, ensure_ascii=False, allow_nan=False))


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=20), json_values, max_size=8))
def test_any_document_fits_and_what_is_cut_is_named(document: dict[str, Any]) -> None:
    short = fitted(lambda _: document, 1, "ask for less")
    assert size(short) <= LIMIT
    json.dumps(short, ensure_ascii=False).encode()
    assert UNSEEN.search(json.dumps(short, ensure_ascii=False)) is None
    if len(repr(document)) < LIMIT // 12:  # room enough even if every character is spelled out
        assert "cut" not in short or "cut" in document


@settings(max_examples=50)
@given(st.lists(st.integers(1, 3000), max_size=60), st.integers(1, 200))
def test_pages_of_any_sizes_join_to_the_whole(lengths: list[int], limit: int) -> None:
    whole = {"schema": "s", "items": [f"{place}:{'x' * length}" for place, length in enumerate(lengths)]}
    cursor, found = None, []
    while True:
        page = fitted(lambda count, at=cursor: page_of(whole, count, at), limit, "")
        assert size(page) <= LIMIT
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == whole["items"]


def test_a_document_without_end_is_cut_where_it_is_too_deep() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5000):
        inner["next"] = inner = {}
    assert size(fitted(lambda _: deep, 1, "")) <= LIMIT


def test_keys_that_only_differ_in_what_was_cut_stay_apart() -> None:
    long = {f"{'k' * 5000}{n}": n for n in range(30)}
    short = fitted(lambda _: {"value": long}, 1, "")
    assert sorted(short["value"].values()) == list(range(30))
    assert short["cut"]["rest"] == ""


def test_what_cannot_be_seen_is_spelled_out_and_lines_stay_lines() -> None:
    assert readable("a\n\tb") == "a\n\tb"
    assert readable("a\x1b[2J\u202e\r\U000e0041") == "a\\x1b[2J\\u202e\\r\\U000e0041"
    assert readable("Grüße 👋") == "Grüße 👋"


# --- a store of hostile things ----------------------------------------------------------------------


@pytest.mark.slow
def test_hostile_text_stands_inside_of_data_and_nowhere_else(hostile: Agent) -> None:
    asked = [
        *(("list_workflows", {}), ("show_workflow", {"workflow_id": WF})),
        *(("show_workflow", {"workflow_id": "hostile-error"}), ("errors", {}), ("stats", {})),
        *(("show_step", {"workflow_id": WF, "index": 0}), ("get_state", {"workflow_id": WF})),
        *(
            ("show_step", {"workflow_id": "hostile-error", "index": 1}),
            ("search", {"text": "ignore previous"}),
        ),
        *(("get_value", {"workflow_id": WF, "key": key}) for key in ("text", "keys", "controls")),
        *(("why", {"workflow_id": WF, "key": "sizes"}), ("timeline", {"workflow_id": WF})),
        *(("lineage", {"workflow_id": WF}), ("diff_workflows", {"a": WF, "b": "hostile-error"})),
    ]
    seen = 0
    for tool, given_now in asked:
        reply = hostile.reply(tool, **given_now)
        assert not reply.is_error, reply.document
        assert UNSEEN.search(reply.text) is None, tool
        seen += ORDER in reply.text
    assert seen > 8
    assert ORDER not in (hostile.client.instructions or "")
    assert all(ORDER not in tool.model_dump_json() for tool in hostile.tools().values())


@pytest.mark.slow
def test_an_error_about_hostile_names_has_them_as_data(hostile: Agent) -> None:
    error = hostile.fail("get_value", workflow_id=WF, key="txet")
    assert error["matches"][0] == "text"
    assert len(hostile.fail("show_workflow", workflow_id="iii")["matches"]) == 10
    reply = hostile.reply("show_workflow", workflow_id=f"\x1b[31m{'z' * 100_000}")
    assert reply.is_error
    assert UNSEEN.search(reply.text) is None


@pytest.mark.slow
def test_long_names_make_shorter_pages_that_join_to_the_whole(hostile: Agent) -> None:
    pages = list(hostile.pages("list_workflows", limit=200))
    assert len(pages) > 1
    assert len({item["id"] for page in pages for item in page["items"]}) == pages[0]["total"] == 43


@pytest.mark.slow
def test_ten_thousand_values_can_be_paged_through(hostile: Agent) -> None:
    first = hostile.ask("get_state", workflow_id="wide", limit=200)
    assert first["total"] == MANY_KEYS + 1
    second = hostile.ask("get_state", workflow_id="wide", limit=200, cursor=first["next_cursor"])
    assert not {item["name"] for item in first["items"]} & {item["name"] for item in second["items"]}
    last = hostile.ask("get_state", workflow_id="wide", cursor=str(MANY_KEYS - 5))
    assert (len(last["items"]), last["next_cursor"]) == (6, None)
    step = hostile.ask("show_step", workflow_id="wide", index=0)
    assert {place["path"]: place["of"] for place in step["cut"]["places"]}["/outputs"] == MANY_KEYS
    assert "get_value" in step["cut"]["rest"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "size_of_all"),
    [("big", BIG), ("numbers", MANY_ITEMS), ("mapping", MANY_KEYS), ("controls", 50_000)],
)
def test_large_values_come_in_pages_from_wherever_one_asks(
    hostile: Agent, key: str, size_of_all: int
) -> None:
    first = hostile.ask("get_value", workflow_id=WF, key=key)
    assert first["size"] == size_of_all
    assert first["truncated"]
    last = hostile.ask("get_value", workflow_id=WF, key=key, offset=size_of_all - 7)
    assert last["next_offset"] is None
    middle = hostile.ask("get_value", workflow_id=WF, key=key, offset=first["next_offset"], limit=1)
    assert middle["offset"] == first["next_offset"] < middle["next_offset"]


@pytest.mark.slow
def test_the_pages_of_a_text_join_to_all_of_it(hostile: Agent) -> None:
    offset, parts = 0, []
    while offset is not None:
        page = hostile.ask("get_value", workflow_id=WF, key="controls", offset=offset, limit=200)
        parts.append(page["value"])
        offset = page["next_offset"]
    assert "".join(parts) == "\\x1b" * 50_000


@pytest.mark.slow
def test_a_part_inside_of_a_large_value_is_reached_by_its_path(hostile: Agent) -> None:
    whole = hostile.ask("get_value", workflow_id=WF, key="texts")
    assert whole["size"] == 50
    part = hostile.ask(
        "get_value", workflow_id=WF, key="texts", path=whole["items"][3]["path"], offset=99_990
    )
    assert (part["value"], part["next_offset"]) == ("y" * 10, None)


# --- a workflow of a hundred thousand steps -----------------------------------------------------------


@pytest.mark.slow
def test_every_answer_about_a_long_workflow_fits(far: Agent) -> None:
    for tool in ("show_workflow", "list_steps", "get_state", "timeline", "lineage"):
        far.ask(tool, workflow_id="long")
    far.ask("list_steps", workflow_id="long", limit=200)
    far.ask("timeline", workflow_id="long", limit=200)
    far.ask("diff_workflows", a="long", first=3, second=90_000)
    far.ask("show_step", workflow_id="long", index=99_998)


@pytest.mark.slow
def test_cursors_walk_through_a_long_workflow_from_end_to_end(far: Agent) -> None:
    total = far.ask("show_workflow", workflow_id="long")["steps"]
    assert total > 99_000
    indexes: list[int] = []
    for page in far.pages("list_steps", workflow_id="long", superstep="0..3000", limit=200):
        indexes += [step["index"] for step in page["items"]]
    assert indexes == list(range(3001))
    last = far.ask("list_steps", workflow_id="long", superstep=f"{total - 10}..{total}", limit=200)
    assert last["items"][-1]["index"] == total - 1
    assert last["next_cursor"] is None


@pytest.mark.slow
def test_a_question_that_takes_long_holds_up_no_other(far: Agent) -> None:
    slow = far.soon("search", text="nothing of that kind")
    assert far.ask("list_workflows")["total"] == 1
    assert not slow.done()
    assert slow.result().document["items"] == []
