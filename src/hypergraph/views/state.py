"""Values of a workflow after a superstep: a list of them with the steps that made them, or one in full."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from hypergraph import checkpointers  # the course of a graph is loaded on first access
from hypergraph.checkpointers import Checkpointer, StepStatus, Workflow, WorkflowStatus
from hypergraph.checkpointers.backend import StepTally
from hypergraph.checkpointers.history import Addition, History, additions
from hypergraph.checkpointers.overview import outdated_in
from hypergraph.checkpointers.records import Payload
from hypergraph.display import jsonable
from hypergraph.views.lookup import last_superstep, map_hint, map_size, require_workflow
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.values import (
    CHARACTERS,
    ITEMS,
    Makers,
    StoredValue,
    ValueView,
    describe,
    is_list,
    name_makers,
    part_at,
    stored_value,
)

_LONG = 20_000  # steps; to find the next nodes takes all of them
_CLOSE = 5  # names that an error suggests


class StateView(TypedDict):
    """The values that a workflow had after a superstep, inputs included."""

    schema: str  # hypergraph.state/1
    workflow: str
    at: int | None  # the superstep asked for; null for the last
    last: int | None  # the last superstep
    map_size: int | None  # the items of a map, which have the values; null for a run
    items: list[StoredValue]
    outdated: list[str]  # nested runs in which something ran by itself since: resume makes the values again
    next: list[str] | None  # nodes that ran or would run next; null if the history is too long to find out


class SavedValue(TypedDict):
    """A value written to a file."""

    schema: str  # hypergraph.saved-value/1
    file: str
    bytes: int


def state(store: Checkpointer, wf: str, *, at: int | None = None, values: bool = True) -> StateView:
    """List the values of a workflow after a superstep, by default the last; `values=False` decodes none.

    Raises:
        Problem: the workflow or the superstep does not exist.
    """
    found, last = require_workflow(store, wf), last_superstep(store, wf, at)
    makers, turns = Makers(store, wf), checkpointers.Turns(store, found)
    items = []
    for payload in state_payloads(store, wf, at).values():
        maker = makers.of(payload)
        left = maker is not None and turns.have_left(payload, maker["node"], at)
        items.append(stored_value(store, wf, payload, maker, earlier_turn=left, decode=values))
    return {
        "schema": "hypergraph.state/1",
        "workflow": jsonable(wf),
        "at": at,
        "last": last,
        "map_size": None if found.step_count else map_size(store, wf),
        "items": items,
        "outdated": [jsonable(run) for run in outdated_in(store, found)] if at is None else [],
        "next": upcoming(store, found, at),
    }


def value(
    store: Checkpointer,
    wf: str,
    key: str,
    *,
    at: int | None = None,
    path: str = "",
    offset: int = 0,
    limit: int | None = ITEMS,
    characters: int | None = CHARACTERS,
    parts: int | None = ITEMS,
) -> ValueView:
    """Return one value of the state, or a part of it; see `values.describe`.

    Items of an appended list come with the steps that added them. Of a map it is the list of the values of
    its items, in their order; null where an item has no such value, or only one made from earlier inputs.

    Raises:
        Problem: the workflow, superstep, value or part does not exist; close names are listed.
    """
    payload = _payload(store, wf, key, at)
    found = payload if isinstance(payload, list) else store.encoding.value(wf, payload)
    view = describe(found, path=path, offset=offset, limit=limit, characters=characters, parts=parts)
    if not isinstance(payload, list) and payload.is_added and not path and is_list(found):
        name_makers(view, additions(store, wf, key, at))
    return view


def conversations(store: Checkpointer, wf: str, *, limit: int) -> dict[str, ValueView]:
    """Return the last items of each appended list, by name."""
    found = {}
    for name, payload in state_payloads(store, wf, None).items():
        if payload.base is not None and payload.is_added:
            whole = part_at(store.encoding.value(wf, payload), "")
            size = len(whole) if isinstance(whole, list) else 0
            if size:
                found[name] = value(store, wf, name, offset=max(0, size - limit), limit=limit)
    return found


def state_additions(store: Checkpointer, wf: str, key: str, *, at: int | None = None) -> list[Addition]:
    """Return the items of an appended list with the steps that added them; [] for other values."""
    payload = _payload(store, wf, key, at)
    return additions(store, wf, key, at) if not isinstance(payload, list) and payload.is_added else []


def raw_value(store: Checkpointer, wf: str, key: str, *, at: int | None = None) -> Any:
    """Return one value of the state itself, from an artifact if it is in one; raises what `value` does."""
    payload = _payload(store, wf, key, at)
    return payload if isinstance(payload, list) else store.encoding.value(wf, payload)


def _payload(store: Checkpointer, wf: str, key: str, at: int | None) -> Payload | list[Any]:
    """Return a stored value; of a map, the values of its items."""
    found = require_workflow(store, wf)
    payloads = state_payloads(store, wf, at)
    if found.step_count == 0 and at is None and (column := _column(store, wf, key)):
        return column
    if key not in payloads:
        last_superstep(store, wf, at)
        if hint := map_hint(store, wf, "state"):
            raise Problem(NOT_FOUND, f"No item of {wf!r} has a value {key!r}", hint)
        raise _unknown(key, payloads, wf, at)
    return payloads[key]


def _column(store: Checkpointer, wf: str, key: str) -> list[Any]:
    """Return one value of every item of a map; empty if no item has it."""
    found = [
        (item.id, state_payloads(store, item.id, None).get(key)) for item in store.backend.read_items(wf)
    ]
    if not any(payload is not None for _, payload in found):
        return []
    current = [
        (item, checkpointers.Turns.without_left(store, item, [payload] if payload is not None else []))
        for item, payload in found
    ]
    return [store.encoding.value(item, payloads[0]) if payloads else None for item, payloads in current]


def state_payloads(store: Checkpointer, wf: str, at: int | None) -> Mapping[str, Payload]:
    """Return the newest payload of each name: inputs first, then outputs in the order they were made."""
    made = sorted(
        store.backend.read_outputs(wf, upto=at), key=lambda payload: (payload.superstep, payload.idx)
    )
    found = {payload.name: payload for payload in store.backend.read_inputs(wf, upto=at)}
    for payload in made:
        # A later turn may give an input that a step made before: the higher version is the newer value.
        if payload.name not in found or found[payload.name].version <= payload.version:
            found.pop(payload.name, None)
            found[payload.name] = payload
    return found


def upcoming(store: Checkpointer, workflow: Workflow, at: int | None = None) -> list[str] | None:
    """Return the nodes that ran or would run next, None if the history is too long to find out."""
    following = store.backend.read_following(workflow.id, at) if at is not None else []
    if following or workflow.status in (WorkflowStatus.COMPLETED, WorkflowStatus.PARTIAL):
        return [jsonable(name) for name in following]
    if workflow.status is WorkflowStatus.PAUSED:
        return [jsonable(name) for name in _left_paused(store.backend.tally_steps(workflow.id))]
    if workflow.step_count > _LONG:
        return None
    return [jsonable(name) for name in History(store, workflow.id, at).next()]


def _left_paused(tallies: Sequence[StepTally]) -> list[str]:
    last = {tally.node: tally for tally in sorted(tallies, key=lambda tally: tally.last)}
    return [name for name, tally in last.items() if tally.status is StepStatus.PAUSED]


def _unknown(key: str, payloads: Mapping[str, Payload], wf: str, at: int | None) -> Problem:
    import difflib  # only errors need it

    close = difflib.get_close_matches(key, payloads, n=_CLOSE, cutoff=0.4)
    when = "" if at is None else f" at superstep {at}"
    message = f"Workflow {wf!r} has no value {key!r}{when}"
    if close:
        return Problem(NOT_FOUND, message, "Did you mean one of these?", close)
    return Problem(
        NOT_FOUND, message, f"Its values ({len(payloads)} in all):", sorted(payloads)[: 2 * _CLOSE]
    )
