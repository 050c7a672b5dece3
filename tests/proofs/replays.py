"""Replay of recorded runs: planted changes are found and named, refactorings give no alarm, and it is quick.

Runs of six graphs are recorded: a chain, a loop, a map, nested graphs, turns of a chat, and questions. Thirty
changed graphs must each be told from what was recorded: in every run that the change concerns, and in no
other, with its kind and its node. Thirty graphs with other code that does the same must give no alarm.
"""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypergraph import END, FunctionNode, Graph, InterruptNode, RouteNode, SyncRunner
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.testing import replay
from proofs.outcome import Outcome, scaled

NAME = "replay of recorded runs"
RUNS = 5000
LEAST = 10_000  # small runs a minute, on a machine that does nothing else
Facts = Mapping[str, Any]  # what a run was given


# -- the functions, as they were recorded ---------------------------------------------------------------


def split(text: str) -> list[str]:
    return text.split()


def count(words: list[str]) -> int:
    return len(words)


def shout(text: str) -> str:
    return text.upper()


def write(topic: str, draft: str = "") -> str:
    return draft + topic


def judge(draft: str) -> Any:
    return "write" if len(draft) < 6 else END


def square(n: int) -> int:
    return n * n


def half(square: int) -> float:
    return square / 2


def total(half: list[float]) -> float:
    return sum(half)


def double(x: int) -> int:
    return 2 * x


def label(twice: int) -> str:
    return f"<{twice}>"


def sign(text: str, by: str) -> str:
    return f"{text} {by}"


def hear(message: str) -> str:
    return f"user: {message}"


def reply(messages: list[str]) -> str:
    return f"bot: {len(messages)}"


def gauge(text: str) -> int:
    return len(text)


def approve(size: int) -> bool | None:
    return None


def choose(approved: bool) -> str:
    return "send" if approved else "drop"


def send(text: str) -> str:
    return f"sent {text}"


def drop(text: str) -> str:
    return f"dropped {text}"


def chain(*nodes: Any, **options: Any) -> Graph:
    """Return the chain with some nodes in place of its own."""
    own = [
        FunctionNode(split, "split", "words"),
        FunctionNode(count, "count", "total"),
        FunctionNode(shout, "shout", "loud"),
    ]
    return Graph(_merged(own, nodes), name="chain", **options)


def loop(*nodes: Any, **options: Any) -> Graph:
    """Return the loop likewise."""
    own = [FunctionNode(write, "write", "draft"), RouteNode(judge, ["write", END], name="judge")]
    return Graph(_merged(own, nodes), name="loop", **options)


def inner(*nodes: Any, **options: Any) -> Graph:
    """Return the graph that is mapped."""
    own = [FunctionNode(square, "square", "square"), FunctionNode(half, "half", "half")]
    return Graph(_merged(own, nodes), name="each", **options)


def mapped(*nodes: Any, each: Graph | None = None, **options: Any) -> Graph:
    """Return the map likewise."""
    own = [(each or inner()).as_node().map_over("n").lift("half"), FunctionNode(total, "total", "sum")]
    return Graph(_merged(own, nodes), name="mapped", **options)


def deep(*nodes: Any, **options: Any) -> Graph:
    """Return the graph inside of the graph inside."""
    own = [FunctionNode(double, "double", "twice"), FunctionNode(label, "label", "text")]
    return Graph(_merged(own, nodes), name="deep", **options)


def nested(*nodes: Any, inside: Graph | None = None, middle: Any = None, **options: Any) -> Graph:
    """Return the nested graphs likewise."""
    around = Graph([(inside or deep()).as_node().lift("text")], name="middle", **(middle or {}))
    own = [around.as_node(), FunctionNode(sign, "sign", "letter")]
    return Graph(_merged(own, nodes), name="nested", **options)


def chat(*nodes: Any, **options: Any) -> Graph:
    """Return the chat likewise."""
    own = [
        FunctionNode(hear, "hear", "messages", append=True),
        FunctionNode(reply, "reply", "answer"),
    ]
    return Graph(_merged(own, nodes), name="chat", **options)


