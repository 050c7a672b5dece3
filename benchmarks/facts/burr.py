"""Burr, for the comparison."""

from __future__ import annotations

import tempfile
from typing import Any

from burr.core import ApplicationBuilder, State, action, default, expr
from burr.core.persistence import SQLitePersister

from benchmarks.facts import FAILURE, FORK, LOOPS, NAMES, PAUSE, SPELLING, Facts, Shaky, raises


def actions(work: Shaky) -> tuple[Any, Any]:
    @action(reads=["n"], writes=["n"])
    def grow(state: State) -> State:
        work("grow")
        return state.update(n=state["n"] + 1)

    @action(reads=["n"], writes=["out"])
    def finish(state: State) -> State:
        work("finish")
        return state.update(out=state["n"])

    return grow, finish


class Program:
    """A loop to three and a last step, written down in a file."""

    def __init__(self, work: Shaky) -> None:
        self.work = work
        self.persister = SQLitePersister(db_path=f"{tempfile.mkdtemp()}/burr.db")
        self.persister.initialize()

    def build(self, name: str, **fork: Any) -> Any:
        builder = ApplicationBuilder().with_actions(*actions(self.work))
        builder = builder.with_transitions(("grow", "grow", expr("n < 3")), ("grow", "finish", default))
        builder = builder.with_identifiers(app_id=name, partition_key="k").with_state_persister(
            self.persister
        )
        begin = {"resume_at_next_action": True, "default_state": {"n": 0}, "default_entrypoint": "grow"}
        return builder.initialize_from(self.persister, **begin, **fork).build()

    def run(self, name: str, **fork: Any) -> Any:
        return self.build(name, **fork).run(halt_after=["finish"])[2]["out"]


def joins_names() -> bool:
    work = Shaky(None)
    builder = ApplicationBuilder().with_actions(*actions(work)).with_entrypoint("grow").with_state(n=0)
    raises(lambda: builder.build().run(halt_after=["finish"]))
    return "finish" in work.calls


def loops() -> bool:
    return bool(Program(Shaky(None)).run("w") == 3)


def finds_misspelled_names() -> bool:
    work = Shaky(None)

    @action(reads=["m"], writes=["out"])
    def finish(state: State) -> State:
        return state.update(out=state["m"])

    builder = ApplicationBuilder().with_actions(actions(work)[0], finish).with_transitions(("grow", "finish"))
    builder = builder.with_entrypoint("grow").with_state(n=0)
    return raises(lambda: builder.build().run(halt_after=["finish"])) and not work.calls


def goes_on_after_a_failure() -> bool:
    program = Program(Shaky("finish"))
    failed = raises(lambda: program.run("w"))
    program.work.mend()
    return failed and program.run("w") == 3 and program.work.calls == ["finish"]


def pauses() -> bool:
    program = Program(Shaky(None))
    halted = program.build("w").run(halt_before=["finish"])[0]
    program.work.mend()
    return halted.name == "finish" and program.run("w") == 3 and program.work.calls == ["finish"]


def forks() -> bool:
    program = Program(Shaky(None))
    program.run("w")
    program.work.mend()
    origin = {"fork_from_app_id": "w", "fork_from_partition_key": "k", "fork_from_sequence_id": 1}
    return program.run("v", **origin) == 3 and program.work.calls == ["grow", "finish"]


FACTS: Facts = {
    NAMES: joins_names,
    LOOPS: loops,
    SPELLING: finds_misspelled_names,
    FAILURE: goes_on_after_a_failure,
    PAUSE: pauses,
    FORK: forks,
}
