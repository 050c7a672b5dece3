"""Event classes.

Every event names its run, its own span and its parent span. The events that open and close a run or a node
have the same `span_id`, so a tree of runs can be rebuilt from ids. Timestamps are wall clock; durations are
measured by the engine. Some events carry values (`value`, `chunk`, `info`; `inputs` and `outputs` for
processors that ask for them): displays and exports must leave them out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from os import urandom
from typing import Any

from hypergraph.records import InnerStep, RunStatus

__all__ = [
    "BaseEvent",
    "CacheHitEvent",
    "CheckpointSavedEvent",
    "Event",
    "InterruptEvent",
    "NodeEndEvent",
    "NodeErrorEvent",
    "NodeProgressEvent",
    "NodeRetryEvent",
    "NodeStartEvent",
    "RouteDecisionEvent",
    "RunEndEvent",
    "RunStartEvent",
    "RunStatus",
    "StopRequestedEvent",
    "StreamingChunkEvent",
    "SuperstepStartEvent",
    "fresh_span_id",
]


def fresh_span_id() -> str:
    """Return 16 random hex characters, distinct across threads and forked processes."""
    return urandom(8).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """The fields every event has."""

    run_id: str  # of the run it is about
    span_id: str = field(default_factory=fresh_span_id)  # of the run or node
    parent_span_id: str | None = None  # of the run or node around it
    timestamp: float = field(default_factory=time.time)  # seconds since 1970, wall clock
    item_index: int | None = None  # of the innermost map item that it belongs to, from 0
    path: tuple[str, ...] = ()  # the nested graphs and items around the run, as in ("each", "item-3")


@dataclass(frozen=True, slots=True, kw_only=True)
class _GraphEvent(BaseEvent):
    """An event inside a graph. The name is always text: an unnamed graph (None) becomes ""."""

    graph_name: str = ""  # "" for a graph without name

    def __post_init__(self) -> None:
        if self.graph_name is None:
            object.__setattr__(self, "graph_name", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeEvent(_GraphEvent):
    """An event of one node."""

    node_name: str = ""  # which node


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStartEvent(_GraphEvent):
    """A run starts. A map is a run of its own (`is_map`) and the parent of the runs of its items."""

    workflow_id: str | None = None  # of the stored run, if there is one
    is_map: bool = False  # whether it is a map
    map_size: int | None = None  # how many items, if it is one


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEndEvent(_GraphEvent):
    """A run ended, with any status. Raises ValueError for an unknown status."""

    status: RunStatus = RunStatus.COMPLETED  # how it ended
    error: str | None = None  # the message, if it failed
    duration_ms: float = 0.0  # how long it took

    def __post_init__(self) -> None:
        # slots=True rebuilds the class, which breaks a bare super() here.
        _GraphEvent.__post_init__(self)
        object.__setattr__(self, "status", RunStatus(self.status))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepStartEvent(_GraphEvent):
    """The ready nodes of one superstep are about to run."""

    superstep: int = 0  # its number, from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStartEvent(_NodeEvent):
    """A node starts, or is restored from history (`replayed`)."""

    replayed: bool = False  # whether it is only restored from history
    inputs: dict[str, Any] | None = None  # what it takes; None for processors without `values`


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndEvent(_NodeEvent):
    """A node has its outputs: computed, from the cache (`cached`) or from history (`replayed`)."""

    duration_ms: float = 0.0  # how long it took
    cached: bool = False  # whether the outputs came from the cache
    inner_logs: tuple[Any, ...] = ()  # of the runs inside a GraphNode
    replayed: bool = False  # whether it was only restored from history
    steps: tuple[InnerStep, ...] = ()  # what its function did with `ctx.step`, without values
    usage: dict[str, float] | None = None  # what it recorded with `ctx.record`
    outputs: dict[str, Any] | None = None  # what it made; None for processors without `values`


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeErrorEvent(_NodeEvent):
    """A node failed, after its last attempt."""

    error: str = ""  # the message
    error_type: str = ""  # the class, with its module
    steps: tuple[InnerStep, ...] = ()  # what its function did with `ctx.step`, without values
    usage: dict[str, float] | None = None  # what it recorded with `ctx.record`


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetryEvent(_NodeEvent):
    """An attempt failed and another one follows after `delay_s` seconds."""

    attempt: int = 1  # the number of the one that failed
    error: str = ""  # its message
    error_type: str = ""  # its class, with the module
    delay_s: float = 0.0  # seconds until the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHitEvent(_NodeEvent):
    """A node's outputs were found in the cache."""

    cache_key: str = ""  # under which they were found


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecisionEvent(_NodeEvent):
    """A gate made a decision."""

    decision: str | list[str] | None = None  # the targets; END is written "END"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptEvent(_NodeEvent):
    """A node waits for an answer under `response_param`; closes the node's span."""

    workflow_id: str | None = None  # of the stored run, if there is one
    value: Any = None  # what is asked about
    response_param: str = ""  # the output that the answer is for


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequestedEvent(BaseEvent):
    """The run was asked to stop."""

    workflow_id: str | None = None  # of the stored run, if there is one
    info: Any = None  # the `info` of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingChunkEvent(_NodeEvent):
    """A node published a piece of its result while still running."""

    chunk: Any = None  # the piece
    chunk_index: int = 0  # its number in this execution, from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgressEvent(_NodeEvent):
    """A node said how far it is, by `NodeContext.progress`."""

    done: float = 0.0  # of `total`
    total: float | None = None  # None if that is not known
    text: str = ""  # what it is at


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSavedEvent(BaseEvent):
    """The steps with these indexes became durable."""

    workflow_id: str | None = None  # of the stored run
    superstep: int = 0  # the superstep of the steps
    steps: tuple[int, ...] = ()  # their indexes


Event = (
    RunStartEvent
    | RunEndEvent
    | SuperstepStartEvent
    | NodeStartEvent
    | NodeEndEvent
    | NodeErrorEvent
    | NodeRetryEvent
    | CacheHitEvent
    | RouteDecisionEvent
    | InterruptEvent
    | StopRequestedEvent
    | StreamingChunkEvent
    | NodeProgressEvent
    | CheckpointSavedEvent
)