def asking(*nodes: Any, **options: Any) -> Graph:
    """Return the graph with a question likewise."""
    own = [
        FunctionNode(gauge, "gauge", "size"),
        InterruptNode(approve, "approve", "approved"),
        RouteNode(choose, ["send", "drop"], name="choose"),
        FunctionNode(send, "send", "result"),
        FunctionNode(drop, "drop", "result"),
    ]
    return Graph(_merged(own, nodes), name="asking", **options)


def _merged(own: list[Any], given: tuple[Any, ...]) -> list[Any]:
    """Return nodes, those of the same name replaced by the given ones, `-name` left out, others added."""
    gone = {name[1:] for name in given if isinstance(name, str)}
    other = {node.name: node for node in given if not isinstance(node, str)}
    kept = [other.pop(node.name, node) for node in own if node.name not in gone]
    return [*kept, *other.values()]


# -- recorded runs --------------------------------------------------------------------------------------

WORDS = ["tea", "oats", "milk", "rye", "salt"]


def record(stores: Mapping[str, Checkpointer], runs: int, seed: int) -> dict[str, Facts]:
    """Record so many runs of six graphs, each in its store; return what each was given."""
    chance = random.Random(seed)
    graphs = {graph.name: graph for graph in (chain(), loop(), mapped(), nested(), chat(), asking())}
    facts: dict[str, Facts] = {}
    for index in range(runs):
        name = [*graphs][index % len(graphs)]
        given = _given(str(name), chance)
        facts[f"{name}-{index}"] = given
        options: Any = {"workflow_id": f"{name}-{index}"}
        runner = SyncRunner(checkpointer=stores[str(name)])
        if name == "chat":
            for message in given["turns"]:
                runner.run(graphs[name], message=message, **options)
            continue
        runner.run(graphs[name], {key: v for key, v in given.items() if key != "approved"}, **options)
        if given.get("approved") is not None:
            runner.run(graphs[name], approved=given["approved"], **options)
    return facts


def _given(name: str, chance: random.Random) -> dict[str, Any]:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))
    if name == "chain":
        return {"text": text}
    if name == "loop":
        return {"topic": chance.choice(["a", "bc", "def", "ghijkl"])}
    if name == "mapped":
        return {"n": [chance.randint(1, 9) for _ in range(chance.randint(1, 3))]}
    if name == "nested":
        return {"x": chance.randint(1, 99), "by": chance.choice(WORDS)}
    if name == "chat":
        return {"turns": [f"{chance.choice(WORDS)} {n}" for n in range(chance.randint(1, 3))]}
    return {"text": text, "approved": chance.choice([True, False, None])}


# -- planted changes ------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A graph that differs from the recorded one, and how that must be reported."""

    graph: Graph
    kind: str
    node: str
    cause: str
    execute: tuple[str, ...] = ()
    concerns: Callable[[Facts], bool] = lambda facts: True  # the runs that must differ


def _node(function: Any, name: str, output: str, **renamed: str) -> FunctionNode:
    made = FunctionNode(function, name, output)
    return made.with_inputs(renamed) if renamed else made


def judge_longer(draft: str) -> Any:
    return "write" if len(draft) < 9 else END


def choose_other(approved: bool) -> str:
    return "drop"


def typed_count(words: list[str]) -> str:
    return str(len(words))


def raising(twice: int) -> str:
    raise ValueError(twice)


def answered(facts: Facts) -> bool:
    return facts["approved"] is not None


def rejected(facts: Facts) -> bool:
    return facts["approved"] is False


def accepted(facts: Facts) -> bool:
    return facts["approved"] is True


def stops_later(facts: Facts) -> bool:
    """Say whether a draft ended between the old length and the new one."""
    topic, draft = facts["topic"], ""
    while len(draft) < 6:
        draft += topic
    return len(draft) < 9


