"""Transfer of workflows between stores and files, as lists of parts that are dumped and loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any, Literal, cast, get_type_hints
from zlib import crc32

import msgspec

from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.names import check_workflow_id, moved
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NewWorkflow, StepRecord, taken
from hypergraph.checkpointers.references import REFERENCE, reference_in
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.checkpointers.sql.columns import (
    EPOCH,
    MICROSECOND,
    NONSENSE,
    STEP_COLUMNS,
    STEP_EXTRAS,
    STEP_KEY,
    STEP_NUMBERS,
    STEP_TEXTS,
    USAGE_COLUMNS,
    VALUE_COLUMNS,
    WORKFLOW_COLUMNS,
    mapping_of,
    micros,
    or_corrupt,
    parsed,
    time_of,
    versions_in,
)
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.reads import extras_in
from hypergraph.checkpointers.sql.writes import (
    ADD,
    STEP_DEFAULTS,
    STRUCTURE,
    awaits_text,
    inserting,
    make_list_indexes,
    recode,
    reseal,
    structure,
    versions_text,
)
from hypergraph.checkpointers.sqlite.migrations import INNER, INPUT, OTHER, OUTPUT, RARE, SIGNAL, SUMMARY
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.exceptions import ArtifactMissingError, CheckpointError

_PARTS = {
    "steps": STEP_COLUMNS,
    "vals": VALUE_COLUMNS,
    "intents": (*STEP_KEY, "fence"),
    "usage": USAGE_COLUMNS,
}
_PAGE = 500


def copy_store(
    source: Checkpointer,
    target: Checkpointer,
    ids: Iterable[str] | None = None,
    *,
    skip_existing: bool = False,
) -> list[str]:
    """Copy workflows with their children, by default all of them, and return the ids of those copied.

    Each workflow is copied as of one moment, and is in the target whole or not at all. The source stays as
    it is. Values that the source has in artifacts go into rows where the target has no artifact store.

    Args:
        source: A store in a database.
        target: Another one, of the same or another kind.
        ids: The workflows to copy.
        skip_existing: Copy only missing workflows, as after an interruption.

    Raises:
        WorkflowNotFoundError: the workflow does not exist.
        CheckpointError: the target has one of that id, or lacks its parent, or a store is not in a database.
    """
    _in_database(source), _in_database(target)
    wanted = _all_ids(source) if ids is None else _families(source, ids)
    there = {workflow_id for workflow_id in wanted if target.backend.read_workflow(workflow_id) is not None}
    if there and not skip_existing:
        raise taken(min(there))
    missing = [workflow_id for workflow_id in wanted if workflow_id not in there]
    if ids is not None:
        _check_parents(source, target, missing)
    copied = []
    for workflow_id in missing:
        parts = dump(source, workflow_id, children=False)
        if not parts:
            continue  # it was deleted meanwhile
        try:
            copied += load(target, parts)
        except (ValueError, *NONSENSE) as error:
            raise CheckpointError(f"Workflow {workflow_id!r} cannot be copied: {error}") from error
    return copied


def _in_database(store: Checkpointer) -> SqlBackend:
    if not isinstance(store.backend, SqlBackend):
        raise CheckpointError(f"{store!r} is not in a database; only such a store can be copied.")
    return store.backend


def _all_ids(source: Checkpointer) -> list[str]:
    """Return all ids, oldest first."""
    found: list[str] = []
    query = Query(top_level=False, limit=_PAGE)
    while True:
        page, _, cursor = source.backend.find(query)
        found += [workflow.id for workflow in page]
        if cursor is None:
            return found[::-1]
        query = query._replace(cursor=cursor)


def _families(source: Checkpointer, ids: Iterable[str]) -> list[str]:
    """Return these ids, each followed by those below it."""
    found: dict[str, None] = {}
    left = list(ids)[::-1]
    while left:
        workflow_id = left.pop()
        if workflow_id not in found:  # a damaged store may have circles
            found[source.workflow(workflow_id).id] = None
            left += [child.id for child in source.backend.children(workflow_id)][::-1]
    return list(found)


def _check_parents(source: Checkpointer, target: Checkpointer, ids: list[str]) -> None:
    chosen = set(ids)
    for workflow_id in ids:
        found = source.backend.read_workflow(workflow_id)
        parent = found.parent_id if found else None
        if parent is not None and parent not in chosen and target.backend.read_workflow(parent) is None:
            raise CheckpointError(f"Workflow {workflow_id!r} is a part of {parent!r}: copy that one.")


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Amount = Annotated[float, msgspec.Meta(ge=0, le=2**62)]  # sums of them are finite
_Fence = Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # each claim of an imported workflow adds to it
_Versions = dict[str, _Count]
Role = Literal["output", "input", "other", "inner"]


class _Part(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all parts have in common."""


