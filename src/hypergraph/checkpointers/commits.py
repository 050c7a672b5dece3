"""What a writer hands to a store: its claim, and everything that must become durable together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers.payloads import EncodedStep, Payload
from hypergraph.checkpointers.types import Claim, NewWorkflow, WorkflowStatus
from hypergraph.exceptions import CheckpointError

FINISHED = frozenset(WorkflowStatus) - {WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED}


@dataclass(frozen=True, slots=True)
class Ownership(Claim):
    """A claim and what was found when it was taken.

    `crashed` says that the owner before died at work, `running` which steps it had announced, as
    (superstep, node), and left without a record.
    """

    key: int = 0  # of the workflow, inside the store
    crashed: bool = False
    running: tuple[tuple[int, str], ...] = ()


def owned(claim: Claim) -> Ownership:
    """Return the claim as the store made it.

    Raises:
        TypeError: no store made it.
    """
    if not isinstance(claim, Ownership):
        raise TypeError(f"{claim!r} was not made by a store's claim()")
    return claim


class Commit(NamedTuple):
    """One unit of writing: all of it becomes durable, or nothing."""

    claim: Ownership
    steps: tuple[EncodedStep, ...] = ()
    inputs: tuple[Payload, ...] = ()
    at: int = 0  # the superstep before which the inputs enter, and in which `running` runs
    status: WorkflowStatus | None = None
    duration_ms: float | None = None
    full: bool = False
    running: str | None = None  # a node that is about to be called
    code: NewWorkflow | None = (
        None  # the graph and the hashes of its nodes, where they are no longer what they were
    )


def each_of(
    commits: Sequence[Commit], write: Callable[[Commit], CheckpointError | None]
) -> list[CheckpointError | None]:
    """Write commits in order and return the outcomes; after one that failed, none of its claim is written."""
    failed: dict[int, CheckpointError] = {}
    outcomes = []
    for commit in commits:
        error = failed.get(commit.claim.key) or write(commit)
        if error is not None:
            failed[commit.claim.key] = error
        outcomes.append(error)
    return outcomes


class CommitOptions(TypedDict, total=False):
    """What a commit may hold beside steps; the fields of `Commit`, with inputs as they were given."""

    inputs: Mapping[str, tuple[int, Any]] | None  # name -> (version, value)
    at: int
    status: WorkflowStatus | None
    duration_ms: float | None
    full: bool
    running: str | None
    code: NewWorkflow | None
