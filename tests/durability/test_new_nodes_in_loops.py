"""Random loops that get new nodes while a run waits, has failed or was killed in one of their rounds.

The law: a node that is new in a loop is called once for the values of the round in which the run stands, and
once in each later round, as in a fresh run of the code of today. It is not called for rounds that are over,
unless only what they made can tell its value. In a run that has completed it is called once. No old node is
called again. Every value says in which round it was made, so a fresh run is the oracle.
"""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import END, Graph, ifelse, interrupt, node, pause_for, route
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer
from hypergraph.testing import FakeClock

PROGRAMS = 12  # per case
ITEM = 100  # values of an item begin here
DAY = 86400


@dataclass(frozen=True)
class Part:
    """A node of a loop: it makes the number of the round, as its name with `_made`."""

    name: str
    takes: tuple[str, ...]
    kind: str = "node"
    made: str = ""
    once: bool = False  # whether it has repeatable=False
    appends: bool = False  # whether it adds the number to a list, too
    optional: frozenset[str] = frozenset()

    @property
    def output(self) -> str:
        return self.made or f"{self.name}_made"


@dataclass
class Program:
    """A loop, and how its run goes until it gets new nodes."""

    parts: list[Part]
    new: list[str]
    rounds: int
    fails: tuple[str, int] | None = None  # which call fails, or kills the process
    kills: bool = False
    fails_again: tuple[str, int] | None = None  # which call fails with the new nodes
    stops_at: int = 0  # how many questions are answered before; -1: all of them
    answer: str = "later"  # "stored" before the new nodes come, "given" with them, or "later"
    shape: str = "flat"

    def old(self) -> list[Part]:
        made = {part.output for part in self.parts if part.name in self.new}
        return [
            replace(part, takes=tuple(name for name in part.takes if name not in made))
            for part in self.parts
            if part.name not in self.new
        ]


def program(rnd: Random) -> Program:
    """Return a loop `model -> nodes, questions, choices -> tool -> gate -> model`, and what follows it."""
    parts = [Part("model", ("n", "done"), made="call", optional=frozenset(["done"]))]
    values = ["call"]
    kinds = ["node"] * rnd.randint(0, 3) + rnd.choice([["ask"], ["ask"], ["timer"], ["ask", "ask"], []])
    kinds += rnd.choice([[], [], ["branch"], ["allowed"]])
    rnd.shuffle(kinds)
    names: Counter[str] = Counter()
    must: list[str] = []
    for kind in kinds:
        names[kind] += 1
        name = f"{kind}{names[kind]}"
        taken = tuple(dict.fromkeys(["call", *rnd.sample(values, min(len(values), rnd.randint(0, 2)))]))
        left = taken[1:]
        if kind not in ("branch", "timer") and rnd.random() < 0.3 and any(n[:5] != "timer" for n in left):
            taken = left
        if kind == "branch":
            parts.append(Part("branch", taken, "branch"))
            parts += [Part(side, ("call",), made="side") for side in ("left", "right")]
            must.append("side")
            values.append("side")
        elif kind == "allowed":
            parts.append(Part("allowed", taken, "allowed"))
        else:
            parts.append(Part(name, taken, kind))
            values.append(f"{name}_made")
            if kind != "node" or rnd.random() < 0.5:
                must.append(f"{name}_made")
    extra = rnd.sample(values, min(len(values), rnd.randint(1, 2)))
    parts.append(
        Part("tool", tuple(dict.fromkeys(["call", *must, *extra])), made="done", appends=rnd.random() < 0.3)
    )
    parts.append(Part("gate", ("done",), "gate"))
    if rnd.random() < 0.4:
        parts.append(Part("after", ("done",)))
    made = Program(parts, [], rnd.randint(1, 4))
    for number in range(rnd.randint(1, 2)):
        _insert(rnd, made, f"new{number}")
    made.shape = rnd.choice(["flat", "flat", "nested", "mapped", "map"])
    how = rnd.random()
    calls = [
        p.name for p in made.old() if p.kind in ("node", "gate", "branch", "allowed") and p.name != "after"
    ]
    if how < 0.35:
        made.fails = (rnd.choice(calls), rnd.randint(1, made.rounds))
        made.kills = rnd.random() < 0.5
        made.stops_at = -1
    else:
        asks = [part for part in parts if part.kind in ("ask", "timer")]
        made.stops_at = -1 if how > 0.9 else rnd.randint(0, len(asks) * made.rounds)
    if rnd.random() < 0.3:
        names_now = [p.name for p in parts if p.kind in ("node", "gate", "branch", "allowed")]
        made.fails_again = (rnd.choice([*names_now, *made.new]), rnd.randint(1, made.rounds))
    made.answer = rnd.choice(["stored", "given", "later"])
    return made