class WorkflowPart(_Part, tag="workflow"):
    """A workflow; the steps, values and announcements up to the next one are its own."""

    id: str
    status: WorkflowStatus
    created_at: datetime
    completed_at: datetime | None = None
    duration_ms: float | None = None
    graph_name: str | None = None
    graph_hash: str | None = None
    graph: dict[str, Any] | None = None
    node_hashes: dict[str, str] = {}
    parent_id: str | None = None
    parent_superstep: _Count | None = None
    node_name: str | None = None
    visit: _Count = 1
    item: _Count | None = None
    fingerprint: str | None = None
    forked_from: str | None = None
    forked_at: _Count | None = None
    tags: dict[str, str] = {}
    crashes: _Versions = {}
    due: datetime | None = None
    version: str | None = None
    awaits: _Versions = {}
    reason: str | None = None
    fence: _Fence = 0  # how often it was taken up: by it, a step knows whether its nested run ran again
    scrambled: bool = False  # steps were put in another order than that of supersteps
    store: bytes | None = None  # of the root, if it is encrypted: the id of the store that it is bound to


_FIELDS: dict[str, Any] = {
    **get_type_hints(StepRecord),
    **dict.fromkeys(("attempt", "visit"), Annotated[int, msgspec.Meta(ge=1, le=2**62)]),
    "used": dict[str, _Amount],
}
_CHECKED: dict[Any, Any] = {int: _Count, int | None: _Count | None, dict[str, int]: _Versions}


def _of_record(name: str, fields: Iterable[str]) -> Any:
    """Return a class with fields of StepRecord: of the same defaults and types, numbers within bounds."""
    typed = [(field, _CHECKED.get(_FIELDS[field], _FIELDS[field]), STEP_DEFAULTS[field]) for field in fields]
    return msgspec.defstruct(name, typed, kw_only=True, omit_defaults=True, forbid_unknown_fields=True)


_STORED = (*STEP_NUMBERS, *STEP_TEXTS)
_Extras: Any = _of_record("_Extras", STEP_EXTRAS)
_Columns: Any = _of_record("_Columns", _STORED)


class More(_Extras):  # type: ignore[misc]  # its fields follow the list of columns
    """What most steps do not have."""

    no_values: bool = False
    seal: str | None = None  # of an encrypted store


class StepPart(_Part, _Columns, tag="step"):  # type: ignore[misc]  # as above
    """A step, without its values."""

    superstep: _Count
    node: str
    index: _Count
    status: StepStatus
    created_at: datetime
    completed_at: datetime | None = None
    input_versions: _Versions = {}
    output_versions: _Versions = {}
    more: More | None = None


class ValuePart(_Part, tag="value"):
    """A value: an output of a completed step, an input, or what another step left. A pause is called "".

    That of an inner step has its key as name, its place in the visit as index, and the visit as version.
    """

    role: Role
    name: str
    superstep: _Count
    index: _Count  # of the step; of an input its version
    version: _Count
    format: str
    checksum: Annotated[int, msgspec.Meta(ge=0, le=2**32)]
    node: str = ""
    data: bytes | None = None  # as base64; a reference if the format ends with "@"; none for a gap
    base: _Count | None = None  # of a patch: the superstep in which its chain begins


