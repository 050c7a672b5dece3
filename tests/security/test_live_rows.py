"""Rows of inner steps, questions, answers, streams, progress and amounts that another person wrote."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import pyarrow as pa
import pytest
from proofs import commands
from proofs.commands import CIRCLES, CONTENTS, trouble_of, whole
from support.nasty import KEY

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import AesGcmCodec, SqliteCheckpointer, StreamChunk, Undecodable
from hypergraph.checkpointers.history import edits_of
from hypergraph.checkpointers.sqlite.migrations import SUMMARY
from hypergraph.durability.history import stored_in
from hypergraph.durability.summaries import fits
from hypergraph.engine.admission import admit
from hypergraph.exceptions import StoreCorruptError, StoreError
from hypergraph.records import PauseInfo
from hypergraph.ui.export import page
from hypergraph.ui.streams import asked_for, events_of
from hypergraph.views import step as step_views
from hypergraph.views.cancel import cancelled
from hypergraph.views.inner import inner_view
from hypergraph.views.problems import Problem
from hypergraph.views.values import describe
from security.costly import MOST_MEMORY, MOST_SECONDS, cost_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with workflows of every kind."""
    file = tmp_path / "w.db"
    file.write_bytes(whole()["w.db"])
    return file


def changed(path: Path, statement: str, *values: Any) -> SqliteCheckpointer:
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
    return SqliteCheckpointer(path)


def with_content(path: Path, name: str, content: Any) -> SqliteCheckpointer:
    """Return a store in which payloads of a kind hold something else."""
    data = json.dumps(content).encode()
    where = CONTENTS[name][0]
    row = (data, crc32(data))
    return changed(path, f"UPDATE vals SET format = 'json/1', data = ?, checksum = ? WHERE {where}", *row)


# --- circles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["each is its own parent", "two are parents of each other"])
def test_what_walks_down_a_tree_ends_in_a_circle(path: Path, kind: str) -> None:
    store = changed(path, CIRCLES[kind])
    for wf in ("done", "w", "asking", "refused"):
        store.usage(wf)
        store.questions(wf)
        store.read_overview(wf)
        assert page(store, wf)
    assert cancelled(store, "w")["ids"] == ["w"]
    store.delete("done")
    assert "done" not in [found.id for found in store.workflows()]
    store.close()


def test_what_walks_up_forks_of_each_other_ends(path: Path) -> None:
    store = changed(path, CIRCLES["all are forks of each other"])
    assert edits_of(store, "done") <= {1}
    store.close()
    assert trouble_of(path.parent, "replay w.db proofs.commands:PLAIN done") is None


def test_a_step_whose_nested_run_is_its_own_is_no_circle(path: Path) -> None:
    extra = json.dumps({"child_workflow_id": "broken"})
    store = changed(path, "UPDATE steps SET extra = ? WHERE status = 'failed'", extra)
    overview = store.read_overview("broken")
    assert overview is not None
    assert overview.first_error is not None
    store.close()


def test_a_replay_names_a_stored_graph_that_makes_no_sense(path: Path) -> None:
    changed(path, "UPDATE structures SET graph = ?", '{"nodes": 1}').close()
    assert trouble_of(path.parent, "replay w.db proofs.commands:PLAIN done") is None


# --- streams ----------------------------------------------------------------------------------------


def chunks(store: SqliteCheckpointer) -> list[StreamChunk]:
    return list(store.read_stream("talk", "talk", follow=False))


@pytest.mark.parametrize("count", [2**62, 1_000_001, 0, -5, "x", 1.5, b""])
def test_a_batch_of_more_chunks_than_a_row_can_hold_is_named_as_damage(path: Path, count: Any) -> None:
    store = changed(path, "UPDATE chunks SET count = ?", count)
    with pytest.raises(StoreCorruptError, match="damaged row"):
        chunks(store)
    store.close()


def test_the_number_of_chunks_of_a_batch_is_not_trusted(path: Path) -> None:
    store = changed(path, "UPDATE chunks SET count = 900000")
    [found] = chunks(store)
    assert found.offset == 899_999
    assert isinstance(found.value, Undecodable)
    store.close()


@pytest.mark.parametrize(("column", "value"), [("first", "x"), ("data", 2**40), ("format", 5), ("first", -1)])
def test_a_batch_without_its_place_is_named_as_damage(path: Path, column: str, value: Any) -> None:
    store = changed(path, f"UPDATE chunks SET {column} = ?", value)
    if column != "format":  # a text in that column, whatever it was
        with pytest.raises(StoreCorruptError, match="damaged row"):
            chunks(store)
    else:
        assert [type(chunk.value) for chunk in chunks(store)] == [Undecodable]
    store.close()


