"""What may happen in a story: runs, crashes, resumes, forks, retries, turns, deletions, pruning, clocks that
jump and second runners, in any order, on four ids in one store.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support import processes
from support.running import OnAsync, OnSync

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import OwnershipLostError, WorkflowLockedError
from proofs import expected
from proofs.subjects import killed_in
from proofs.telling import FINISHED, NAMES, Story, Way, same

KILLS = 3  # processes killed in a story
DAY = timedelta(days=1)
CENTURY = timedelta(days=36525)

picks = st.integers(0, 11)
spans = st.sampled_from([DAY, -DAY, timedelta(0), CENTURY, -CENTURY])
troubles = st.sampled_from([None, None, "fail", "crash"])
ways = st.builds(Way, st.sampled_from([OnSync, OnAsync]), troubles, st.integers(0, 11))
changes = st.fixed_dictionaries({"limit": picks}, optional={"x": st.integers(0, 3), "k": st.integers(0, 3)})
has_some = precondition(lambda self: self.model)
has_room = precondition(lambda self: len(self.model) < len(NAMES))


class Stories(Story):
    """The rules."""

    @has_room
    @rule(kind=st.sampled_from(list(expected.FIRST)), change=changes, way=ways)
    def run(self, kind: str, change: dict[str, int], way: Way) -> None:
        name, first = self.unused(), expected.FIRST[kind]
        self.model[name] = expected.created(kind, self.clock.time)
        self.run_on(name, {**first, **{key: change[key] for key in first if key in change}}, way)

    @has_some
    @rule(pick=picks, way=ways)
    def resume(self, pick: int, way: Way) -> None:
        self.run_on(self.picked(pick), {}, way)

    @has_some
    @rule(pick=picks, change=changes, way=ways, new_turn=st.booleans())
    def turn(self, pick: int, change: dict[str, int], way: Way, new_turn: bool) -> None:
        name = self.picked(pick)
        given = self.given_to(name, change)
        self.run_on(name, given, way, new_turn=new_turn and bool(given))

    @has_some
    @has_room
    @rule(pick=picks, back=st.integers(0, 5), change=changes, way=ways)
    def fork(self, pick: int, back: int, change: dict[str, int], way: Way) -> None:
        origin, name = self.picked(pick), self.unused()
        points = sorted(self.model[origin]["points"])
        superstep = points[-back] if 0 < back <= len(points) else None
        self.model[name] = expected.forked(self.model[origin], superstep)
        self.model[name]["created"] = self.clock.time
        self.run_on(name, self.given_to(name, change), way, fork_from=(origin, superstep))

    @has_some
    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        name = self.picked(pick)
        del self.model[name]
        same(self.store.delete(name), 1, "deleted")

    @rule(age=spans)
    def prune(self, age: timedelta) -> None:
        limit = self.clock.time - age
        old = [n for n, w in self.model.items() if w["status"] in FINISHED and w["ended"] < limit]
        same(sorted(self.store.prune(limit if age < timedelta(0) else age)), sorted(old), "pruned")
        for name in old:
            del self.model[name]

    @rule(span=spans)
    def jump(self, span: timedelta) -> None:
        if 1000 < (self.clock.time + span).year < 9000:
            self.clock.jump(span)

    @rule()
    def reopen(self) -> None:
        self.store = self.reopened()

    @has_some
    @rule(pick=picks, change=changes, at=picks)
    def second_runner(self, pick: int, change: dict[str, int], at: int) -> None:
        """While a body runs, another runner is refused, and so is a deletion."""
        name = self.picked(pick)
        given, workflow, refused = self.given_to(name, change), self.model[name], []
        expected.give(workflow, given)
        called, stages = expected.course(workflow)

        def intrude() -> None:
            store = self.reopened()
            with pytest.raises(WorkflowLockedError):
                OnSync(checkpointer=store).run(self.graphs[workflow["kind"]], workflow_id=name)
            with pytest.raises(WorkflowLockedError):
                store.backend.delete([name])
            refused.append(name)

        self.bodies.plan(at % max(1, len(called)), intrude)
        self.call(OnSync, name, given)
        same(self.bodies.called, called, "bodies called")
        same(refused, [name] if called else [], "refused")
        self.settle(name, stages)

    @has_some
    @rule(pick=picks, change=changes, at=picks)
    def takeover(self, pick: int, change: dict[str, int], at: int) -> None:
        """While a body runs, another runner takes over by force; what the first one makes is refused."""
        name = self.picked(pick)
        given, workflow = self.given_to(name, change), self.model[name]
        expected.give(workflow, given, new_turn=bool(given))
        left = expected.bodies_left(workflow)
        if not left:
            return
        before, stages = expected.course(workflow, self.sudden, at % left)
        siblings = expected.due(workflow)
        rest = siblings[siblings.index(before[-1]) + 1 :]
        after, more = expected.course(workflow)

        def intrude() -> None:
            rival = OnSync(checkpointer=self.reopened())
            rival.run(self.graphs[workflow["kind"]], workflow_id=name, force=True)

        self.bodies.plan(at % left, intrude)
        with pytest.raises(OwnershipLostError):
            self.call(OnSync, name, given, new_turn=bool(given))
        unaware = list(rest) if self.early else []  # called before the first one hears of it
        same(self.bodies.called, before + after + unaware, "bodies called")
        self.settle(name, [*stages, *more])


class InMemory(Stories):
    """Stories in memory: what is dropped there is the runner."""

    def made_store(self) -> Checkpointer:
        return MemoryCheckpointer()

    def reopened(self) -> Checkpointer:
        return self.store


class OnDisk(Stories):
    """Stories in a SQLite file, with processes that are really killed."""

    elsewhere: ClassVar[processes.Elsewhere]
    kills = 0

    def made_store(self) -> Checkpointer:
        if not hasattr(self, "path"):
            self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "runs.db"
        return SqliteCheckpointer(self.path)

    @precondition(lambda self: self.model and self.kills < KILLS)
    @rule(pick=picks, change=changes, at=picks)
    def kill(self, pick: int, change: dict[str, int], at: int) -> None:
        name = self.picked(pick)
        given, workflow = self.given_to(name, change), self.model[name]
        options = {"workflow_id": name, "new_turn": bool(given), "force": workflow["kills"] >= 2}
        expected.give(workflow, given, new_turn=bool(given))
        left = expected.bodies_left(workflow)
        if not left:
            return
        _, stages = expected.course(workflow, self.sudden, at % left)
        doing = (self.path, workflow["kind"], at % left, given, options)
        self.elsewhere.dies(killed_in, *doing, early=self.early)
        self.kills += 1
        workflow["kills"] = 1 if options["force"] else workflow["kills"] + 1
        self.settle(name, stages, "kill")
