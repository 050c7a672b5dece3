"""Several processes at one workflow: one of them runs it, and nothing is done twice.

Every body leaves a line in a file that outlives its process, with the number of the rival that runs it.
Whoever loses a race is refused with an error of ours or given the stored result, and has no effect.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.crashing import note, opened
from support.processes import Elsewhere, started
from support.running import RUNNERS
from support.stored import store_at

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import WorkflowStatus
from proofs import rivals, zombies
from proofs.outcome import Outcome, scaled

NAME = "races"
REFUSALS = {"WorkflowLockedError", "OwnershipLostError", "WorkflowError"}
_me = {"number": "0", "broken": ""}  # which rival this process is, and the body that fails


def body(name: str) -> None:
    """Leave the line of a body; fail if this is the one that is broken."""
    note(f"{name} {_me['number']}")
    if _me["broken"] == name:
        raise ValueError("broken")


@node(output_name="a")
def first(x: int) -> int:
    body("first")
    return x + 1


@node(output_name="b")
def second(a: int) -> int:
    body("second")
    return a + 1


@node(output_name="c")
def third(b: int) -> int:
    body("third")
    return b + 1


@interrupt(output_name="verdict")
def ask(a: int) -> None:
    body("ask")


@node(output_name="c")
def publish(a: int, verdict: str) -> str:
    body("publish")
    return f"{a} {verdict}"


CHAIN = Graph([first, second, third], name="chain")
ASKING = Graph([first, ask, publish], name="asking")
NESTED = Graph([first, Graph([second], name="inner").as_node(), third], name="outer")


def call(folder: Path, runner: str, number: str, graph: Graph, *, broken: str = "", **options: Any) -> Any:
    """Run something as one of the rivals."""
    _me.update(number=number, broken=broken)
    runner = "async" if graph is ASKING else runner  # the only one that can pause
    return opened(folder, runner).run(graph, **{"workflow_id": "w", **options}).get("c")


def mapped(folder: Path, runner: str, number: str) -> Any:
    _me.update(number=number, broken="")
    made = opened(folder, runner).map(CHAIN, {"x": [0, 10, 20]}, map_over="x", workflow_id="w")
    return [result["c"] for result in made]


def deleted(folder: Path) -> Any:
    return store_at(folder / "w.db").delete("w")


class Race(NamedTuple):
    """One kind of race: what comes before, what each rival does, and what its bodies may have done then."""

    before: Callable[[Path, str], Any]
    rival: Callable[[Path, str, str], Any]
    bodies: set[str]  # those that run in the race, once altogether
    results: set[str]  # what a rival may be told, as JSON
    each: bool = False  # every rival that is told a result has run the bodies itself
    workflow: bool = True  # whether it is there, and completed, at the end
    refusals: set[str] = REFUSALS


def nothing(folder: Path, runner: str) -> None:
    """Leave the folder as it is."""


def failed(graph: Graph, at: str, folder: Path, runner: str) -> None:
    rivals.told(partial(call, folder, runner, "before", graph, broken=at, x=0))


def killed(folder: Path, runner: str) -> None:
    def die() -> None:
        made = opened(folder, runner, "second before")
        _me.update(number="before", broken="")
        made.run(CHAIN, x=0, workflow_id="w")

    assert rivals.Child(die).hear()[0] == "died"


def done(graph: Graph, workflow_id: str, folder: Path, runner: str) -> None:
    call(folder, runner, "before", graph, x=0, workflow_id=workflow_id)


def run(graph: Graph, folder: Path, runner: str, number: str, **options: Any) -> Any:
    return call(folder, runner, number, graph, x=0, **options)


def answer(folder: Path, runner: str, number: str) -> Any:
    return call(folder, runner, number, ASKING, verdict=number)


def same_answer(folder: Path, runner: str, number: str) -> Any:
    return call(folder, runner, number, ASKING, verdict="yes")


def turn(folder: Path, runner: str, number: str) -> Any:
    return call(folder, runner, number, CHAIN, x=100 * int(number) + 100, new_turn=True)


def fork(folder: Path, runner: str, number: str) -> Any:
    return call(folder, runner, number, CHAIN, fork_from=("origin", 0))


def fork_other(folder: Path, runner: str, number: str) -> Any:
    return call(folder, runner, number, CHAIN, x=100 * int(number) + 100, fork_from=("origin", 0))


def delete_or_resume(folder: Path, runner: str, number: str) -> Any:
    return deleted(folder) if number != "1" else run(CHAIN, folder, runner, number)


ALL = {"first", "second", "third"}
REST = ALL - {"first"}
TURNS = {"103", "203", "303"}
FORK_REFUSALS = REFUSALS | {"ValueError"}  # "exists already"
RACES = {
    "start": Race(nothing, partial(run, CHAIN), ALL, {"3"}),
    "start, and wait": Race(nothing, partial(run, CHAIN, wait=True), ALL, {"3"}),
    "start a nested graph": Race(nothing, partial(run, NESTED), ALL, {"3"}),
    "start a map": Race(nothing, mapped, ALL, {"[3, 13, 23]"}),
    "resume after a failure": Race(partial(failed, CHAIN, "second"), partial(run, CHAIN), REST, {"3"}),
    "resume a nested graph": Race(partial(failed, NESTED, "second"), partial(run, NESTED), REST, {"3"}),
    "resume after a crash": Race(killed, partial(run, CHAIN), REST, {"3"}),
    "different answers": Race(partial(done, ASKING, "w"), answer, {"publish"}, {'"1 0"', '"1 1"', '"1 2"'}),
    "the same answer": Race(partial(done, ASKING, "w"), same_answer, {"publish"}, {'"1 yes"'}),
    "a new turn": Race(partial(done, CHAIN, "w"), turn, ALL, TURNS, each=True),
    "fork to one id": Race(
        partial(done, CHAIN, "origin"), fork, REST, {"3"}, refusals=REFUSALS | {"ValueError"}
    ),
    "different forks to one id": Race(
        partial(done, CHAIN, "origin"), fork_other, ALL, TURNS, refusals=FORK_REFUSALS
    ),
    "delete while resuming": Race(
        partial(failed, CHAIN, "second"), delete_or_resume, ALL, {"0", "1", "3"}, workflow=False
    ),
}


def calls(folder: Path) -> Counter[tuple[str, str]]:
    """Return how often each rival ran each body."""
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return Counter((name, number) for name, _, number in (line.rpartition(" ") for line in lines))


def one_race(folder: Path, kind: str, runner: str, count: int, seed: int) -> list[str]:
    """Run one race in this process and its children; return what was wrong with it."""
    race = RACES[kind]
    race.before(folder, runner)
    heard = rivals.at_once([partial(race.rival, folder, runner, str(n)) for n in range(count)], seed)
    wrong = _answers(race, heard) + _effects(race, kind, heard, calls(folder))
    found = store_at(folder / "w.db").backend.read_workflow("w")
    if race.workflow and (found is None or found.status is not WorkflowStatus.COMPLETED):
        wrong.append(f"the workflow is {found.status if found else 'gone'}")
    return [f"{text} | heard {heard}" for text in wrong]


def _answers(race: Race, heard: list[rivals.Heard]) -> list[str]:
    wrong = [f"{name} was raised" for name, _ in heard if name and name not in race.refusals]
    results = {json.dumps(value) for name, value in heard if not name}
    wrong += [f"{value} is no result" for value in results - race.results]
    return wrong if results else [*wrong, "nobody won"]


def _effects(race: Race, kind: str, heard: list[rivals.Heard], ran: Counter[tuple[str, str]]) -> list[str]:
    wrong = []
    items = 3 if kind == "start a map" else 1
    for name in sorted(race.bodies):
        by = {number: ran[name, str(number)] for number in range(len(heard))}
        if race.each:
            expected = {number: int(not error) for number, (error, _) in enumerate(heard)}
            if by != expected:
                wrong.append(f"{name} was run {by}, not {expected}")
        elif sum(by.values()) > items or (race.workflow and sum(by.values()) != items):
            wrong.append(f"{name} was run {by}")
    others = {name for name, number in ran if number != "before"} - race.bodies - {"ask"}
    return wrong + [f"{name} was run again" for name in others]


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Let processes race, and let some of them sleep while others take over."""
    outcome = Outcome(NAME, skipped=rivals.MISSING)
    if outcome.skipped:
        return outcome
    ways = list(itertools.product(RUNNERS, (2, 3)))
    with outcome.timed(), started() as elsewhere:
        for number in range(scaled(240, scale, least=len(RACES))):
            kind = list(RACES)[number % len(RACES)]
            runner, count = ways[(number + number // len(RACES)) % len(ways)]
            _count(outcome, elsewhere, one_race, kind, runner, count, seed + number)
        kinds = list(zombies.TRIALS)
        for number in range(scaled(10 * len(kinds), scale, least=len(kinds))):
            kind, runner = kinds[number % len(kinds)], RUNNERS[(number + number // len(kinds)) % 2]
            _count(outcome, elsewhere, zombies.one_trial, kind, runner, seed + number)
    return outcome


def _count(outcome: Outcome, elsewhere: Elsewhere, trial: Callable[..., list[str]], *args: Any) -> None:
    """Count a trial in a folder and a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        name, wrong = rivals.told(lambda: elsewhere(trial, Path(folder), *args))
    texts = [f"{name}: {wrong}"] if name else wrong
    how = f"repeat with {trial.__module__}.{trial.__name__}(folder, {', '.join(map(repr, args))})"
    outcome.count("; ".join([*texts, how]) if texts else None)