def planted() -> list[Change]:
    """Return thirty changes, five of each graph."""
    clean = _node(lambda words: words, "clean", "cleaned")
    return [
        Change(chain("-shout"), "course", "shout", "it ran, and is not in the graph"),
        Change(chain(clean, _node(count, "count", "total", words="cleaned")), "course", "count", "clean"),
        Change(chain(_node(lambda text: 1, "size", "size")), "course", "size", "it did not run"),
        Change(chain(_node(typed_count, "count", "total")), "type", "count", "was int, and is str"),
        Change(
            chain(_node(lambda words: len(words) + (len(words) > 2), "count", "total")),
            *("value", "count", "it makes another total", ("count",)),
            lambda facts: len(facts["text"].split()) > 2,
        ),
        Change(
            loop(RouteNode(judge, [END, "stop"], name="judge"), _node(lambda draft: 1, "stop", "s")),
            "course",
            "judge",
            "which it cannot choose now",
            (),
            lambda f: len(f["topic"]) < 6,
        ),
        Change(
            loop(RouteNode(judge_longer, ["write", END], name="judge")),
            *("value", "judge", "it chose END, and chooses write now", ("judge",)),
            stops_later,
        ),
        Change(
            loop(_node(lambda topic, draft="": draft + topic + "!", "write", "draft")),
            *("value", "write", "it makes another draft", ("write",)),
        ),
        Change(
            loop(_node(lambda topic, draft="": draft, "write", "draft", topic="subject")),
            "refused",
            "",
            "subject",
        ),
        Change(
            loop(_node(lambda draft: len(draft) + 1, "measure", "size")),
            "course",
            "measure",
            "it did not run",
        ),
        Change(mapped("-total"), "course", "total", "it ran, and is not in the graph"),
        Change(
            mapped(each=inner(_node(lambda square: square / 4, "half", "half"))),
            "value",
            "each/half",
            "it makes another half",
            ("half",),
        ),
        Change(
            mapped(each=inner(_node(lambda n: n, "same", "same"))), "course", "each/same", "it did not run"
        ),
        Change(
            mapped(_node(lambda half: sum(half) + 1, "total", "sum")),
            "value",
            "total",
            "it makes another sum",
            ("total",),
        ),
        Change(
            mapped(
                each=inner(
                    _node(lambda square: square, "keep", "kept"), _node(half, "half", "half", square="kept")
                )
            ),
            *("course", "each/half", "keep comes before it"),
        ),
        Change(nested("-sign"), "course", "sign", "it ran, and is not in the graph"),
        Change(
            nested(inside=deep(_node(lambda x: 2 * x + (x > 50), "double", "twice"))),
            "value",
            "middle/deep/double",
            "it makes another twice",
            ("double",),
            lambda facts: facts["x"] > 50,
        ),
        Change(
            nested(inside=deep(_node(lambda x: x, "copy", "copied"))),
            "course",
            "middle/deep/copy",
            "it did not run",
        ),
        Change(
            nested(inside=deep(_node(raising, "label", "text"))),
            "value",
            "middle/deep/label",
            "it raises ValueError",
            ("middle/deep/label",),
        ),
        Change(
            nested(_node(sign, "sign", "note")), "course", "sign", "it makes note and no longer makes letter"
        ),
        Change(chat("-reply"), "course", "reply", "it ran, and is not in the graph"),
        Change(
            chat(_node(lambda messages: "bot", "reply", "answer")),
            "value",
            "reply",
            "it makes another answer",
            ("reply",),
        ),
        Change(
            chat(_node(lambda messages: len(messages) + 1, "size", "size")),
            "course",
            "size",
            "it did not run",
        ),
        Change(
            chat(
                _node(lambda message: message, "note", "noted"),
                _node(lambda messages, noted: f"bot: {len(messages)}", "reply", "answer"),
            ),
            "course",
            "note",
            "it did not run",
        ),
        Change(
            chat(_node(lambda messages: f"bot: {len(messages)}", "reply", "said")),
            "course",
            "reply",
            "it makes said and no longer makes answer",
        ),
        Change(asking("-approve", _node(lambda size: True, "decide", "approved")), "course", "approve", "it"),
        Change(
            asking(RouteNode(choose_other, ["send", "drop"], name="choose")),
            *("value", "choose", "it chose send, and chooses drop now", ("choose",)),
            accepted,
        ),
        Change(
            asking("-drop", RouteNode(choose, ["send"], name="choose")),
            *("course", "choose", "it chose drop, which it cannot choose now", ()),
            rejected,
        ),
        Change(
            asking(_node(lambda text: len(text) + 1, "gauge", "size")),
            "value",
            "gauge",
            "it makes another size",
            ("gauge",),
        ),
        Change(
            asking(_node(lambda text, key: text, "send", "result")),
            "refused",
            "",
            "key",
        ),
    ]


