"""Parts of workflows out of the tables of a store, and into those of another one, whatever the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast
from zlib import crc32

import msgspec

from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.columns import WORKFLOW_COLUMNS, micros, or_corrupt, time_of
from hypergraph.checkpointers.dumps import (
    AnnouncedPart,
    ArtifactPart,
    More,
    Part,
    StepPart,
    ValuePart,
    WorkflowPart,
)
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.ids import check_workflow_id, moved
from hypergraph.checkpointers.refusals import taken
from hypergraph.checkpointers.rows import STEP_COLUMNS, VALUE_COLUMNS, structure
from hypergraph.checkpointers.schema import INPUT, OTHER, OUTPUT
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.sql_copies import recode
from hypergraph.checkpointers.sql_statements import STEP_KEY, STRUCTURE, inserting
from hypergraph.checkpointers.sql_store import SqlCheckpointer
from hypergraph.checkpointers.types import NewWorkflow
from hypergraph.display import jsonable
from hypergraph.exceptions import ArtifactMissingError

_KINDS: dict[str, int] = {"output": OUTPUT, "input": INPUT, "other": OTHER}
_ROLES: dict[int, Any] = {kind: role for role, kind in _KINDS.items()}
_DEEP = 100  # levels of a stored structure
_WORKFLOW = f"""
SELECT key, {", ".join(WORKFLOW_COLUMNS)}, scrambled, graph, node_hashes
FROM workflows LEFT JOIN structures ON digest = structure WHERE id = ?
"""  # noqa: S608 - fixed names
_STEPS = f"SELECT {', '.join(STEP_COLUMNS[1:])} FROM steps WHERE workflow = ? ORDER BY superstep, idx"  # noqa: S608 - as above
_VALUES = f"""
SELECT {", ".join(VALUE_COLUMNS[1:])} FROM vals WHERE workflow = ? ORDER BY kind, name, superstep, idx, node
"""  # noqa: S608 - as above
_INTENTS = "SELECT superstep, node FROM intents WHERE workflow = ? ORDER BY superstep, node"
_CHILDREN = "SELECT id FROM workflows WHERE parent_id = ? ORDER BY key"
_LOADED = (*WORKFLOW_COLUMNS, "scrambled", "structure", "fence")
_ADD = f"{inserting('workflows', _LOADED)} ON CONFLICT (id) DO NOTHING RETURNING key"
_PARTS = {"steps": STEP_COLUMNS, "vals": VALUE_COLUMNS, "intents": (*STEP_KEY, "fence")}


def dump(store: SqlCheckpointer, workflow_id: str) -> list[Part]:
    """Return a workflow and everything below it, as of one moment; artifacts that are gone are left out.

    Raises:
        CheckpointError: the store fails, or a row makes no sense.
    """
    parts = store._database.read(lambda connection: list(_tree(connection, workflow_id)))
    return [*parts, *_artifacts(store._encoding, parts)]


def _tree(connection: Connection, workflow_id: str) -> Iterator[Part]:
    row = connection.execute(_WORKFLOW, (workflow_id,)).fetchone()
    if row is None:
        return
    yield _workflow_part(row[1:])
    key = row[0]
    for found in connection.execute(_STEPS, (key,)):
        yield _step_part(found)
    for kind, name, superstep, idx, node, version, kept, checksum, data, base in connection.execute(
        _VALUES, (key,)
    ):
        place = {"name": name, "superstep": superstep, "index": idx, "node": node, "version": version}
        yield ValuePart(role=_ROLES[kind], format=kept, checksum=checksum, data=data, base=base, **place)
    for superstep, node in connection.execute(_INTENTS, (key,)):
        yield AnnouncedPart(superstep=superstep, node=node)
    for (child,) in connection.execute(_CHILDREN, (workflow_id,)).fetchall():
        yield from _tree(connection, child)


@or_corrupt
def _workflow_part(row: Sequence[Any]) -> WorkflowPart:
    *columns, scrambled, graph, hashes = row
    fields = dict(zip(WORKFLOW_COLUMNS, columns, strict=True))
    for name in ("tags", "crashes"):
        fields[name] = json.loads(fields[name] or "{}")
    for name in ("created_at", "completed_at"):
        fields[name] = time_of(fields[name])
    fields["graph"] = json.loads(graph or "null")
    fields["node_hashes"] = json.loads(hashes or "{}")
    whole = {**fields, "scrambled": bool(scrambled), "kind": "workflow"}
    return msgspec.convert(_plain(whole), WorkflowPart)


@or_corrupt
def _step_part(row: Sequence[Any]) -> StepPart:
    fields = dict(zip(STEP_COLUMNS[1:], row, strict=True))
    for name in ("created_at", "completed_at"):
        fields[name] = time_of(fields[name])
    fields["input_versions"], fields["output_versions"] = json.loads(fields.pop("versions"))
    extra = fields.pop("extra")
    more = {"more": json.loads(extra)} if extra else {}
    whole = {**fields, **more, "index": fields.pop("idx"), "cached": bool(fields["cached"]), "kind": "step"}
    whole.pop("idx", None)
    return msgspec.convert(_plain(whole), StepPart)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields whose texts can be written as UTF-8; times stay what they are."""
    times = {name: fields[name] for name in ("created_at", "completed_at")}
    return {**{name: jsonable(value, _DEEP) for name, value in fields.items() if name not in times}, **times}


