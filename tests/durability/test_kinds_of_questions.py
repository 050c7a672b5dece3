"""Questions whose node asks in another way today: a signal or a time in place of a person, or the reverse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hypergraph import Graph, InterruptNode, SyncRunner, interrupt, node, pause_for, receive
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError
from hypergraph.migration import migrate
from hypergraph.testing import replay


@node(output_name="end")
def use(go: Any) -> str:
    return f"used {go}"


@interrupt("go")
def ask() -> str | None:
    return None


@node(output_name="go")
def decide() -> str:
    return "decided"


ASKING = {
    "interrupt": ask,
    "signal": receive("ask", str, output_name="go"),
    "other signal": receive("ask", str, output_name="go", signal="payment"),
    "timer": pause_for("ask", 86400, output_name="go"),
}
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
ANSWERS: dict[str, Any] = {kind: MOMENT if kind == "timer" else "yes" for kind in ASKING}
SENT = {"signal": "ask", "other signal": "payment"}
PAIRS = [(before, now) for before in ASKING for now in ASKING if before != now]


def graph(kind: str, **options: Any) -> Graph:
    return Graph([ASKING[kind] if kind in ASKING else decide.with_name("ask"), use], name="asking", **options)


def asked(kind: str) -> tuple[MemoryCheckpointer, SyncRunner]:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    assert runner.run(graph(kind), workflow_id="w").paused
    return store, runner


@pytest.mark.parametrize(("before", "now"), PAIRS)
def test_an_open_question_is_asked_as_the_code_of_today_asks(before: str, now: str) -> None:
    store, runner = asked(before)
    result = runner.run(graph(now), workflow_id="w")
    fresh = SyncRunner(checkpointer=MemoryCheckpointer()).run(graph(now), workflow_id="w")
    assert result.pause is not None
    assert fresh.pause is not None
    assert (result.pause.reason, result.pause.signal) == (fresh.pause.reason, fresh.pause.signal)
    assert (result.pause.due is None) == (fresh.pause.due is None)
    workflow = store.workflow("w")
    assert dict(workflow.awaits) == ({SENT[now]: 1} if now in SENT else {})
    assert (workflow.due is None) == (fresh.pause.due is None)
    if now in SENT:
        store.send("w", SENT[now], "yes")
        assert [due.id for due in store.due_runs()] == ["w"]
        assert runner.run(graph(now), workflow_id="w")["end"] == "used yes"
    else:
        result = runner.run(graph(now), go=ANSWERS[now], workflow_id="w")
        assert result["end"] == f"used {ANSWERS[now]}"


@pytest.mark.parametrize(("before", "now"), PAIRS)
def test_what_was_given_for_it_is_not_dropped(before: str, now: str) -> None:
    store, runner = asked(before)
    if before in SENT:
        store.send("w", SENT[before], "yes")
        match = f"the signal '{SENT[before]}' was sent, and node 'ask'"
    else:
        store.answer("w", "go", ANSWERS[before])
        match = "'go' has been answered, and node 'ask'"
    for _ in range(2):
        with pytest.raises(GraphChangedError, match=match):
            runner.run(graph(now), workflow_id="w")
    assert runner.run(graph(before), workflow_id="w")["end"] == f"used {ANSWERS[before]}"


@pytest.mark.parametrize(("before", "now"), [*PAIRS, *((before, "node") for before in ASKING)])
def test_migrate_and_replay_name_it(before: str, now: str) -> None:
    store, _ = asked(before)
    ways = {"interrupt": "asks for go", "signal": "receives the signal 'ask'", "timer": "waits for a time"}
    ways |= {"other signal": "receives the signal 'payment'", "node": "does not ask"}
    cause = f"its question is open, and it {ways[now]} now"
    first = replay(store, graph(now)).runs[0].first
    assert first is not None
    assert (first.node, first.cause) == ("ask", cause)
    new = graph(now, version="2")
    (refused,) = migrate(store, new, dry_run=True).runs
    assert refused.outcome == "refused"
    assert cause in (refused.reason or "")
    (moved,) = migrate(store, new, accept=True).runs
    assert (moved.outcome, moved.asks, moved.runs_next) == (
        *("moves", () if now == "node" else ("ask",)),
        ("ask",) if now == "node" else (),
    )


@pytest.mark.parametrize("before", SENT)
def test_a_signal_that_no_node_receives_any_more_is_named(before: str) -> None:
    store, runner = asked(before)
    store.send("w", SENT[before], "yes")
    with pytest.warns(UserWarning, match=f"the signal '{SENT[before]}', which was sent, is not received"):
        assert runner.run(graph("node"), workflow_id="w")["end"] == "used decided"


def test_migrate_says_that_a_question_behind_a_new_node_is_asked_again() -> None:
    @node(output_name="draft")
    def write(x: int) -> int:
        return x

    @node(output_name="fixed")
    def fix(draft: int) -> int:
        return draft * 1000

    def approve(draft: int) -> bool | None:
        return None

    old = Graph([write, InterruptNode(approve, "approve", "approved")], name="press", version="1")
    asking = InterruptNode(approve, "approve", "approved", rename_inputs={"draft": "fixed"})
    new = Graph([write, fix, asking], name="press", version="2")
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(old, x=1, workflow_id="w")
    store.answer("w", "approved", True)
    (moved,) = migrate(store, new, accept=True).runs
    assert (moved.outcome, moved.asks, moved.runs_next) == ("moves", ("approve",), ("fix",))
    with pytest.warns(UserWarning, match="the answer to 'approve' was not used"):
        assert runner.run(new, workflow_id="w").paused