def _insert(rnd: Random, made: Program, name: str) -> None:
    """Put a new node into the loop, or after it: what it makes is taken by some of those that follow."""
    parts = made.parts
    end = next(i for i, part in enumerate(parts) if part.name == "gate")
    place = rnd.randint(1, end)
    place += parts[place].name == "right"  # what one side has made does not lead to the other
    before = [part.output for part in parts[:place] if part.kind not in ("branch", "allowed")]
    taken = rnd.sample(sorted(set(before)), min(len(set(before)), rnd.randint(1, 2)))
    taken = taken if any(not name.startswith("timer") for name in taken) else [*taken, "call"]
    if rnd.random() < 0.2:
        taken.append("n")
    new = Part(name, tuple(taken), once=rnd.random() < 0.5, appends=rnd.random() < 0.2)
    made.new.append(name)
    may = [i for i in range(place, end + 1) if parts[i].kind != "timer"]
    for i in rnd.sample(may, min(len(may), rnd.randint(0, 2))):
        parts[i] = replace(parts[i], takes=(*parts[i].takes, new.output))
    if rnd.random() < 0.2:
        model = parts[0]
        parts[0] = replace(model, takes=(*model.takes, new.output), optional=model.optional | {new.output})
    parts.insert(place, new)


class Killed(KeyboardInterrupt):
    """The process dies here: what was stored until then was copied."""


@dataclass
class World:
    """What the functions of a loop call, and what fails."""

    rounds: int
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    breaks: tuple[str, int] | None = None
    kill: Callable[[], None] | None = None

    def graph(self, parts: list[Part]) -> Graph:
        return Graph([self._node(part) for part in parts], name="looped")

    def _node(self, part: Part) -> Any:
        made = part.output
        if part.kind == "timer":
            return pause_for(made, _function(part, lambda args: DAY)).with_name(part.name)
        if part.kind == "ask":
            return interrupt(made)(_function(part, lambda args: None))

        def body(args: tuple[Any, ...]) -> Any:
            numbers = [arg for arg in args if type(arg) is int]
            now = max(numbers)
            if self.breaks == (part.name, now % ITEM + (part.name == "model")):
                self.breaks = None
                if self.kill is not None:
                    self.kill()
                    raise Killed
                raise ConnectionError(part.name)
            self.calls.append((part.name, args))
            if part.kind == "gate":
                return END if now % ITEM >= self.rounds else "model"
            if part.kind == "allowed":
                return True
            if part.kind == "branch":
                return now % 2 == 0
            now += part.name == "model"
            return (now, now) if part.appends else now

        function = _function(part, body)
        if part.kind == "gate":
            return route(targets=["model", END])(function)
        if part.kind == "allowed":
            return ifelse(when_true="tool", when_false=END)(function)
        if part.kind == "branch":
            return ifelse(when_true="left", when_false="right")(function)
        outputs = (made, "log") if part.appends else made
        options: dict[str, Any] = {"append": "log"} if part.appends else {}
        return node(output_name=outputs, repeatable=not part.once, **options)(function)


