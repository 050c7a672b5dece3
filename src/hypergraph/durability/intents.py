"""Saying what is about to be done before it is done.

A node declared `repeatable=False` announces each call, and the announcement survives a power loss: a call
that was announced and has no result may have had its effect. After a crash every node announces its calls,
so that one which keeps taking its process along can be named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.commits import Commit, Ownership
from hypergraph.engine.ports import NOT_KNOWN
from hypergraph.exceptions import AmbiguousStepError, CrashLoopError
from hypergraph.plan.calling import inputs_of
from hypergraph.plan.steps import Step

if TYPE_CHECKING:
    from hypergraph.durability.journal import Journal

_STRIKES = 3


class Intents:
    """The announcements of one run, and those that an earlier owner left without a result."""

    def __init__(self, journal: Journal, claim: Ownership) -> None:
        self.journal = journal
        self.wary = claim.crashed or bool(claim.existing is not None and claim.existing.crashes)
        self.unresolved = {node for _, node in claim.running}

    def announce(self, step: Step, superstep: int) -> None:
        """Say that a step is about to run; the nodes of a nested graph speak for themselves."""
        if not (step.kind == "graph" and step.node.durability == "nested"):
            self.journal.store.write(Commit(self.journal.claim, at=superstep, running=step.name))

    def result_of(self, step: Step, superstep: int) -> Any:
        """Return what an earlier call has returned, if somebody knows; else announce a new one."""
        run, store, claim = self.journal.run, self.journal.store, self.journal.claim
        if step.name in self.unresolved:
            resolve, where = step.node.on_ambiguous, run.path_of(step.name)
            if resolve == "fail":
                raise AmbiguousStepError(
                    f"Node {where!r} of workflow {claim.workflow_id!r} must not be repeated, and it began "
                    "without leaving a result. Find out what it did. Then let it run again with "
                    'on_ambiguous="rerun", or have on_ambiguous=... tell what it returned.',
                    workflow_id=claim.workflow_id,
                    node_name=where,
                )
            if callable(resolve):
                known = resolve(where, run.idempotency_key(step.name), inputs_of(step.node, run.values))
                if known is not NotImplemented:
                    return known
        store.write(Commit(claim, at=superstep, running=step.name, full=True))
        return NOT_KNOWN


def refuse_crash_loop(claim: Ownership, store: Checkpointer) -> None:
    """Raise CrashLoopError for a workflow in which one node has taken its process along too often.

    A crash that no node announced happened inside of a nested graph, if there is one: that counts its own.
    """
    crashes = claim.existing.crashes if claim.existing is not None else {}
    for node, count in crashes.items():
        if count >= _STRIKES and (node or not store.children(claim.workflow_id)):
            where = f"at node {node}" if node else "before any of its nodes"
            raise CrashLoopError(
                f"Workflow {claim.workflow_id!r} is in a crash loop {where}: its process died "
                f"there {count} times. Fix what kills the process, then resume with force=True.",
                workflow_id=claim.workflow_id,
                node_name=node,
            )
