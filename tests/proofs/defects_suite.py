"""Planted defects: each is a loss that was found once, and the tests of it must fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import processes

from proofs.outcome import Outcome, scaled

NAME = "planted defects"
CAUGHT_BY = {
    "objects are stored that cannot be read": "durability/test_unreadable.py",
    "a turn goes by old decisions": "durability/test_turn_laws.py",
    "a recorded step runs again": "durability/test_resume.py",
    "a finished step waits for its siblings": "durability/test_written_at_once.py",
    "code changes miss the wiring": "durability/test_code_changes.py",
    "a loop is run again from its end": "durability/test_code_changes.py",
    "a cancelled step stays announced": "durability/test_written_at_once.py",
    "crashes count although there was progress": "durability/test_agreement.py",
    "nodes share a value that one has changed": "durability/test_agreement.py",
    "a lost result is made again": "durability/test_unreadable.py",
    "waiting for a worker counts as running": "executors/test_waiting.py",
    "a shorter list completes a map": "durability/test_map_lists.py",
    "redacted inputs are always new": "durability/test_item_restart.py",
    "nested graphs copy what they take": "durability/test_references.py",
    "a best-effort store stops the run": "durability/test_best_effort.py",
    "failed items do not start over": "durability/test_item_restart.py",
    "a question stays before what leads to it": "durability/test_nodes_before_questions.py",
    "a node that makes more replaces what it made": (
        "durability/test_code_changes.py::test_what_a_node_made_before_stays_when_it_makes_more"
    ),
    "the event loop waits for a lock": (
        "durability/test_written_at_once.py::test_a_locked_file_does_not_stop_the_event_loop"
    ),
    "a node runs that no gate chose": "laws/test_programs.py",
    "a turn runs beside what the last one left": (
        "laws/test_programs.py::test_a_message_after_a_turn_that_was_cut_off_is_kept"
    ),
    "a join takes one new and one old value": (
        "laws/test_programs.py::test_a_join_in_a_loop_takes_values_of_one_round"
    ),
    "a gate that decides anew keeps its old choice": (
        "laws/test_programs.py::test_the_last_decision_of_a_gate_counts"
    ),
    "a failed node waits for the question beside it": (
        "laws/test_programs.py::test_what_failed_beside_a_question_runs_in_the_next_call"
    ),
    "a loop begins again and again in one round": (
        "laws/test_programs.py::test_a_loop_inside_a_loop_does_not_begin_again_and_again_in_one_round"
    ),
    "ten items say why they failed": "durability/test_item_restart.py",
    "a summary forgets decisions": "durability/test_summaries.py",
    "a database file is opened beside SQLite": (
        "checkpointers/sqlite/test_store.py::"
        "test_processes_that_come_and_go_leave_the_log_of_a_reader_that_begins_to_write"
    ),
}
_FAILED = 1  # the exit code of pytest if tests failed
_TESTS = Path(__file__).resolve().parent.parent


def notices(defect: str, tests: str) -> bool:
    """Say whether tests fail once a defect is planted."""
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "proofs.planting")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(_TESTS / tests)],
        cwd=_TESTS.parent,
        env={**os.environ, processes.DEFECT: defect},
        capture_output=True,
        check=False,
    )
    return done.returncode == _FAILED


def prove(*, scale: float = 1.0, seed: int = 0) -> Outcome:
    """Plant each defect, and run the tests that must notice it."""
    outcome = Outcome(NAME)
    with outcome.timed():
        for defect, tests in list(CAUGHT_BY.items())[: scaled(len(CAUGHT_BY), min(scale, 1))]:
            outcome.count(None if notices(defect, tests) else f"{tests} does not notice: {defect}")
    return outcome
