"""Calls and outcomes as JSON text in the tables of DBOS, and the address of its database."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.engine import URL

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Undecodable
from hypergraph.checkpointers.records import Payload
from hypergraph.durability.code_changes import with_types_of

try:
    import dbos
    import psycopg
except ImportError as error:
    raise ImportError("DBOSRunner needs DBOS. Install it: pip install 'hypergraph[dbos]'") from error


__all__ = ["dbos", "named", "psycopg", "url_of"]

# A line that was cut is noticed by who waits for an answer; what the user says goes first.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def named(dsn: str, name: str) -> str:
    """Return the address of a database for sessions of that name.

    Raises:
        ValueError: it is no address of a Postgres database.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:  # its text repeats the address, with the password
        raise ValueError(
            'the address is none of a Postgres database; write "postgresql://user@host/database"'
        ) from None
    return make_conninfo("", **{**_DEFAULTS, **given, "application_name": name})


def url_of(conninfo: str) -> str:
    """Return an address as the URL that DBOS takes."""
    parts: dict[str, Any] = dict(conninfo_to_dict(conninfo))
    user, password, database = (parts.pop(name, None) for name in ("user", "password", "dbname"))
    query = {name: str(value) for name, value in parts.items() if name != "application_name"}
    url = URL.create("postgresql", username=user, password=password or None, database=database, query=query)
    return url.render_as_string(hide_password=False)


RUN, MAP, SCHEDULED = "hypergraph.run", "hypergraph.map", "hypergraph.scheduled"
NAMES = [RUN, MAP, SCHEDULED]
IN_FLIGHT = ("ENQUEUED", "PENDING", "DELAYED")
_TRAVELLING = frozenset((
    *("select", "on_missing", "on_internal_override", "entrypoint", "max_iterations", "max_concurrency"),
    *("timeout", "fork_from", "code_change", "new_turn", "force"),
))  # fmt: skip

Packed = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a graph: by its name, under an id, with values and options."""

    graph: str
    workflow_id: str
    values: Packed = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: str = ""  # of its items, if it is a map
    map_over: Sequence[str] = ()
    map_mode: str = "zip"
    attempt: int = 1
    steps: int = 0  # that the workflow had when it was submitted
    sealed: str = ""  # the id that the values were encoded for, if it is another

    def text(self) -> str:
        """Return the call as text."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def of(cls, text: str) -> Call:
        """Return the call that a text says."""
        return cls(**json.loads(text))


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run if they can travel.

    Raises:
        TypeError: one of them cannot.
    """
    unknown = sorted(set(options) - _TRAVELLING)
    if unknown:
        raise TypeError(
            f"{', '.join(unknown)} cannot be given to a run elsewhere; inputs go into `values`, and these "
            f"options travel: {', '.join(sorted(_TRAVELLING))}"
        )
    json.dumps(dict(options))  # raises TypeError for what is no JSON
    return dict(options)


def name_of(graph: Graph | str) -> str:
    """Return the name by which workers know a graph.

    Raises:
        ValueError: it has none.
    """
    name = graph if isinstance(graph, str) else graph.name
    if not name:
        raise ValueError("Workers know graphs by name; give this one a name: Graph([...], name=...)")
    return name


def known_graphs(graphs: Graph | Mapping[str, Graph] | Iterable[Graph]) -> dict[str, Graph]:
    """Return graphs by the names under which they are submitted.

    Raises:
        TypeError: something among them is no graph.
        ValueError: one has no name, or two have the same.
    """
    if isinstance(graphs, Mapping):
        named = [(str(name), graph) for name, graph in graphs.items()]
    else:
        listed = [graphs] if isinstance(graphs, Graph) else list(graphs)
        named = [(name_of(graph) if isinstance(graph, Graph) else "", graph) for graph in listed]
    for _, graph in named:
        if not isinstance(graph, Graph):
            raise TypeError(f"A worker runs graphs, got {type(graph).__name__}")
    found = dict(named)
    if len(found) < len(named):
        raise ValueError("Two graphs have the same name; give a dict of graphs by other names")
    return found


def packed(store: Checkpointer, workflow_id: str, values: Mapping[str, Any]) -> Packed:
    """Return values as they travel.

    Raises:
        TypeError: one of them cannot be stored, and so cannot travel.
    """
    if not values:
        return {}
    record = StepRecord(workflow_id, 0, "call", 0, StepStatus.COMPLETED, {}, values=dict(values))
    step = store.encoding.encode(record, artifact=False)
    for payload in step.payloads:
        if payload.data is None:
            raise TypeError(
                f"{payload.name!r} cannot be stored, so no worker can get it: {payload.format[1:]}"
            )
    return {
        payload.name: (payload.version, payload.format, payload.checksum, b64encode(payload.data).decode())
        for payload in step.payloads
        if payload.data is not None
    }


def unpacked(store: Checkpointer, graph: Graph | None, call: Call) -> dict[str, Any]:
    """Return the values that travelled, of the classes that the graph's annotations name.

    Raises:
        TypeError: this store cannot read one of them.
    """
    reader, owner = typed(store, graph), call.sealed or call.workflow_id
    found = {
        name: reader.encoding.value(owner, Payload(name, version, form, checksum, b64decode(data)))
        for name, (version, form, checksum, data) in call.values.items()
    }
    for name, value in found.items():
        if isinstance(value, Undecodable):
            raise TypeError(f"{name!r} cannot be read here: {value.reason}")
    return found


def typed(store: Checkpointer, graph: Graph | None) -> Checkpointer:
    """Return the store as one that gives back the classes which a graph's annotations name."""
    return store if graph is None else store.with_serializer(with_types_of(store.serializer, graph))


def attempt_id(workflow_id: str, attempt: int) -> str:
    """Return the id that DBOS has for the n-th call of a workflow."""
    return workflow_id if attempt == 1 else f"{workflow_id}/{attempt}"


def item_id(workflow_id: str, item: int) -> str:
    """Return the id of an item of a map."""
    return f"{workflow_id}/item-{item}"


def maps_of(queue: str) -> str:
    """Return the queue of the maps whose items go to that queue: they wait, and must not take its places."""
    return f"{queue} maps"
