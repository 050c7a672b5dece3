"""Variants of stored runs, and recorded runs as fixtures: nothing before the step is called."""

import asyncio
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    GraphConfigError,
    NodeContext,
    RunResult,
    SyncRunner,
    node,
    route,
)
from hypergraph.checkpointers import CheckpointPolicy, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.checkpointers.records import Turn
from hypergraph.checkpointers.view import view_of
from hypergraph.exceptions import WorkflowNotFoundError
from hypergraph.testing import NotRecordedError, compare_variants, recorded

called: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    called.clear()


@node(output_name="page")
def fetch(url: str) -> str:
    called.append("fetch")
    return f"page {url}"


@node(output_name="words")
def split(page: str) -> list[str]:
    called.append("split")
    return page.split()


@node(output_name="size")
def measure(page: str) -> int:
    called.append("measure")
    return len(page)


@node(output_name="summary")
def summarize(page: str, words: list[str], length: int = 3) -> str:
    called.append("summarize")
    return page[:length] + str(len(words))


@node(output_name="grade")
def grade(summary: str, page: str) -> int:
    called.append("grade")
    return len(summary) + len(page)


GRAPH = Graph([fetch, split, measure, summarize, grade], name="news")


def graded(result: RunResult) -> int:
    return int(result["grade"])


def stored(count: int, graph: Graph = GRAPH) -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    for number in range(count):
        SyncRunner(checkpointer=store).run(graph, url=f"u{number}", workflow_id=f"w{number}")
    called.clear()
    return store


def shouted(page: str, words: list[str], length: int = 3) -> str:
    called.append("shouted")
    return page.upper()


VARIANTS: dict[str, dict[str, Any]] = {
    "as it was": {},
    "longer": {"length": 6},
    "other page": {"page": "xx"},
    "shouted": {"summarize": shouted},
    "strict": {"length": 1, "grade": lambda summary, page: -1},
}


def test_a_hundred_runs_with_five_variants_call_nothing_upstream() -> None:
    store = stored(100)
    before = {workflow.id for workflow in store.workflows()}
    found = compare_variants(store, [f"w{i}" for i in range(100)], "summarize", VARIANTS, graded, graph=GRAPH)
    assert len(found.runs) == 500
    assert {name: called.count(name) for name in set(called)} == {
        "summarize": 400,
        "shouted": 100,
        "grade": 400,
    }
    assert all(run.problem is None for run in found.runs)
    assert (
        found.mean("as it was")
        == sum(run.result["grade"] for run in found.of("as it was") if run.result) / 100
    )
    assert found.mean("strict") == -1
    assert found.best == "shouted"
    assert {workflow.id for workflow in store.workflows()} == before  # the store is not written
    assert store.workflows().total == 100


def test_values_change_from_the_step_on_and_nothing_before_is_run_again() -> None:
    found = compare_variants(stored(1), ["w0"], "summarize", {"x": {"page": "xx"}}, graded, graph=GRAPH)
    result = found.runs[0].result
    assert result is not None
    assert (result["summary"], result["grade"]) == ("xx2", 5)  # the words of the old page
    assert called == ["summarize", "grade"]


@pytest.mark.parametrize(("start", "names"), [(0, 5), (1, 4), (2, 2), (3, 1)])
def test_a_superstep_says_where_to_begin(start: int, names: int) -> None:
    compare_variants(stored(1), ["w0"], start, {"x": {}}, graded, graph=GRAPH)
    assert len(called) == names


