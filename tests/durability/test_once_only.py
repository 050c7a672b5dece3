"""Random programs that change while their runs are unfinished: the law of `repeatable=False`.

Whatever changes in the code, and whatever the call says of it, no function that must not be repeated has its
effect twice in one workflow. A call may be refused; if all are, the code of before finishes the run.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from durability.test_changed_programs import ANSWER, On, Part, nested, program
from hypergraph import END, Graph, NodeContext, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import (
    AmbiguousStepError,
    GraphChangedError,
    GraphConfigError,
    HypergraphError,
    OwnershipLostError,
)
from hypergraph.migration import migrate

PROGRAMS = 15  # per case
CHANGES = (
    "code",
    "rename",
    "rename all",
    "gate",
    "no gate",
    "rename gate",
    "insert",
    "remove",
    "more",
    "fewer",
)


class Effects:
    """What the functions of a program do, and how one of them ends the first time."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_broken = True
        self.fails_next: str | None = None  # a node of the new code that fails once
        self.calls, self.fails_at = 0, -1  # and the number of a call that fails

    def graph(self, parts: list[Part]) -> Graph:
        return Graph([self._node(part) for part in parts], name="program")

    def _node(self, part: Part) -> Any:
        made = part.get("makes", f"{part['name']}_made")
        function = self._function(part)
        if part["kind"] == "node":
            return node(output_name=made, repeatable=False)(function)
        if part["kind"] == "gate":
            targets = part.get("targets", ("left", "right"))
            return ifelse(when_true=targets[0], when_false=targets[1])(function)
        return interrupt(made, answer=int)(function)

    def _function(self, part: Part) -> Any:
        decision = part.get("result", "result % 2 == 0")
        result = {"node": "result", "gate": decision, "ask": "None"}[part["kind"]]
        lines = [
            f"def {part['name']}({', '.join(part['takes'])}):",
            f"    result = ({' + '.join(part['takes'])}) * 3 + {part.get('plus') or 0}",
            f"    effects.did({part.get('id', part['name'])!r}, {part['kind']!r}, {part.get('fails')!r})",
            f"    return {result}",
        ]
        known: dict[str, Any] = {"effects": self}
        exec("\n".join(lines), known)
        return known[part["name"]]

    def did(self, name: str, kind: str, fails: Any) -> None:
        self.calls += 1
        if (fails is True and self.is_broken) or name == self.fails_next or self.calls == self.fails_at + 1:
            self.fails_next = None
            raise ConnectionError(name)
        if kind == "node":
            self.done.append(name)
        if fails == "cut off" and self.is_broken:
            raise KeyboardInterrupt


def changed(rnd: Random, parts: list[Part]) -> list[Part]:  # noqa: PLR0912 - a branch for each change
    """Return the program after an upgrade in which names may have changed, and nothing says so."""
    new = [dict(part, id=part["name"]) for part in parts]
    for number in range(rnd.randint(1, 3)):
        change = rnd.choice(CHANGES)
        plain = [part for part in new if part["kind"] == "node" and part["name"] not in ("left", "right")]
        gates = [part for part in new if part["kind"] == "gate"]
        part = rnd.choice(plain)
        if change == "code":
            part["plus"] += 10
        elif change in ("rename", "rename all"):
            made = part.setdefault("makes", f"{part['name']}_made")
            if change == "rename all":
                part["makes"] = f"{made}_today"
                for other in new:
                    other["takes"] = [part["makes"] if name == made else name for name in other["takes"]]
            part["name"] += "_today"
            for gate in gates:
                old = part["name"].removesuffix("_today")
                targets = gate.get("targets", ("left", "right"))
                gate["targets"] = tuple(part["name"] if name == old else name for name in targets)
        elif change == "gate":
            gate = {"kind": "gate", "name": f"gate{number}", "takes": ["x"], "targets": (part["name"], END)}
            new.insert(rnd.randint(0, len(new)), gate | {"result": rnd.choice(["True", "False"])})
        elif change == "no gate" and gates:
            new.remove(rnd.choice(gates))
        elif change == "rename gate" and gates:
            rnd.choice(gates)["name"] += "_today"
        elif change == "insert":
            made = part.get("makes", f"{part['name']}_made")
            chain = [f"b{number}{letter}" for letter in "abc"[: rnd.randint(1, 3)]]
            for other in new:
                if other["kind"] != "gate":
                    last = f"{chain[-1]}_made"
                    other["takes"] = [last if name == made else name for name in other["takes"]]
            for name in chain:
                new.insert(1, {"kind": "node", "name": name, "takes": [made], "plus": 2})
                made = f"{name}_made"
        elif change == "remove" and len(plain) > 2:
            made = part.get("makes", f"{part['name']}_made")
            new.remove(part)
            for other in new:
                other["takes"] = ["x" if name == made else name for name in other["takes"]]
                other["takes"] = list(dict.fromkeys(other["takes"]))
        elif change == "more":
            part["takes"] = list(dict.fromkeys([*part["takes"], "x"]))
        elif change == "fewer" and len(part["takes"]) > 1:
            part["takes"] = part["takes"][1:]
    return new


@node(output_name="beside")
def look(unused: int = 0) -> int:
    return unused


def flat(graph: Graph) -> Graph:
    return Graph([look, *graph.iter_nodes()], name="around")


def inside(graph: Graph) -> Graph:
    return Graph([look, graph.as_node()], name="around")


def renamed(graph: Graph) -> Graph:
    return Graph([look, graph.as_node(name="program_today")], name="around")


# What is around the program before and after the change; with no node in common it would be another graph.
PLACES = {
    "flat": (flat, flat),
    "nested": (inside, inside),
    "renamed": (inside, renamed),
    "inlined": (inside, flat),
    "wrapped": (flat, inside),
}