class AnnouncedPart(_Part, tag="announced"):
    """A call that was announced before it was made."""

    superstep: _Count
    node: str


class UsagePart(_Part, tag="usage"):
    """An amount that a node recorded, or one of its inner steps."""

    superstep: _Count
    node: str
    name: str
    amount: _Amount
    step: str = ""


class ArtifactPart(_Part, tag="artifact"):
    """A large value, which values of any workflow refer to."""

    reference: str
    data: bytes  # as base64


Part = WorkflowPart | StepPart | ValuePart | AnnouncedPart | UsagePart | ArtifactPart


_KINDS: dict[str, int] = {"output": OUTPUT, "input": INPUT, "other": OTHER, "inner": INNER, "signal": SIGNAL}
_ROLES: dict[int, Any] = {kind: role for role, kind in _KINDS.items()}
_DEEP = 100  # levels of a stored structure
_WORKFLOW = f"""
SELECT key, {", ".join(WORKFLOW_COLUMNS)}, fence, scrambled, graph, node_hashes
FROM workflows LEFT JOIN structures ON digest = structure WHERE id = ?
"""  # noqa: S608 - fixed names
_STEPS = f"SELECT {', '.join(STEP_COLUMNS[1:])} FROM steps WHERE workflow = ? ORDER BY superstep, idx"  # noqa: S608 - as above
_VALUES = f"""
SELECT {", ".join(VALUE_COLUMNS[1:])} FROM vals WHERE workflow = ? AND kind <> {SUMMARY}
ORDER BY kind, name, superstep, idx, node
"""  # noqa: S608 - as above
_INTENTS = "SELECT superstep, node FROM intents WHERE workflow = ? ORDER BY superstep, node"
_USAGE = """
SELECT superstep, node, step, name, amount FROM usage WHERE workflow = ? ORDER BY superstep, node, step, name
"""
_CHILDREN = "SELECT id FROM workflows WHERE parent_id = ? ORDER BY key"
_LOADED = (*WORKFLOW_COLUMNS, "scrambled", "structure", "fence")
_ADD = f"{inserting('workflows', _LOADED)} ON CONFLICT (id) DO NOTHING RETURNING key"


@or_corrupt
def dump(store: Checkpointer, workflow_id: str, *, children: bool = True) -> list[Part]:
    """Return a workflow with its children, as of one moment; artifacts that are gone are left out.

    Raises:
        CheckpointError: the store fails, or a row is damaged.
    """
    database = _in_database(store).database
    parts = database.read(lambda connection: list(_tree(connection, workflow_id, children, set())))
    if any(map(_is_bound, parts)):
        parts[0] = msgspec.structs.replace(cast(WorkflowPart, parts[0]), store=store.backend.store_id())
    return [*parts, *_artifacts(store.encoding, parts)]


def input_from_outside(parts: Iterable[Part]) -> str | None:
    """Return the name of an input that is stored as a value of a workflow around these, None without one."""
    depths: dict[str, int] = {}
    depth = 0
    for part in parts:
        if isinstance(part, WorkflowPart):
            depth = depths[part.id] = depths.get(part.parent_id or "", -1) + 1
        elif isinstance(part, ValuePart) and part.format == REFERENCE and _leads_up(part) > depth:
            return part.name
    return None


def _leads_up(part: ValuePart) -> int:
    """Return how many workflows further up the value of a reference is, 0 if the reference is damaged."""
    try:
        return reference_in(part.data).up
    except ValueError:
        return 0


def _is_bound(part: Part) -> bool:
    """Return whether a part can be read only in its workflow and its store."""
    if isinstance(part, StepPart):
        return part.more is not None and part.more.seal is not None
    return isinstance(part, ValuePart) and "+aesgcm/" in part.format