def test_the_text_the_notebook_and_the_page(tmp_path: Path) -> None:
    found = compare_variants(
        stored(25),
        [f"w{i}" for i in range(25)],
        "summarize",
        {"<b>": {}, "longer": {"length": 9}},
        graded,
        graph=GRAPH,
    )
    text = str(found)
    assert text.splitlines()[0] == "Variants from summarize | 25 runs x 2 variants"
    assert "w19" in text
    assert "w20" not in text
    assert "... and 5 more runs" in text
    assert repr(found) == text
    assert "&lt;b&gt;" in found._repr_html_()
    page = found.save(tmp_path / "variants.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "w24" in page
    assert "<b>longer" not in page


def test_runs_that_cannot_be_continued_say_why() -> None:
    @route(targets=["fetch", "split"])
    def choose(url: str) -> Any:
        return "fetch"

    store = stored(2)

    def fails(page: str, words: list[str], length: int = 3) -> str:
        raise OSError("no model")

    def no_score(result: RunResult) -> float:
        raise KeyError("grade")

    found = compare_variants(store, ["w0"], "summarize", {"x": {"summarize": fails}}, graded, graph=GRAPH)
    assert found.runs[0].problem == "failed: OSError: no model"
    assert "OSError" in str(found)
    found = compare_variants(store, ["w0"], "summarize", {"x": {}}, no_score, graph=GRAPH)
    assert "score raises KeyError" in str(found.runs[0].problem)
    assert found.best is None
    short = Graph([fetch, measure], name="news")
    SyncRunner(checkpointer=store).run(short, url="u", workflow_id="short")
    found = compare_variants(store, ["short", "w1"], "summarize", {"x": {}}, graded, graph=GRAPH)
    assert [run.problem for run in found.runs] == ["summarize did not run", None]
    found = compare_variants(store, ["w0"], 9, {"x": {}}, graded, graph=GRAPH)
    assert found.runs[0].problem == "it has no superstep 9"


def test_what_is_not_stored_is_not_made_again() -> None:
    @node(output_name="page", persist=False)
    def fetch_again(url: str) -> str:
        called.append("fetch")
        return f"page {url}"

    graph = Graph([fetch_again, split, measure, summarize, grade], name="news")
    found = compare_variants(stored(1, graph), ["w0"], "summarize", {"x": {}}, graded, graph=graph)
    assert "fetch_again would be called again" in str(found.runs[0].problem)
    assert called == []


def test_runs_of_several_turns() -> None:
    @node(output_name="reply")
    def reply(message: str) -> str:
        called.append("reply")
        return message.upper()

    @node(output_name="note")
    def remember(reply: str) -> str:
        called.append("remember")
        return f"{reply}!"

    chat, store = Graph([reply, remember], name="chat"), MemoryCheckpointer()
    for message in ("one", "two", "three"):
        SyncRunner(checkpointer=store).run(chat, message=message, workflow_id="chat")
    called.clear()
    variants = {"same": {}, "other": {"reply": "HI"}}
    found = compare_variants(store, ["chat"], "remember", variants, lambda result: result["note"], graph=chat)
    assert [run.score for run in found.runs] == ["THREE!", "HI!"]
    assert called == ["remember", "remember"]


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    called.append("listen")
    return f"user: {said}"


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[str], tone: str = "") -> tuple[str, list[str]]:
    called.append("ask")
    calls = [] if messages[-1].startswith("tool") else [messages[-1][-1]]
    return f"model{tone}: {'call' if calls else 'done'}", calls


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str]) -> list[str]:
    return [f"tool: {call}" for call in calls]


AGENT = Graph([listen, ask, decide, act], name="agent")


def turn(said: str, tone: str = "") -> list[str]:
    return [f"user: {said}", f"model{tone}: call", f"tool: {said}", f"model{tone}: done"]


def chat() -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    for said in "abc":
        SyncRunner(checkpointer=store).run(AGENT, said=said, workflow_id="w", new_turn=True)
    called.clear()
    return store


def test_the_items_of_a_map() -> None:
    store, long = MemoryCheckpointer(), "m" * 512
    SyncRunner(checkpointer=store).map(GRAPH, url=["a", "b"], map_over="url", workflow_id=long)
    SyncRunner(checkpointer=store).run(GRAPH, url="c", workflow_id=long.replace("m", "n"))
    SyncRunner(checkpointer=store).run(GRAPH, url="bb", workflow_id=f"{long}/item-1")  # its second turn
    called.clear()
    ids = [f"{long}/item-0", f"{long}/item-1", long.replace("m", "n")]
    variants: dict[str, dict[str, Any]] = {"as it was": {}, "long": {"length": 6}}
    found = compare_variants(store, ids, "summarize", variants, lambda result: result["summary"], graph=GRAPH)
    assert [run.problem for run in found.runs] == [None] * 6
    assert [run.score for run in found.runs] == ["pag2", "page a2", "pag2", "page b2", "pag2", "page c2"]
    assert called == ["summarize", "grade"] * 6


