"""Small graphs of every shape there is, for pictures; run as a program, it writes their layouts anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hypergraph import END, Graph, ifelse, interrupt, route
from hypergraph.graph.drawing import draw
from hypergraph.graph.picture import plain_boxes
from hypergraph.layout import Layout, arrange, svg
from support.making import make

HOME = Path(__file__).parents[1] / "goldens" / "graphs"
IMAGE = Path(__file__).parents[2] / "docs" / "images" / "writing.svg"

GRAPHS: dict[str, tuple[Callable[[], Graph], dict[str, Any]]] = {}


def golden(**options: Any) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]:
    """Put a graph on the list, under the name of the function, with how to draw it."""

    def listed(build: Callable[[], Graph]) -> Callable[[], Graph]:
        GRAPHS[build.__name__] = build, options
        return build

    return listed


@golden()
def chain() -> Graph:
    return Graph([make("load", "url", out="page"), make("parse", "page", out="rows"), make("save", "rows")])


@golden(direction="LR")
def chain_to_the_right() -> Graph:
    return chain()


@golden()
def diamond() -> Graph:
    steps = [
        make("split", "text", out="parts"),
        make("left", "parts", out="a"),
        make("right", "parts", out="b"),
    ]
    return Graph([*steps, make("join", "a", "b", out="answer")])


@golden()
def fan_out_and_in() -> Graph:
    workers = [make(f"worker_{number}", "job", out=f"result_{number}") for number in range(7)]
    results = [f"result_{number}" for number in range(7)]
    return Graph([make("plan", "order", out="job"), *workers, make("collect", *results, out="report")])


def _desk() -> list[Any]:
    @route(targets={"refund": "money back", "answer": "a question", END: "spam"})
    def triage(kind: str) -> Any: ...

    steps = [make("classify", "mail", out="kind"), triage, make("refund", "mail", out="reply")]
    return [*steps, make("answer", "mail", "tone='kind'", out="answered")]


@golden()
def route_of_three() -> Graph:
    return Graph(_desk(), name="desk")


@golden(direction="LR")
def route_to_the_right() -> Graph:
    return Graph(_desk(), name="desk")


@golden()
def ifelse_of_two() -> Graph:
    @ifelse(when_true="publish", when_false="reject")
    def good(score: float) -> bool: ...

    return Graph([make("rate", "text", out="score"), good, make("publish", "text"), make("reject", "text")])


def _writing() -> Graph:
    @ifelse(when_true=END, when_false="write")
    def done(critique: str) -> bool: ...

    steps = [
        make("write", "topic", "critique=''", out="draft"),
        make("review", "draft", out="critique"),
        done,
    ]
    return Graph(steps, name="writing")


@golden()
def loop() -> Graph:
    return _writing()


@golden(direction="LR")
def loop_to_the_right() -> Graph:
    return _writing()


@golden()
def two_loops() -> Graph:
    @route(targets=["research", "write"])
    def enough(notes: list[str]) -> Any: ...

    @route(targets={"research": "facts missing", "write": "style", END: "done"})
    def judge(draft: str) -> Any: ...

    research = make("research", "question", "notes=()", out="notes")
    return Graph([research, enough, make("write", "notes", out="draft"), judge], name="two loops")


@golden()
def self_loop() -> Graph:
    @route(targets=["count", END])
    def stop(n: int) -> Any: ...

    return Graph([make("count", "n", out="n"), stop])


def _nest(levels: int) -> Graph:
    inner = Graph([make("fetch", "key", out="raw"), make("clean", "raw", out="value")], name="level_0")
    for number in range(1, levels):
        after = make(f"check_{number}", "value", out=f"checked_{number}")
        inner = Graph([inner.as_node(), after], name=f"level_{number}")
    return Graph([make("start", "request", out="key"), inner.as_node(), make("finish", "value", out="end")])


@golden(depth=1)
def nested_once() -> Graph:
    return _nest(1)


@golden(depth=4)
def nested_four_times() -> Graph:
    return _nest(4)


@golden()
def nested_closed() -> Graph:
    return _nest(2)


@golden(depth=1)
def nested_map() -> Graph:
    inner = Graph(
        [make("embed", "doc", "model", out="vector"), make("store", "vector", out="id")], name="index"
    )
    mapped = inner.as_node().with_inputs(doc="docs").map_over("docs")
    return Graph([make("list_docs", "folder", out="docs"), mapped, make("report", "id", out="summary")])


@golden(depth=1)
def nested_loop() -> Graph:
    publish = make("publish", "draft", "channel", out="link")
    return Graph([make("choose", "wish", out="topic"), _writing().as_node(), publish], name="office")


@golden(depth=1, direction="LR")
def nested_loop_to_the_right() -> Graph:
    return nested_loop()


@golden()
def interrupts() -> Graph:
    @interrupt(output_name="decision")
    def approve(draft: str) -> None: ...

    return Graph(
        [make("write", "topic", out="draft"), approve, make("send", "draft", "decision", out="sent")]
    )


@golden()
def ordering() -> Graph:
    first, second = (
        make("migrate", "db", emit="migrated"),
        make("seed", "db", wait_for="migrated", emit="seeded"),
    )
    return Graph([first, second, make("serve", "port", wait_for=("migrated", "seeded"), out="server")])


@golden()
def hidden() -> Graph:
    shown = [make("a", "x", out="y"), make("b", "y", hide=True, out="z"), make("c", "z", out="w")]
    return Graph([*shown, make("log", "w", hide=True), make("d", "w", "y", out="v")])


@golden()
def disconnected() -> Graph:
    pairs = [(make(f"read_{n}", f"in_{n}", out=f"v_{n}"), make(f"write_{n}", f"v_{n}")) for n in range(5)]
    return Graph([each for pair in pairs for each in pair] + [make("alone")])


@golden()
def long_names() -> Graph:
    long = "a_function_with_a_name_that_never_seems_to_come_to_an_end"
    first = make("größe_bestimmen", "länge", "breite", out="fläche")
    return Graph(
        [first, make("計算する", "fläche", out="結果の値"), make(long, "結果の値", out=f"{long}_result")]
    )


@golden(separate_outputs=True, show_types=True)
def separate_outputs() -> Graph:
    return diamond()


@golden()
def several_outputs() -> Graph:
    split = make("split", "table", "ratio=0.2", out=("train", "test", "names"))
    return Graph(
        [split, make("fit", "train", out="model"), make("score", "model", "test", "names", out="f1")]
    )


@golden(depth=3)
def assistant() -> Graph:
    @route(targets={"rag": "search", "smalltalk": "chat"})
    def classify(query: str) -> Any: ...

    @ifelse(when_true=END, when_false="generate")
    def critique(draft: str) -> bool: ...

    rerank = [
        make("split", "hits", out="pieces"),
        make("score", "pieces", out="scores"),
        make("top_k", "scores", "k=5", out="best"),
    ]
    rag = [
        make("embed", "query", out="vector"),
        make("search_vec", "vector", out="near"),
        make("search_bm25", "query", out="words"),
        make("merge", "near", "words", out="hits"),
        Graph(rerank, name="rerank").as_node(),
        make("build_prompt", "best", "user", out="prompt"),
    ]
    return Graph(
        [
            make("normalize", "text", out="query"),
            make("load_user", "user_id", out="user"),
            classify,
            Graph(rag, name="rag").as_node(),
            make("smalltalk", "query", out="chat"),
            make("generate", "prompt", "user", out="draft"),
            critique,
            make("format", "draft", out="answer"),
        ],
        name="assistant",
    )


@golden()
def fifty_nodes() -> Graph:
    random = Random(50)
    nodes = [make("n0", "start", out="v0")]
    for number in range(1, 50):
        near = range(max(0, number - 8), number)
        taken = sorted({f"v{random.choice(near)}" for _ in range(random.randint(1, 2))})
        nodes.append(make(f"n{number}", *taken, out=f"v{number}"))
    return Graph(nodes, name="fifty")


def layout_of(name: str) -> Layout:
    """Lay out one of the graphs as it is to be drawn."""
    build, options = GRAPHS[name]
    options = dict(options)
    direction, types = options.pop("direction", "TD"), options.pop("show_types", False)
    return arrange(plain_boxes(draw(build(), **options), types), direction=direction)


def as_text(layout: Layout) -> str:
    """Return a layout as JSON with one line per box and arrow."""
    rows = {key: layout[key] for key in ("boxes", "edges")}  # type: ignore[literal-required]
    head = json.dumps({key: value for key, value in layout.items() if key not in rows}, ensure_ascii=False)
    parts = [head[:-1]]
    for key, entries in rows.items():
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        parts.append(f'"{key}": [\n{lines}\n]')
    return ",\n".join(parts) + "}\n"


def documented() -> str:
    """Return the picture that the guide shows."""
    return svg(layout_of("loop"))


if __name__ == "__main__":
    IMAGE.write_text(documented(), encoding="utf-8")
    HOME.mkdir(parents=True, exist_ok=True)
    for name in GRAPHS:
        (HOME / f"{name}.json").write_text(as_text(layout_of(name)), encoding="utf-8")
