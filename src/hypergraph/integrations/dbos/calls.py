"""Calls of graphs as JSON text in the tables of DBOS, with values encoded by the store."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Undecodable
from hypergraph.checkpointers.records import Payload
from hypergraph.checkpointers.view import view_of

RUN, MAP, SCHEDULED = "hypergraph.run", "hypergraph.map", "hypergraph.scheduled"
GROUP = "hypergraph_group"  # unlike the others: what lists "hypergraph.%" shows the items of a group instead
NAMES = [RUN, MAP, SCHEDULED, GROUP]  # of our workflows in DBOS
IN_FLIGHT = ("ENQUEUED", "PENDING", "DELAYED")  # statuses of DBOS
_OPTIONS = frozenset((
    *("select", "on_missing", "on_internal_override", "entrypoint", "max_iterations", "max_concurrency"),
    *("timeout", "fork_from", "code_change", "new_turn", "force", "budget", "restart"),
))  # fmt: skip

EncodedValues = Mapping[str, Sequence[Any]]  # name -> version, format, checksum, base64


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a graph: its name, a workflow id, values and options."""

    graph: str
    workflow_id: str
    values: EncodedValues = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: str = ""  # of the items, if the call is a map
    map_over: Sequence[str] = ()
    map_mode: str = "zip"
    attempt: int = 1
    steps: int = 0  # stored steps of the workflow when the call was submitted
    sealed: str = ""  # the workflow id the values were encoded for, if it is another one
    not_before: float = 0  # when the run may start, in seconds since 1970 by the clock of the database
    retries: int = 0  # how often a failed run is run again
    retry_delay: float = 1.0  # seconds before the first retry, doubled for each further one
    version: str = ""  # of the submitted graph, if it has one
    inside: Sequence[str] = ()  # the nodes that lead to the nested graph that is called, if it is one
    parent: str = ""  # the DBOS id of the call that waits for this one
    restart: str = ""  # where failed items of a map begin, if it is one: at the "node", or as a new "item"

    def is_repeated_by(self, other: Call) -> bool:
        """Return whether another call asks for the same; values are compared elsewhere."""
        plain: dict[str, Any] = {"values": {}, "steps": 0, "not_before": 0}
        return replace(self, **plain) == replace(other, **plain)

    def to_json(self) -> str:
        """Return the call as text."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Call:
        """Return the call of a text."""
        return cls(**json.loads(text))


def attempt_id(workflow_id: str, attempt: int) -> str:
    """Return the DBOS id of the n-th call of a workflow."""
    return workflow_id if attempt == 1 else f"{workflow_id}/{attempt}"


def item_id(workflow_id: str, item: int) -> str:
    """Return the workflow id of an item of a map."""
    return f"{workflow_id}/item-{item}"


def graph_name(graph: Graph | str) -> str:
    """Return the name under which workers find a graph.

    Raises:
        ValueError: the graph has no name.
    """
    name = graph if isinstance(graph, str) else graph.name
    if not name:
        raise ValueError("A submitted graph needs a name: Graph([...], name=...)")
    return name


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run.

    Raises:
        TypeError: a worker cannot get one of them.
        ValueError: one has a wrong value.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(
            f"Unsupported options of a submitted run: {', '.join(unknown)}. Inputs go into `values`; the "
            f"supported options are {', '.join(sorted(_OPTIONS))}."
        )
    if options.get("restart") not in (None, "node", "item"):
        raise ValueError(f'Invalid restart: {options["restart"]!r}. Use "node" or "item".')
    json.dumps(dict(options))  # raises TypeError for a value that is not JSON
    return dict(options)


def encode_values(store: Checkpointer, workflow_id: str, values: Mapping[str, Any]) -> EncodedValues:
    """Return values as text, encoded as the store encodes the outputs of a step.

    Raises:
        TypeError: the store cannot encode one of them.
    """
    if not values:
        return {}
    record = StepRecord(workflow_id, 0, "call", 0, StepStatus.COMPLETED, {}, values=dict(values))
    step = store.encoding.encode(record, artifact=False)
    for payload in step.payloads:
        if payload.data is None:
            raise TypeError(
                f"{payload.name!r} cannot be stored, so it cannot be sent to a worker: {payload.format[1:]}"
            )
    return {
        payload.name: (payload.version, payload.format, payload.checksum, b64encode(payload.data).decode())
        for payload in step.payloads
        if payload.data is not None
    }


def decode_values(store: Checkpointer, graph: Graph | None, call: Call) -> dict[str, Any]:
    """Return the values of a call, as the classes that the annotations of the graph name.

    Raises:
        TypeError: the store cannot decode one of them.
    """
    reader, owner = typed_store(store, graph), call.sealed or call.workflow_id
    found = {
        name: reader.encoding.value(owner, Payload(name, version, form, checksum, b64decode(data)))
        for name, (version, form, checksum, data) in call.values.items()
    }
    for name, value in found.items():
        if isinstance(value, Undecodable):
            raise TypeError(f"{name!r} cannot be decoded: {value.reason}")
    return found


def typed_store(store: Checkpointer, graph: Graph | None) -> Checkpointer:
    """Return the store, set to decode values as the classes that the annotations of a graph name."""
    return store if graph is None else view_of(store, graph=graph)