def _tree(connection: Connection, workflow_id: str, children: bool, seen: set[str]) -> Iterator[Part]:
    if workflow_id in seen:
        return  # a damaged store may have circles
    seen.add(workflow_id)
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
    for superstep, node in connection.execute(_INTENTS, (key,)) if connection.has("intents") else ():
        yield AnnouncedPart(superstep=superstep, node=node)
    for superstep, node, step, used, amount in (
        connection.execute(_USAGE, (key,)) if connection.has("usage") else ()
    ):
        yield UsagePart(superstep=superstep, node=node, step=step, name=used, amount=amount)
    for (child,) in connection.execute(_CHILDREN, (workflow_id,)).fetchall() if children else ():
        yield from _tree(connection, child, children, seen)


@or_corrupt
def _workflow_part(row: Sequence[Any]) -> WorkflowPart:
    *columns, fence, scrambled, graph, hashes = row
    fields = dict(zip(WORKFLOW_COLUMNS, columns, strict=True))
    for name, kind in (("tags", str), ("crashes", int), ("awaits", int)):
        fields[name] = mapping_of(parsed(fields[name] or "{}"), kind)
    for name in ("created_at", "completed_at", "due"):
        fields[name] = time_of(fields[name])
    fields["graph"] = parsed(graph or "null")
    fields["node_hashes"] = mapping_of(parsed(hashes or "{}"), str)
    whole = {**fields, "fence": fence, "scrambled": bool(scrambled), "kind": "workflow"}
    return msgspec.convert(_plain(whole), WorkflowPart)


@or_corrupt
def _step_part(row: Sequence[Any]) -> StepPart:
    fields = dict(zip(STEP_COLUMNS[1:], row, strict=True))
    for name in ("created_at", "completed_at"):
        fields[name] = time_of(fields[name])
    fields["input_versions"], fields["output_versions"] = versions_in(fields.pop("versions"))
    extra = fields.pop("extra")
    more = {"more": extras_in(extra)} if extra else {}
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


def load(store: Checkpointer, parts: Sequence[Part], *, name: str | None = None) -> list[str]:
    """Put parts into a store, all or none, and return the ids; the first is that of the root, or `name`.

    Raises:
        ValueError: the parts do not fit together.
        CheckpointError: there is a workflow of one of the ids, an id cannot be one, or the store fails.
    """
    root = parts[0] if parts else None
    if not isinstance(root, WorkflowPart):
        raise ValueError("it does not begin with a workflow")
    database = _in_database(store).database
    inside = dict(_kept_artifacts(store.encoding, parts))
    _check_values(store, parts, renamed=name not in (None, root.id))
    own_id = store.encoding.store_id  # asked for now: making it is a transaction of its own
    if root.store is not None and not own_id:
        own_id = store.backend.store_id()

    def work(connection: Connection) -> list[str]:
        if root.store not in (None, own_id) and not store.encoding.chain.encrypts:
            _adopt(connection, root.store)
        try:
            return list(_loaded(connection, store.encoding, parts, root.id if name is None else name, inside))
        except database.bad_row as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"something is in it twice, or is nothing that can be stored ({reason})"
            ) from error

    return database.write(work, full=True)


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


def _adopt(connection: Connection, store_id: bytes | None) -> None:
    """Give an empty store the id of the one that is copied: without the key nothing can be bound anew."""
    if connection.execute("SELECT 1 FROM workflows LIMIT 1").fetchone() is not None:
        raise ValueError(
            "its values are encrypted and bound to another store; give this one the key, or an empty store"
        )
    connection.execute("UPDATE identity SET id = ?", (store_id,))


