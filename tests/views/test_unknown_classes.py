"""The law of readers without the classes: whatever is stored, and however, they are shown its content.

Each shape of a value is stored in every way: given, made, appended, as a patch of a growing list, as an inner
step, in a nested graph and in a question. Every view of a store that knows no class has the word in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from hypergraph import END, Graph, NodeContext, SyncRunner, interrupt, node, receive, route
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    PickleSerializer,
    SqliteCheckpointer,
    Undecodable,
)
from hypergraph.checkpointers.analysis import same
from hypergraph.cli.main import main
from hypergraph.integrations.mcp.read_tools import ReadTools, Source
from hypergraph.ui.api import QUERIES
from hypergraph.ui.export import packed
from hypergraph.views.content import content
from hypergraph.views.diff import diff
from hypergraph.views.state import value
from hypergraph.views.steps import steps
from hypergraph.views.workflow import signal_view

WORD = "samovar"


@dataclass
class Order:
    item: str


@dataclass
class Basket:
    order: Order
    others: list[Order]


class Pair(NamedTuple):
    left: int
    right: str


class Struct(msgspec.Struct):
    item: str


class Model(pydantic.BaseModel):
    item: str


class Open(pydantic.BaseModel, extra="allow"):
    known: int = 1


class Kind(Enum):
    samovar = 1


@dataclass
class Message:
    role: str
    content: str


class Role(Enum):
    user = "u"


@dataclass
class Spoken:
    role: Role
    content: str


SHAPES: dict[str, Callable[[], Any]] = {
    "dataclass": lambda: Order(WORD),
    "dataclasses inside": lambda: Basket(Order(WORD), [Order("tea")]),
    "named tuple": lambda: Pair(1, WORD),
    "struct": lambda: Struct(WORD),
    "model": lambda: Model(item=WORD),
    "model with extra fields": lambda: Open(item=WORD),  # type: ignore[call-arg]  # that is what is extra
    "enum": lambda: Kind.samovar,
    "message": lambda: Message("user", WORD),
    "message of a role": lambda: Spoken(Role.user, WORD),
    "dict": lambda: {"order": Order(WORD), "n": 1},
    "list": lambda: [Order(WORD), Order("tea")],
    "tuple": lambda: (Order(WORD), 2),
}


@node(output_name="plain")
def make(given: Any) -> Any:
    return given


@node(output_name="messages", append=True)
def say(plain: Any) -> Any:
    return [plain]


@node(output_name="messages", append=True)
def say_more(plain: Any, grown: Any) -> Any:
    return [plain, "and tea"]


@node(output_name="grown")
def grow(grown: list[Any], plain: Any) -> list[Any]:
    return [*grown, plain]


@route(targets=["grow", END])
def enough(grown: list[Any]) -> Any:
    return END if len(grown) > 22 else "grow"


@node(output_name="inner")
def call(plain: Any, context: NodeContext) -> int:
    context.step("brew", _brewed, plain)
    return 1


def _brewed(what: Any) -> Any:
    return what


@node(output_name="nested")
def inside(plain: Any) -> Any:
    return plain


@interrupt(output_name="approved")
def approve(plain: Any) -> None:
    return None


box = Graph([inside], name="box")
shop = Graph([make, say, say_more, grow, enough, call, box.as_node(), approve], name="shop")


def write(store: Checkpointer, name: str) -> None:
    shape = SHAPES[name]()
    grown = [shape] + [f"beginning {n} of a long list" for n in range(20)]
    SyncRunner(checkpointer=store).run(shop, given=shape, grown=grown, workflow_id="w")


@pytest.fixture(scope="module", params=SHAPES)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("unknown") / "runs.db"
    with SqliteCheckpointer(file) as store:
        write(store, request.param)
    return file


@pytest.fixture
def reader(path: Path) -> Iterator[Checkpointer]:
    with SqliteCheckpointer(path) as store:
        yield store


def steps_of(store: Checkpointer) -> dict[str, int]:
    return {step.node_name: step.index for step in store.steps("w", values=False)}


def printed(path: Path, *words: object) -> str:
    said = StringIO()
    with redirect_stdout(said):
        assert main(["--db", str(path), *map(str, words)]) == 0, said.getvalue()
    return said.getvalue()


def is_like(store: Checkpointer, a: str, b: str) -> bool:
    found = store.diff(a, b)
    return found is not None and found.is_empty


def check(text: str, where: object) -> None:
    assert WORD in text, (where, text)
    assert "NoneType" not in text, (where, text)


VALUES = ("given", "plain", "messages", "grown", "nested")
MAKERS = {"make": "plain", "say": "messages", "say_more": "messages", "grow": "grown", "box": "nested"}


def test_the_premise_is_that_all_ways_are_used(reader: Checkpointer) -> None:
    formats = {payload.name: payload.format for payload in reader.backend.read_outputs("w")}
    assert ("&" in formats["messages"], "~" in formats["grown"]) == (True, True)
    assert all(isinstance(reader.state("w")[name], Undecodable) for name in VALUES if name != "given")


def test_the_command_shows_the_content(path: Path, reader: Checkpointer) -> None:
    for row in printed(path, "steps", "w", "--values", "--limit", 50).splitlines():
        if any(f" {maker} " in row for maker in MAKERS):
            check(row, row)
    for line in printed(path, "state", "w").splitlines():
        if line.strip().startswith(VALUES):
            check(line, line)
    for maker, index in steps_of(reader).items():
        if maker in (*MAKERS, "call", "approve"):
            check(printed(path, "step", "w", index), maker)
    for name in VALUES:
        check(printed(path, "state", "w", "--key", name), name)
        check(printed(path, "why", "w", name), name)
    shown = printed(path, "show", "w")
    assert "say_more (step" in shown
    check(shown, "show")


def test_the_page_and_agents_show_the_content(path: Path, reader: Checkpointer) -> None:
    tools = ReadTools(Source(str(path)))

    def asked(query: str, **given: object) -> str:
        pairs = [(name, str(value)) for name, value in given.items()]
        return json.dumps(QUERIES[query].ask(reader, pairs))

    for maker, index in steps_of(reader).items():
        if maker in (*MAKERS, "call", "approve"):
            check(asked("step", id="w", index=index), ("step", maker))
            check(json.dumps(tools.show_step("w", index)), ("show_step", maker))
        if maker in MAKERS:
            name = MAKERS[maker]
            check(asked("value", id="w", key=name, step=index), ("value", maker))
            check(asked("value", id="w", key=name), ("value", maker))
            check(json.dumps(tools.get_value("w", name)), ("get_value", maker))
            check(json.dumps(tools.why("w", name)), ("why", maker))
            seen = json.loads(asked("content", id="w", key=name, step=index))
            assert seen["problem"], seen
            assert seen["type"] != "NoneType"
            if seen["form"] != "tree":  # for which the page asks for the value
                check(json.dumps(seen), ("content", maker))
    for item in json.loads(asked("state", id="w"))["items"]:
        if item["name"] in VALUES:
            check(json.dumps(item), item["name"])
    check(json.dumps(tools.get_state("w")), "get_state")
    check(asked("changes", id="w", first=0, second=3), "changes")
    check(json.dumps(packed(reader, "w")), "the exported page")


def test_python_shows_the_content(reader: Checkpointer) -> None:
    for name in VALUES[1:]:
        check(repr(reader.state("w")[name]), name)
        check(json.dumps(reader.provenance("w", name)[0].to_dict()), name)
    assert [item.node for item in reader.appended("w", "messages")][-1] == "say_more"
    check(repr(reader.appended("w", "messages")), "appended")
    for maker, index in steps_of(reader).items():
        if maker in MAKERS:
            found = reader.step("w", index)
            assert found is not None
            check(json.dumps(found.to_dict()), maker)


def test_calls_inside_of_a_node_are_shown_with_arguments_and_value(path: Path, reader: Checkpointer) -> None:
    (call_of,) = [step["inner"] for step in steps(reader, "w", limit=50)["items"] if "inner" in step]
    (shown,) = call_of
    check(shown["call"], "the arguments")
    check(json.dumps(shown["value"]), "the value")
    (row,) = [
        line for line in printed(path, "steps", "w", "--values", "--limit", 50).splitlines() if "brew" in line
    ]
    check(row, "the row")


def test_the_value_is_found(reader: Checkpointer) -> None:
    found = {(step.workflow_id, step.node_name) for step in reader.search(WORD, limit=None)}
    assert found >= {("w", maker) for maker in MAKERS}


def test_a_value_is_like_itself(reader: Checkpointer) -> None:
    state, again = reader.state("w"), reader.state("w")
    assert [name for name in state if not same(state[name], again[name])] == []


def test_keys_and_members_of_unknown_classes_are_shown_and_alike(tmp_path: Path) -> None:
    graph = Graph([make], name="keys")
    with SqliteCheckpointer(tmp_path / "k.db") as store:
        for name in ("a", "b"):
            SyncRunner(checkpointer=store).run(
                graph, given={Pair(1, WORD): {Pair(2, "tea")}}, workflow_id=name
            )
    with SqliteCheckpointer(tmp_path / "k.db") as store:
        (part,) = value(store, "a", "plain")["items"]
        assert part["key"] == "{'left': 1, 'right': 'samovar'}"
        assert value(store, "a", "plain", path=part["path"])["value"] == [{"left": 2, "right": "tea"}]
        assert is_like(store, "a", "b")
        assert diff(store, "a", "b")["same"]


def test_a_signal_is_shown_by_its_fields_with_its_sender(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "s.db") as store:
        SyncRunner(checkpointer=store).run(Graph([receive("order")]), workflow_id="w")
        store.send("w", "order", [Order(WORD)], by="ann")
    with SqliteCheckpointer(tmp_path / "s.db") as store:
        (sent,) = store.signals("w")
        assert (sent.by, isinstance(sent.value, Undecodable)) == ("ann", True)
        shown = signal_view(sent)
        assert (shown["value"]["value"], shown["value"]["type"]) == ([{"item": WORD}], "list")


# --- what cannot be read at all ------------------------------------------------------------------

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"serializer": PickleSerializer(allow_pickle=True)}, "written as 'pickle/1'"),
        ({"codec": AesGcmCodec(KEY)}, "A stored value is encrypted"),
    ],
    ids=["pickle", "encrypted"],
)
def test_what_cannot_be_read_says_why_instead_of_none(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db", **options) as store:
        SyncRunner(checkpointer=store).run(Graph([make, say]), given=Order(WORD), workflow_id="w")
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        indexes = steps_of(store)
        for words in (
            ("steps", "w", "--values"),
            ("step", "w", indexes["make"]),
            ("step", "w", indexes["say"]),
            ("state", "w"),
            ("state", "w", "--key", "messages"),
            ("why", "w", "messages"),
        ):
            shown = printed(tmp_path / "runs.db", *words)
            assert reason in shown, (words, shown)
            assert "NoneType" not in shown, (words, shown)
        for key in ("plain", "messages"):
            seen = content(store, "w", key)
            assert seen["problem"] is not None, seen
            assert reason in seen["problem"]
            assert (seen["type"], value(store, "w", key)["type"]) == ("Undecodable", "Undecodable")


def test_values_that_are_not_readable_here_are_compared_by_their_bytes(tmp_path: Path) -> None:
    pickle = PickleSerializer(allow_pickle=True)
    with SqliteCheckpointer(tmp_path / "runs.db", serializer=pickle) as store:
        for name, word in (("a", WORD), ("b", WORD), ("c", "teapot")):
            SyncRunner(checkpointer=store).run(Graph([make]), given=Order(word), workflow_id=name)
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        assert diff(store, "a", "b")["same"]
        assert is_like(store, "a", "b")
        first = diff(store, "a", "c")["first"]
        assert first is not None
        assert first["kind"] == "values"


# --- comparison ----------------------------------------------------------------------------------


@node(output_name="messages", append=True)
def listen(said: str) -> Message:
    return Message("user", said)


@node(output_name="last")
def last(messages: list[Message]) -> Message:
    return messages[-1]


chat = Graph([listen, last], name="chat")


def test_a_fork_without_changes_is_the_same_for_a_reader_without_the_classes(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(chat, said=WORD, workflow_id="a")
        runner.run(chat, said=WORD, workflow_id="b")
        runner.run(chat, fork_from=("a", None), workflow_id="copy")
        runner.run(chat, said="tea", workflow_id="other")
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        for name in ("b", "copy"):
            assert diff(store, "a", name)["same"]
            assert is_like(store, "a", name)
        assert not diff(store, "a", "other")["same"]
        assert "Same 2 steps and values" in printed(tmp_path / "runs.db", "diff", "a", "copy")


def test_objects_of_a_script_are_like_those_of_the_imported_module() -> None:
    def stored(module: str, content: str = WORD, name: str = "Message") -> Undecodable:
        return Undecodable("unknown", [Undecodable("unknown", {"content": content}, f"{module}:{name}")])

    assert same(stored("__main__"), stored("dc"))
    assert same(stored("dc"), stored("__main__"))
    assert not same(stored("dc"), stored("other"))
    assert not same(stored("__main__"), stored("dc", "tea"))
    assert not same(stored("__main__"), stored("dc", name="Note"))


def test_classes_of_a_script_and_of_its_module_are_alike_if_both_are_loaded() -> None:
    twin: Any = dataclass(type("Order", (), {"__annotations__": {"item": str}, "__module__": "__main__"}))
    assert same(Order(WORD), twin(WORD))
    assert not same(Order(WORD), twin("tea"))
    assert not same(Order(WORD), Struct(WORD))


def test_known_objects_with_unknown_ones_inside_are_compared_by_their_fields() -> None:
    def basket(item: str) -> Basket:
        return Basket(Undecodable("unknown", {"item": item}, "app:Order"), [])  # type: ignore[arg-type]

    assert same(basket(WORD), basket(WORD))
    assert not same(basket(WORD), basket("tea"))


def test_a_difference_is_shown_where_it_is(tmp_path: Path) -> None:
    long = ["an opening that is the same in both"] * 8
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        runner = SyncRunner(checkpointer=store)
        for name, word in (("a", "green tea"), ("b", "black tea")):
            runner.run(Graph([make], name="g"), given=[*long, Order(word)], workflow_id=name)
        for name, word in (("c", "green tea"), ("d", "black tea")):
            runner.run(Graph([make], name="g"), given="word " * 2000 + word, workflow_id=name)
        for name in ("e", "f"):
            runner.run(chat, said="tea", workflow_id=name)
        runner.run(chat, said="and cake", workflow_id="f")
    shown = printed(tmp_path / "runs.db", "diff", "a", "b")
    assert re.search(r"(?m)^  plain +list 9 +list 9 +make \(step 0\)$", shown)
    assert re.search(r"(?m)^    /8/item +str 9: 'green tea' +str 9: 'black tea'$", shown)
    assert "an opening" not in shown
    shown = printed(tmp_path / "runs.db", "diff", "c", "d")
    assert "green tea' (from character 9970)" in shown
    assert "black tea' (from character 9970)" in shown
    shown = printed(tmp_path / "runs.db", "diff", "e", "f")
    assert re.search(r"(?m)^  messages +list 1 +list 2 +listen", shown)
    assert re.search(r"(?m)^    /1 +— +Message 2: {'role': 'user', 'content': 'and cake'}$", shown)
