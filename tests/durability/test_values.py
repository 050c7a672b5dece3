"""Values through every way of storing them: a run, its store, a resumed run and a fork agree on each.

What comes back equals what was stored, with equal types all the way down; or there is a gap, and a warning.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nasty import FEW_WAYS, NASTY, ONLY_PICKLED, UNSTORABLE, WAYS, Tagged, kept, same, storable

from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import Checkpointer, JsonSerializer, Undecodable
from hypergraph.checkpointers.view import view_of
from hypergraph.engine.scheduler import differs

every_way = pytest.mark.parametrize("way", WAYS, ids="-".join)


class Seen:
    """A graph that makes values, or passes on given ones, and then shows them to other nodes."""

    def __init__(self, values: Mapping[str, Any], *, given: bool) -> None:
        self.values = {f"v{position}": value for position, value in enumerate(values.values())}
        self.labels = dict(zip(self.values, values, strict=True))
        self.shown: dict[str, Any] = {}
        self.made: list[str] = []
        self.is_broken = True
        nodes = [FunctionNode(self._stop, "stop", "stopped")]
        for name, value in self.values.items():
            if given:
                source = FunctionNode(
                    self._passed, f"make_{name}", name, rename_inputs={"value": f"given_{name}"}
                )
            else:
                source = FunctionNode(self._maker(name, value), f"make_{name}", name)
            nodes += [
                source,
                FunctionNode(self._show(name), f"show_{name}", f"shown_{name}").with_inputs(x=name),
            ]
        self.graph = Graph(nodes, name="values")
        self.inputs = {f"given_{name}": value for name, value in self.values.items()} if given else {}

    def _stop(self, v0: Any) -> int:
        if self.is_broken:
            raise OSError("stopped")
        return 1

    def _passed(self, value: Any) -> Any:
        return value

    def _maker(self, name: str, value: Any) -> Any:
        def make() -> Any:
            self.made.append(name)
            return value

        return make

    def _show(self, name: str) -> Any:
        def show(x: Any, stopped: int) -> int:
            self.shown[name] = x
            return 1

        return show

    def differing(self, found: Mapping[str, Any], prefix: str = "") -> list[str]:
        """Return the labels of the values that are missing or other ones."""
        absent = object()
        return [
            self.labels[name]
            for name, value in self.values.items()
            if not same(found.get(prefix + name, absent), value)
        ]

    def run_halfway(self, store: Checkpointer) -> None:
        """Let the first nodes run, and none that is shown their values."""
        with pytest.raises(OSError, match="stopped"):
            SyncRunner(checkpointer=store).run(self.graph, self.inputs, workflow_id="w")
        assert self.shown == {}
        self.is_broken = False
        self.made.clear()

    def go_on(self, store: Checkpointer, **options: Any) -> dict[str, Any]:
        """Run the rest, and return what the other nodes were shown."""
        SyncRunner(checkpointer=store).run(self.graph, **options)
        shown, self.shown = self.shown, {}
        return shown


def made_in(store: Checkpointer, workflow_id: str) -> dict[str, Any]:
    """Return what the steps hold, all together."""
    return {n: v for step in store.steps(workflow_id) for n, v in (step.values or {}).items()}


def check_everywhere(store: Checkpointer, seen: Seen) -> None:
    """See that every reader of a workflow, the run that goes on and a fork get the values themselves."""
    seen.run_halfway(store)
    assert seen.differing(store.state("w")) == []
    assert seen.differing(store.state("w", superstep=0)) == []
    assert seen.differing(made_in(store, "w")) == []
    point = store.checkpoint("w")
    assert seen.differing(point.values) == []
    if seen.inputs:
        assert seen.differing(point.values, "given_") == []
    assert seen.differing(seen.go_on(store, fork_from=("w", 0), workflow_id="fork")) == []
    assert seen.differing(seen.go_on(store, checkpoint=point, workflow_id="other")) == []
    assert seen.differing(seen.go_on(store, workflow_id="w")) == []
    assert seen.made == [], "what was stored ran again"
    for workflow_id in ("w", "fork", "other"):
        assert seen.differing(store.state(workflow_id)) == []
        assert seen.differing(made_in(store, workflow_id)) == []


def test_there_are_enough_values_to_be_sure() -> None:
    assert len(NASTY) >= 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "is_given"),
    [(way, number % 2 > 0) for number, way in enumerate(FEW_WAYS)],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else "given" if one else "made",
)
def test_every_value_comes_back_as_it_was(way: Any, is_given: bool, tmp_path: Path) -> None:
    store = kept(way, tmp_path)
    check_everywhere(store, Seen(NASTY, given=is_given))
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", [FEW_WAYS[0], FEW_WAYS[1], FEW_WAYS[6]], ids="-".join)
def test_large_values_come_back_as_they_were(way: Any, tmp_path: Path) -> None:
    large = {label: [value] * 3 + ["x" * 3000] for label, value in NASTY.items()}
    options = {} if way[0] == "memory" else {"artifact_threshold": 1000}
    store = kept(way, tmp_path, **options)
    check_everywhere(store, Seen(large, given=False))
    store.close()


@pytest.mark.slow
@settings(max_examples=30)
@given(way=st.sampled_from(WAYS), values=st.lists(storable, min_size=1, max_size=8), is_given=st.booleans())
def test_any_value_comes_back_as_it_was(way: Any, values: list[Any], is_given: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = kept(way, Path(folder))
        check_everywhere(store, Seen({str(i): value for i, value in enumerate(values)}, given=is_given))
        store.close()


@every_way
def test_what_cannot_be_stored_is_a_gap_and_a_warning_and_made_again(way: Any, tmp_path: Path) -> None:
    refused = UNSTORABLE if way[1] == "pickle" else {**UNSTORABLE, **ONLY_PICKLED}
    seen, store = Seen({"first": 1, **refused, "last": (1,)}, given=False), kept(way, tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen.run_halfway(store)
    gaps = [name for name, label in seen.labels.items() if label in refused]
    assert [str(one.message).split("'")[1] for one in told] == gaps
    assert all(
        f"(workflow 'w', node 'make_{name}'); this step will run again on resume. TypeError: "
        in str(one.message)
        for name, one in zip(gaps, told, strict=True)
    )
    assert set(store.state("w")) == set(store.checkpoint("w").values) == {*seen.values} - {*gaps}
    lost = {name: reason for step in store.steps("w") for name, reason in step.lost.items()}
    assert list(lost) == gaps
    assert all(reason.startswith("TypeError: ") for reason in lost.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = seen.go_on(store, workflow_id="w")
    assert sorted(seen.made) == sorted(gaps)
    assert all(shown[name] is value for name, value in seen.values.items() if name in gaps)
    store.close()


@pytest.mark.parametrize("way", [way for way in WAYS if way[1] != "pickle"], ids="-".join)
def test_a_gap_hides_the_older_value_of_its_name(way: Any, tmp_path: Path) -> None:
    store, values = kept(way, tmp_path), iter(["x" * 400, Tagged(a="x" * 400), "x" * 500])
    graph = Graph([FunctionNode(lambda turn: next(values), "make", "made")])
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, turn=1, workflow_id="w")
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.run(graph, turn=2, workflow_id="w")
    assert store.state("w") == {}
    runner.run(graph, turn=3, workflow_id="w")
    assert store.state("w") == {"made": "x" * 500}
    assert store.state("w", superstep=0) == {"made": "x" * 400}
    assert store.state("w", superstep=1) == {}
    store.close()


def test_only_a_lossy_serializer_changes_a_value(tmp_path: Path) -> None:
    store = view_of(kept(WAYS[-1], tmp_path), serializer=JsonSerializer(lossy=True))
    seen = Seen({"range": range(3)}, given=False)
    seen.run_halfway(store)
    assert store.state("w") == {"v0": "range(0, 3)"}
    store.close()


def test_json_and_msgpack_read_each_other_and_nothing_else_does(tmp_path: Path) -> None:
    plain = {"json", "msgpack"}
    for way in WAYS:
        if way[0] == "sqlite":
            folder = tmp_path / "-".join(way)
            folder.mkdir()
            Seen({"one": 1}, given=True).run_halfway(kept(way, folder))
            for other in ("json", "msgpack", "pickle"):
                found = kept((way[0], other, way[2]), folder).state("w")["v0"]
                is_read = other == way[1] or {other, way[1]} == plain
                assert found == 1 if is_read else isinstance(found, Undecodable)
                if not is_read:
                    assert found.reason == f"written as '{way[1]}/1', this store reads '{other}/1'"


BERLIN = ZoneInfo("Europe/Berlin")
TWICE = datetime(
    2026, 10, 25, 2, 30, tzinfo=BERLIN
)  # the clock shows it in summer time and again an hour later
INSIDE: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "in a list": lambda value: [1, [value]],
    "in a tuple": lambda value: ("a", value),
    "in a dict": lambda value: {"at": value, "n": 1},
}


def asked_twice(first: Any, second: Any, **options: Any) -> int:
    """Return how often a node is called that is given two values in turn, on one id."""
    calls: list[Any] = []
    graph = Graph([FunctionNode(lambda given: calls.append(given) or len(calls), "take", "count")])
    runner = SyncRunner(checkpointer=":memory:")
    for value, more in ((first, {}), (second, options)):
        runner.run(graph, given=value, workflow_id="w", **more)
    return len(calls)


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize(
    "moment", [TWICE, TWICE.replace(tzinfo=None), time(2, 30), time(2, 30, tzinfo=BERLIN)]
)
def test_two_moments_at_which_a_clock_shows_the_same_are_different_inputs(
    moment: Any, inside: Callable[[Any], Any]
) -> None:
    later = moment.replace(fold=1)
    assert later == moment
    assert asked_twice(inside(moment), inside(later)) == 2
    assert asked_twice(inside(later), inside(moment)) == 2
    assert asked_twice(inside(later), inside(later.replace())) == 1


def test_one_moment_is_one_input_however_it_is_written() -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=BERLIN)
    for same_one in (
        noon.replace(fold=1),
        noon.astimezone(UTC),
        noon.astimezone(timezone(timedelta(hours=9))),
    ):
        assert asked_twice(noon, same_one) == 1
        assert asked_twice([noon], [same_one]) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (1, True),
        (Decimal("1.5"), Decimal("1.50")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_equal_inputs_are_the_same_unless_the_turn_is_new(first: Any, second: Any) -> None:
    assert asked_twice(first, second) == 1
    assert asked_twice(first, second, new_turn=True) == 2


def test_a_map_compares_moments_too() -> None:
    graph = Graph([FunctionNode(lambda at: at.fold, "take", "fold")])
    runner = SyncRunner(checkpointer=":memory:")
    options: dict[str, Any] = {"map_over": "at", "key": lambda item: 1, "workflow_id": "m"}
    assert runner.map(graph, at=[TWICE], **options)["fold"] == [0]
    assert runner.map(graph, at=[TWICE.replace(fold=1)], **options)["fold"] == [1]


def test_a_loop_takes_the_other_moment_as_another_value() -> None:
    assert differs(TWICE, TWICE.replace(fold=1))
    assert not differs(TWICE, TWICE.replace())


@dataclass(frozen=True)
class Window:
    start: Any
    note: Any = field(default=None, compare=False)


class Slot(msgspec.Struct, frozen=True):
    start: Any


class Pair(NamedTuple):
    start: Any


@dataclass(frozen=True)
class ByName:
    """Objects that its author compares by name."""

    name: str
    start: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByName) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "in a list": lambda value: [1, value],
    "in a tuple": lambda value: (value,),
    "in a dict": lambda value: {"a": value},
    "in a dataclass": Window,
    "in a Struct": Slot,
    "in a NamedTuple": Pair,
    "deep inside": lambda value: {"a": [Window((value,))]},
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_moments_are_compared_wherever_they_are(holder: str) -> None:
    made = HOLDERS[holder]
    assert asked_twice(made(TWICE), made(TWICE.replace(fold=1))) == 2
    assert asked_twice(made(TWICE), made(TWICE.replace())) == 1


@pytest.mark.parametrize(
    "made", [lambda t: {t: 1}, lambda t: {t}, lambda t: frozenset((1, t)), lambda t: {(t, 1)}]
)
def test_moments_in_sets_and_keys_are_compared(made: Callable[[Any], Any]) -> None:
    assert asked_twice(made(TWICE), made(TWICE.replace(fold=1))) == 2
    assert asked_twice(made(TWICE), made(TWICE.replace())) == 1


def test_what_a_class_does_not_compare_is_not_compared() -> None:
    assert asked_twice(Window(1, TWICE), Window(1, TWICE.replace(fold=1))) == 1
    assert asked_twice(Window(1, "a"), Window(1, "b")) == 1
    assert asked_twice(ByName("a", TWICE), ByName("a", TWICE.replace(fold=1))) == 1
    berlin = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert asked_twice(berlin, berlin.astimezone(ZoneInfo("Asia/Tokyo"))) == 1


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1]), np.array([1.0])),
        (np.array([1]), np.array([[1]])),
        (np.array([1], "int32"), np.array([1], "int64")),
        (np.array([1]), 1),
        (np.array(1), np.array(True)),
        (np.array(1), 1),
    ],
    ids=["dtype", "shape", "width", "number", "no axis", "no axis, number"],
)
def test_arrays_of_one_element_are_compared_by_content(holder: str, first: Any, second: Any) -> None:
    made = HOLDERS[holder]
    assert asked_twice(made(first), made(second)) == 2
    assert asked_twice(made(first), made(first.copy())) == 1