def _function(part: Part, body: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """Return a function with the parameters of a part."""
    last = [name for name in part.takes if name in part.optional]
    names = [name for name in part.takes if name not in part.optional] + last
    taken = ", ".join(f"{name}=0" if name in last else name for name in names)
    known: dict[str, Any] = {"body": body}
    exec(f"def {part.name}({taken}): return body(({', '.join(names)},))", known)
    return known[part.name]  # type: ignore[no-any-return]  # made by the line above


SHAPES: dict[str, tuple[Callable[[Graph], Graph], Any]] = {
    "flat": (lambda one: one, 0),
    "nested": (lambda one: Graph([one.as_node(name="inner")], name="around"), 0),
    "mapped": (lambda one: Graph([one.as_node(name="each").map_over("n")], name="around"), [0, ITEM]),
    "map": (lambda one: one, [0, ITEM]),
}


class Trial:
    """One program, run with the old code until it stands, and then with the code of today."""

    def __init__(self, kind: type[On], made: Program, folder: Path, *, in_memory: bool) -> None:
        self.kind, self.made, self.folder = kind, made, folder
        self.world = World(made.rounds)
        self.around, self.given = SHAPES[made.shape]
        self.file: Path | None = None if in_memory and not made.kills else folder / "w.db"
        self.store: Any = MemoryCheckpointer() if self.file is None else SqliteCheckpointer(self.file)
        self.on = kind(checkpointer=self.store)
        self.clock = FakeClock()
        self.begun: set[str] = set()

    def call(self, parts: list[Part], values: dict[str, Any], workflow_id: str = "w") -> Any:
        graph = self.around(self.world.graph(parts))
        options: dict[str, Any] = {"workflow_id": workflow_id, "error_handling": "continue"}
        if self.made.shape == "map":
            return self.on.map(graph, {"n": self.given, **values}, map_over="n", **options)
        first = {} if workflow_id in self.begun else {"n": self.given}
        self.begun.add(workflow_id)
        return self.on.run(graph, {**first, **values}, **options)

    def answers(self, workflow_id: str = "w", most: int = 99) -> dict[str, Any]:
        """Return answers to open questions: each is the number of its round."""
        found: dict[str, Any] = {}
        for question in self.store.questions(workflow_id)[:most]:
            pause = question.pause
            if pause.reason == "interrupt":
                shown = [*(pause.values or {}).values()] or [pause.value]
                key = pause.response_key
                found[key] = max(each for each in shown if type(each) is int)
        return found

    def finish(self, parts: list[Part], workflow_id: str = "w", most: int = 99) -> Any:
        result = self.call(parts, {}, workflow_id)
        for _ in range(most):
            if not result.paused:
                break
            self.clock.jump(2 * DAY)
            result = self.call(parts, self.answers(workflow_id), workflow_id)
        return result

    def kill(self) -> None:
        """Copy what is stored, as if the process died now."""
        assert self.file is not None
        copy = self.folder / "copy.db"
        for part in self.folder.glob("w.db*"):
            if not part.name.endswith(("-shm", "-lock")):
                shutil.copy(part, self.folder / part.name.replace("w.db", "copy.db"))
        assert copy.exists()

    def begin(self) -> None:
        """Run with the old code."""
        made, old = self.made, self.made.old()
        self.world.breaks, self.world.kill = made.fails, self.kill if made.kills else None
        try:
            if made.stops_at < 0:
                self.finish(old)
            else:
                result = self.call(old, {})
                for _ in range(made.stops_at):
                    if not result.paused:
                        break
                    self.clock.jump(2 * DAY)
                    result = self.call(old, self.answers(most=1))
        except KeyboardInterrupt:
            self.store.close()
            self.store = SqliteCheckpointer(self.folder / "copy.db")
            self.on = self.kind(checkpointer=self.store)
        self.world.breaks = self.world.kill = None

    def go_on(self) -> Any:
        """Run with the new nodes to the end."""
        made, given = self.made, {}
        if made.answer == "stored":
            for key, value in self.answers(most=1).items():
                self.store.answer("w", key, value)
        elif made.answer == "given":
            given = self.answers()
        self.clock.jump(0 if made.answer == "later" else 2 * DAY)
        self.world.breaks = made.fails_again
        self.call(made.parts, given)
        self.finish(made.parts)
        self.world.breaks = None
        return self.finish(made.parts)


def rounds_of(calls: list[tuple[str, tuple[Any, ...]]]) -> Counter[tuple[str, int]]:
    return Counter((name, max(arg for arg in args if type(arg) is int)) for name, args in calls)


def leading_to_the_gate(parts: list[Part]) -> set[str]:
    """Return the nodes that the rounds of a loop lead through."""
    makers: dict[str, set[str]] = {}
    for part in parts:
        makers.setdefault(part.output, set()).add(part.name)
    chosen = {"left": "branch", "right": "branch", "tool": "allowed"}
    found, coming = set[str](), ["gate"]
    while coming:
        name = coming.pop()
        part = next((each for each in parts if each.name == name), None)
        if part is not None and name not in found:
            found.add(name)
            coming += [
                chosen.get(name, name),
                *(maker for taken in part.takes for maker in makers.get(taken, ())),
            ]
    return found


def check(kind: type[On], made: Program, folder: Path, *, in_memory: bool) -> None:
    trial = Trial(kind, made, folder, in_memory=in_memory)
    world, new = trial.world, set(made.new)
    with trial.clock:
        fresh_end = trial.finish(made.parts, "fresh")
        assert fresh_end.completed, ("fresh", fresh_end.error if made.shape != "map" else fresh_end)
        fresh, world.calls = rounds_of(world.calls), []
        trial.begin()
        before, world.calls = rounds_of(world.calls), []
        is_over = trial.store.workflow("w").status.value == "completed"
        end = trial.go_on()
        calls, world.calls = world.calls, []
        assert end.completed, end
        twice = [each for each, times in Counter(calls).items() if times > 1]
        assert twice == [], twice
        after = rounds_of(calls)
        looped = leading_to_the_gate(made.old())
        old_calls = {each: times for each, times in (before + after).items() if each[0] in looped}
        wanted_calls = {each: times for each, times in fresh.items() if each[0] in looped}
        more = {each: n for each, n in old_calls.items() if n != wanted_calls.get(each)}
        if made.kills and made.fails is not None:  # what a superstep has done is stored when it has ended
            more = {each: n for each, n in more.items() if n > 2 or each[1] % ITEM != made.fails[1]}
        less = {each: n for each, n in wanted_calls.items() if each not in old_calls}
        assert (more, less) == ({}, {}), is_over
        if is_over and made.shape in ("nested", "mapped"):  # new nodes inside of it run with "rerun"
            assert calls == []
            return
        for item in (0, ITEM) if made.shape.startswith("map") else (0,):
            stands = sum(1 for name, at in before if name == "model" and at // ITEM == item // ITEM)
            last = item + stands  # the round in which it stands
            for name in new:
                wanted = {at for other, at in fresh if other == name and at // ITEM == item // ITEM}
                got = {at for other, at in after if other == name and at // ITEM == item // ITEM}
                assert {at for at in got if at > last} == {at for at in wanted if at > last}, (
                    name,
                    got,
                    wanted,
                )
                early = {at for at in got if at < last}
                assert early <= (
                    {max(at for at in wanted if at < last)} if early and last not in wanted else set()
                ), (name, got, wanted, last)
                if ("gate", last) not in before or is_over:
                    assert (last in got) == (last in wanted), (name, got, wanted, last)
        trial.finish(made.parts)
        assert world.calls == []
    trial.store.close()


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_a_new_node_is_called_once_for_each_round_that_is_left(
    kind: type[On], block: int, tmp_path: Path
) -> None:
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = program(Random(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(kind, made, folder, in_memory=bool(block % 2))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {made}\n{error}") from error


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_a_new_call_that_must_not_be_repeated_is_made_once_in_each_round(
    kind: type[On], is_nested: bool
) -> None:
    parts = [
        Part("model", ("n", "done"), made="call", optional=frozenset(["done"])),
        Part("book", ("call",), once=True),
        Part("ask", ("call",), "ask"),
        Part("tool", ("call", "ask_made", "book_made"), made="done"),
        Part("gate", ("done",), "gate"),
    ]
    made, world, on = Program(parts, ["book"], 3), World(3), kind(checkpointer=MemoryCheckpointer())
    old, new = (
        SHAPES["nested" if is_nested else "flat"][0](world.graph(each)) for each in (made.old(), parts)
    )
    key = "inner.ask_made" if is_nested else "ask_made"
    on.run(old, n=0, workflow_id="w")
    on.run(old, {key: 1}, workflow_id="w")
    world.calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the results of the nodes that have run are kept
        assert on.run(new, workflow_id="w").paused
        assert on.run(new, {key: 2}, workflow_id="w").paused
        assert on.run(new, {key: 3}, workflow_id="w").completed
    assert [args for name, args in world.calls if name == "book"] == [(2,), (3,)]
