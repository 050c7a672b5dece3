"""Former names: runs recorded under them are resumed, answered, forked and replayed by code of today.

One graph is built under the names of either release. A run that fails at any call under the old names must
end under the new ones as a run does that knew no others, with no call twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.running import OnAsync, OnSync, map_, run
from support.stored import store_at

from hypergraph import (
    END,
    EventProcessor,
    FunctionNode,
    Graph,
    GraphConfigError,
    InterruptNode,
    NodeContext,
    RouteNode,
    SyncRunner,
    node,
    receive,
)
from hypergraph.checkpointers import AesGcmCodec, MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError, NodeError, WorkflowError
from hypergraph.graph.structure import structure_of
from hypergraph.testing import replay

__all__ = ["map_", "run"]

NEW = {
    "plan": "outline",
    "topics": "headings",
    "desk": "office",
    "write": "compose",
    "draft": "text",
    "notes": "remarks",
    "improve": "polish",
    "score": "grade",
    "ask": "review",
    "approved": "accepted",
    "publish": "print",
}
INSIDE = {"write": "compose", "draft": "text", "notes": "remarks"}  # names of the nested graph
FORMERLY = {old: new for old, new in NEW.items() if old not in INSIDE}


class Bodies:
    """The calls that were made; the one with a number fails."""

    def __init__(self, failing: int = 0) -> None:
        self.failing, self.calls, self.done = failing, 0, list[str]()

    def __call__(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.failing:
            raise OSError(name)
        self.done.append(name)


def release(bodies: Bodies, names: Mapping[str, str] = {}, *, asks: bool = True) -> Graph:
    """Return the graph under the given names; without any, under the first ones."""

    def n(name: str) -> str:
        return names.get(name, name)

    again = n("improve")

    def plan(subject: str) -> list[str]:
        bodies("plan")
        return [f"{subject} {number}" for number in range(3)]

    def write(topic: str, style: str) -> tuple[str, str]:
        bodies("write")
        return f"{style} {topic}", f"on {topic}"

    def finish(draft: str) -> str:
        bodies("finish")
        return draft.upper()

    def improve(page: list[str], score: int = 0) -> int:
        bodies("improve")
        return score + len(page)

    def judge(score: int) -> Any:
        return again if score < 8 else END

    def note(score: int) -> str:
        bodies("note")
        return f"score {score}"

    def ask(score: int) -> Any:
        return None if asks else True

    def publish(approved: bool, page: list[str], score: int) -> str:
        bodies("publish")
        return f"{approved} {score} {' | '.join(page)}"

    inner = Graph(
        [
            FunctionNode(write, n("write"), (n("draft"), n("notes"))),
            FunctionNode(finish, "finish", "page").with_inputs(draft=n("draft")),
        ],
        name="desk",
        formerly=INSIDE if names else None,
    )
    desk = inner.as_node(name=n("desk")).with_inputs(topic=n("topics")).map_over(n("topics"))
    return Graph(
        [
            FunctionNode(plan, n("plan"), n("topics")),
            desk.lift("page", n("notes")),
            FunctionNode(improve, n("improve"), n("score")).with_inputs(score=n("score"))
            if n("score") != "score"
            else FunctionNode(improve, n("improve"), n("score")),
            RouteNode(judge, [n("improve"), END], name="judge").with_inputs(
                {} if n("score") == "score" else {"score": n("score")}
            ),
            FunctionNode(note, "note", "log", append=True).with_inputs(
                {} if n("score") == "score" else {"score": n("score")}
            ),
            InterruptNode(ask, n("ask"), n("approved"), wait_for="page").with_inputs(
                {} if n("score") == "score" else {"score": n("score")}
            ),
            FunctionNode(publish, n("publish"), "book").with_inputs(
                {
                    old: new
                    for old, new in {"approved": n("approved"), "score": n("score")}.items()
                    if old != new
                }
            ),
        ],
        name="press",
        formerly=FORMERLY if names else None,
    ).bind(style="plain")


def outcome(runner: Any, graph: Graph, names: Mapping[str, str] = {}, **options: Any) -> Any:
    """Run a graph to its end, with an answer if it asks for one."""
    result = runner.run(graph, error_handling="continue", **options)
    while result.paused:
        assert result.pause.node_name == names.get("ask", "ask")
        key = result.pause.response_key
        assert key == names.get("approved", "approved")
        options = {"workflow_id": options["workflow_id"]}
        result = runner.run(graph, {key: True}, error_handling="continue", **options)
    return result


def fresh(**options: Any) -> tuple[dict[str, Any], list[str]]:
    bodies = Bodies()
    store = MemoryCheckpointer()
    result = outcome(
        OnSync(checkpointer=store), release(bodies, NEW), NEW, subject="tea", workflow_id="x", **options
    )
    assert result.completed, result
    return dict(result.values), sorted(bodies.done)


@pytest.fixture(params=["memory", "file", "encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return MemoryCheckpointer()
    codec = AesGcmCodec(bytes(32)) if request.param == "encrypted" else None
    return store_at(tmp_path / "runs.db", codec=codec)


@pytest.mark.parametrize("on", [OnSync, OnAsync])
@pytest.mark.parametrize("failing", [1, 2, 7, 9, 13])
def test_a_run_that_failed_under_old_names_ends_under_new_ones(store: Any, on: Any, failing: int) -> None:
    runner, bodies = on(checkpointer=store), Bodies(failing)
    outcome(runner, release(bodies), subject="tea", workflow_id="w")
    result = outcome(runner, release(bodies, NEW), NEW, workflow_id="w", code_change="error")
    values, calls = fresh()
    assert result.completed, result.error
    assert (dict(result.values), sorted(bodies.done)) == (values, calls)
    assert replay(store, release(bodies, NEW)).ok


def test_results_logs_failures_and_events_have_the_names_of_today() -> None:
    class Watch(EventProcessor):
        def on_event(self, event: Any) -> None:
            seen.append((getattr(event, "node_name", None), getattr(event, "path", ())))

    seen: list[Any] = []
    runner, bodies = OnSync(checkpointer=MemoryCheckpointer()), Bodies(3)
    outcome(runner, release(bodies), subject="tea", workflow_id="w")
    bodies.failing = bodies.calls + 1
    failed = runner.run(
        release(bodies, NEW), workflow_id="w", error_handling="continue", event_processors=[Watch()]
    )
    assert failed.failure is not None
    assert failed.failure.node_name in ("office/compose", "office/finish")
    assert {"topics", "draft", "score"}.isdisjoint(failed.failure.inputs)
    assert list(failed.values) == ["headings"]
    done = outcome(runner, release(bodies, NEW), NEW, workflow_id="w", event_processors=[Watch()])
    names = {record.node_name for record in done.log.steps}
    assert names == {"outline", "office", "polish", "judge", "note", "review", "print"}
    assert {record.decision for record in done.log.steps if record.node_name == "judge"} == {"polish", "END"}
    shown = {name for name, _ in seen if name} | {part for _, path in seen for part in path}
    assert not shown & (NEW.keys() - NEW.values())
    assert {record.node_name for record in done["office"][0].log.steps} == {"compose", "finish"}
    assert list(done["office"][0].values) == ["text", "remarks", "page"]


def test_an_exception_is_annotated_with_the_node_of_today() -> None:
    runner, bodies = OnSync(checkpointer=MemoryCheckpointer()), Bodies(1)
    runner.run(release(bodies), subject="tea", workflow_id="w", error_handling="continue")
    bodies.failing = bodies.calls + 1
    with pytest.raises(OSError, match="plan") as caught:
        runner.run(release(bodies, NEW), workflow_id="w")
    found = NodeError.of(caught.value)
    assert found is not None
    assert found.node_name == "outline"


def test_turns_forks_checkpoints_and_edits_take_names_of_today() -> None:
    store = MemoryCheckpointer()
    runner, bodies = OnSync(checkpointer=store), Bodies()
    outcome(runner, release(bodies), subject="tea", workflow_id="w")
    new = release(bodies, NEW)
    turn = outcome(runner, new, NEW, workflow_id="w", subject="oat")
    assert "OAT 0" in turn["book"]
    fork = outcome(runner, new, NEW, workflow_id="f", fork_from=("w", 0), headings=["only"])
    assert "PLAIN ONLY" in fork["book"]
    same = runner.run(new, workflow_id="c", checkpoint=store.checkpoint("w"))
    assert same["book"] == turn["book"]
    again = runner.run(new, workflow_id="f", select=["headings", "book"], entrypoint=None)
    assert list(again.values) == ["headings", "book"]
    with pytest.raises(ValueError, match="given twice, also as 'topics', its former name"):
        runner.run(new, {"headings": ["a"], "topics": ["b"]}, workflow_id="f")


def test_questions_of_the_store_keep_their_names_and_both_are_answers() -> None:
    store = MemoryCheckpointer()
    runner, bodies = OnSync(checkpointer=store), Bodies()
    for name in ("old", "new", "kept"):
        runner.run(release(bodies), subject="tea", workflow_id=name)
    new = release(bodies, NEW)
    store.answer("kept", "approved", True)
    assert runner.run(new, workflow_id="kept").completed
    assert runner.run(new, {"approved": True}, workflow_id="old").completed
    assert runner.run(new, {"accepted": True}, workflow_id="new").completed
    paused = outcome(runner, release(bodies), subject="x", workflow_id="again")
    assert paused.completed


def test_stored_maps_go_on_under_their_names(map_: Callable[..., Any]) -> None:
    store, bodies = MemoryCheckpointer(), Bodies(3)

    def graph(output: str, taken: str, formerly: Any = None) -> Graph:
        def measure(word: str) -> int:
            bodies(word)
            return len(word)

        made = FunctionNode(measure, output, output)
        made = made if taken == "word" else made.with_inputs(word=taken)
        return Graph([made], name="words", formerly=formerly)

    options: Any = {"workflow_id": "m", "store": store, "error_handling": "continue"}
    words = ["a", "bb", "ccc"]
    map_(graph("size", "word"), {"word": words}, map_over="word", key="word", **options)
    new = graph("length", "term", {"size": "length", "word": "term"})
    done = map_(new, {"term": words}, map_over="term", key="term", **options)
    assert (done["length"], done.map_over) == ([1, 2, 3], ("term",))
    assert sorted(bodies.done) == ["a", "bb", "ccc"]
    by_term = lambda item: item["term"]  # noqa: E731 - a function of one line
    longer = map_(new, {"term": [*words, "dddd"]}, map_over="term", key=by_term, **options)
    assert longer["length"] == [1, 2, 3, 4]


def test_inputs_of_a_step_find_what_today_binds() -> None:
    store, bodies = MemoryCheckpointer(), Bodies()
    OnSync(checkpointer=store).run(release(bodies), subject="tea", workflow_id="w")
    assert store.inputs("w", "desk", graph=release(bodies, NEW))["style"] == "plain"


def test_the_names_of_three_releases_form_a_chain() -> None:
    def step(x: int) -> int:
        return x + 1

    def graph(name: str, **options: Any) -> Graph:
        return Graph([FunctionNode(step, name, f"{name}_out")], name="g", **options)

    store = MemoryCheckpointer()
    runner = OnSync(checkpointer=store)
    runner.run(graph("a"), x=1, workflow_id="first")
    runner.run(graph("b"), x=1, workflow_id="second")
    names = {"a": "b", "a_out": "b_out", "b": "c", "b_out": "c_out"}
    newest = graph("c", formerly=names)
    assert newest.formerly == {"a": "c", "a_out": "c_out", "b": "c", "b_out": "c_out"}
    for name in ("first", "second", "third"):
        assert runner.run(newest, x=1, workflow_id=name, code_change="error").values == {"c_out": 2}
    assert [step.node_name for name in ("first", "second", "third") for step in store.steps(name)] == [
        *("a", "b", "c")
    ]
    assert replay(store, newest).ok


def test_copies_of_a_graph_keep_its_former_names() -> None:
    graph = release(Bodies(), NEW)
    extra = FunctionNode(lambda book: book[:1], "measure", "size")
    copies = [graph.bind(style="x"), graph.add_nodes(extra), graph.replace({"outline": lambda subject: []})]
    assert [copy.formerly for copy in copies] == [FORMERLY] * 3


def simple(**options: Any) -> Graph:
    return Graph([FunctionNode(lambda x: x, "new", "y"), FunctionNode(lambda y: y, "other", "z")], **options)


@pytest.mark.parametrize(
    ("formerly", "error", "text"),
    [
        ({"old": "nothing"}, GraphConfigError, "'nothing', which is neither a node nor a value"),
        ({"other": "new"}, GraphConfigError, "the graph has a node 'other'"),
        ({"y": "z"}, GraphConfigError, "the graph has a value 'y'"),
        ({"a": "b", "b": "a"}, GraphConfigError, "leads from 'a' back to 'a'"),
        (["old"], TypeError, "formerly takes a dict"),
        ({"old": 1}, TypeError, "maps former names to names of today"),
        ({"": "new"}, TypeError, "maps former names to names of today"),
    ],
)
def test_wrong_former_names_are_refused(formerly: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        simple(formerly=formerly)


def test_two_recorded_names_of_one_node_are_refused() -> None:
    before = Graph([FunctionNode(lambda x: x, "a", "p"), FunctionNode(lambda x: x, "b", "q")], name="g")
    store = MemoryCheckpointer()
    OnSync(checkpointer=store).run(before, x=1, workflow_id="w")
    merged = Graph([FunctionNode(lambda x: x, "c", "r")], name="g", formerly={"a": "c", "b": "c"})
    with pytest.raises(GraphChangedError, match="'a' and 'b' are both recorded"):
        OnSync(checkpointer=store).run(merged, workflow_id="w")
    first = replay(store, merged).runs[0].first
    assert first is not None
    assert (first.kind, first.cause[:34]) == ("refused", "'a' and 'b' are both recorded, and")


def test_a_graph_whose_names_are_recorded_is_not_copied() -> None:
    graph = simple(formerly={"old": "new"})
    assert graph.recorded_as(structure_of(graph)) is graph
    assert graph.recorded_as(None) is graph


def _asking(key: str, node: str = "ask", **options: Any) -> Graph:
    def ask(page: str) -> int | None:
        return None

    def send(page: str, grant: int) -> str:
        return f"{page} {grant}"

    sending = FunctionNode(send, "send", "sent").with_inputs(grant=key)
    return Graph([InterruptNode(ask, node, key), sending], name="g", **options)


def _in_items(graph: Graph) -> Graph:
    return Graph([graph.as_node(name="each").map_over("page")], name="around")


@pytest.mark.parametrize("on", [OnSync, OnAsync])
@pytest.mark.parametrize("nested", [False, True])
def test_a_store_takes_answers_under_the_names_of_today_if_it_is_given_the_graph(
    on: Any, nested: bool
) -> None:
    old, new = _asking("grant"), _asking("allowance", formerly={"grant": "allowance"})
    given: Any = "p"
    if nested:
        old, new, given = _in_items(old), _in_items(new), ["p"]
    store = MemoryCheckpointer()
    run = on(checkpointer=store).run
    run(old, {"page": given}, workflow_id="w")
    key = run(new, workflow_id="w").pause.response_key
    assert key.endswith("allowance")
    with pytest.raises(WorkflowError, match="does not ask for 'alowance'") as caught:
        store.answer("w", "alowance", 5, graph=new)
    assert "allowance'" in str(caught.value)
    assert "grant" not in str(caught.value)
    if nested:
        store.answer("w/each/item-0", "allowance", 5, graph=new)
    else:
        store.answer("w", key, 5, graph=new)
    store.answer("w", key, 5, graph=new)  # once more changes nothing
    result = run(new, workflow_id="w")
    assert result["sent"] == (["p 5"] if nested else "p 5")


@pytest.mark.parametrize("on", [OnSync, OnAsync])
def test_errors_about_a_recorded_run_have_the_names_of_today(on: Any) -> None:
    store = MemoryCheckpointer()
    run = on(checkpointer=store).run
    run(_asking("grant", "ask"), {"page": "p", "grant": 5}, workflow_id="grant")
    names = {"grant": "allowance", "ask": "request"}
    new = _asking("allowance", "request", formerly=names)
    with pytest.raises(WorkflowError) as caught:
        run(new, {"allowance": 6}, workflow_id="grant")
    assert str(caught.value).startswith("'allowance' of workflow 'grant' has been answered already")

    def send(page: str, allowance: int) -> str:
        return f"{allowance} for {page}"

    post = FunctionNode(send, "post", "sent")
    changed = Graph([new.nodes["request"], post], name="g", formerly={**names, "send": "post"})
    with pytest.raises(GraphChangedError) as refused:
        run(changed, workflow_id="grant", code_change="error")
    assert "'post'" in str(refused.value)
    assert "-> post:" in str(refused.value)
    assert "'send'" not in str(refused.value)


def test_on_ambiguous_and_the_context_see_the_names_of_today() -> None:
    seen: list[Any] = []

    @node(output_name="receipt", repeatable=False)
    def charge(quote: int) -> str:
        raise KeyboardInterrupt

    def find_out(name: str, key: str, inputs: dict[str, Any]) -> str:
        seen.append((name, key, dict(inputs)))
        return "found"

    @node(output_name="receipt", repeatable=False, on_ambiguous=find_out)
    def charge_card(offer: int) -> str:
        return "again"

    @node(output_name="label")
    def write(receipt: str, ctx: NodeContext) -> str:
        return ctx.node_name

    def pay(*nodes: Any, **options: Any) -> Graph:
        inner = Graph([*nodes, write.with_name("print" if options else "write")], name="pay", **options)
        return Graph([inner.as_node()], name="shop")

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    with pytest.raises(KeyboardInterrupt):
        runner.run(pay(charge), quote=5, workflow_id="w")
    names = {"charge": "charge_card", "quote": "offer", "write": "print"}
    result = runner.run(pay(charge_card, formerly=names), workflow_id="w")
    assert (result["receipt"], result["label"]) == ("found", "pay/print")
    assert seen == [("pay/charge_card", "w/pay:charge:1", {"offer": 5})]


def test_a_renamed_node_receives_what_was_sent_to_it_before() -> None:
    @node(output_name="shipped")
    def ship(payment: float) -> float:
        return payment

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    before = Graph([receive("payment", float), ship], name="shop")
    today = Graph(
        [receive("money", float), ship.with_inputs(payment="money")],
        name="shop",
        formerly={"payment": "money"},
    )
    for workflow_id in ("early", "late"):
        runner.run(before, workflow_id=workflow_id)
    store.send("early", "payment", 9.5)
    assert runner.run(today, workflow_id="early")["shipped"] == 9.5
    assert runner.run(today, workflow_id="late").pause.signal == "payment"  # a run keeps its recorded names
    store.send("late", "payment", 1.0)
    assert runner.run(today, workflow_id="late")["shipped"] == 1.0