@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("around", PLACES.values(), ids=PLACES)
def test_what_must_not_be_repeated_has_its_effect_once(around: Any, kind: str, block: int) -> None:
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about results that are kept, and questions that are given up
            check(Random(seed), kind, around, f"seed {seed}")


def check(rnd: Random, kind: str, around: Any, seed: str) -> None:
    effects, old = Effects(), program(rnd)
    for part in old:
        if part.get("fails") and kind == "sync" and rnd.random() < 0.5:
            part["fails"] = "cut off"  # after it had its effect
    new = changed(rnd, old)
    on = On(kind, MemoryCheckpointer())
    try:
        before, after = around[0](effects.graph(old)), around[1](effects.graph(new))
    except HypergraphError:
        return  # the change makes no graph
    try:
        result = on.run(before, {"x": 2}, workflow_id="w", error_handling="continue")
        if result.paused and rnd.random() < 0.5:
            on.run(before, {result.pause.response_key: ANSWER}, workflow_id="w", error_handling="continue")
    except KeyboardInterrupt:
        pass
    effects.is_broken = False
    if rnd.random() < 0.5:
        effects.fails_next = rnd.choice([part["name"] for part in new if part["kind"] == "node"])
    refused = 0
    for policy in rnd.sample(["keep", "rerun", "error", "keep"], 3):
        try:
            with suppress(ConnectionError):  # the same code resumes
                on.finished(on.run(after, workflow_id="w", code_change=policy), after, "w")
            on.finished(on.run(after, workflow_id="w", code_change=policy), after, "w")
        except OwnershipLostError as error:  # nothing else runs it
            raise AssertionError(seed, old, new) from error
        except (HypergraphError, ValueError):
            refused += 1
    effects.fails_next = None
    if refused == 3 and not any(part.get("fails") == "cut off" for part in old):
        assert on.finished(on.run(before, workflow_id="w"), before, "w").completed, (seed, old, new)
    twice = [name for name, times in Counter(effects.done).items() if times > 1]
    assert twice == [], (seed, old, new)


def with_chains(rnd: Random, parts: list[Part]) -> list[Part]:
    """Return the program with chains of new nodes and questions before old ones, mostly before a question."""
    new = [dict(part) for part in parts]
    for number in range(rnd.randint(1, 3)):
        target = rnd.choice([part for part in new if part["kind"] == "ask"] * 3 + new)
        place, first = new.index(target), rnd.choice(target["takes"])
        made = first
        for letter in "abcd"[: rnd.randint(1, 4)]:
            kind, name = rnd.choice(["node"] * 4 + ["ask"]), f"b{number}{letter}"
            takes = [made] if made == "x" or rnd.random() < 0.7 else [made, "x"]
            new.insert(place, {"kind": kind, "name": name, "takes": takes, "plus": 2})
            place, made = place + 1, f"{name}_made"
        kept = [name for name in target["takes"] if name != first or rnd.random() < 0.3]
        target["takes"] = [*kept, made]
    return new