def _artifacts(encoding: Encoding, parts: Iterable[Part]) -> Iterator[ArtifactPart]:
    values = (part for part in parts if isinstance(part, ValuePart) and part.format.endswith("@"))
    for reference in dict.fromkeys(value.data.decode("utf-8", "replace") for value in values if value.data):
        try:
            if encoding.artifacts is not None:
                data = encoding.artifacts.get(ArtifactRef.from_text(reference))
                yield ArtifactPart(reference=reference, data=data)
        except ArtifactMissingError:
            continue  # the value cannot be read there, as it cannot be read here


def load(store: SqlCheckpointer, parts: Sequence[Part], *, name: str | None = None) -> list[str]:
    """Put parts into a store, all or none, and return the ids; the first is that of the root, or `name`.

    Raises:
        ValueError: the parts do not fit together.
        CheckpointError: there is a workflow of one of the ids, an id cannot be one, or the store fails.
    """
    root = parts[0] if parts else None
    if not isinstance(root, WorkflowPart):
        raise ValueError("it does not begin with a workflow")
    inside = dict(_kept_artifacts(store._encoding, parts))
    _check_values(store, parts, renamed=name not in (None, root.id))

    def work(connection: Connection) -> list[str]:
        try:
            return list(_loaded(connection, store._encoding, parts, name or root.id, inside))
        except store._database.bad_row as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"something is in it twice, or is nothing that can be stored ({reason})"
            ) from error

    return store._database.write(work, full=True)


def _kept_artifacts(encoding: Encoding, parts: Iterable[Part]) -> Iterator[tuple[bytes, bytes]]:
    """Put artifacts where the store has them; yield those that must go into rows, by their references."""
    for part in parts:
        if not isinstance(part, ArtifactPart):
            continue
        ref = ArtifactRef.from_text(part.reference)
        if ArtifactRef.of(part.data, storage=ref.storage, content_type=ref.content_type) != ref:
            raise ValueError(f"the artifact {ref.key[:12]}... does not have the content that its name says")
        if encoding.artifacts is None:
            yield part.reference.encode(), part.data
        else:
            encoding.artifacts.put(part.data, content_type=ref.content_type)


def _check_values(store: SqlCheckpointer, parts: Iterable[Part], *, renamed: bool) -> None:
    bound = any(isinstance(part, ValuePart) and "+aesgcm/" in part.format for part in parts)
    if renamed and bound and not store._encoding.chain.encrypts:
        raise ValueError(
            "its values are encrypted and bound to its id; give the store the key, or leave the id as it is"
        )


