"""What must be true of a store at any moment, whatever happened to the processes that wrote it.

Every function returns flaws, texts that say what is wrong; none is the answer hoped for.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus, Workflow
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.exceptions import ArtifactMissingError
from hypergraph.testing.conformance.samples import given
from hypergraph.values.undecodable import Undecodable
from proofs import sample

Place = tuple[str, int, str]  # workflow, superstep, node


class Seen(NamedTuple):
    """The content of a store at one moment."""

    workflows: dict[str, Workflow]
    steps: dict[str, list[StepRecord]]
    inputs: dict[str, dict[str, tuple[int, Any]]]

    @property
    def completed(self) -> set[str]:
        """The visits that completed and can be skipped, by their keys."""
        return {
            f"{step.workflow_id}:{step.node_name}:{step.visit}"
            for steps in self.steps.values()
            for step in steps
            if step.durable
        }

    @property
    def recorded(self) -> set[Place]:
        """The places of which there is a row, whatever came of them."""
        return {_place(step) for steps in self.steps.values() for step in steps}

    @property
    def history(self) -> list[Any]:
        """What completed, in a form that does not tell how often the program was started.

        Values of the chat are left out: some go when its run ends, unless it is killed just before.
        """
        return sorted(
            (
                name,
                step.node_name,
                step.visit,
                repr(step.decision),
                "" if name == "chat" else repr(step.values),
            )
            for name, steps in self.steps.items()
            for step in steps
            if step.status is StepStatus.COMPLETED
        )


def look(store: SqlCheckpointer) -> Seen:
    """Read everything there is."""
    found = {workflow.id: workflow for workflow in _family(store, store.workflows())}
    return Seen(
        found,
        {name: store.steps(name) for name in found},
        {name: given(store, name) for name in found},
    )


def flaws_of(store: SqlCheckpointer, seen: Seen) -> list[str]:
    """Say what is wrong with a store by itself."""
    flaws = [*_damage(store), *_unresolved(store)]
    for name, steps in seen.steps.items():
        flaws += _doubles(name, steps)
        for step in steps:
            flaws += [
                f"{_place(step)} consumed {what} of which there is no row" for what in _open(seen, step)
            ]
            flaws += [
                f"{_place(step)}: {key} cannot be read: {value}"
                for key, value in (step.values or {}).items()
                if isinstance(value, Undecodable)
            ]
    for workflow in seen.workflows.values():
        if workflow.parent_id is not None and workflow.parent_id not in seen.workflows:
            flaws.append(f"{workflow.id} has no parent")
    return flaws


def unsaved(seen: Seen, entered: Iterable[Place]) -> list[str]:
    """Say which calls began before what they take was written down."""
    known = set(entered)
    flaws = []
    for place in known:
        for earlier in _causes(seen, place, known):
            if earlier not in seen.recorded:
                flaws.append(f"{place} began before {earlier} was written down")
    return flaws


def _causes(seen: Seen, place: Place, known: set[Place]) -> Iterator[Place]:
    owner, superstep, name = place
    makers = _MAKERS.get(name, ())
    yield from (p for p in known if p[0] == owner and p[1] < superstep and p[2] in makers)
    parts = seen.workflows.get(owner)
    if parts is None:
        yield owner, -1, "its workflow"
    elif parts.parent_id is not None and parts.node_name is not None and parts.parent_superstep is not None:
        yield from _causes(seen, (parts.parent_id, parts.parent_superstep, parts.node_name), known)


def _makers() -> dict[str, set[str]]:
    """Return which nodes of the program make what each node takes."""
    nodes = [*sample.GRAPH.nodes.values(), *sample.INSIDE]
    return {
        taker.name: {maker.name for maker in nodes if set(maker.outputs) & set(taker.inputs)}
        for taker in nodes
    }


_MAKERS = _makers()


def _place(step: StepRecord) -> Place:
    return step.workflow_id, step.superstep, step.node_name


def _family(store: SqlCheckpointer, workflows: Iterable[Workflow]) -> Iterator[Workflow]:
    for workflow in workflows:
        yield workflow
        yield from _family(store, store.backend.children(workflow.id))


def _damage(store: SqlCheckpointer) -> list[str]:
    if not isinstance(store, SqliteCheckpointer) or not os.path.exists(store.backend.location):
        return []
    with closing(sqlite3.connect(f"file:{store.backend.location}?mode=ro", uri=True)) as connection:
        (found,) = connection.execute("PRAGMA integrity_check").fetchone()
    return [] if found == "ok" else [f"integrity: {found}"]


def _unresolved(store: SqlCheckpointer) -> Iterator[str]:
    artifacts: Any = store.encoding.artifacts
    for text in store.backend.artifact_references():
        try:
            artifacts.get(ArtifactRef.from_text(text))
        except ArtifactMissingError as error:
            yield f"a reference leads nowhere: {error}"


def _doubles(name: str, steps: list[StepRecord]) -> Iterator[str]:
    if len({_place(step) for step in steps}) != len(steps):
        yield f"{name} has two rows for one place"
    if len({step.index for step in steps}) != len(steps):
        yield f"{name} has two rows of one index"


def _open(seen: Seen, step: StepRecord) -> Iterator[tuple[str, int]]:
    """Yield the versions that a step took and nobody has made."""
    given = seen.inputs[step.workflow_id]
    made = {
        pair
        for other in seen.steps[step.workflow_id]
        if other.superstep < step.superstep
        for pair in other.output_versions.items()
    }
    for name, version in step.input_versions.items():
        of_inputs = given[name][0] if name in given else 0
        if version > of_inputs and (name, version) not in made:
            yield name, version