def upgraded(seed: int, kind: str, around: Any, fails_at: int) -> tuple[Any, int]:
    """Return what new code does with a run of old code if one of its calls fails, and how many it makes."""
    rnd, effects = Random(seed), Effects()
    old = program(rnd)
    on, new = On(kind, MemoryCheckpointer()), with_chains(rnd, old)
    before, after = around[0](effects.graph(old)), around[1](effects.graph(new))
    result = on.run(before, {"x": 2}, workflow_id="w", error_handling="continue")
    if result.paused and rnd.random() < 0.4:
        on.run(before, {result.pause.response_key: ANSWER}, workflow_id="w", error_handling="continue")
    effects.is_broken, effects.calls, effects.fails_at = False, 0, fails_at
    effects.done.clear()
    for _ in range(2):
        with suppress(ConnectionError, RuntimeError):  # of a node, or of the handler of a question
            result = on.finished(on.run(after, workflow_id="w"), after, "w")
            break
    return (sorted(effects.done), result.values, result.status), effects.calls


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("around", ["flat", "nested"])
def test_a_failure_under_new_code_changes_nothing(around: str, kind: str) -> None:
    first = 4 * int(os.environ.get("HYPERGRAPH_SEED", "0"))
    for seed in range(first, first + 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected, calls = upgraded(seed, kind, PLACES[around], -1)
            except (HypergraphError, ValueError):
                continue
            for number in range(calls):
                found, _ = upgraded(seed, kind, PLACES[around], number)
                assert found == expected, f"seed {seed}, call {number}"


# -- one effect, and where the code has it ---------------------------------------------------------------

SHOPS = 30  # per case
MOVES = (
    "code",
    "more",
    "fewer",
    "other value",
    "list",
    "kind",
    "key",
    "place",
    "inside",
    "rename",
    "rename, told",
)
_PLACES = ("flat", "payment", "other", "mapped")


@dataclass
class Shape:
    """Where a program has its one effect, and what leads to it."""

    kind: str = "node"  # with repeatable=False, or an inner "step" that has it
    place: str = "flat"  # or inside of a graph: "payment", "mapped" for each order, or "other", always there
    inside: tuple[str, ...] = ()  # what is in that graph too
    takes: tuple[str, ...] = ("order", "amount")
    name: str = "charge"
    key: str = "pay"
    code: int = 0
    adds: bool = False  # whether a new node adds to the list that is taken
    formerly: dict[str, str] = field(default_factory=dict)

    def changed(self, rnd: Random, change: str) -> Shape:
        """Return the shape after an upgrade."""
        if change == "code":
            return replace(self, code=self.code + 1)
        if change == "more":
            return replace(self, takes=tuple(dict.fromkeys((*self.takes, "cleared"))))
        if change == "fewer":
            return replace(self, takes=self.takes[:1])
        if change == "other value":
            return replace(self, takes=(self.takes[0], "cleared"))
        if change == "list":
            return replace(self, adds=True)
        if change == "kind":
            return replace(self, kind="step" if self.kind == "node" else "node")
        if change == "key":
            return replace(self, key="payment")
        if change == "place":
            return replace(self, place=rnd.choice(_PLACES))
        if change == "inside":
            return replace(self, inside=tuple(rnd.sample(("price", "ship", "check"), rnd.randint(0, 3))))
        formerly = {**self.formerly, self.name: f"{self.name}_today"} if change == "rename, told" else {}
        return replace(self, name=f"{self.name}_today", formerly=formerly)


class Till:
    """What the functions of these programs do: they charge each order once."""

    def __init__(self, ends: str, is_known: bool) -> None:
        self.charged: list[str] = []
        self.ends, self.is_known = ends, is_known
        self.fails_next: str | None = None

    def pay(self, order: Any) -> str:
        self.charged += order if isinstance(order, list) else [order]
        if self.ends == "cut off":
            raise KeyboardInterrupt
        return "paid"

    def find(self, *_: Any) -> str:
        return "paid"

    def trouble(self, name: str) -> None:
        if name in (self.ends, self.fails_next):
            self.fails_next = None
            raise ConnectionError(name)

    def function(self, name: str, takes: Collection[str], *lines: str, code: int = 0) -> Any:
        body = [f"def {name}({', '.join(takes)}):", f"    code = {code}", f"    till.trouble({name!r})"]
        known: dict[str, Any] = {"till": self}
        exec("\n".join((*body, *(f"    {line}" for line in lines))), known)
        return known[name]

    def charge(self, shape: Shape) -> Any:
        resolve = "till.find" if self.is_known else "'fail'"
        if shape.kind == "node":
            made = self.function("charge", shape.takes, "return till.pay(order)", code=shape.code)
            found = node(
                output_name="paid", repeatable=False, on_ambiguous=self.find if self.is_known else "fail"
            )
            return found(made).with_name(shape.name)
        call = f"ctx.step({shape.key!r}, till.pay, order, repeatable=False, on_ambiguous={resolve})"
        lines = (f"paid = {call}", "till.trouble('after the step')", "return paid")
        made = self.function("charge", (*shape.takes, "ctx"), *lines, code=shape.code)
        made.__annotations__["ctx"] = NodeContext
        return node(output_name="paid")(made).with_name(shape.name)

    def graph(self, shape: Shape) -> Graph:
        """Return the program: look up a price, charge, ship; beside these a graph that is always there."""
        notes = node(output_name="notes", append=True)
        parts = {
            "price": node(output_name="amount")(self.function("price", ["order"], "return 5")),
            "check": node(output_name="cleared")(self.function("check", ["order"], "return 6")),
            "charge": self.charge(shape),
            "ship": node(output_name="parcel")(self.function("ship", ["paid"], "return paid")),
            "begin": notes(self.function("begin", ["start"], "return 'begun'")),
            "remind": notes(self.function("remind", ["start"], "return 'again'")),
            "look": node(output_name="looked")(self.function("look", ["start"], "return 1")),
        }
        used = {"price", "charge", "ship", "begin", "look", *({"remind"} if shape.adds else ())}
        used |= {"check"} if {"cleared"} & {*shape.takes} or "check" in shape.inside else set()
        within = {"charge", *shape.inside} & used if shape.place != "flat" else set()
        graphs = {"other": {"look"}}
        graphs.setdefault("other" if shape.place == "other" else "payment", set()).update(within)
        nested = [
            Graph([parts[name] for name in parts if name in names], name=name).as_node()
            for name, names in graphs.items()
            if names
        ]
        if shape.place == "mapped":
            nested[-1] = nested[-1].map_over("order")
        flat = [parts[name] for name in parts if name in used and not any(name in g for g in graphs.values())]
        told = shape.formerly if shape.place == "flat" else {}
        return Graph([*flat, *nested], name="shop", formerly=told)


def upgrade(seed: int, kind: str, changes: Collection[str]) -> tuple[str, tuple[Any, ...]]:
    """Return what became of a run after an upgrade, and the case; the law is checked on the way."""
    rnd = Random(seed)
    first = rnd.choice(["node", "step"])
    before = Shape(first, rnd.choice(_PLACES), tuple(rnd.sample(("price", "ship"), rnd.randint(0, 2))))
    if rnd.random() < 0.4:
        before.takes = ("order", "notes")
    after = before
    for change in changes:
        after = after.changed(rnd, change)
    ends = rnd.choice(["ship", "after the step"] + ["cut off"] * (kind == "sync"))
    till = Till("ship" if ends == "after the step" and first == "node" else ends, rnd.random() < 0.5)
    case = (seed, tuple(changes), till.ends, till.is_known, before, after)
    try:
        old, new = till.graph(before), till.graph(after)
    except HypergraphError:
        return "no graph", case  # the change makes none
    store = MemoryCheckpointer()
    on = On(kind, store)
    call: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
    given = {"order": ["a", "b"] if before.place == "mapped" else "a", "start": 1}
    with suppress(KeyboardInterrupt):
        on.run(old, given, **call)
    till.ends = ""
    if rnd.random() < 0.4:
        till.fails_next = rnd.choice(["check", "remind", "ship"])
    (move,) = migrate(store, new, dry_run=True, accept=True).runs
    outcome = "refused"
    for number, policy in enumerate(["keep", *rnd.sample(["keep", "rerun", "error"], 2)]):
        had, steps = len(till.charged), store.steps("w")
        try:
            result = on.run(new, **call, code_change=policy)
        except (HypergraphError, ValueError):
            is_refused = True
            assert (had, steps) == (len(till.charged), store.steps("w")), case  # nothing has run
        else:
            is_refused = False
            outcome = "completed" if result.completed or outcome == "completed" else "failed"
        if number == 0:
            assert is_refused is (move.outcome == "refused"), (move, case)
    till.fails_next = None
    twice = [order for order, times in Counter(till.charged).items() if times > 1]
    assert twice == [], case
    if outcome == "refused" and (till.is_known or case[2] != "cut off"):
        assert on.run(old, **call).completed, case  # the code that recorded it finishes it
        assert len(till.charged) == len({*till.charged}), case
    return outcome, case


@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_effect_that_moves_in_the_code_is_had_once(kind: str, block: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(block * SHOPS, (block + 1) * SHOPS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about results that are kept
            outcome, _ = upgrade(seed, kind, Random(-seed).choices(MOVES, k=Random(seed).randint(1, 3)))
            found[outcome] += 1
    assert found["completed"] >= SHOPS / 5, found
    assert found["refused"], found


@pytest.mark.parametrize("change", ["code", "more", "fewer", "other value", "list", "inside", "place"])
def test_not_every_change_around_an_effect_is_refused(change: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        found = Counter(upgrade(seed, "sync", [change])[0] for seed in range(8))
    assert found["completed"], found


# -- one by one ----------------------------------------------------------------------------------------


class Shop:
    """Look up a price, charge and ship; the process is interrupted in `charge`, or `ship` fails."""

    def __init__(self, *, interrupted: bool = False) -> None:
        self.charged: list[int] = []
        self.asked: list[Any] = []
        self.is_down, self.is_interrupted = True, interrupted

    def find(self, name: str, key: str, inputs: dict[str, Any]) -> Any:
        self.asked.append(inputs)
        return f"found {inputs['price']}"

    def graph(
        self, charge_as: str = "charge", *, changed: bool = False, more: Any = (), **options: Any
    ) -> Graph:
        @node(output_name="price")
        def look_up(n: int) -> int:
            return n

        @node(output_name="price")
        def look_up_today(n: int) -> int:
            return n + 1

        @node(output_name="receipt", repeatable=False, on_ambiguous=self.find)
        def charge(price: int) -> str:
            self.charged.append(price)
            if self.is_interrupted:
                raise KeyboardInterrupt
            return f"paid {price}"

        @node(output_name="parcel")
        def ship(receipt: str) -> str:
            if self.is_down:
                raise ConnectionError
            return f"parcel for {receipt}"

        first = look_up_today.with_name("look_up") if changed else look_up
        return Graph([first, charge.with_name(charge_as), ship, *more], name="shop", **options)

    def begun(self) -> SyncRunner:
        """Return a runner after the first call on "w", from which on all works."""
        runner = SyncRunner(checkpointer=MemoryCheckpointer())
        with suppress(KeyboardInterrupt):
            runner.run(self.graph(), n=5, workflow_id="w", error_handling="continue")
        self.is_down = self.is_interrupted = False
        return runner


POLICIES = pytest.mark.parametrize("policy", ["keep", "rerun", "error"])


@POLICIES
def test_a_step_that_was_cut_off_is_not_called_under_another_name(policy: str) -> None:
    shop = Shop(interrupted=True)
    runner = shop.begun()
    with pytest.raises(AmbiguousStepError, match=r"'charge' .* is not in this graph.*formerly"):
        runner.run(shop.graph("take_payment"), workflow_id="w", code_change=policy)
    (run,) = migrate(runner.checkpointer, shop.graph("take_payment"), dry_run=True).refused
    assert "must not be repeated" in (run.reason or "")
    renamed = shop.graph("take_payment", formerly={"charge": "take_payment"})
    assert runner.run(renamed, workflow_id="w")["parcel"] == "parcel for found 5"
    assert shop.charged == [5]


@POLICIES
def test_a_step_that_has_completed_is_not_called_under_another_name(policy: str) -> None:
    shop = Shop()
    runner = shop.begun()
    with pytest.raises(GraphChangedError, match="in which 'take_payment' may do the same"):
        runner.run(shop.graph("take_payment"), workflow_id="w", code_change=policy)
    assert shop.charged == [5]
    renamed = shop.graph("take_payment", formerly={"charge": "take_payment"})
    assert runner.run(renamed, workflow_id="w")["parcel"] == "parcel for paid 5"


def test_new_values_run_a_new_node_in_the_place_of_one_that_has_completed() -> None:
    shop = Shop()
    runner = shop.begun()
    assert runner.run(shop.graph("take_payment"), n=6, workflow_id="w")["parcel"] == "parcel for paid 6"
    assert shop.charged == [5, 6]  # another order


@pytest.mark.parametrize("around", [lambda graph: graph, nested], ids=["flat", "nested"])
def test_changed_code_before_a_step_that_has_completed_is_not_run_again(around: Any) -> None:
    shop = Shop()
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(around(shop.graph()), n=5, workflow_id="w", error_handling="continue")
    shop.is_down = False
    with pytest.raises(GraphChangedError, match=r"charge' has completed, and must not be repeated"):
        runner.run(around(shop.graph(changed=True)), workflow_id="w", code_change="rerun")
    with pytest.warns(UserWarning, match="look_up' has changed"):
        result = runner.run(around(shop.graph(changed=True)), workflow_id="w")
    assert (result["parcel"], shop.charged) == ("parcel for paid 5", [5])


@pytest.mark.parametrize("given", [{"code_change": "rerun"}, {"n": 50}, {"n": 5, "new_turn": True}])
def test_what_became_of_a_step_is_found_out_with_the_values_that_it_took(given: dict[str, Any]) -> None:
    shop = Shop(interrupted=True)
    runner = shop.begun()
    with pytest.raises(AmbiguousStepError, match=r"would be given other values.*resume the workflow without"):
        runner.run(shop.graph(changed=True), workflow_id="w", **given)
    with pytest.warns(UserWarning, match="look_up' has changed"):
        result = runner.run(shop.graph(changed=True), workflow_id="w")
    assert (result["receipt"], shop.asked, shop.charged) == ("found 5", [{"price": 5}], [5])


@pytest.mark.parametrize("around", [lambda graph: graph, nested], ids=["flat", "nested"])
def test_a_fork_does_not_repeat_a_step_that_was_cut_off(around: Any) -> None:
    shop = Shop(interrupted=True)
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(KeyboardInterrupt):
        runner.run(around(shop.graph()), n=5, workflow_id="w")
    shop.is_down = shop.is_interrupted = False
    with pytest.raises(AmbiguousStepError, match="a fork would call it again"):
        runner.run(around(shop.graph()), workflow_id="f", fork_from=("w", None))
    assert [found.id for found in runner.checkpointer.workflows()] == ["w"]
    assert runner.run(around(shop.graph()), workflow_id="w")["parcel"] == "parcel for found 5"
    assert runner.run(around(shop.graph()), workflow_id="f", fork_from=("w", None))["parcel"]
    assert shop.charged == [5]


def gate_before(name: str, called: str = "allowed") -> Any:
    @ifelse(when_true=name, when_false=END)
    def allowed(n: int) -> bool:
        return True

    return allowed.with_name(called)


@pytest.mark.parametrize("is_down", [True, False], ids=["failed", "completed"])
def test_a_new_gate_does_not_run_what_has_completed(is_down: bool) -> None:
    shop = Shop()
    shop.is_down = is_down
    runner = shop.begun()
    gated = shop.graph(more=[gate_before("charge")])
    with pytest.raises(GraphChangedError, match="it is new"):
        runner.run(gated, workflow_id="w", code_change="error")
    with pytest.raises(GraphChangedError, match="must not be repeated"):
        runner.run(gated, workflow_id="w", code_change="rerun")
    with pytest.warns(UserWarning, match="'allowed' is new, and 'charge' ran without it"):
        result = runner.run(gated, workflow_id="w")
    assert (result["parcel"], shop.charged) == ("parcel for paid 5", [5])
    with pytest.warns(UserWarning, match="'is_allowed' is new"):
        runner.run(shop.graph(more=[gate_before("charge", "is_allowed")]), workflow_id="w")
    assert shop.charged == [5]


def test_what_a_gate_chose_and_has_completed_is_not_lost_with_its_name() -> None:
    shop = Shop()
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    before = shop.graph(more=[gate_before("charge")])
    runner.run(before, n=5, workflow_id="w", error_handling="continue")
    shop.is_down = False
    with pytest.raises(GraphChangedError, match=r"formerly"):
        runner.run(shop.graph("pay", more=[gate_before("pay")]), workflow_id="w")
    renamed = shop.graph("pay", more=[gate_before("pay")], formerly={"charge": "pay"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the gate names another node in its code
        result = runner.run(renamed, workflow_id="w")
    assert (result["parcel"], shop.charged) == ("parcel for paid 5", [5])


def test_an_inserted_node_runs_once_whatever_came_before_it() -> None:
    ran: list[str] = []

    @node(output_name="order")
    def load(x: int) -> int:
        return x

    @node(output_name="stock")
    def check(order: int) -> int:
        return order

    @node(output_name="quote")
    def price(order: int, stock: int) -> int:
        return order

    @node(output_name="quote")
    def price_today(order: int) -> int:
        return order

    @interrupt("ok")
    def ask(quote: int) -> bool | None:
        return None

    @node(output_name="done")
    def pay(quote: int, ok: bool) -> str:
        return "done"

    @node(output_name="notified", repeatable=False)
    def notify(quote: int) -> int:
        ran.append("notify")
        return quote

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(Graph([load, check, price, ask, pay], name="g"), x=1, workflow_id="w")
    today = Graph([load.with_name("fetch"), price_today.with_name("price"), notify, ask, pay], name="g")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about results that are kept
        runner.run(today, workflow_id="w")
        assert runner.run(today, workflow_id="w", ok=True)["done"] == "done"
        runner.run(today, workflow_id="w")
    assert ran == ["notify"]


@pytest.mark.parametrize("is_down", [True, False], ids=["failed", "completed"])
def test_a_new_node_that_appends_does_not_run_an_agent_again(is_down: bool) -> None:
    ran: list[str] = []
    down = {"is": is_down}

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return f"user: {said}"

    @node(output_name=("messages", "calls"), append="messages")
    def ask(messages: list[str]) -> tuple[str, list[str]]:
        ran.append("ask")
        calls = ["x"] if messages[-1].startswith("user") else []
        return f"model: {calls}", calls

    @route(targets=["act", END])
    def decide(calls: list[str]) -> Any:
        return "act" if calls else END

    @node(output_name="messages", append=True)
    def act(calls: list[str]) -> list[str]:
        ran.append("act")
        if down["is"]:
            raise ConnectionError
        return [f"tool: {call}" for call in calls]

    @node(output_name="messages", append=True)
    def greet(said: str) -> str:
        ran.append("greet")
        return f"hello {said}"

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    before, today = (Graph([listen, *more, ask, decide, act], name="agent") for more in ([], [greet]))
    runner.run(before, said="a", workflow_id="w", error_handling="continue")
    down["is"] = False
    ran.clear()
    with pytest.warns(UserWarning, match="'greet' is new, and 'ask' ran without it"):
        result = runner.run(today, workflow_id="w")
    assert ran == (["greet", "act", "ask"] if is_down else ["greet"])
    assert result["messages"][-2:] == ["tool: x", "model: []"]


@pytest.mark.parametrize("made", ["paid", {"role": "user"}, 7, (1, 2)])
def test_what_was_made_before_a_node_appends_is_one_item(made: Any) -> None:
    down = {"is": True}

    @node(output_name="notes")
    def say(n: int) -> Any:
        return made

    @node(output_name="notes", append=True)
    def say_today(n: int) -> Any:
        return made

    @node(output_name="shown")
    def show(notes: Any) -> Any:
        if down["is"]:
            raise ConnectionError
        return list(notes)

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(Graph([say, show], name="g"), n=1, workflow_id="w", error_handling="continue")
    down["is"] = False
    with pytest.warns(UserWarning, match="'say' has changed"):
        result = runner.run(Graph([say_today.with_name("say"), show], name="g"), workflow_id="w")
    assert result["shown"] == [made]


@pytest.mark.parametrize("after", [renamed, flat], ids=["renamed", "inlined"])
def test_a_nested_graph_with_an_effect_is_not_run_under_another_name(after: Any) -> None:
    shop = Shop()
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(inside(shop.graph()), n=5, workflow_id="w", error_handling="continue")
    shop.is_down = False
    with pytest.raises(GraphChangedError, match=r"'shop/charge' has completed.*may do the same.*formerly"):
        runner.run(after(shop.graph()), workflow_id="w", code_change="error")
    (run,) = migrate(runner.checkpointer, after(shop.graph()), dry_run=True).refused
    assert "must not be repeated" in (run.reason or "")
    with pytest.raises(GraphChangedError, match="may do the same"):
        runner.run(after(shop.graph()), workflow_id="f", fork_from=("w", None))
    assert shop.charged == [5]


def test_a_removed_node_with_an_effect_is_named_as_removed() -> None:
    shop, sent = Shop(), []

    @node(output_name="sent", repeatable=False)
    def send(price: int) -> int:
        sent.append(price)
        return price

    def today(**options: Any) -> Graph:
        kept = [each for each in shop.graph().iter_nodes() if each.name == "look_up"]
        return Graph([*kept, send], name="shop", **options)

    runner = shop.begun()
    with pytest.raises(GraphChangedError, match=r"pass formerly=\{'charge': None\}"):
        runner.run(today(), workflow_id="w")
    assert runner.run(today(formerly={"charge": None}), workflow_id="w")["sent"] == 5
    assert (shop.charged, sent) == ([5], [5])
    with pytest.raises(GraphConfigError, match="says that node 'send' was removed"):
        today(formerly={"send": None})


@POLICIES
@pytest.mark.parametrize("where", ["beside", "in a graph", "with its graph", "in items", "in a step"])
def test_a_call_that_was_cut_off_is_not_left_open_by_removing_its_node(policy: Any, where: str) -> None:
    charged: list[str] = []

    def take(amount: int, by: str = "step") -> str:
        charged.append(by)
        if len(charged) == 1:
            raise KeyboardInterrupt
        return by

    @node(output_name="amount")
    def look_up(n: Any) -> Any:
        return n

    @node(output_name="receipt", repeatable=False)
    def charge(amount: int) -> str:
        return take(amount, "charge")

    @node(output_name="receipt")
    def step(amount: int, ctx: NodeContext) -> str:
        return ctx.step("take", take, amount, repeatable=False)

    @node(output_name="receipt", repeatable=False)
    def pay(amount: int) -> str:
        return take(amount, "pay")

    def shop(paying: Any, **options: Any) -> Graph:
        if where in ("beside", "in a step"):
            return Graph([look_up, paying], name="shop", **options)
        if where == "with its graph":
            nested = Graph([paying], name=f"till_{paying.name}").as_node()
            return Graph([look_up, nested], name="shop", **options)
        nested = Graph([paying], name="till", **options).as_node()
        inside = nested.map_over("amount") if where == "in items" else nested
        return Graph([look_up, inside], name="shop")

    begun = step if where == "in a step" else charge
    gone = f"till_{begun.name}" if where == "with its graph" else begun.name
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with suppress(KeyboardInterrupt):
        runner.run(shop(begun), n=[5] if where == "in items" else 5, workflow_id="w")
    today = shop(pay, formerly={gone: None})
    with pytest.raises(AmbiguousStepError, match=r"this graph says that it was removed"):
        runner.run(today, workflow_id="w", code_change=policy)
    (run,) = migrate(runner.checkpointer, today, dry_run=True, accept=True).refused
    assert "this graph says that it was removed" in (run.reason or "")
    with pytest.raises(AmbiguousStepError):
        runner.run(today, workflow_id="f", fork_from=("w", None))
    assert len(charged) == 1


@pytest.mark.parametrize("output", ["receipt", "payment"])
@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "completed"])
def test_an_inner_step_with_an_effect_is_not_made_in_another_node(output: str, is_cut_off: bool) -> None:
    charged: list[int] = []

    def pay(amount: int) -> int:
        charged.append(amount)
        if is_cut_off:
            raise KeyboardInterrupt
        return amount

    @node(output_name="receipt")
    def buy(amount: int, ctx: NodeContext) -> int:
        ctx.step("pay", pay, amount, repeatable=False)
        raise ConnectionError

    @node(output_name=output)
    def purchase(amount: int, ctx: NodeContext) -> int:
        return ctx.step("pay", pay, amount, repeatable=False)

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with suppress(KeyboardInterrupt):
        runner.run(Graph([look, buy], name="shop"), amount=5, workflow_id="w", error_handling="continue")
    with pytest.raises((GraphChangedError, AmbiguousStepError), match="step 'pay' of node 'buy'"):
        runner.run(Graph([look, purchase], name="shop"), workflow_id="w")
    assert charged == [5]


@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "completed"])
def test_an_inner_step_is_not_made_again_if_its_node_takes_more(is_cut_off: bool) -> None:
    charged: list[int] = []
    asked: list[Any] = []

    def pay(amount: int) -> int:
        charged.append(amount)
        if is_cut_off and len(charged) == 1:
            raise KeyboardInterrupt
        return amount

    def find(name: str, key: str, inputs: Any) -> int:
        asked.append(inputs)
        return 5

    @node(output_name="receipt")
    def buy(amount: int, ctx: NodeContext) -> int:
        ctx.step("pay", pay, amount, repeatable=False)
        raise ConnectionError

    @node(output_name="receipt")
    def buy_today(amount: int, beside: int, ctx: NodeContext) -> int:
        return ctx.step("pay", pay, amount, repeatable=False, on_ambiguous=find)

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with suppress(KeyboardInterrupt):
        runner.run(Graph([buy], name="shop"), amount=5, workflow_id="w", error_handling="continue")
    today = Graph([look, buy_today.with_name("buy")], name="shop")
    assert runner.run(today, workflow_id="w")["receipt"] == 5
    assert (charged, asked) == ([5], [{"args": (5,), "kwargs": {}}] if is_cut_off else [])
    assert runner.run(today, amount=6, workflow_id="w")["receipt"] == 6  # another order
    assert charged == [5, 6]


@POLICIES
@pytest.mark.parametrize("is_node", [True, False], ids=["a graph by now", "a node by now"])
def test_a_step_that_was_cut_off_is_not_called_in_another_kind_of_node(is_node: bool, policy: str) -> None:
    shop = Shop(interrupted=True)
    charge = shop.graph().nodes["charge"]
    flat = Graph([look, charge], name="shop")
    around = Graph([look, Graph([charge], name="charge").as_node()], name="shop")
    before, after = (flat, around) if is_node else (around, flat)
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(KeyboardInterrupt):
        runner.run(before, price=5, workflow_id="w")
    shop.is_interrupted = False
    with pytest.raises(AmbiguousStepError, match=r"by now\. Finish the run with the code that recorded it"):
        runner.run(after, workflow_id="w", code_change=policy)
    (run,) = migrate(runner.checkpointer, after, dry_run=True).refused
    assert "must not be repeated" in (run.reason or "")
    assert runner.run(before, workflow_id="w")["receipt"] == "found 5"
    assert shop.charged == [5]


def test_a_value_that_only_new_code_takes_does_not_repeat_what_has_completed() -> None:
    shop = Shop()
    runner = shop.begun()

    @node(output_name="receipt", repeatable=False)
    def charge(price: int, coupon: int) -> str:
        shop.charged.append(price)
        return "paid"

    today = Graph(
        [charge if each.name == "charge" else each for each in shop.graph().iter_nodes()], name="shop"
    )
    with pytest.raises(GraphChangedError, match="'coupon', which it was not given then"):
        runner.run(today, coupon=1, workflow_id="w")
    assert runner.run(shop.graph(), workflow_id="w")["parcel"] == "parcel for paid 5"
    assert shop.charged == [5]


def mapped(graph: Graph) -> Graph:
    return Graph([graph.as_node().map_over("n")], name="around")


@pytest.mark.parametrize("given", [{"code_change": "rerun"}, {"new_turn": True}, {}])
@pytest.mark.parametrize("around", [nested, mapped])
def test_an_effect_inside_that_was_cut_off_is_given_no_other_values(around: Any, given: Any) -> None:
    shop = Shop(interrupted=True)

    @node(output_name="n")
    def read(text: str) -> Any:
        return [5] if around is mapped else 5

    @node(output_name="n")
    def read_today(text: str) -> Any:
        return [6] if around is mapped else 6

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    graphs = [
        Graph([first, *around(shop.graph()).iter_nodes()], name="g")
        for first in (read, read_today.with_name("read"))
    ]
    with pytest.raises(KeyboardInterrupt):
        runner.run(graphs[0], text="a", workflow_id="w")
    shop.is_down = shop.is_interrupted = False
    values = {"text": "a" if "new_turn" in given else "b"} if "code_change" not in given else {}
    with pytest.raises(AmbiguousStepError, match=r"shop/charge' must not be repeated.*other values"):
        runner.run(graphs[1], **values, **given, workflow_id="w")
    result = runner.run(graphs[0], workflow_id="w")
    assert (result["parcel"] in ("parcel for found 5", ["parcel for found 5"]), shop.charged) == (True, [5])


@pytest.mark.parametrize("around", [nested, mapped])
def test_changed_code_before_an_unfinished_graph_with_an_effect_is_not_run_again(around: Any) -> None:
    shop = Shop()

    @node(output_name="n")
    def read(text: str) -> Any:
        return [5] if around is mapped else 5

    @node(output_name="n")
    def read_today(text: str) -> Any:
        return [5] if around is mapped else 5 + 0

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    graphs = [
        Graph([first, *around(shop.graph()).iter_nodes()], name="g")
        for first in (read, read_today.with_name("read"))
    ]
    runner.run(graphs[0], text="a", workflow_id="w", error_handling="continue")
    shop.is_down = False
    with pytest.raises(GraphChangedError, match=r"shop/charge' has completed, and must not be repeated"):
        runner.run(graphs[1], workflow_id="w", code_change="rerun")
    assert shop.charged == [5]


@pytest.mark.parametrize("is_moved", [True, False], ids=["migrated", "resumed"])
@pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "nested"])
def test_a_nested_graph_that_makes_more_makes_it_for_what_takes_it(is_mapped: bool, is_moved: bool) -> None:
    calls: list[str] = []

    @node(output_name="reserved", repeatable=False)
    def reserve(line: str) -> str:
        calls.append("reserve")
        return line

    @node(output_name="weight")
    def weigh(line: str) -> int:
        calls.append("weigh")
        return len(line)

    @interrupt("approved")
    def approve(reserved: Any) -> bool | None:
        return None

    @node(output_name="tracking")
    def ship(approved: bool) -> str:
        return "never"

    @node(output_name="tracking")
    def ship_today(approved: bool, weight: Any) -> Any:
        return weight

    def stock(*nodes: Any) -> Any:
        inside = Graph(nodes, name="stock").as_node()
        return inside.map_over("line") if is_mapped else inside

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    before = Graph([stock(reserve), approve, ship], name="orders", version="1" if is_moved else None)
    after = [stock(reserve, weigh), approve, ship_today.with_name("ship")]
    today = Graph(after, name="orders", version="2" if is_moved else None)
    runner.run(before, line=["desk"] if is_mapped else "desk", workflow_id="w")
    if is_moved:
        migrate(runner.checkpointer, today, accept=True)
        assert migrate(runner.checkpointer, today, accept=True, dry_run=True).runs[0].outcome == "stays"
    with pytest.warns(UserWarning, match="'stock' has changed"):
        result = runner.run(today, approved=True, workflow_id="w")
    assert (result["tracking"], calls) == ([4] if is_mapped else 4, ["reserve", "weigh"])