def _loaded(
    connection: Connection,
    encoding: Encoding,
    parts: Sequence[Part],
    name: str,
    inside: Mapping[bytes, bytes],
) -> Iterator[str]:
    root = cast(WorkflowPart, parts[0])
    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _PARTS}
    key, renamed = 0, []
    for part in parts:
        if isinstance(part, WorkflowPart):
            called = name if part is root else moved(part.id, root.id, name)
            key = _add_workflow(connection, part, root, name, called)
            renamed.append((key, part.id, called))
            yield called
        elif isinstance(part, StepPart):
            rows["steps"].append((key, *_step_row(part, root.id, name)))
        elif isinstance(part, ValuePart):
            rows["vals"].append((key, *_value_row(part, inside)))
        elif isinstance(part, AnnouncedPart):
            rows["intents"].append((key, part.superstep, part.node, 0))
    rows["steps"].sort(key=itemgetter(0, 1))  # stores count steps as they come, superstep by superstep
    for table, columns in _PARTS.items():
        connection.executemany(inserting(table, columns), rows[table])
    if encoding.chain.encrypts and name != root.id:
        for key, before, called in renamed:
            recode(connection, key, before, called, encoding)
    connection.execute("SELECT 1").fetchone()  # what waits to be sent is refused now or never


def _add_workflow(
    connection: Connection, part: WorkflowPart, root: WorkflowPart, name: str, workflow_id: str
) -> int:
    parent = _parent(connection, part, root, name)
    check_workflow_id(workflow_id, child=parent is not None)
    kept = structure(NewWorkflow(graph=part.graph, node_hashes=part.node_hashes))
    if kept.digest is not None:
        connection.execute(STRUCTURE, kept)
    fields = {field: getattr(part, field) for field in WORKFLOW_COLUMNS}
    alone: dict[str, Any] = dict.fromkeys(("parent_superstep", "node_name", "item")) if parent is None else {}
    changes = {
        "id": workflow_id,
        "parent_id": parent,
        "status": part.status.value,
        "created_at": micros(part.created_at),
        "completed_at": micros(part.completed_at),
        "tags": json.dumps(part.tags) if part.tags else None,
        "crashes": json.dumps(part.crashes) if part.crashes else None,
        "scrambled": int(part.scrambled),
        "structure": kept.digest,
        "fence": 0,
    }
    row = {**fields, **alone, **changes}
    added = connection.execute(_ADD, tuple(row[field] for field in _LOADED)).fetchall()
    if not added:
        raise taken(workflow_id)
    return int(added[0][0])


def _parent(connection: Connection, part: WorkflowPart, root: WorkflowPart, name: str) -> str | None:
    if part is not root:
        inside = f"{root.id}/"
        if not (part.id.startswith(inside) and f"{part.parent_id}/".startswith(inside)):
            raise ValueError(f"{part.id!r} does not belong to {root.id!r}")
        parent = part.parent_id or root.id
        return name if parent == root.id else moved(parent, root.id, name)
    if part.parent_id is None or name != root.id:
        return None
    if connection.execute("SELECT 1 FROM workflows WHERE id = ?", (part.parent_id,)).fetchone() is None:
        raise ValueError(f"its parent {part.parent_id!r} is not here; give it an id of its own")
    return part.parent_id


def _step_row(part: StepPart, origin: str, name: str) -> tuple[Any, ...]:
    more = part.more or More()
    child = more.child_workflow_id
    if child is not None:
        more = msgspec.structs.replace(more, child_workflow_id=moved(child, origin, name))
    extra = msgspec.json.encode(more).decode()
    return (
        *(part.superstep, part.node, part.index, part.status.value, micros(part.created_at)),
        *(
            micros(part.completed_at),
            part.duration_ms,
            part.cached,
            part.attempt,
            part.error,
            part.error_type,
        ),
        json.dumps([part.input_versions, part.output_versions]),
        None if extra == "{}" else extra,
    )


def _value_row(part: ValuePart, inside: Mapping[bytes, bytes]) -> tuple[Any, ...]:
    content = inside.get(part.data or b"") if part.format.endswith("@") else None
    kept = (part.format, part.checksum, part.data)
    if content is not None:
        kept = (part.format.removesuffix("@"), crc32(content), content)
    place = (_KINDS[part.role], part.name, part.superstep, part.index, part.node, part.version)
    return (*place, *kept, part.base)