@pytest.mark.parametrize(("column", "value"), [("next", "x"), ("kept", b"y"), ("node", b"z")])
def test_a_stream_without_its_place_is_named_as_damage(path: Path, column: str, value: Any) -> None:
    store = changed(path, f"UPDATE streams SET {column} = ?", value)
    with pytest.raises(StoreCorruptError, match="damaged row"):
        store.backend.live.read_streams("talk")
    store.close()


async def _sent(store: SqliteCheckpointer) -> list[bytes]:
    limiter = anyio.CapacityLimiter(1)
    return [event async for event in events_of(store, ("talk", "talk", 0), limiter, lambda: False)]


def test_a_stream_of_the_page_ends_where_the_store_is_damaged(path: Path) -> None:
    store = changed(path, "UPDATE chunks SET count = -1")
    assert anyio.run(_sent, store)[-1].startswith(b"event: end")
    store.close()


def test_the_page_reads_a_part_of_a_stream_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, taken = SqliteCheckpointer(path), []

    def read_stream(*_: Any, offset: int, **__: Any) -> Any:
        taken.append(offset)
        return (StreamChunk(n) for n in range(offset, 2500))  # an end that is far away

    monkeypatch.setattr(store, "read_stream", read_stream)
    assert len([event for event in anyio.run(_sent, store) if b"event: chunk" in event]) == 2500
    assert taken == [0, 1000, 2000, 2500]
    store.close()


@pytest.mark.parametrize("last", ["9" * 60_000, "-1", "x", "1.5"])
def test_the_last_offset_that_a_browser_names_is_a_number(last: str) -> None:
    with pytest.raises(Problem, match="Last-Event-ID must be a whole number"):
        asked_for([("id", "w"), ("node", "n")], last)
    assert asked_for([("id", "w"), ("node", "n")], " 7 ") == ("w", "n", 8)


# --- progress and amounts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [("done", "x"), ("done", float("inf")), ("total", ""), ("total", -1), ("text", b"x"), ("at", 2**62)],
)
def test_a_progress_that_makes_no_sense_is_named_as_damage(path: Path, column: str, value: Any) -> None:
    store = changed(path, f"UPDATE progress SET {column} = ?", value)
    with pytest.raises(StoreCorruptError, match="damaged row"):
        store.progress("talk")
    store.close()


@pytest.mark.parametrize("value", ["x", float("inf"), -1])
def test_an_amount_that_makes_no_sense_is_named_as_damage(path: Path, value: Any) -> None:
    store = changed(path, "UPDATE usage SET amount = ?", value)
    calls = [store.backend.read_usage] if value == "x" else [store.backend.read_usage, store.usage]
    for call in calls:  # in a sum of SQLite, a text is nothing
        with pytest.raises(StoreCorruptError, match="damaged row"):
            call("talk")
    store.close()


# --- inner steps, questions and answers -------------------------------------------------------------

WRONG_PARTS = [
    *(("args", 5), ("kwargs", [1]), ("started", "x"), ("started", 1e300), ("ms", "x"), ("attempt", "x")),
    *(("error", [1]), ("function", {}), ("status", ["completed"]), ("problem", 1)),
]


@pytest.mark.parametrize(("part", "value"), WRONG_PARTS)
def test_an_inner_step_with_a_wrong_part_cannot_be_read(path: Path, part: str, value: Any) -> None:
    parts = {**CONTENTS["an inner step"][2], part: value}
    store = with_content(path, "an inner step", parts)
    [found] = store.inner_steps("talk")
    assert (found.problem, found.value) == ("cannot be read", None)
    assert inner_view(found)["value"] is None
    store.close()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *(
            ("due", "x"),
            ("due", 5),
            ("path", 5),
            ("path", None),
            ("path", [1]),
            ("schemas", {"approved": 5}),
            ("values", [1]),
        ),
        *(("node_name", None), ("output_param", [1]), ("output_params", "x"), ("reason", 5), ("default", 1)),
    ],
)
def test_a_question_with_a_wrong_part_is_still_a_question(path: Path, part: str, value: Any) -> None:
    parts = {**CONTENTS["a question"][2], part: value}
    store = with_content(path, "a question", parts)
    for question in store.questions("timed"):
        assert isinstance(question.pause, PauseInfo)
        assert step_views.question_view(question)
    store.close()


