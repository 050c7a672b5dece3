"""Events are frozen facts with neutral defaults; processors get each kind through its own method."""

import asyncio
import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import get_args

import pytest

from hypergraph import events
from hypergraph.events import types
from hypergraph.events.processor import AsyncEventProcessor, EventProcessor, TypedEventProcessor
from hypergraph.records import RunStatus

NODE = {"node_name": "", "graph_name": ""}
DEFAULTS = {
    types.RunStartEvent: {"graph_name": "", "workflow_id": None, "is_map": False, "map_size": None},
    types.RunEndEvent: {"graph_name": "", "status": RunStatus.COMPLETED, "error": None, "duration_ms": 0.0},
    types.SuperstepStartEvent: {"graph_name": "", "superstep": 0},
    types.NodeStartEvent: {**NODE, "replayed": False, "inputs": None},
    types.NodeEndEvent: {
        **NODE,
        "duration_ms": 0.0,
        "cached": False,
        "inner_logs": (),
        "replayed": False,
        "outputs": None,
        "steps": (),
        "usage": None,
    },
    types.NodeErrorEvent: {**NODE, "error": "", "error_type": "", "steps": (), "usage": None},
    types.NodeRetryEvent: {**NODE, "attempt": 1, "error": "", "error_type": "", "delay_s": 0.0},
    types.CacheHitEvent: {**NODE, "cache_key": ""},
    types.RouteDecisionEvent: {**NODE, "decision": None},
    types.InterruptEvent: {**NODE, "workflow_id": None, "value": None, "response_param": ""},
    types.StopRequestedEvent: {"workflow_id": None, "info": None},
    types.StreamingChunkEvent: {**NODE, "chunk": None, "chunk_index": 0},
    types.NodeProgressEvent: {**NODE, "done": 0.0, "total": None, "text": ""},
    types.CheckpointSavedEvent: {"workflow_id": None, "superstep": 0, "steps": ()},
}
HANDLERS = {
    types.RunStartEvent: "on_run_start",
    types.RunEndEvent: "on_run_end",
    types.SuperstepStartEvent: "on_superstep_start",
    types.NodeStartEvent: "on_node_start",
    types.NodeEndEvent: "on_node_end",
    types.NodeErrorEvent: "on_node_error",
    types.NodeRetryEvent: "on_node_retry",
    types.CacheHitEvent: "on_cache_hit",
    types.RouteDecisionEvent: "on_route_decision",
    types.InterruptEvent: "on_interrupt",
    types.StopRequestedEvent: "on_stop_requested",
    types.StreamingChunkEvent: "on_streaming_chunk",
    types.NodeProgressEvent: "on_node_progress",
    types.CheckpointSavedEvent: "on_checkpoint_saved",
}
every_event = pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)


def test_event_is_the_union_of_all_event_classes():
    assert set(get_args(types.Event)) == set(DEFAULTS)
    assert isinstance(types.NodeEndEvent(run_id="r"), types.Event)


@every_event
def test_fields_beyond_the_base_have_these_names_and_defaults(kind):
    base = {f.name for f in dataclasses.fields(types.BaseEvent)}
    event = kind(run_id="r")
    found = {f.name: getattr(event, f.name) for f in dataclasses.fields(kind) if f.name not in base}
    assert found == DEFAULTS[kind]


@every_event
def test_base_fields_fill_themselves(kind):
    event, other = kind(run_id="r"), kind(run_id="r")
    assert (event.run_id, event.parent_span_id) == ("r", None)
    assert isinstance(event.timestamp, float)
    assert event.span_id != other.span_id
    given = kind(run_id="r", span_id="s", parent_span_id="p", timestamp=1.5)
    assert (given.span_id, given.parent_span_id, given.timestamp) == ("s", "p", 1.5)


@every_event
def test_events_are_frozen_slotted_and_built_by_keyword(kind):
    event = kind(run_id="r")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.run_id = "other"
    assert not hasattr(event, "__dict__")
    with pytest.raises(TypeError):
        kind("r")
    with pytest.raises(TypeError):
        kind()


@every_event
def test_events_survive_pickling_and_copying(kind):
    event = kind(run_id="r")
    assert pickle.loads(pickle.dumps(event)) == event == copy.deepcopy(event)


@pytest.mark.parametrize("kind", [k for k, d in DEFAULTS.items() if "graph_name" in d])
def test_the_graph_name_of_an_unnamed_graph_is_empty_text(kind):
    assert kind(run_id="r", graph_name=None).graph_name == ""
    assert kind(run_id="r", graph_name="g").graph_name == "g"


@pytest.mark.parametrize("status", RunStatus)
def test_run_end_coerces_text_to_a_status(status):
    assert types.RunEndEvent(run_id="r", status=status.value).status is status
    assert types.RunEndEvent(run_id="r", status=status).status is status


def test_run_end_refuses_an_unknown_status():
    with pytest.raises(ValueError, match="exploded"):
        types.RunEndEvent(run_id="r", status="exploded")


def test_span_ids_are_sixteen_hex_characters_and_distinct():
    ids = {types.fresh_span_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(i) == 16 and set(i) <= set("0123456789abcdef") for i in ids)


def test_there_is_one_run_status():
    assert events.RunStatus is types.RunStatus is RunStatus


def test_the_package_exports_events_processors_and_dispatcher():
    names = {kind.__name__ for kind in DEFAULTS} | {"BaseEvent", "Event", "RunStatus", "EventDispatcher"}
    assert set(events.__all__) == names | {"EventProcessor", "AsyncEventProcessor", "TypedEventProcessor"}
    assert all(hasattr(events, name) for name in events.__all__)


def test_importing_events_does_not_load_rich():
    code = "import sys, hypergraph.events.rich_progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@every_event
def test_a_plain_processor_does_nothing_by_default(kind):
    processor = EventProcessor()
    assert processor.on_event(kind(run_id="r")) is None
    assert processor.shutdown() is None


def test_an_async_processor_falls_back_to_its_plain_methods():
    class Plain(AsyncEventProcessor):
        seen = ()

        def on_event(self, event):
            self.seen += (event,)

        def shutdown(self):
            self.seen += ("shutdown",)

    async def scenario():
        await processor.on_event_async(event)
        await processor.shutdown_async()

    processor, event = Plain(), types.RunStartEvent(run_id="r")
    asyncio.run(scenario())
    assert processor.seen == (event, "shutdown")


@every_event
def test_a_typed_processor_calls_exactly_the_handler_of_the_kind(kind):
    def handler(name):
        return lambda self, event: calls.append((name, event))

    calls = []
    spy = type("Spy", (TypedEventProcessor,), {name: handler(name) for name in HANDLERS.values()})
    event = kind(run_id="r")
    spy().on_event(event)
    assert calls == [(HANDLERS[kind], event)]


@every_event
def test_a_typed_processor_without_a_handler_ignores_the_event(kind):
    assert TypedEventProcessor().on_event(kind(run_id="r")) is None


def test_a_typed_processor_ignores_kinds_it_does_not_know():
    TypedEventProcessor().on_event(types.BaseEvent(run_id="r"))
