"""Defects to be planted in all processes of a suite: one that does not notice proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from support import processes

from hypergraph.checkpointers import overview
from hypergraph.checkpointers.artifacts import files
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sqlite.database import Connection, Database
from hypergraph.durability import code_changes, code_hashes, history, journal, map_recorder, recorder, resume
from hypergraph.durability.journal import Intents, Journal
from hypergraph.engine.plan import Step
from hypergraph.engine.run import CallWatch
from hypergraph.scheduling import Layout, Past, Standing, bits
from hypergraph.values.serializers import _TreeSerializer


def _commit_late() -> None:
    """Let a step start before what it takes is written down."""
    plain = Journal.before

    def before(self: Journal, step: Step, superstep: int) -> tuple[int, ...]:
        lowest, self.lowest = self.lowest, float("inf")
        saved = plain(self, step, superstep)
        self.lowest = lowest
        return saved

    Journal.before = before  # type: ignore[method-assign]


def _do_not_sync_artifacts() -> None:
    """Let a row name a file whose content may not be on disk yet."""
    files.os = SimpleNamespace(**{**vars(os), "fsync": lambda file: None})  # type: ignore[assignment]


def _do_not_check_fences() -> None:
    """Accept writes from an owner that was replaced."""
    any_owner = "SELECT 1 WHERE ? IS NOT NULL AND ? IS NOT NULL"
    Connection.dialect = Connection.dialect._replace(owned=any_owner)


def _store_what_cannot_be_read() -> None:
    """Store objects of classes that a resume could not restore."""
    plain = _TreeSerializer.with_types

    def with_types(self: Any, annotations: Any, functions: Any = ()) -> Any:
        found = plain(self, annotations, functions)
        found._strict = False
        return found

    _TreeSerializer.with_types = with_types  # type: ignore[method-assign]


def _keep_decisions() -> None:
    """Let a turn go by what gates decided in earlier turns."""
    plain = Standing.turn

    def turn(self: Standing, layout: Any, reached: int) -> Standing:
        return plain(self, layout, reached & ~layout.gates)

    Standing.turn = turn  # type: ignore[method-assign]


def _repeat_the_last_step() -> None:
    """Run a recorded step again after a failure."""
    plain = history.completed

    def completed(plan: Any, records: Any) -> Any:
        return plain(plan, records)[:-1]

    history.completed = completed


def _wait_for_siblings() -> None:
    """Leave finished steps unsaved while others run."""
    journal._EARLY = float("inf")


def _ignore_wiring() -> None:
    """Hash the code of a node without its inputs and outputs."""
    plain = code_hashes.code_hash

    def code_hash(node: Any, outputs: Any = None) -> str:
        parts = getattr(node, "code_parts", None)
        return plain(node, outputs) if parts is None else code_hashes.sha256(*parts)

    code_hashes.code_hash = code_changes.code_hash = code_hash


def _rerun_loops() -> None:
    """Run changed code again where its first values are gone."""
    recorder.refuse_rerun = lambda store, admission, stored, outdated: None


def _keep_announcements() -> None:
    """Leave a cancelled step announced, though it was never called."""
    Journal.not_called = lambda self, step, superstep, error: None  # type: ignore[method-assign]


def _count_every_crash() -> None:
    """Count crashes with progress between them as a crash loop."""
    writes.PROGRESS = "SELECT node FROM intents WHERE workflow = ? AND fence = ? AND 1 = 0"


def _share_what_is_handed_out() -> None:
    """Give a node what an earlier one has changed in place."""
    Journal.hand_out = lambda self, step: None  # type: ignore[method-assign]


def _repeat_what_was_lost() -> None:
    """Call a node again that must not be repeated, because its result cannot be restored."""
    plain = Intents.__init__

    def init(self: Intents, journal: Any, claim: Any) -> None:
        plain(self, journal, claim)
        self.unresolved = {node: why for node, why in self.unresolved.items() if "restored" not in why}

    Intents.__init__ = init  # type: ignore[method-assign]


def _count_waiting_as_running() -> None:
    """Let timeouts and durations begin before a worker is free."""
    CallWatch.ended = lambda self: None  # type: ignore[method-assign]


def _complete_short_lists() -> None:
    """Say nothing of recorded items that a list lacks."""
    map_recorder.MapRecorder.tell_missing = staticmethod(lambda map_run, items: None)  # type: ignore[method-assign]


def _forget_redacted() -> None:
    """Take every redacted input for a new one."""
    Encoding.is_redacted = lambda self, payload, value: False  # type: ignore[method-assign]


def _copy_into_nested() -> None:
    """Store what nested graphs take once more."""
    recorder.WorkflowRecorder._referring = (  # type: ignore[method-assign]
        lambda self, run, parent, inputs: inputs
    )


def _stop_at_the_store() -> None:
    """Let a failing store stop a run that was told to continue."""
    recorder.WorkflowRecorder.tolerate = (  # type: ignore[method-assign]
        lambda self, error, of_value=False: False
    )


def _restart_inside() -> None:
    """Continue failed items that are to start over."""
    map_recorder.MapRecorder._failed = (  # type: ignore[method-assign]
        lambda self, map_run, items: []
    )


def _leave_questions_in_place() -> None:
    """Record an answer where its question was asked, before the new nodes that lead to it."""
    Journal._in_place = (  # type: ignore[method-assign]
        lambda self, step, superstep: self.waiting.get(step.name)
    )


def _replace_what_was_taken() -> None:
    """Replace all outputs of a node that is called for one more."""
    resume._Remaking.kept = lambda self, step, store: {}  # type: ignore[method-assign]


def _wait_on_the_event_loop() -> None:
    """Let the event loop stand still while another program holds the file."""
    plain, Database.timeout = Journal._write_out, 1.0
    Journal._write_out = lambda self, *, wait: plain(self, wait=True)  # type: ignore[method-assign]


def _open_what_no_gate_chose() -> None:
    """Let nodes behind gates run before a gate has chosen them."""
    plain = Standing.__init__

    def init(self: Standing, layout: Any) -> None:
        plain(self, layout)
        self.entered |= layout.controlled
        self.open |= layout.controlled
        self._look_at(layout.scope)

    Standing.__init__ = init  # type: ignore[method-assign]


def _keep_what_was_cut_off() -> None:
    """Let what a failed turn has left to do run beside the next turn."""
    plain = Past.turn

    def turn(self: Past, layout: Any, reached: int) -> None:
        left = self.standing.due | self.standing.pending
        plain(self, layout, reached)
        self.standing.pending |= left
        self.standing.running |= left

    Past.turn = turn  # type: ignore[method-assign]


def _do_not_wait_for_values() -> None:
    """Let a node run as soon as one of the values that it takes is new."""
    Standing.ready = lambda self: bits(self.due | self.pending)  # type: ignore[method-assign]


def _keep_old_decisions() -> None:
    """Let what a gate has chosen for the next round run although it has decided otherwise since."""
    plain = Standing._drop
    Standing._drop = lambda self, gate, kept: plain(self, gate, self.layout.heads)  # type: ignore[method-assign]


def _hold_what_was_chosen_with_a_question() -> None:
    """Let a question that is open when a run is resumed stand alone in its round."""
    Standing.restart = Standing.start  # type: ignore[method-assign]


def _enter_at_once() -> None:
    """Let what leads to the next round of a loop restart the loops inside it within this round."""
    plain = Layout.entered_by

    def entered_by(self: Layout, source: int, absent: Any = ()) -> tuple[tuple[int, int], ...]:
        return tuple((loop, -1) for loop, _ in plain(self, source, absent))

    Layout.entered_by = entered_by  # type: ignore[method-assign]


def _show_ten_reasons() -> None:
    """Say of the first ten items alone why they failed."""
    plain = overview.first_error_in

    def first_error(store: Any, workflow_id: str, tallies: Any = None) -> Any:
        number = workflow_id.rpartition("/item-")[2]
        return None if number.isdigit() and int(number) >= 10 else plain(store, workflow_id, tallies)

    overview.first_error_in = first_error


def _forget_before_a_summary() -> None:
    """Resume from a summary as if nothing had been decided before."""
    plain = Standing.to_data
    Standing.to_data = lambda self: {**plain(self), "held": [0] * len(self.held)}  # type: ignore[method-assign]


def _open_beside_sqlite() -> None:
    """Look into a database file before a run begins: closing it frees SQLite's locks on the file."""
    plain = Database.recover

    def recover(self: Database) -> bool:
        if os.path.exists(self.path):
            os.close(os.open(self.path, os.O_RDONLY))
        return plain(self)

    Database.recover = recover  # type: ignore[method-assign]


