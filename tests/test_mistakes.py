"""Eighty mistakes that people make, and the message for each.

Each message names the thing, says why it does not work and what to write instead. The messages are in
goldens/mistakes.txt; HYPERGRAPH_REGOLD=1 writes them anew, to be read before they are committed.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    RetryPolicy,
    RichProgressProcessor,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import CheckpointPolicy, MemoryCheckpointer
from hypergraph.cli import main

GOLDEN = Path(__file__).parent / "goldens" / "mistakes.txt"
MISTAKES: dict[str, Callable[[], Any]] = {}


def mistake(title: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add a mistake to the list."""

    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        assert title not in MISTAKES
        MISTAKES[title] = function
        return function

    return add


@node(output_name="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output_name="total")
def count(words: list[str], at_least: int = 1) -> int:
    return sum(len(word) >= at_least for word in words)


@node(output_name="page")
async def fetch(url: str) -> str:
    return url


def f(x: int) -> int:
    return x


@interrupt("approved")
def approve(text: str) -> bool | None:
    return None


LOCK = threading.Lock()
COUNTING = Graph([split, count], name="counting")
ASKING = Graph([approve], name="asking")
SYNC = SyncRunner()


def stored() -> SyncRunner:
    """Return a runner whose store has the workflow "w"."""
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(COUNTING, text="a b", workflow_id="w")
    return runner


def stored_in(path: str) -> None:
    """Make a database that has the workflow "w"."""
    SyncRunner(checkpointer=path).run(COUNTING, text="a b", workflow_id="w")


# -- nodes -------------------------------------------------------------------------------------------


@mistake("*args in a node")
def _() -> Any:
    return node(lambda *args: 1, output_name="x")


@mistake("**kwargs in a node")
def _() -> Any:
    return node(lambda **kwargs: 1, output_name="x")


@mistake("the output name in the place of the function")
def _() -> Any:
    return node("words")  # type: ignore[call-overload]


@mistake("an output name that is not a text")
def _() -> Any:
    return node(f, output_name=3)  # type: ignore[call-overload]


@mistake("the same output twice")
def _() -> Any:
    return node(f, output_name=("a", "a"))


@mistake("a number of retries in the place of a policy")
def _() -> Any:
    return node(f, output_name="y", retry=3)  # type: ignore[call-overload]


@mistake("no attempts")
def _() -> Any:
    return RetryPolicy(max_attempts=0)


@mistake("a negative timeout")
def _() -> Any:
    return node(f, output_name="y", timeout=-1)


@mistake("a rename of an unknown input")
def _() -> Any:
    return split.with_inputs(txt="title")


@mistake("an interrupt without an output name")
def _() -> Any:
    return interrupt(f)  # type: ignore[arg-type]


@mistake("a gate without targets")
def _() -> Any:
    return route(targets=[])(f)


@mistake("a node of something that cannot be called")
def _() -> Any:
    return FunctionNode(3, "n", "y")  # type: ignore[arg-type]


# -- graphs ------------------------------------------------------------------------------------------


@mistake("a plain function in a graph")
def _() -> Any:
    return Graph([f])  # type: ignore[list-item]


@mistake("a node in the place of a list of nodes")
def _() -> Any:
    return Graph(split)  # type: ignore[arg-type]


@mistake("two producers of one name")
def _() -> Any:
    return Graph([split, node(f, output_name="words")])


@mistake("two nodes of one name")
def _() -> Any:
    return Graph([split, split])


@mistake("a lambda without a name")
def _() -> Any:
    return Graph([node(lambda text: text, output_name="words")])


@mistake("a target that does not exist")
def _() -> Any:
    @route(targets=["splt", END])
    def choose(text: str) -> str:
        return "splt"

    return Graph([split, choose])


@mistake("types that do not fit")
def _() -> Any:
    return Graph([split, node(lambda words: words, output_name="y").with_name("n"), count], strict_types=True)


@mistake("bind of an unknown name")
def _() -> Any:
    return COUNTING.bind(txt="a")


@mistake("select of an unknown output")
def _() -> Any:
    return COUNTING.select("totl")


@mistake("a nested graph without a name")
def _() -> Any:
    return Graph([split]).as_node()


@mistake("map_over of an unknown input")
def _() -> Any:
    return COUNTING.as_node().map_over("txt")


@mistake("a name of a graph that is not a text")
def _() -> Any:
    return Graph([split], name=3)  # type: ignore[arg-type]


@mistake("a graph that is run like in other libraries")
def _() -> Any:
    return COUNTING.invoke({"text": "a b"})  # type: ignore[attr-defined]


@mistake("a graph in the place of a node")
def _() -> Any:
    return Graph([COUNTING, count])  # type: ignore[list-item]


@mistake("a call in the place of a node")
def _() -> Any:
    return Graph([split(text="a b")])  # type: ignore[list-item]


@mistake("wait_for of an unknown name")
def _() -> Any:
    return Graph([split, node(f, output_name="y", wait_for="word")])


@mistake("an unknown entry point")
def _() -> Any:
    return COUNTING.with_entrypoint("splt")


@mistake("an edge to an unknown node")
def _() -> Any:
    return Graph([split, count], edges=[("split", "cout")])


@mistake("a gate without its targets")
def _() -> Any:
    return route(lambda x: "a")  # type: ignore[arg-type]


@mistake("a default that cannot be copied")
def _() -> Any:
    @node(output_name="y")
    def locked(x: int, lock: Any = LOCK) -> int:
        return x

    return SYNC.run(Graph([locked]), x=1)


# -- inputs and options ------------------------------------------------------------------------------


@mistake("a missing input")
def _() -> Any:
    return SYNC.run(COUNTING)


@mistake("a misspelt input")
def _() -> Any:
    return SYNC.run(COUNTING, txt="a b")


@mistake("a misspelt optional input")
def _() -> Any:
    return SYNC.run(COUNTING, text="a b", at_leest=9)


@mistake("a misspelt option")
def _() -> Any:
    return stored().run(COUNTING, text="a b", worklow_id="w")


@mistake("inputs without names")
def _() -> Any:
    return SYNC.run(COUNTING, "a b")  # type: ignore[arg-type]


@mistake("an input given twice")
def _() -> Any:
    return SYNC.run(COUNTING, {"text": "a"}, text="b")


@mistake("a value for what a node computes")
def _() -> Any:
    return SYNC.run(COUNTING, text="a b", words=["a"])


@mistake("a bare @node whose result is needed")
def _() -> Any:
    @node
    def words(text):  # type: ignore[no-untyped-def]
        return text.split()

    return SYNC.run(Graph([words, count]), text="a b")


@mistake("a node in the place of a graph")
def _() -> Any:
    return SYNC.run(split, text="a b")  # type: ignore[arg-type]


@mistake("an unknown way to handle errors")
def _() -> Any:
    return SYNC.run(COUNTING, text="a", error_handling="ignore")  # type: ignore[arg-type]


@mistake("a timeout that is a text")
def _() -> Any:
    return SYNC.run(COUNTING, text="a", timeout="1s")  # type: ignore[arg-type]


@mistake("map over a text")
def _() -> Any:
    return SYNC.map(COUNTING, text="a b", map_over="text")


@mistake("map over an input that was not given")
def _() -> Any:
    return SYNC.map(COUNTING, text=["a b"], map_over="txt")


@mistake("lists of unequal lengths")
def _() -> Any:
    return SYNC.map(COUNTING, text=["a", "b"], at_least=[1], map_over=["text", "at_least"])


@mistake("an option of the other runner")
def _() -> Any:
    return SYNC.run(COUNTING, text="a", max_concurrency=2)


@mistake("an event processor that is not in a list")
def _() -> Any:
    return SYNC.run(COUNTING, text="a", event_processors=RichProgressProcessor())  # type: ignore[arg-type]


@mistake("a class in the place of an event processor")
def _() -> Any:
    return SYNC.run(COUNTING, text="a", event_processors=[RichProgressProcessor])  # type: ignore[list-item]


@mistake("a loop without its first value")
def _() -> Any:
    again = route(targets=["f", END], name="again")(lambda x: END)
    return SYNC.run(Graph([node(f, output_name="x"), again]))


# -- runs --------------------------------------------------------------------------------------------


@mistake("an async node under SyncRunner")
def _() -> Any:
    return SYNC.run(Graph([fetch]), url="u")


@mistake("a forgotten await")
def _() -> Any:
    return AsyncRunner().run(COUNTING, text="a b")["total"]


@mistake("the values of a run that was not awaited")
def _() -> Any:
    return AsyncRunner().run(COUNTING, text="a b").values  # type: ignore[attr-defined]


@mistake("a forgotten await on a method of the store")
def _() -> Any:
    return MemoryCheckpointer().get_state("order-1")["total"]  # type: ignore[index]


@mistake("the state of an unknown workflow")
def _() -> Any:
    store = MemoryCheckpointer()
    store.create_workflow("order-1")
    return store.state("order-l")


@mistake("AsyncRunner without an event loop")
def _() -> Any:
    return AsyncRunner().start_run(COUNTING, text="a b")


@mistake("three values for two outputs")
def _() -> Any:
    return SYNC.run(Graph([node(lambda x: (1, 2, 3), output_name=("a", "b")).with_name("two")]), x=1)


@mistake("None for two outputs")
def _() -> Any:
    return SYNC.run(Graph([node(lambda x: None, output_name=("a", "b")).with_name("two")]), x=1)


@mistake("a gate that returns an undeclared target")
def _() -> Any:
    @route(targets=["split", END])
    def choose(text: str) -> str:
        return "count"

    return SYNC.run(Graph([split, choose, count]), text="a")


@mistake("a gate that returns the text END")
def _() -> Any:
    @route(targets=["split", END])
    def choose(text: str) -> str:
        return "END"

    return SYNC.run(Graph([split, choose]), text="a")


@mistake("an @ifelse that returns a number")
def _() -> Any:
    @ifelse(when_true="split", when_false=END)
    def choose(text: str) -> bool:
        return 1  # type: ignore[return-value]

    return SYNC.run(Graph([split, choose]), text="a")


@mistake("a loop that never ends")
def _() -> Any:
    a = node(lambda x: x + 1, output_name="y").with_name("a")
    b = node(lambda y: y, output_name="x").with_name("b")
    return SYNC.run(Graph([a, b]), x=1, max_iterations=20)


@mistake("a misspelt result")
def _() -> Any:
    return SYNC.run(COUNTING, text="a b")["totl"]


@mistake("a function that forgets to await")
def _() -> Any:
    @node(output_name="page")
    def load(url: str) -> str:
        return fetch(url)  # type: ignore[return-value]

    return SYNC.run(Graph([load]), url="u")


@mistake("an @ifelse without a return")
def _() -> Any:
    return SYNC.run(
        Graph([split, ifelse(when_true="split", when_false=END, name="g")(lambda text: None)]), text="a"
    )


# -- stores ------------------------------------------------------------------------------------------


@mistake("a workflow id without a checkpointer")
def _() -> Any:
    return SYNC.run(COUNTING, text="a b", workflow_id="w")


@mistake("another graph under a used id")
def _() -> Any:
    return stored().run(Graph([split], name="other"), text="a b", workflow_id="w")


@mistake("map on the id of a run")
def _() -> Any:
    return stored().map(COUNTING, text=["a b"], map_over="text", workflow_id="w")


@mistake("a workflow that does not exist")
def _() -> Any:
    store = stored().checkpointer
    assert store is not None
    return store.workflow("nope")


@mistake("a fork of a workflow that does not exist")
def _() -> Any:
    return stored().run(COUNTING, workflow_id="new", fork_from=("nope", None))


@mistake("a workflow id with a slash")
def _() -> Any:
    return stored().run(COUNTING, text="a", workflow_id="a/b")


@mistake("a store in the place of the cache")
def _() -> Any:
    return SyncRunner(MemoryCheckpointer())  # type: ignore[arg-type]


@mistake("something else in the place of a store")
def _() -> Any:
    return SyncRunner(checkpointer=3)  # type: ignore[arg-type]


@mistake("an unknown durability")
def _() -> Any:
    return CheckpointPolicy(durability="always")  # type: ignore[arg-type]


@mistake("a fork with its parts in the wrong order")
def _() -> Any:
    return stored().run(COUNTING, workflow_id="new", fork_from=(0, "w"))  # type: ignore[arg-type]


@mistake("a fork from a superstep that does not exist")
def _() -> Any:
    return stored().run(COUNTING, workflow_id="new", fork_from=("w", 99))


@mistake("a folder in the place of a database")
def _() -> Any:
    Path("folder").mkdir()
    return SyncRunner(checkpointer="folder").run(COUNTING, text="a", workflow_id="w")


@mistake("another file in the place of a database")
def _() -> Any:
    Path("notes.txt").write_text("not a database " * 100)
    return SyncRunner(checkpointer="notes.txt").run(COUNTING, text="a", workflow_id="w")


@mistake("an answer of the wrong type")
def _() -> Any:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(ASKING, text="a", workflow_id="w")
    return runner.run(ASKING, approved="yes", workflow_id="w")


# -- the command line --------------------------------------------------------------------------------


class Printed(Exception):
    """What a command printed."""


def command(*words: str) -> Any:
    """Raise what a command prints."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(list(words))
    assert code
    raise Printed(printed.getvalue().strip())


@mistake("hypergraph: an unknown command")
def _() -> Any:
    return command("shwo")


@mistake("a path in the place of a cache")
def _() -> Any:
    return SyncRunner("runs.db")  # type: ignore[arg-type]


@mistake("hypergraph: an unknown option")
def _() -> Any:
    return command("ls", "--statsu", "failed")


@mistake("hypergraph: a graph without its module")
def _() -> Any:
    return command("run", "counting", "text=a")


@mistake("hypergraph: a file in the place of a module")
def _() -> Any:
    return command("run", "./test_mistakes.py:COUNTING", "text=a")


@mistake("hypergraph: a value of the wrong type")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "text=a", "at_least=many", "--no-store")


@mistake("hypergraph: a missing input")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "at_least=3", "--no-store")


@mistake("hypergraph: a misspelt input")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "txt=a", "--no-store")


@mistake("hypergraph: a database that does not exist")
def _() -> Any:
    return command("--db", "nowhere.db", "ls")


@mistake("hypergraph: an input given twice")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "text=a", "text=b", "--no-store")


@mistake("hypergraph: a name that is not an input")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "text=a", "limit=3", "--no-store")


@mistake("hypergraph: an input without a value")
def _() -> Any:
    return command("run", f"{__name__}:COUNTING", "text", "--no-store")


@mistake("hypergraph: a file without the name of a graph")
def _() -> Any:
    Path("shop.py").write_text("import hypergraph")
    return command("run", "shop.py", "text=a")


@mistake("hypergraph: a date that is not a date")
def _() -> Any:
    stored_in("runs.db")
    return command("ls", "--since", "yesterday")


@mistake("hypergraph: an id that is used")
def _() -> Any:
    stored_in("runs.db")
    return command("run", f"{__name__}:COUNTING", "text=b", "--id", "w")


def message_of(call: Callable[[], Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind
            call()
    kind = "" if type(caught.value) is Printed else f"{type(caught.value).__name__}: "
    text = caught.value.args[0] if isinstance(caught.value, KeyError) else str(caught.value)
    return f"{kind}{text}"


def test_every_mistake_has_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYPERGRAPH_DB", raising=False)
    parts = [f"## {title}\n{message_of(call)}\n" for title, call in MISTAKES.items()]
    text = "\n".join(parts).replace(str(tmp_path), "...")
    if os.environ.get("HYPERGRAPH_REGOLD"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_there_are_eighty_and_none_is_a_message_of_python_itself() -> None:
    assert len(MISTAKES) >= 80
    text = GOLDEN.read_text(encoding="utf-8")
    assert text.count("\n## ") + 1 == len(MISTAKES)
    for odd in ("object is not", "has no attribute", "unexpected keyword", "<class '", "<function"):
        assert odd not in text