# -- refactorings ---------------------------------------------------------------------------------------


class Same(NamedTuple):
    """A graph with other code that does the same, and the nodes that are called to see that."""

    graph: Graph
    execute: tuple[str, ...] = ()


def long_split(text: str) -> list[str]:
    """Return the words."""
    found = []
    for word in text.split(" "):
        if word:
            found.append(word)
    return found


def long_count(words: list[str], start: int = 0) -> int:
    """Return how many there are."""
    return sum((1 for _ in words), start)


def long_write(topic: str, draft: str = "") -> str:
    """Return a longer draft."""
    return f"{draft}{topic}"


def long_judge(draft: str) -> Any:
    """Return where to go."""
    if len(draft) >= 6:
        return END
    return "write"


def judge_compose(text: str) -> Any:
    return "compose" if len(text) < 6 else END


def backwards(graph: Graph) -> Graph:
    """Return a graph whose nodes are listed in another order."""
    return Graph([*reversed(graph.nodes.values())], name=graph.name)


def refactored() -> list[Same]:
    """Return thirty refactorings, five of each graph."""
    half_total = lambda half: float(sum(half))  # noqa: E731 - a function of one line
    return [
        Same(backwards(chain())),
        Same(
            chain(_node(long_split, "split", "words"), _node(long_count, "count", "total")),
            ("split", "count"),
        ),
        Same(
            chain("-split", _node(split, "cut", "words"), formerly={"split": "cut"}),
            ("cut",),
        ),
        Same(
            chain(
                _node(split, "split", "terms"),
                _node(count, "count", "total", words="terms"),
                formerly={"words": "terms"},
            ),
            ("split", "count"),
        ),
        Same(chain(edges=[("split", "count", "words")])),
        Same(backwards(loop())),
        Same(loop(_node(long_write, "write", "draft")), ("write",)),
        Same(loop(RouteNode(long_judge, ["write", END], name="judge")), ("judge",)),
        Same(
            Graph(
                [
                    _node(write, "compose", "text", draft="text"),
                    RouteNode(judge_compose, ["compose", END], name="judge"),
                ],
                name="loop",
                formerly={"write": "compose", "draft": "text"},
            ),
            ("compose", "judge"),
        ),
        Same(loop(RouteNode(judge, [END, "write"], name="judge"))),
        Same(backwards(mapped())),
        Same(mapped(each=backwards(inner()))),
        Same(mapped(_node(half_total, "total", "sum")), ("total",)),
        Same(
            mapped(
                each=inner("-square", _node(square, "power", "square"), formerly={"square": "power"}),
            ),
            ("power", "half"),
        ),
        Same(
            mapped("-total", _node(total, "add_up", "sum"), formerly={"total": "add_up"}),
            ("add_up",),
        ),
        Same(backwards(nested())),
        Same(nested(inside=backwards(deep()))),
        Same(nested(inside=deep(_node(lambda x: x + x, "double", "twice"))), ("double",)),
        Same(
            nested(
                inside=deep("-label", _node(label, "mark", "text"), formerly={"label": "mark"}),
            ),
            ("mark",),
        ),
        Same(
            nested(
                inside=deep(
                    _node(double, "double", "pair"),
                    _node(label, "label", "text", twice="pair"),
                    formerly={"twice": "pair"},
                ),
            ),
            ("double", "label"),
        ),
        Same(backwards(chat())),
        Same(chat(_node(lambda messages: f"bot: {sum(1 for _ in messages)}", "reply", "answer")), ("reply",)),
        Same(chat("-reply", _node(reply, "respond", "answer"), formerly={"reply": "respond"}), ("respond",)),
        Same(chat(_node(reply, "reply", "said"), formerly={"answer": "said"}), ("reply",)),
        Same(
            chat(FunctionNode(lambda message: "user: " + message, "hear", "messages", append=True)),
            (),
        ),
        Same(backwards(asking())),
        Same(asking(_node(lambda text: sum(1 for _ in text), "gauge", "size")), ("gauge",)),
        Same(
            asking(
                "-send",
                _node(send, "post", "result"),
                RouteNode(lambda approved: "post" if approved else "drop", ["post", "drop"], name="choose"),
                formerly={"send": "post"},
            ),
            ("post", "drop", "choose"),
        ),
        Same(
            asking(
                InterruptNode(approve, "approve", "accepted"),
                RouteNode(choose, ["send", "drop"], name="choose").with_inputs(approved="accepted"),
                formerly={"approved": "accepted"},
            ),
            ("gauge", "choose"),
        ),
        Same(
            asking(
                _node(send, "send", "outcome"), _node(drop, "drop", "outcome"), formerly={"result": "outcome"}
            ),
            ("send", "drop"),
        ),
    ]