def _check_values(store: Checkpointer, parts: Iterable[Part], *, renamed: bool) -> None:
    if renamed and any(map(_is_bound, parts)) and not store.encoding.chain.encrypts:
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
    key, renamed, brief = 0, [], connection.dialect.brief
    for part in parts:
        if isinstance(part, WorkflowPart):
            called = name if part is root else moved(part.id, root.id, name)
            key = _add_workflow(connection, part, root, name, called)
            renamed.append((key, part.id, called))
            yield called
        elif isinstance(part, StepPart):
            rows["steps"].append((key, *_step_row(part, root.id, name, brief)))
        elif isinstance(part, ValuePart):
            taker = moved(part.node, root.id, name) if part.role == "signal" else part.node
            row = _value_row(msgspec.structs.replace(part, node=taker), inside)
            rows["vals"].append((key, *row))
        elif isinstance(part, AnnouncedPart):
            rows["intents"].append((key, part.superstep, part.node, 0))
        elif isinstance(part, UsagePart):
            rows["usage"].append((key, part.superstep, part.node, part.step, part.name, part.amount))
    rows["steps"].sort(key=itemgetter(0, 1))  # stores count steps as they come, superstep by superstep
    _insert(connection, rows)
    if encoding.chain.encrypts and (name != root.id or root.store not in (None, encoding.store_id)):
        for key, before, called in renamed:
            reseal(connection, key, before, called, encoding, store_id=root.store)
            recode(connection, key, before, called, encoding, store_id=root.store)
    connection.execute("SELECT 1").fetchone()  # what waits to be sent is refused now or never


def _insert(connection: Connection, rows: Mapping[str, list[tuple[Any, ...]]]) -> None:
    for kind, index in ((INNER, "inner_steps"), (SIGNAL, "workflows_by_due")):
        if any(row[1] == kind for row in rows["vals"]):
            connection.make(index)
    for table, columns in _PARTS.items():
        if rows[table]:
            if table in RARE:
                connection.make(table)
            is_step = table == "steps"
            added = ADD[connection.dialect.brief] if is_step else inserting(table, columns)
            connection.executemany(added, rows[table])


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
        "due": micros(part.due),
        "awaits": awaits_text(part.awaits),
        "tags": json.dumps(part.tags) if part.tags else None,
        "crashes": json.dumps(part.crashes) if part.crashes else None,
        "scrambled": int(part.scrambled),
        "structure": kept.digest,
        "fence": max(part.fence, 1),  # 0 would say that nothing has run yet, and that nothing was announced
    }
    row = {**fields, **alone, **changes}
    for field, rare in (
        ("tags", "tags"),
        ("forked_from", "workflows_by_origin"),
        ("due", "workflows_by_due"),
    ):
        if row[field] is not None:
            connection.make(rare)
    added = connection.execute(_ADD, tuple(row[field] for field in _LOADED)).fetchall()
    if not added:
        raise taken(workflow_id)
    make_list_indexes(connection, key := int(added[0][0]))
    return key


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


def _step_row(part: StepPart, origin: str, name: str, brief: bool) -> tuple[Any, ...]:
    more = part.more or More()
    child = more.child_workflow_id
    if child is not None:
        more = msgspec.structs.replace(more, child_workflow_id=moved(child, origin, name))
    extra = msgspec.json.encode(more).decode()
    created, ended = (part.created_at - EPOCH) // MICROSECOND, micros(part.completed_at)
    return (
        *(part.superstep, part.node, part.index, part.status.value, created),
        ended - created if brief and ended is not None else ended,
        *(getattr(part, field) for field in _STORED),
        versions_text(brief, part.input_versions, part.output_versions),
        None if extra == "{}" else extra,
    )


def _value_row(part: ValuePart, inside: Mapping[bytes, bytes]) -> tuple[Any, ...]:
    content = inside.get(part.data or b"") if part.format.endswith("@") else None
    kept = (part.format, part.checksum, part.data)
    if content is not None:
        kept = (part.format.removesuffix("@"), crc32(content), content)
    place = (_KINDS[part.role], part.name, part.superstep, part.index, part.node, part.version)
    return (*place, *kept, part.base)
