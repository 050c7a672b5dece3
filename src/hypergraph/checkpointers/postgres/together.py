"""New workflows that are added together, as the items of a map are: by one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hypergraph.checkpointers.postgres.migrations import TYPES
from hypergraph.checkpointers.records import NewWorkflow, Payload
from hypergraph.checkpointers.sql.columns import NEW_COLUMNS, VALUE_COLUMNS
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.writes import STRUCTURE, input_rows, new_row, structure

_BYTES = 16_000_000  # of the values in one statement
_NUMBERS = (
    "created_at",
    "fence",
    "owner_pid",
    "owner_since",
    "parent_superstep",
    "visit",
    "item",
    "forked_at",
)
_TYPES = {
    **dict.fromkeys(NEW_COLUMNS, "text"),
    **dict.fromkeys(_NUMBERS, "bigint"),
    "structure": "bytea",
}
_VALUES = VALUE_COLUMNS[1:]


def _arrays(types: Sequence[str]) -> str:
    return ", ".join(f"?::{kind}[]" for kind in types)


_INSERT = f"""
WITH added AS (
    INSERT INTO workflows ({", ".join(NEW_COLUMNS)})
    SELECT * FROM unnest({_arrays([_TYPES[name] for name in NEW_COLUMNS])})
    ON CONFLICT (id) DO NOTHING RETURNING key, id)
INSERT INTO vals (workflow, {", ".join(_VALUES)})
SELECT added.key, {", ".join(f"v.{name}" for name in _VALUES)}
FROM unnest(?::text[], {_arrays([TYPES.get(name, "bigint") for name in _VALUES])})
    AS v (owner, {", ".join(_VALUES)})
JOIN added ON added.id = v.owner
"""  # noqa: S608 - fixed names


def fits(workflows: Mapping[str, NewWorkflow], inputs: Mapping[str, Sequence[Payload]]) -> bool:
    """Return whether workflows can be added by one statement: they begin with inputs alone."""
    if any(new.copies or new.steps for new in workflows.values()):
        return False
    return sum(len(each.data or b"") for given in inputs.values() for each in given) <= _BYTES


def insert(
    connection: Connection,
    workflows: Mapping[str, NewWorkflow],
    time: datetime,
    inputs: Mapping[str, Sequence[Payload]],
) -> None:
    """Add workflows without an owner; those that exist stay as they are."""
    kept = {name: structure(new) for name, new in workflows.items()}
    connection.executemany(STRUCTURE, {each for each in kept.values() if each.digest is not None})
    no_owner = (0, None, None, None)
    rows = [new_row(name, new, time, kept[name].digest, no_owner) for name, new in workflows.items()]
    values = [(name, *row[1:]) for name, given in inputs.items() for row in input_rows(0, 0, given)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns += [[row[at] for row in values] for at in range(len(_VALUES) + 1)]
    connection.execute(_INSERT, columns)