@pytest.mark.parametrize(("part", "value"), [("answer", 5), ("answer", [1]), ("answered_by", 5)])
def test_an_answer_with_a_wrong_part_is_there_and_cannot_be_read(path: Path, part: str, value: Any) -> None:
    store = with_content(path, "an answer", {**CONTENTS["an answer"][2], part: value})
    [question] = store.questions("answered")
    assert question.step.answer == {}
    store.close()


def test_many_arguments_of_an_inner_step_are_shown_in_part(path: Path) -> None:
    parts = {**CONTENTS["an inner step"][2], "args": [0] * 400_000}
    store = with_content(path, "an inner step", parts)
    [found] = store.inner_steps("talk")
    assert cost_of(partial(inner_view, found)).seconds < MOST_SECONDS / 4
    store.close()


def test_a_table_inside_of_a_value_is_shown_row_by_row() -> None:
    table = pa.table({f"c{number}": pa.nulls(50_000) for number in range(1000)})
    for value in ({"a": {"b": table}}, [table]):
        found = cost_of(partial(describe, value))
        assert found.memory <= MOST_MEMORY
        assert found.seconds <= MOST_SECONDS
    found = cost_of(partial(describe, table, limit=20_000))
    assert found.memory <= MOST_MEMORY


@pytest.mark.parametrize(
    "schema",
    [
        *({"type": "string", "minLength": "x"}, {"anyOf": 5}, {"enum": 5}, {"anyOf": [5]}, {"required": 5}),
        *({"type": "string", "pattern": "("}, {"type": "string", "pattern": "^(a+)+$"}, {"properties": 5}),
    ],
    ids=str,
)
def test_a_question_with_a_type_that_makes_no_sense_is_answered(path: Path, schema: Any) -> None:
    parts = {**CONTENTS["a question"][2], "schemas": {"approved": schema}}
    with_content(path, "a question", parts).close()
    for command in (
        f"answer timed approved={'a' * 40}! --by ann",
        "show timed",
        "answer timed approved={} --json",
    ):
        assert trouble_of(path.parent, command) is None


# --- signals and summaries --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        *({"value": 7, "by": "ann", "at": at} for at in (None, 5, "x", "", "9" * 5000, [1])),
        *({"value": 7, "by": by, "at": "2030-01-01T00:00:00+00:00"} for by in (5, [1], {})),
        *({"value": 7, "by": None}, {"by": None, "at": None}, [], 5, None, "text", {}),
        {"value": 7, "by": None, "at": "2030-01-01T00:00:00", "more": 1},
    ],
    ids=lambda content: f"{content!r:.40}",
)
def test_a_signal_with_a_wrong_part_cannot_be_read(path: Path, content: Any) -> None:
    store = with_content(path, "a signal", content)
    kept = [signal for signal in store.signals("waiting") if signal.received_by is None]
    assert [type(signal.value) for signal in kept] == [Undecodable] * 2
    assert store.read_overview("waiting") is not None
    store.close()


def test_a_signal_without_a_time_zone_was_sent_in_that_of_this_machine(path: Path) -> None:
    store = with_content(path, "a signal", {"value": 7, "by": None, "at": "2030-01-01T12:00:00"})
    assert all(signal.sent_at is not None and signal.sent_at.tzinfo for signal in store.signals("waiting"))
    store.close()


@pytest.mark.parametrize("place", [9, -3, 2**62])
def test_a_signal_is_sent_beside_rows_that_do_not_follow_each_other(path: Path, place: int) -> None:
    """To look for a free place by counting them would have no end."""
    store = changed(path, f"UPDATE vals SET idx = {place} + idx WHERE name = 'order' AND idx > 1")
    store.send("waiting", "order", 77)
    assert store.signals("waiting")[-1].value == 77
    store.close()


def test_a_signal_beyond_the_last_place_is_refused_by_name(path: Path) -> None:
    store = changed(path, f"UPDATE vals SET idx = {2**63 - 1} WHERE name = 'order' AND idx = 3")
    with pytest.raises(StoreError, match="too large"):
        store.send("waiting", "order", 77)
    store.close()


SIGNALS = [
    *('{"nodes": 1}', '{"nodes": [1]}', '{"nodes": [{"signal": [1]}]}', '{"nodes": [{"signal": {"a": 1}}]}'),
    *('{"nodes": [{"graph": 5}]}', '{"nodes": [{"graph": {"nodes": 5}}]}', '{"nodes": {"a": 1}}'),
    *(
        f'{{"nodes": [{{"signal": "order", "answer": {each}}}]}}'
        for each in ('{"anyOf": [5]}', '{"enum": 5}')
    ),
    *('{"nodes": [{"signal": "order", "answer": 5}]}', '{"nodes": [{"signal": "order", "answer": [1]}]}'),
]