# -- a completed node that makes more --------------------------------------------------------------------


@node(output_name="fee")
def estimate(order: str) -> int:
    return 4


@node(output_name=("fee", "days"))
def estimate_today(order: str) -> tuple[int, int]:
    return 4, 3


@node(output_name="days")
def plan(order: str) -> int:
    return 3


def _nested(*nodes: Any) -> Any:
    return Graph(nodes, name="shipping").as_node()


# What makes the fee, and the days as well by now.
MAKERS: dict[str, tuple[Any, Any]] = {
    "node": (estimate, estimate_today.with_name("estimate")),
    "nested": (_nested(estimate), _nested(estimate, plan)),
    "twice": (_nested(_nested(estimate)), _nested(_nested(estimate, plan))),
    "inside": (_nested(estimate), _nested(estimate_today.with_name("estimate"))),
    "selected": (
        Graph([estimate, plan], name="shipping").select("fee").as_node(),
        Graph([estimate, plan], name="shipping").as_node(),
    ),
    "mapped": (_nested(estimate).map_over("order"), _nested(estimate, plan).map_over("order")),
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("stop", ["questions", "failures", "end"])
@pytest.mark.parametrize("makers", MAKERS.values(), ids=MAKERS)
def test_what_a_completed_node_makes_later_runs_nothing_again(makers: Any, stop: str, kind: str) -> None:
    charged: list[int] = []
    faults = ["pack", "label"]

    def total_of(value: Any) -> int:
        return sum(value) if isinstance(value, list) else value

    @node(output_name="total")
    def add(fee: Any) -> int:
        return total_of(fee) + 38

    @node(output_name="paid", repeatable=False)
    def charge(total: int) -> int:
        charged.append(total)
        return total

    def waiting(name: str, after: str) -> Any:
        def ask(**taken: Any) -> int | None:
            if stop == "failures" and name in faults:
                faults.remove(name)
                raise ConnectionError(name)
            return None if stop == "questions" else 1

        if stop == "questions":
            return interrupt(f"{name}ed", answer=int)(_taking(ask, name, after))
        return node(output_name=f"{name}ed")(_taking(ask, name, after))

    @node(output_name="sent")
    def ship(paid: int, labeled: int) -> int:
        return paid

    @node(output_name="sent")
    def ship_today(paid: int, labeled: int, days: Any) -> int:
        return paid + total_of(days)

    ways = [add, charge, waiting("pack", "paid"), waiting("label", "packed")]
    before = Graph([makers[0], *ways, *([ship] if stop != "end" else [])], name="orders")
    after = Graph([makers[1], *ways, ship_today.with_name("ship")], name="orders")
    on = On(kind, MemoryCheckpointer())
    order = ["x"] if makers is MAKERS["mapped"] else "x"
    on.run(before, {"order": order}, workflow_id="w", error_handling="continue")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about results that are kept
        for given in ({}, {}, {"packed": 1}, {}, {"labeled": 1}, {}, {}):
            answers = given if stop == "questions" else {}
            result = on.run(after, answers, workflow_id="w", error_handling="continue")
    assert (result.completed, result["sent"], charged) == (True, 45, [42])


def _taking(function: Any, name: str, taken: str) -> Any:
    known = {"function": function}
    exec(f"def {name}({taken}):\n    return function({taken}={taken})", known)
    return known[name]


def test_a_nested_graph_that_would_take_more_to_make_more_is_refused_before_anything_runs() -> None:
    @node(output_name="amount")
    def sum_up(order: str) -> int:
        return 39

    @node(output_name="days")
    def quote(fee: int, amount: int) -> int:
        return amount

    @interrupt("approved")
    def approve(fee: int) -> bool | None:
        return None

    @node(output_name="sent")
    def send(approved: bool, days: int = 0) -> int:
        return days

    @node(output_name="sent")
    def send_today(approved: bool, days: int) -> int:
        return days

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(Graph([_nested(estimate), approve, send], name="orders"), order="x", workflow_id="w")
    today = Graph([sum_up, _nested(estimate, quote), approve, send_today.with_name("send")], name="orders")
    begun = [(step.node_name, step.status) for step in runner.checkpointer.steps("w")]
    why = r"needs 'days' of node 'shipping'.*would take 'amount' for it"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about results that are kept
        with pytest.raises(GraphChangedError, match=why):
            runner.run(today, approved=True, workflow_id="w")
    assert [(step.node_name, step.status) for step in runner.checkpointer.steps("w")] == begun
    outside = Graph([sum_up, _nested(estimate), quote, approve, send_today.with_name("send")], name="orders")
    assert runner.run(outside, approved=True, workflow_id="w")["sent"] == 39


@pytest.mark.parametrize("policy", ["keep", "error"])
def test_a_node_with_one_output_that_gets_another_one_has_changed(policy: str) -> None:
    def make(order: str) -> Any:
        return {"fee": 4, "days": 3}

    @interrupt("approved")
    def approve(order: str) -> bool | None:
        return None

    @node(output_name="sent")
    def send(fee: Any, approved: bool) -> Any:
        return fee

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(Graph([node(make, output_name="fee"), approve, send], name="g"), order="x", workflow_id="w")
    today = Graph([node(make, output_name=("fee", "days")), approve, send], name="g")
    call = {"workflow_id": "w", "code_change": policy}
    if policy == "error":
        with pytest.raises(GraphChangedError, match="'make' has changed"):
            runner.run(today, approved=True, **call)
    else:
        with pytest.warns(UserWarning, match="'make' has changed"):
            assert runner.run(today, approved=True, **call)["sent"] == {"fee": 4, "days": 3}