@pytest.mark.parametrize("start", [0, 6, 12, "listen"])
def test_the_first_node_of_a_turn_runs_with_the_values_of_that_turn(start: int | str) -> None:
    number = 2 if isinstance(start, str) else start // 6
    before = [message for said in "abc"[:number] for message in turn(said)]
    variants: dict[str, dict[str, Any]] = {
        "as it was": {},
        "other": {"said": "z"},
        "default": {"tone": "!"},
        "code": {"listen": lambda said: "user: y"},
    }
    found = compare_variants(chat(), ["w"], start, variants, lambda result: result["messages"], graph=AGENT)
    expected = [turn("abc"[number]), turn("z"), turn("abc"[number], "!"), turn("y")]
    assert [run.problem for run in found.runs] == [None] * 4
    assert [run.score for run in found.runs] == [before + messages for messages in expected]
    assert called.count("listen") == 3


def test_every_superstep_of_every_turn_leads_to_the_same_end() -> None:
    store = chat()
    SyncRunner(checkpointer=store).run(AGENT, calls=["z"], fork_from=("w", 7), workflow_id="fork")
    for name in ("w", "fork"):
        ends = {tuple(store.state(name)["messages"]), (*turn("a"), *turn("b")), tuple(turn("a"))}
        for start in range(store.steps(name)[-1].superstep + 1):
            found = compare_variants(store, name, start, {"x": {}}, lambda r: r["messages"], graph=AGENT)
            assert found.runs[0].problem is None
            assert tuple(found.runs[0].score) in ends
            assert len(found.runs[0].score) == 4 * (start // 6 + 1)


def test_a_run_that_does_not_execute_the_step_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    store = chat()
    monkeypatch.setattr(
        view_of(store, graph=AGENT).backend, "read_turns", lambda workflow_id: [Turn(0, frozenset(("said",)))]
    )
    found = compare_variants(store, ["w"], "listen", {"x": {}}, lambda result: 1, graph=AGENT)
    assert (found.runs[0].score, found.runs[0].problem) == (None, "listen did not run again")


def test_loops_and_nested_graphs_and_async_nodes() -> None:
    @node(output_name="n")
    async def count(n: int, context: NodeContext) -> int:
        called.append("count")
        return n + int(context.service("step", int))

    inner = Graph([fetch, measure], name="inner")
    graph = Graph([inner.as_node(), count.with_inputs(n="size")], name="outer")
    store = MemoryCheckpointer()
    asyncio.run(AsyncRunner(checkpointer=store).run(graph, url="u", workflow_id="w", services={"step": 1}))
    called.clear()
    found = compare_variants(
        store,
        "w",
        "count",
        {"x": {}, "y": {"size": 100}},
        lambda result: result["n"],
        graph=graph,
        services={"step": 2},
    )
    assert [run.score for run in found.runs] == [8, 102]
    assert called == ["count", "count"]


async def scored_later(result: RunResult) -> float:
    return 1.0


def test_a_score_that_is_not_a_number_does_not_count() -> None:
    found = compare_variants(
        stored(2),
        ["w0", "w1"],
        "summarize",
        {"lost": {}, "good": {"length": 1}},
        lambda result: 0.5 if len(result["summary"]) == 2 else float("nan"),
        graph=GRAPH,
    )
    assert (found.mean("lost"), found.mean("good"), found.best) == (None, 0.5, "good")
    with pytest.raises(ValueError, match="Did you mean 'good'"):
        found.of("goood")
    with pytest.raises(ValueError, match=r"No variant has the name 'x'\. Its variants: lost, good"):
        found.mean("x")


@pytest.mark.parametrize("kind", [numpy.float32, numpy.int64, numpy.bool_, numpy.array, Decimal, Fraction])
def test_a_score_may_be_any_kind_of_number(kind: Any) -> None:
    variants = {"low": {"length": 1}, "high": {}}
    found = compare_variants(
        stored(1),
        ["w0"],
        "summarize",
        variants,
        lambda result: kind(int(len(result["summary"]) > 2)),
        graph=GRAPH,
    )
    assert (found.mean("low"), found.mean("high"), found.best) == (0.0, 1.0, "high")


@pytest.mark.parametrize("score", ["good", numpy.str_("1"), numpy.array([1.0]), numpy.complex128(1), None])
def test_other_scores_are_shown_and_do_not_count(score: Any) -> None:
    found = compare_variants(stored(1), ["w0"], "summarize", {"x": {}}, lambda result: score, graph=GRAPH)
    assert (found.runs[0].problem, found.mean("x")) == (None, None)


@pytest.mark.parametrize(
    ("start", "change", "named"),
    [
        ("grade", {"length": 1}, "length"),
        ("summarize", {"url": "other"}, "url"),
        (2, {"url": "other", "length": 1}, "url"),
        ("grade", {"summarize": shouted}, "summarize"),
    ],
)
def test_a_variant_that_changes_what_nothing_uses_is_not_scored(
    start: str | int, change: dict[str, Any], named: str
) -> None:
    found = compare_variants(stored(1), "w0", start, {"as it was": {}, "x": change}, graded, graph=GRAPH)
    assert found.best == "as it was"
    assert found.of("x")[0].problem == f"the variant changes {named}, which nothing uses from this step on"
    assert "shouted" not in called


def test_a_value_that_is_only_looked_at_by_the_score_may_change() -> None:
    found = compare_variants(
        stored(1), "w0", "grade", {"x": {"size": 99}}, lambda result: result["size"], graph=GRAPH
    )
    assert (found.runs[0].problem, found.mean("x")) == (None, 99)


RENAMED = Graph(
    [
        fetch,
        split,
        measure,
        summarize.with_name("shorten").with_inputs(length="limit").with_outputs(summary="short"),
        grade.with_inputs(summary="short"),
    ],
    name="news",
    formerly={"summarize": "shorten", "length": "limit", "summary": "short"},
)


@pytest.mark.parametrize("turns", [1, 2])
def test_a_run_under_former_names_is_continued_under_the_names_of_today(turns: int) -> None:
    store = stored(1)
    for length in range(4, 3 + turns):  # a run of several turns is copied with its inputs
        SyncRunner(checkpointer=store).run(GRAPH, length=length, workflow_id="w0")
    called.clear()
    variants = {
        "as it was": {},
        "limit": {"limit": 1},
        "words": {"words": ["a", "b", "c"]},
        "function": {"shorten": shouted},
    }
    was = [
        compare_variants(store, "w0", step, changes, lambda result: result["summary"], graph=GRAPH).runs[0]
        for step, changes in [
            ("summarize", {"x": {}}),
            ("summarize", {"x": {"length": 1}}),
            ("summarize", {"x": {"words": ["a", "b", "c"]}}),
            ("summarize", {"x": {"summarize": shouted}}),
        ]
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a rename is not a change of code
        found = compare_variants(store, "w0", "shorten", variants, lambda r: r["short"], graph=RENAMED)
    assert [run.problem for run in found.runs] == [None] * 4
    assert [run.score for run in found.runs] == [run.score for run in was]
    later = compare_variants(store, "w0", "grade", {"x": {"short": "12345678"}}, graded, graph=RENAMED)
    assert later.runs[0].score == 8 + len("page u0")
    unused = compare_variants(store, "w0", "grade", {"x": {"limit": 1}}, graded, graph=RENAMED)
    assert unused.runs[0].problem == "the variant changes limit, which nothing uses from this step on"
    assert set(called) <= {"summarize", "shouted", "grade"}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"from_step": "sumarize"}, GraphConfigError, "Did you mean 'summarize'"),
        ({"from_step": -1}, TypeError, "name of a node or a superstep"),
        ({"from_step": None}, TypeError, "name of a node or a superstep"),
        ({"variants": {}}, ValueError, "at least one"),
        ({"variants": ["a"]}, TypeError, "mapping from names"),
        ({"variants": {"x": 5}}, TypeError, "variant 'x' must be a mapping"),
        ({"variants": {"x": {"lenght": 5}}}, GraphConfigError, "Did you mean 'length'"),
        ({"variants": {"x": {"summarize": lambda page: page}}}, GraphConfigError, "takes"),
        ({"ids": []}, ValueError, "at least one stored run"),
        ({"ids": ["nope"]}, WorkflowNotFoundError, "nope"),
        ({"score": scored_later}, TypeError, "score must be a plain function"),
        ({"score": 5}, TypeError, "score must be a function"),
        ({"graph": "news"}, TypeError, "must be a Graph"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], error: type[Exception], text: str) -> None:
    given: dict[str, Any] = {
        "ids": ["w0"],
        "from_step": "summarize",
        "variants": {"x": {}},
        "score": graded,
        "graph": GRAPH,
        **change,
    }
    with pytest.raises(error, match=text):
        compare_variants(stored(1), **given)