@pytest.mark.parametrize("graph", SIGNALS)
def test_a_stored_graph_with_wrong_signals_is_named_as_damage_or_refuses_the_value(
    path: Path, graph: str
) -> None:
    changed(path, "UPDATE structures SET graph = ?", graph).close()
    for command in ("send waiting order 5", "show waiting", "send waiting other x"):
        assert trouble_of(path.parent, command) is None


@pytest.mark.parametrize(
    "command", ["migrate proofs.commands:WAITING --dry-run", "resume {wf} proofs.commands:WAITING"]
)
def test_an_id_of_many_parts_costs_no_more_than_others(path: Path, command: str) -> None:
    """Signals are looked for in every run around a run."""
    wf = "a/" * 20_000 + "waiting"
    changed(path, "UPDATE workflows SET id = ? WHERE id = 'waiting'", wf).close()
    found = cost_of(partial(trouble_of, path.parent, command.format(wf=wf)))
    assert found.memory <= MOST_MEMORY
    assert found.seconds <= MOST_SECONDS


@pytest.mark.parametrize("column", ["due = 0", "due = 1, awaits = '{\"order\": 1}'"])
@pytest.mark.parametrize("graph", ["TIMED", "ASKING", "WAITING"])
def test_what_is_due_whatever_is_run_is_run_once(path: Path, column: str, graph: str) -> None:
    """To run what is due until nothing is would have no end."""
    changed(path, f"UPDATE workflows SET {column}").close()
    found = cost_of(partial(trouble_of, path.parent, f"resume --due proofs.commands:{graph}"))
    assert found.seconds <= MOST_SECONDS


def summary_of(path: Path) -> dict[str, Any]:
    with sqlite3.connect(path) as connection:
        ((data,),) = connection.execute(f"SELECT data FROM vals WHERE kind = {SUMMARY}").fetchall()
    connection.close()
    found: dict[str, Any] = json.loads(data)
    return found


def resumed_with(path: Path, data: bytes) -> tuple[Any, bool]:
    """Return what a resume with another summary makes, and whether it used that."""
    row = (data, crc32(data))
    store = changed(path, f"UPDATE vals SET data = ?, checksum = ? WHERE kind = {SUMMARY}", *row)
    stored = stored_in(store, "loop", commands.LOOP)
    assert stored is not None
    is_used = stored.summary is not None and fits(stored, admit(commands.LOOP, ("turn", "most")))
    made = SyncRunner(checkpointer=store).run(commands.LOOP, workflow_id="loop", most=44)
    store.close()
    return made["turn"], is_used


def test_a_summary_is_used(path: Path) -> None:
    assert resumed_with(path, json.dumps(summary_of(path)).encode()) == (44, True)


@pytest.mark.parametrize("case", [*commands.summaries()][::9], ids=lambda case: case.name)
def test_without_a_sound_summary_the_steps_are_read(path: Path, case: commands.Case) -> None:
    case.change(path)
    made, is_used = resumed_with(path, json.dumps(summary_of(path)).encode())
    assert made == 44
    assert not is_used or case.name.startswith(("given", "remembered", "version"))  # names are not known


@pytest.mark.parametrize(
    "parts",
    [
        *({"sources": {"turn": [3, "zz"]}}, {"writes": {"turn": [[7777, "again"]]}}),
        *({"standing": {name: 1}} for name in ("running", "asking", "pending")),
        *({"standing": {"held": []}}, {"standing": {"decisions": [[9, 0]]}}, {"standing": {"due": 4}}),
        *({"visits": [[2, 1]]}, {"reached": [[7, 1]]}, {"levels": [[], [[1, 0]], [], []]}, {"begun": 99}),
    ],
    ids=str,
)
def test_a_summary_that_names_what_is_not_there_is_left_aside(path: Path, parts: dict[str, Any]) -> None:
    found = summary_of(path)
    more = {name: {**found[name], **part} if name == "standing" else part for name, part in parts.items()}
    assert resumed_with(path, json.dumps({**found, **more}).encode()) == (44, False)


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b"[],", b"{}", b"5", b'{"last":' + b"9" * 5000 + b"}", b'{"last": 0, "places": 1}'],
    ids=lambda data: f"{data!r:.30}",
)
def test_a_summary_that_is_none_is_left_aside(path: Path, data: bytes) -> None:
    assert resumed_with(path, data) == (44, False)