DEFECTS: dict[str, Callable[[], None]] = {
    "objects are stored that cannot be read": _store_what_cannot_be_read,
    "a turn goes by old decisions": _keep_decisions,
    "a recorded step runs again": _repeat_the_last_step,
    "a finished step waits for its siblings": _wait_for_siblings,
    "code changes miss the wiring": _ignore_wiring,
    "a loop is run again from its end": _rerun_loops,
    "a cancelled step stays announced": _keep_announcements,
    "crashes count although there was progress": _count_every_crash,
    "nodes share a value that one has changed": _share_what_is_handed_out,
    "a lost result is made again": _repeat_what_was_lost,
    "waiting for a worker counts as running": _count_waiting_as_running,
    "a shorter list completes a map": _complete_short_lists,
    "redacted inputs are always new": _forget_redacted,
    "nested graphs copy what they take": _copy_into_nested,
    "a best-effort store stops the run": _stop_at_the_store,
    "failed items do not start over": _restart_inside,
    "a question stays before what leads to it": _leave_questions_in_place,
    "a node that makes more replaces what it made": _replace_what_was_taken,
    "the event loop waits for a lock": _wait_on_the_event_loop,
    "a node runs that no gate chose": _open_what_no_gate_chose,
    "a turn runs beside what the last one left": _keep_what_was_cut_off,
    "a join takes one new and one old value": _do_not_wait_for_values,
    "a gate that decides anew keeps its old choice": _keep_old_decisions,
    "a failed node waits for the question beside it": _hold_what_was_chosen_with_a_question,
    "a loop begins again and again in one round": _enter_at_once,
    "ten items say why they failed": _show_ten_reasons,
    "a summary forgets decisions": _forget_before_a_summary,
    "a database file is opened beside SQLite": _open_beside_sqlite,
    "a commit after the next superstep starts": _commit_late,
    "no fsync before the row of an artifact": _do_not_sync_artifacts,
    "no check of the fence": _do_not_check_fences,
}


def plant(defect: str) -> None:
    """Break this process."""
    DEFECTS[defect]()


@contextmanager
def planted(defect: str) -> Iterator[None]:
    """Break every process that is started meanwhile, and not this one."""
    os.environ[processes.DEFECT] = defect
    try:
        yield
    finally:
        del os.environ[processes.DEFECT]