# -- recorded runs as fixtures ------------------------------------------------------------------------


def test_recorded_nodes_return_what_they_returned_without_a_call(tmp_path: Path) -> None:
    path = tmp_path / "recorded.db"
    with SqliteCheckpointer(path) as store:
        for name in ("a", "b"):
            SyncRunner(checkpointer=store).run(GRAPH, url=name, workflow_id=name)
    called.clear()
    offline = recorded(GRAPH, path, ["fetch", "summarize"])
    assert SyncRunner().run(offline, url="b")["grade"] == 10
    assert called == ["split", "measure", "grade"]
    with pytest.raises(
        NotRecordedError, match="Node 'fetch' was not recorded with url='c'; it has 2 records"
    ):
        SyncRunner().run(offline, url="c")
    with pytest.raises(NotRecordedError, match="it has 1 record"):
        SyncRunner().run(recorded(GRAPH, path, "fetch", ids=["a"]), url="b")


def test_recorded_nodes_of_nested_graphs_and_maps_async_and_with_several_outputs() -> None:
    @node(output_name=("low", "high"))
    async def ends(n: int) -> tuple[int, int]:
        called.append("ends")
        return n - 1, n + 1

    inner = Graph([ends], name="inner")
    for graph, given in (
        (Graph([inner.as_node()], name="outer"), {"n": 5}),
        (Graph([inner.as_node().map_over("n")], name="outer"), {"n": [5, 6]}),
    ):
        store = MemoryCheckpointer()
        first = asyncio.run(AsyncRunner(checkpointer=store).run(graph, given, workflow_id="w"))
        called.clear()
        offline = recorded(graph, store, ["inner/ends"])
        assert asyncio.run(AsyncRunner().run(offline, given)).values == first.values
        assert called == []