def test_a_summary_that_names_a_place_many_times_is_left_aside(path: Path) -> None:
    """Each place is looked up."""
    found = summary_of(path)
    assert resumed_with(path, json.dumps({**found, "places": found["places"] * 2}).encode()) == (44, False)
    for places in (found["places"] * 50_000, [[0, str(n)] for n in range(100_000)]):
        data = json.dumps({**found, "places": places}).encode()
        store = changed(
            path, f"UPDATE vals SET data = ?, checksum = ? WHERE kind = {SUMMARY}", data, crc32(data)
        )
        cost = cost_of(partial(stored_in, store, "loop", commands.LOOP))
        assert cost.seconds <= MOST_SECONDS
        assert cost.memory <= MOST_MEMORY
        store.close()


# --- terminals --------------------------------------------------------------------------------------

UNSAFE = "a\x1b[2J\x9b31m\u202eb\x07"


@pytest.mark.parametrize(
    "command",
    [
        "watch talk --once",
        "watch talk --stream talk --once",
        "show refused --errors",
        "show timed",
        "step talk 0",
        "show talk --json",
        "watch talk --stream talk --once --jsonl",
    ],
)
def test_texts_of_running_nodes_and_questions_cannot_move_the_cursor(
    path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (_, _, parts) in CONTENTS.items():
        unsafe = {key: UNSAFE if isinstance(value, str) else value for key, value in parts.items()}
        kept = {name: parts[name] for name in ("status", "due", "node_name", "output_param") if name in parts}
        with_content(path, name, {**unsafe, **kept}).close()
    changed(path, "UPDATE progress SET text = ?, node = ? || workflow", UNSAFE, UNSAFE).close()
    data = json.dumps([{"$": "bytes", "v": "ImEbWzJKwpszMW3igK5iByI="}]).encode()
    row = (data, crc32(data))
    changed(path, "UPDATE chunks SET count = 1, data = ?, checksum = ?, format = 'json/1'", *row).close()
    assert commands.main(["--db", str(path), *command.split()]) in (0, 1)
    said = "".join(capsys.readouterr())
    assert said
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(said)


# --- encrypted stores -------------------------------------------------------------------------------


@node(output_name="look", stream=True)
def consult(question: str, context: NodeContext) -> str:
    context.stream("of consult")
    return context.step("look", str.upper, question)


@node(output_name="other", stream=True)
def confirm(look: str, context: NodeContext) -> str:
    context.stream("of confirm")
    return look


ADVICE = Graph([consult, confirm], name="advice")


def test_an_inner_step_is_not_accepted_as_an_output_nor_an_output_as_an_inner_step(tmp_path: Path) -> None:
    """Both have the same name, place and version, and the same key."""
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(KEY))
    SyncRunner(checkpointer=store).run(ADVICE, question="hm", workflow_id="w")
    rows = store.backend.database.read(
        lambda c: c.execute(
            "SELECT kind, superstep, idx, version, checksum, data FROM vals WHERE name = 'look'"
        ).fetchall()
    )
    (first, *place, sum1, data1), (second, *other, sum2, data2) = rows
    assert (place, {first, second}) == (other, {0, 3})
    store.close()
    swap = "UPDATE vals SET checksum = ?, data = ? WHERE name = 'look' AND kind = ?"
    changed(tmp_path / "w.db", swap, sum2, data2, first).close()
    changed(tmp_path / "w.db", swap, sum1, data1, second).close()
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(KEY))
    assert isinstance(store.state("w")["look"], Undecodable)
    [inner] = store.inner_steps("w")
    assert inner.problem == "cannot be read"
    store.close()


def test_chunks_of_another_node_are_not_accepted(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(KEY))
    SyncRunner(checkpointer=store).run(ADVICE, question="hm", workflow_id="w")
    assert [chunk.value for chunk in store.read_stream("w", "confirm", follow=False)] == ["of confirm"]
    store.close()
    move = (
        "UPDATE chunks SET (checksum, data) = (SELECT checksum, data FROM chunks WHERE node = 'consult') "
        "WHERE node = 'confirm'"
    )
    changed(tmp_path / "w.db", move).close()
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(KEY))
    [found] = store.read_stream("w", "confirm", follow=False)
    assert isinstance(found.value, Undecodable)
    store.close()


def test_a_fork_of_an_encrypted_run_reads_its_inner_steps(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(KEY))
    SyncRunner(checkpointer=store).run(ADVICE, question="hm", workflow_id="w")
    SyncRunner(checkpointer=store).run(ADVICE, workflow_id="fork", fork_from=("w", 0))
    assert [step.value for step in store.inner_steps("fork")] == ["HM"]
    store.close()