# -- the suite ------------------------------------------------------------------------------------------


def wrong_about(store: Checkpointer, facts: Mapping[str, Facts], change: Change) -> str | None:
    """Replay the runs of a graph; return what was not found, or was named wrongly."""
    report = replay(store, change.graph, execute=change.execute)
    for run in report.runs:
        given, first = facts[run.workflow_id], run.first
        if change.concerns(given) != (first is not None):
            return f"{run.workflow_id} with {given}: {first}"
        if first is not None and (first.kind, first.node or "") != (change.kind, change.node):
            return f"{run.workflow_id} with {given}: named {first}"
        if first is not None and change.cause not in first.cause:
            return f"{run.workflow_id} with {given}: the cause of {first}"
    if not any(run.first is not None for run in report.runs):
        return f"none of {len(report.runs)} runs differ"
    return None


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Record runs, and replay them with changed and with refactored graphs."""
    outcome = Outcome(NAME)
    with outcome.timed(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        graphs = ("chain", "loop", "mapped", "nested", "chat", "asking")
        stores = {name: SqliteCheckpointer(f"{folder}/{name}.db") for name in graphs}
        facts = record(stores, scaled(RUNS, scale, least=120), seed)
        for number, change in enumerate(planted()):
            wrong = wrong_about(stores[change.graph.name or ""], facts, change)
            outcome.count(wrong and f"seed {seed}, planted()[{number}]: {wrong}")
        for number, same in enumerate(refactored()):
            report = replay(stores[same.graph.name or ""], same.graph, execute=same.execute)
            outcome.count(None if report.ok else f"seed {seed}, refactored()[{number}]: {report}")
        began, replayed = time.process_time(), 0
        for graph in (chain(), loop(), nested(), chat(), asking()):
            report = replay(stores[graph.name or ""], graph)
            replayed += len(report.runs)
            outcome.count(None if report.ok else f"seed {seed}, the recorded {graph.name}: {report}")
        speed = replayed / max(time.process_time() - began, 1e-9) * 60
        outcome.note = f"{speed:,.0f} small runs a minute of this process"
        if scale >= 1:
            outcome.count(None if speed >= LEAST else f"only {speed:,.0f} runs a minute")
        for store in stores.values():
            store.close()
    return outcome
