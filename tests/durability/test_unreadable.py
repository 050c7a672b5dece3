"""Values of user classes, however they are annotated: restored by the same graph, or refused out loud.

`Receipt`, `Base` and the others are classes of this module; those of functions are found in closures. What no
later process could find is not stored as durable, and says so at once.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, NamedTuple, NewType, TypedDict

import msgspec
import pytest
from support.processes import Elsewhere, elsewhere

from hypergraph import END, FunctionNode, Graph, SyncRunner, ifelse, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    CheckpointPolicy,
    FileArtifactStore,
    JsonSerializer,
    MemoryCheckpointer,
    MsgpackSerializer,
    PickleSerializer,
    SqliteCheckpointer,
    Undecodable,
    ZlibCodec,
    ZstdCodec,
)
from hypergraph.exceptions import AmbiguousStepError, ItemChangedError, ValueUnreadableError

__all__ = ["elsewhere"]  # fixture


@dataclass
class Receipt:
    number: int


@dataclass
class Special(Receipt):
    stars: int = 5


class Pair(NamedTuple):
    left: Receipt
    right: Any


class Note(msgspec.Struct):
    text: str


class Envelope(TypedDict):
    receipt: Receipt


Renamed = make_dataclass("CalledOtherwise", ["x"])
Known = NewType("Known", Receipt)
VALUES: dict[str, Any] = {
    "an object": Receipt(7),
    "a list of objects": [Receipt(1), Special(2)],
    "objects in containers": {"a": (Receipt(1), {"b": [Note("x")]}), "c": Pair(Receipt(1), Note("y"))},
    "a typed dict": {"receipt": Receipt(1)},
    "a class with another name than its variable": Renamed(3),
}
STYLES: dict[str, Any] = {
    "none": None,
    "Any": Any,
    "list": list,
    "dict": dict[str, Any],
    "TypedDict": Envelope,
    "NewType": Known,
    "base class": list[Receipt],
    "unresolvable": "NotThere",
}


def graph_of(value: Any, annotation: Any, seen: list[Any], *, broken: bool) -> Graph:
    def make(x):  # type: ignore[no-untyped-def]  # annotated below, or not at all
        seen.append("made")
        return value

    def show(made):  # type: ignore[no-untyped-def]
        if broken:
            raise OSError("stopped")
        seen.append(made)
        return 1

    if annotation is not None:
        make.__annotations__ = {"return": annotation}
        show.__annotations__ = {"made": annotation}
    return Graph([FunctionNode(make, "make", "made"), FunctionNode(show, "show", "shown")], name="g")


def run_halves(path: Path, *, broken: bool) -> dict[str, str]:
    """Run each value under each annotation; return what was made or shown otherwise than expected."""
    store, found = SqliteCheckpointer(path / "runs.db"), {}
    for style, annotation in STYLES.items():
        for name, value in VALUES.items():
            seen: list[Any] = []
            graph = graph_of(value if broken else None, annotation, seen, broken=broken)
            SyncRunner(checkpointer=store).run(
                graph, x=1, workflow_id=f"{style}, {name}", error_handling="continue"
            )
            if seen != (["made"] if broken else [value]):
                found[f"{style}, {name}"] = repr(seen)
    store.close()
    return found


@pytest.mark.slow
def test_a_fresh_process_restores_what_annotations_do_not_name(tmp_path: Path, elsewhere: Elsewhere) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_halves(tmp_path, broken=True) == {}
    assert elsewhere(run_halves, tmp_path, broken=False) == {}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "runs.db")


class Shop:
    """A payment that must not be repeated, and a courier that may be down."""

    def __init__(self, result: Any) -> None:
        self.result, self.charged, self.down = result, 0, True

    def graph(self, **options: Any) -> Graph:
        def charge(amount):  # type: ignore[no-untyped-def]
            self.charged += 1
            return self.result

        def ship(receipt):  # type: ignore[no-untyped-def]
            if self.down:
                raise ConnectionError("no courier")
            return "shipped"

        return Graph(
            [
                FunctionNode(charge, "charge", "receipt", repeatable=False, **options),
                FunctionNode(ship, "ship", "sent"),
            ],
            name="shop",
        )

    def fail(self, store: Checkpointer, **options: Any) -> None:
        runner = SyncRunner(checkpointer=store)
        runner.run(self.graph(**options), amount=5, workflow_id="w", error_handling="continue")
        assert self.charged == 1
        self.down = False


def test_an_untyped_object_is_not_charged_twice(store: Checkpointer) -> None:
    shop = Shop(Receipt(7))
    shop.fail(store)
    assert SyncRunner(checkpointer=store).run(shop.graph(), workflow_id="w")["sent"] == "shipped"
    assert shop.charged == 1


def unstorable() -> Any:
    @dataclass
    class Local:
        n: int

    return Local(1)


@pytest.mark.parametrize("result", [unstorable(), object()], ids=["unknown class", "no data"])
def test_what_cannot_be_stored_says_so_and_is_not_charged_twice(store: Checkpointer, result: Any) -> None:
    shop = Shop(result)
    shop.result = [result]  # in a list: the class is in no closure
    graph = Graph(
        [FunctionNode(hidden(shop), "charge", "receipt", repeatable=False), ship_of(shop)], name="s"
    )
    runner = SyncRunner(checkpointer=store)
    with pytest.warns(UserWarning, match="'receipt' cannot be stored"):
        runner.run(graph, amount=5, workflow_id="w", error_handling="continue")
    assert not store.steps("w")[0].durable
    shop.down = False
    with pytest.raises(AmbiguousStepError, match="its result cannot be restored"):
        runner.run(graph, workflow_id="w")
    assert shop.charged == 1


_shops: dict[str, Shop] = {}


def hidden(shop: Shop) -> Any:
    """Return a function that names the class of what it returns nowhere."""
    _shops["now"] = shop

    def charge(amount):  # type: ignore[no-untyped-def]
        _shops["now"].charged += 1
        return _shops["now"].result

    return charge


def ship_of(shop: Shop) -> FunctionNode:
    def ship(receipt):  # type: ignore[no-untyped-def]
        if _shops["now"].down:
            raise ConnectionError("no courier")
        return "shipped"

    return FunctionNode(ship, "ship", "sent")


def test_a_deleted_artifact_is_not_charged_for_twice(tmp_path: Path) -> None:
    artifacts = FileArtifactStore(tmp_path / "large")
    store = SqliteCheckpointer(tmp_path / "runs.db", artifact_store=artifacts, artifact_threshold=10)
    shop = Shop("r" * 1000)
    shop.fail(store)
    for file in (tmp_path / "large").rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(AmbiguousStepError, match="its result cannot be restored"):
        SyncRunner(checkpointer=store).run(shop.graph(), workflow_id="w")
    assert shop.charged == 1


def test_a_known_result_takes_the_place_of_a_lost_one(tmp_path: Path) -> None:
    artifacts = FileArtifactStore(tmp_path / "large")
    store = SqliteCheckpointer(tmp_path / "runs.db", artifact_store=artifacts, artifact_threshold=10)
    shop = Shop("r" * 1000)
    shop.fail(store)
    for file in (tmp_path / "large").rglob("*"):
        if file.is_file():
            file.unlink()
    graph = shop.graph(on_ambiguous=lambda name, key, inputs: "found")
    result = SyncRunner(checkpointer=store).run(graph, workflow_id="w")
    assert (result["receipt"], shop.charged) == ("found", 1)


def version(field: str) -> type[Any]:
    return make_dataclass("Versioned", [field], namespace={"__module__": __name__})


def test_a_renamed_field_is_refused_with_the_class(store: Checkpointer) -> None:
    shop, runner = Shop(None), SyncRunner(checkpointer=store)
    for field in ("number", "reference"):
        cls = version(field)
        shop.result = cls(1)

        def charge(amount, of=cls):  # type: ignore[no-untyped-def]
            shop.charged += 1
            return shop.result

        def ship(receipt):  # type: ignore[no-untyped-def]
            raise ConnectionError("no courier")

        graph = Graph(
            [FunctionNode(charge, "charge", "receipt", repeatable=False), FunctionNode(ship, "ship", "sent")],
            name="shop",
        ).bind(of=cls)
        if field == "number":
            runner.run(graph, amount=5, workflow_id="w", error_handling="continue")
        else:
            with pytest.raises(ValueUnreadableError, match="no field 'number'") as raised:
                runner.run(graph, workflow_id="w", error_handling="continue", code_change="keep")
            assert raised.value.class_name == f"{__name__}:Versioned"
    assert shop.charged == 1


@pytest.mark.filterwarnings("ignore:.*has changed since it was recorded")
def test_the_call_that_ends_a_run_tells_of_a_result_that_cannot_be_read(store: Checkpointer) -> None:
    runner, down = SyncRunner(checkpointer=store), [True]
    old = version("number")

    def charge(amount, of):  # type: ignore[no-untyped-def]
        return of(1)

    def ship(amount):  # type: ignore[no-untyped-def]
        if down:
            raise ConnectionError("no courier")
        return "sent"

    nodes = [FunctionNode(charge, "charge", "receipt"), FunctionNode(ship, "ship", "sent")]
    graph = Graph(nodes, name="shop").bind(of=old)
    runner.run(graph, amount=5, workflow_id="w", error_handling="continue")
    down.clear()
    today = graph.bind(of=version("reference"))
    for _ in range(2):  # it ends, then it has ended
        result = runner.run(today, workflow_id="w")
        assert result["sent"] == "sent"
        assert isinstance(result["receipt"], Undecodable)
        assert "no field 'number'" in result["receipt"].reason


@pytest.mark.parametrize("granularity", ["top-level", "none"])
def test_without_steps_of_its_own_it_does_not_begin(granularity: Any) -> None:
    inner = Shop(1).graph().as_node(name="inner")
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity=granularity))
    with pytest.raises(ValueError, match="Node 'charge' must not be repeated"):
        SyncRunner(checkpointer=store).run(Graph([inner], name="g"), amount=1, workflow_id="w")
    assert store.workflows().total == 0


def test_another_input_of_an_untyped_class_is_not_ignored(store: Checkpointer) -> None:
    def bill(order):  # type: ignore[no-untyped-def]
        return order.number

    graph, runner = Graph([FunctionNode(bill, "bill", "invoice")], name="g"), SyncRunner(checkpointer=store)
    assert [runner.run(graph, order=Receipt(n), workflow_id="w")["invoice"] for n in (1, 2)] == [1, 2]
    assert runner.map(graph, order=[Receipt(1)], map_over="order", workflow_id="m")["invoice"] == [1]
    with pytest.raises(ItemChangedError):
        runner.map(graph, order=[Receipt(2)], map_over="order", workflow_id="m")


def test_an_input_of_an_unknown_class_is_compared_and_must_be_given_again(store: Checkpointer) -> None:
    calls: list[int] = []

    def bill(order, rate=1):  # type: ignore[no-untyped-def]
        calls.append(order.n)
        return order.n

    graph, runner = Graph([FunctionNode(bill, "bill", "invoice")], name="g"), SyncRunner(checkpointer=store)
    cls = type(unstorable())
    with pytest.warns(UserWarning, match="'order' can be stored, but not restored"):
        runner.run(graph, order=cls(1), workflow_id="w")
    assert runner.run(graph, order=cls(1), workflow_id="w")["invoice"] == 1
    with pytest.warns(UserWarning, match="can be stored, but not restored"):
        assert runner.run(graph, order=cls(2), workflow_id="w")["invoice"] == 2
    with pytest.raises(ValueUnreadableError, match="'order' of workflow 'w' is needed by node 'bill'"):
        runner.run(graph, workflow_id="w", rate=2)
    assert calls == [1, 2]


def test_items_that_cannot_be_stored_need_a_key(store: Checkpointer) -> None:
    def size(thing):  # type: ignore[no-untyped-def]
        return 1

    graph, runner = Graph([FunctionNode(size, "size", "n")], name="g"), SyncRunner(checkpointer=store)
    with pytest.raises(ValueError, match="key="):
        runner.map(graph, thing=[object()], map_over="thing", workflow_id="m")
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.map(graph, thing=[object()], map_over="thing", workflow_id="m", key=lambda item: "a")
    with pytest.raises(ItemChangedError, match="key="):
        runner.map(graph, thing=[1], map_over="thing", workflow_id="m")


def test_a_default_does_not_replace_an_input_that_was_not_stored(store: Checkpointer) -> None:
    seen: list[Any] = []

    def use(x, client=None):  # type: ignore[no-untyped-def]
        seen.append(client)
        raise OSError("down")

    graph, runner = Graph([FunctionNode(use, "use", "n")], name="g"), SyncRunner(checkpointer=store)
    client = object()
    with pytest.warns(UserWarning, match="pass it again"):
        runner.run(graph, x=1, client=client, workflow_id="w", error_handling="continue")
    with pytest.raises(ValueUnreadableError, match="'client'"):
        runner.run(graph, workflow_id="w", error_handling="continue")
    with pytest.warns(UserWarning, match="pass it again"):
        runner.run(graph, client=client, workflow_id="w", error_handling="continue")
    assert seen == [client, client]


@dataclass
class Message:
    text: str


class Human(Message):
    pass


@pytest.mark.parametrize("kind", [Message, Human])
def test_a_chat_remembers_objects_of_any_class(store: Checkpointer, kind: type[Message]) -> None:
    def plain(said: str, messages: list = ()) -> list:  # type: ignore[type-arg, assignment]
        return [*messages, kind(said)]

    graph, runner = (
        Graph([FunctionNode(plain, "plain", "messages")], name="chat"),
        SyncRunner(checkpointer=store),
    )
    for turn, said in enumerate(("tea", "milk", "sugar")):
        found = runner.run(graph, said=said, workflow_id="c", new_turn=True)["messages"]
        assert [type(one) for one in found] == [kind] * (turn + 1)


def loop(calls: list[int], make: Any, down: list[bool]) -> Graph:
    @node(output_name="found")
    def search(topic: str, found: list = ()) -> list:  # type: ignore[type-arg, assignment]
        calls.append(len(found))
        if down[0] and len(found) == 3:
            raise ConnectionError("down")
        return [*found, make(len(found))]

    @ifelse(when_true=END, when_false="search")
    def enough(found: list) -> bool:  # type: ignore[type-arg]
        return len(found) >= 5

    return Graph([search, enough], name="g")


def test_a_loop_of_untyped_objects_continues(store: Checkpointer) -> None:
    calls, down = [], [True]
    runner, graph = SyncRunner(checkpointer=store), loop(calls, Receipt, down)
    runner.run(graph, topic="tea", workflow_id="w", error_handling="continue")
    down[0] = False
    calls.clear()
    assert len(runner.run(graph, workflow_id="w")["found"]) == 5
    assert calls == [3, 4]


def test_a_loop_of_what_cannot_be_stored_does_not_start_over(store: Checkpointer) -> None:
    calls, down = [], [True]
    runner, graph = SyncRunner(checkpointer=store), loop(calls, lambda n: object(), down)
    with pytest.warns(UserWarning, match="'found' cannot be stored"):
        runner.run(graph, topic="tea", workflow_id="w", error_handling="continue")
    down[0] = False
    calls.clear()
    with pytest.raises(ValueUnreadableError, match="'found' of workflow 'w', made by node 'search'"):
        runner.run(graph, workflow_id="w")
    assert calls == []


def test_a_result_of_a_nested_graph_that_was_not_stored_is_made_again(store: Checkpointer) -> None:
    made: list[Any] = []
    down = [True]

    def make(x):  # type: ignore[no-untyped-def]
        made.append(object())
        return made[-1]

    def use(thing):  # type: ignore[no-untyped-def]
        if down[0]:
            raise OSError("down")
        return thing is made[-1]

    inner = Graph([FunctionNode(make, "make", "thing")], name="inner").as_node()
    graph, runner = Graph([inner, FunctionNode(use, "use", "ok")], name="g"), SyncRunner(checkpointer=store)
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.run(graph, x=1, workflow_id="w", error_handling="continue")
    down[0] = False
    with pytest.warns(UserWarning, match="cannot be stored"):
        assert runner.run(graph, workflow_id="w")["ok"] is True
    assert len(made) == 2


def test_a_store_with_graphs_reads_objects_without_a_run(tmp_path: Path) -> None:
    shop = Shop(Receipt(7))
    shop.fail(SqliteCheckpointer(tmp_path / "runs.db"))
    plain, knowing = (SqliteCheckpointer(tmp_path / "runs.db", graphs=g) for g in ([], [shop.graph()]))
    assert isinstance(plain.state("w")["receipt"], Undecodable)
    assert knowing.state("w")["receipt"] == Receipt(7)
    with pytest.raises(TypeError, match="must hold graphs, got str"):
        SqliteCheckpointer(tmp_path / "runs.db", graphs=["g"])


def test_the_newer_of_two_classes_with_one_name_counts() -> None:
    names: dict[str, Any] = {"__name__": __name__}
    cell = "from dataclasses import dataclass\n@dataclass\nclass Thing:\n    n: int\n"
    exec(cell + "def make(x) -> Thing:\n    return Thing(x)\ndef stop(thing):\n    raise OSError\n", names)
    graph = Graph([FunctionNode(names["make"], "make", "thing"), FunctionNode(names["stop"], "stop", "s")])
    exec(cell, names)  # the cell is run again, that of the functions is not
    store = MemoryCheckpointer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w", error_handling="continue")
    result = SyncRunner(checkpointer=store).run(graph, workflow_id="w", error_handling="continue")
    assert type(result["thing"]) is names["Thing"]


# -- values that this store is not set up to read ---------------------------------------------------


class Reversed(JsonSerializer):
    """A serializer that only this program has."""

    id = "reversed"

    def serialize(self, value: Any) -> bytes:
        return super().serialize(value)[::-1]

    def deserialize(self, data: bytes) -> Any:
        return super().deserialize(data[::-1])


SETTINGS: dict[
    str, tuple[dict[str, Any], dict[str, Any], str]
] = {  # of the writer, of the reader, the reason
    "pickle": ({"serializer": PickleSerializer(allow_pickle=True)}, {}, "written as 'pickle/1'"),
    "another serializer": ({"serializer": Reversed()}, {}, "written as 'reversed/1'"),
    "no pickle": ({}, {"serializer": PickleSerializer(allow_pickle=True)}, "written as 'json/1'"),
    "no codec": ({"codec": ZstdCodec()}, {"codec": ZlibCodec()}, "has no codec 'zstd'"),
    "no key": ({"codec": AesGcmCodec(bytes(32))}, {}, "this store has no key"),
}


def in_two_steps(calls: list[str]) -> Graph:
    def first(n: int) -> int:
        calls.append("first")
        return n + 1

    def second(a: int) -> int:
        calls.append("second")
        if len(calls) < 3:
            raise ConnectionError("down")
        return a + 1

    return Graph([FunctionNode(first, "first", "a"), FunctionNode(second, "second", "b")], name="two")


@pytest.mark.parametrize("name", SETTINGS)
def test_what_another_store_reads_is_refused_and_not_made_again(name: str, tmp_path: Path) -> None:
    writing, reading, reason = SETTINGS[name]
    calls: list[str] = []
    graph, path = in_two_steps(calls), tmp_path / "runs.db"
    first = SyncRunner(checkpointer=SqliteCheckpointer(path, **writing))
    first.run(graph, n=1, workflow_id="w", error_handling="continue")
    other = SyncRunner(checkpointer=SqliteCheckpointer(path, **reading))
    for options in ({}, {"fork_from": ("w", None)}):
        with pytest.raises(ValueUnreadableError, match=f"{reason}.*\n.*--db module:attribute"):
            other.run(graph, n=1, **{"workflow_id": "f" if options else "w", **options})
    assert calls == ["first", "second"]
    assert first.run(graph, workflow_id="w")["b"] == 3
    assert calls == ["first", "second", "second"]


@pytest.mark.parametrize("kinds", [(JsonSerializer, MsgpackSerializer), (MsgpackSerializer, JsonSerializer)])
def test_json_and_msgpack_go_on_with_each_other(kinds: Any, tmp_path: Path) -> None:
    calls: list[str] = []
    graph, path = in_two_steps(calls), tmp_path / "runs.db"
    writer, reader = (SyncRunner(checkpointer=SqliteCheckpointer(path, serializer=kind())) for kind in kinds)
    writer.run(graph, n=1, workflow_id="w", error_handling="continue")
    assert reader.run(graph, workflow_id="w")["b"] == 3
    assert writer.run(graph, workflow_id="w")["b"] == 3
    assert calls == ["first", "second", "second"]


# -- unreadable results of items, and unreadable inputs -----------------------------------------------


def lost_tables(tmp_path: Path) -> tuple[SqliteCheckpointer, Graph, list[int]]:
    """Return a store with a completed map whose results are artifacts that are gone."""
    calls: list[int] = []

    @node(output_name="table")
    def clean(x: int) -> str:
        calls.append(x)
        return str(x) * 200

    graph = Graph([clean], name="cleaning")
    store = SqliteCheckpointer(tmp_path / "lost.db", artifact_threshold=100)
    SyncRunner(checkpointer=store).map(graph, x=[1, 2, 3], map_over="x", workflow_id="m")
    shutil.rmtree(tmp_path / "lost.db-artifacts")
    calls.clear()
    return store, graph, calls


def test_a_map_names_results_that_cannot_be_read_once_and_how_to_make_them_again(tmp_path: Path) -> None:
    store, graph, calls = lost_tables(tmp_path)
    runner = SyncRunner(checkpointer=store)
    with pytest.warns(UserWarning, match=r"Results of 3 of 3 items of 'm' cannot be read") as heard:
        found = runner.map(graph, x=[1, 2, 3], map_over="x", workflow_id="m")
    assert len(heard) == 1
    assert "hypergraph rm m/item-0, and map again" in str(heard[0].message)
    assert [type(value) for value in found["table"]] == [Undecodable] * 3
    for item in range(3):
        store.delete(f"m/item-{item}")
    found = runner.map(graph, x=[1, 2, 3], map_over="x", workflow_id="m")
    assert (found["table"], calls) == ([str(x) * 200 for x in (1, 2, 3)], [1, 2, 3])


HELD: dict[str, Callable[[Any], Any]] = {
    "itself": lambda lost: lost,
    "in a list": lambda lost: [1, lost],
    "in a tuple": lambda lost: (lost,),
    "in a set": lambda lost: {lost},
    "in a dict": lambda lost: {"a": lost},
}


@pytest.mark.parametrize("form", HELD)
@pytest.mark.parametrize("kept", [False, True])
def test_an_undecodable_input_is_refused_before_anything_runs(tmp_path: Path, form: str, kept: bool) -> None:
    ran: list[Any] = []

    @node(output_name="n")
    def report(table: Any, other: int = 0) -> int:
        ran.append(table)
        return 1

    graph = Graph([report], name="report")
    store = SqliteCheckpointer(tmp_path / "w.db") if kept else None
    runner, held = SyncRunner(checkpointer=store), HELD[form](Undecodable("its artifact is gone"))
    options: dict[str, Any] = {"workflow_id": "w"} if kept else {}
    with pytest.raises(ValueUnreadableError, match="an Undecodable, in place of a stored value") as error:
        runner.run(graph, table=held, **options)
    assert error.value.name == "table"
    with pytest.raises(ValueUnreadableError):
        runner.map(graph, table=[1, held], map_over="table", **options)
    with pytest.raises(ValueUnreadableError):
        runner.map(graph, table=held, other=[1, 2], map_over="other", **options)
    assert runner.run(graph, table=2)["n"] == 1
    with pytest.raises(ValueUnreadableError):  # as a call that was admitted before
        runner.run(graph, table=held)
    assert ran == [2]
    assert store is None or "w" not in [workflow.id for workflow in store.workflows()]


def test_a_new_item_of_a_stored_map_is_not_given_an_undecodable(tmp_path: Path) -> None:
    @node(output_name="n")
    def report(table: Any) -> int:
        return 1

    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "w.db"))
    graph = Graph([report], name="report")
    runner.map(graph, table=[1], map_over="table", workflow_id="m")
    with pytest.raises(ValueUnreadableError, match="'table' is an Undecodable"):
        runner.map(graph, table=[1, Undecodable("gone")], map_over="table", workflow_id="m")
