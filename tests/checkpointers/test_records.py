"""The records of stored workflows: what they refuse, what they derive, how they read as JSON."""

import copy
import inspect
import json
import pickle
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hypergraph import PauseInfo
from hypergraph.checkpointers import (
    Checkpoint,
    CheckpointPolicy,
    StepRecord,
    StepStatus,
    Workflow,
    WorkflowList,
    WorkflowStatus,
)
from hypergraph.checkpointers.records import Parts, Payload

LATER = datetime(2026, 5, 2, 10, 15, tzinfo=timezone(timedelta(hours=2)))


def a_step(**fields: object) -> StepRecord:
    given = {"workflow_id": "w", "superstep": 0, "node_name": "embed", "index": 0}
    return StepRecord(**{**given, "status": StepStatus.COMPLETED, "input_versions": {}, **fields})


# --- policy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize(("retention", "window"), [("full", None), ("latest", None), ("windowed", 3)])
def test_every_durability_goes_with_every_retention(
    durability: str, retention: str, window: int | None
) -> None:
    policy = CheckpointPolicy(durability, retention, window)
    assert (policy.durability, policy.retention, policy.window) == (durability, retention, window)


def test_a_policy_writes_every_step_at_once_and_keeps_it_by_default() -> None:
    assert CheckpointPolicy() == CheckpointPolicy(
        durability="sync", retention="full", window=None, ttl=None, granularity="step"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"durability": "asink"}, "Unknown durability 'asink'.*Did you mean 'async'"),
        ({"retention": "some"}, "Unknown retention 'some'"),
        ({"granularity": "every-task"}, "Unknown granularity 'every-task'"),
        ({"durability": None}, "Unknown durability None"),
        ({"retention": ["full"]}, "Unknown retention"),
        ({"retention": "windowed"}, "requires window parameter"),
        ({"window": 3}, "window parameter only valid"),
        ({"retention": "latest", "window": 3}, "window parameter only valid"),
        ({"retention": "windowed", "window": 0}, "positive int"),
        ({"retention": "windowed", "window": -1}, "positive int"),
        ({"retention": "windowed", "window": True}, "positive int"),
        ({"retention": "windowed", "window": 2.0}, "positive int"),
        ({"ttl": 0}, "ttl must be a positive"),
        ({"ttl": timedelta(0)}, "ttl must be a positive"),
        ({"ttl": float("nan")}, "ttl must be a positive"),
        ({"ttl": True}, "ttl must be a positive"),
        ({"ttl": "1d"}, "ttl must be a positive"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckpointPolicy(**given)


def test_time_to_live_is_a_timedelta_or_seconds() -> None:
    assert CheckpointPolicy(ttl=timedelta(minutes=2)).ttl_seconds == 120
    assert CheckpointPolicy(ttl=1.5).ttl_seconds == 1.5
    assert CheckpointPolicy().ttl_seconds is None


# --- steps --------------------------------------------------------------------------------------


def test_statuses_have_lower_case_values() -> None:
    assert [status.value for status in StepStatus] == ["completed", "failed", "paused", "stopped"]
    assert [status.value for status in WorkflowStatus] == [
        *("active", "completed", "failed", "paused", "stopped", "partial"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"workflow_id": ""},
        {"node_name": ""},
        {"superstep": -1},
        {"index": -1},
        {"attempt": 0},
        {"visit": 0},
        {"status": "done"},
        {"status": WorkflowStatus.COMPLETED},
    ],
)
def test_an_impossible_step_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"step|StepStatus"):
        a_step(**wrong)


def test_a_status_may_be_given_by_its_value() -> None:
    assert a_step(status="failed").status is StepStatus.FAILED
    assert Workflow("w", "active").status is WorkflowStatus.ACTIVE


def test_times_are_kept_in_utc() -> None:
    step = a_step(created_at=LATER, completed_at=LATER)
    assert step.created_at.tzinfo is UTC
    assert step.created_at == step.completed_at == LATER


def test_a_naive_time_is_local_time() -> None:
    naive = LATER.astimezone().replace(tzinfo=None)
    assert a_step(created_at=naive).created_at == LATER
    assert Workflow("w", "active", created_at=naive).created_at == LATER