def test_recorded_refuses_what_it_cannot_use() -> None:
    store = stored(1)
    with pytest.raises(GraphConfigError, match="Did you mean 'fetch'"):
        recorded(GRAPH, store, ["fetsh"])
    with pytest.raises(GraphConfigError, match="No node has the path"):
        recorded(GRAPH, store, ["fetch/inner"])
    with pytest.raises(WorkflowNotFoundError):
        recorded(GRAPH, store, ["fetch"], ids=["nope"])
    with pytest.raises(WorkflowNotFoundError, match=r"No run of graph 'other' .* It has runs of 'news'"):
        recorded(Graph([fetch], name="other"), store, ["fetch"])
    with pytest.raises(WorkflowNotFoundError, match="it has no runs"):
        recorded(GRAPH, MemoryCheckpointer(), ["fetch"])
    with pytest.raises(ValueError, match="at least one stored run"):
        recorded(GRAPH, store, ["fetch"], ids=[])
    with pytest.raises(TypeError, match="takes a Graph"):
        recorded("news", store, ["fetch"])  # type: ignore[arg-type]
    gate = route(targets=["fetch"])(lambda url: "fetch").with_name("gate")
    with pytest.raises(GraphConfigError, match="only functions"):
        recorded(Graph([gate, fetch], name="news"), store, ["gate"])


def test_values_that_were_dropped_are_not_recorded() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity="top-level"))
    SyncRunner(checkpointer=store).run(GRAPH, url="a", workflow_id="a")
    assert SyncRunner().run(recorded(GRAPH, store, ["fetch"]), url="a")["grade"] == 10