def test_a_step_is_stamped_with_the_current_time() -> None:
    before = datetime.now(UTC)
    assert before <= a_step().created_at <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("fields", "durable"),
    [
        ({}, True),
        ({"status": StepStatus.FAILED}, False),
        ({"status": StepStatus.PAUSED}, False),
        ({"lost": {"docs": "not serialisable"}}, False),
    ],
)
def test_a_step_is_durable_if_it_completed_and_lost_no_value(
    fields: dict[str, object], durable: bool
) -> None:
    assert a_step(**fields).durable is durable


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (a_step(), "status"),
        (Workflow("w", "active"), "status"),
        (Checkpoint({}, []), "values"),
        (CheckpointPolicy(), "window"),
    ],
)
def test_records_are_frozen(record: object, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(record, field, None)


def test_a_step_reads_as_json_whatever_it_holds() -> None:
    step = a_step(
        values={"x": object, "nan": float("nan"), 3: {1, 2}, "bad": "\ud800"},
        pause=PauseInfo("ask", "answer", value={"q": 1}, path=("inner",)),
        decision=["a", "b"],
        completed_at=LATER,
        attempt_errors=["ValueError: no"],
    )
    read = json.loads(json.dumps(step.to_dict(), allow_nan=False))
    assert read["status"] == "completed"
    assert read["values"]["nan"] == "nan"
    assert read["pause"]["response_key"] == "inner.answer"
    assert read["decision"] == ["a", "b"]
    assert read["completed_at"] == "2026-05-02T08:15:00+00:00"
    assert read["attempt_errors"] == ["ValueError: no"]
    assert list(read) == list(StepRecord.__slots__)


def test_a_step_survives_pickling_and_copying() -> None:
    step = a_step(values={"x": 1}, pause=PauseInfo("ask", "answer"))
    assert pickle.loads(pickle.dumps(step)) == copy.deepcopy(step) == step
    assert replace(step, index=7) == a_step(
        index=7, values={"x": 1}, pause=step.pause, created_at=step.created_at
    )


def test_a_step_is_called_like_any_dataclass() -> None:
    assert list(inspect.signature(StepRecord).parameters) == [field.name for field in fields(StepRecord)]
    with pytest.raises(TypeError, match="missing 4 required positional arguments: 'node_name'"):
        StepRecord("w", 0)
    with pytest.raises(TypeError, match="colour"):
        a_step(colour="red")


# --- workflows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("workflow_id", "status"), [("", "active"), ("w", "done")])
def test_an_impossible_workflow_is_refused(workflow_id: str, status: str) -> None:
    with pytest.raises(ValueError, match=r"needs an id|WorkflowStatus"):
        Workflow(workflow_id, status)


def test_steps_and_graph_of_a_workflow_are_read_on_demand() -> None:
    asked: list[str] = []
    workflow = Workflow(
        "w",
        "active",
        load_steps=lambda upto: asked.append("steps") or [a_step()],
        load_graph=lambda: asked.append("graph") or {"nodes": []},
    )
    assert asked == []
    assert [step.node_name for step in workflow.steps] == ["embed"]
    assert workflow.graph == {"nodes": []}
    assert asked == ["steps", "graph"]


def test_a_workflow_without_a_store_has_neither_steps_nor_graph() -> None:
    assert Workflow("w", "active").steps == []
    assert Workflow("w", "active").graph is None


def test_how_steps_are_read_does_not_tell_workflows_apart() -> None:
    assert Workflow("w", "active", created_at=LATER, load_steps=list) == Workflow(
        "w", "active", created_at=LATER
    )


def test_a_workflow_reads_as_json_without_reading_its_store() -> None:
    workflow = Workflow("w", "failed", created_at=LATER, tags={"team": "a"}, load_steps=lambda upto: 1 / 0)
    read = json.loads(json.dumps(workflow.to_dict()))
    assert read["status"] == "failed"
    assert read["tags"] == {"team": "a"}
    assert read["created_at"] == "2026-05-02T08:15:00+00:00"
    assert not {"load_steps", "load_graph", "steps", "graph"} & set(read)


def test_what_was_added_to_a_list_reads_like_one_payload_after_the_other() -> None:
    each = [Payload("said", at + 1, "json/1&0", 7, b"[1]", at, at, 0) for at in range(3)]
    parts = Parts("said", [cell for payload in each for cell in payload[1:8]])
    assert [*parts] == each
    assert (len(parts), parts[-1], parts[1:], parts == tuple(each)) == (3, each[-1], tuple(each[1:]), True)
    assert parts.data == [b"[1]"] * 3
    assert hash(parts) == hash(tuple(each))
    assert not Parts("said", [])


def test_a_list_of_workflows_knows_what_it_leaves_out() -> None:
    page = WorkflowList([Workflow("w", "active")], total=7, next_cursor="abc")
    assert (len(page), page.total, page.next_cursor) == (1, 7, "abc")
    assert WorkflowList(page).total == 1
    assert page.to_dict() == {"total": 7, "next_cursor": "abc", "workflows": [page[0].to_dict()]}


def test_a_checkpoint_says_nothing_about_what_comes_next_by_itself() -> None:
    assert Checkpoint({"x": 1}, []).next == ()
