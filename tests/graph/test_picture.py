"""Pictures of graphs and stored structures, with and without a run, escaped."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layout.test_layout import check
from support.golden_graphs import GRAPHS
from support.making import make
from support.random_graphs import KINDS, random_case

from hypergraph import END, Graph, RunLog, SqliteCheckpointer, SyncRunner, node, route, viz
from hypergraph.graph.drawing import draw
from hypergraph.graph.picture import graph_html, plain_boxes
from hypergraph.graph.structure import structure_of
from hypergraph.layout import arrange, svg
from hypergraph.layout.svg import STATUSES, THEMES

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=1>',
    "a\x1b[31mred",
    "]]>",
    "&amp;",
    "\u202eabc",
    "x\x00y",
]


def stored(graph: Graph) -> dict[str, Any]:
    """Return the structure as it comes back from a store."""
    found: dict[str, Any] = json.loads(json.dumps(structure_of(graph)))
    return found


def groups(picture: str, attribute: str = "data-path") -> dict[str, Any]:
    """Read an SVG: the groups that have this attribute, by its value."""
    root = ElementTree.fromstring(picture)
    return {found.get(attribute): found for found in root.iter() if found.get(attribute) is not None}


# --- from what a store keeps ----------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_a_stored_structure_is_drawn_like_the_graph_it_was_made_of(name: str) -> None:
    graph = GRAPHS[name][0]()
    for depth in (0, 4):
        assert draw(stored(graph), depth=depth) == draw(graph, depth=depth)
        assert viz.picture(stored(graph), depth=depth) == viz.picture(graph, depth=depth)
        assert viz.to_mermaid(stored(graph), depth=depth) == graph.to_mermaid(depth=depth)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_any_graph_that_can_be_built_can_be_drawn(seed: int) -> None:
    case = random_case(Random(seed), (*KINDS, "interrupt"))
    assume(case is not None)
    assert case is not None
    drawing = draw(stored(case.ready_graph()))
    check(arrange(plain_boxes(drawing)))
    ElementTree.fromstring(viz.picture(case.ready_graph(), separate_outputs=True, direction="LR"))


def inner_graph() -> Graph:
    @route(targets={"inside": "more", END: "enough"})
    def choose(x: int) -> Any: ...

    nested = Graph([make("deep", "x", out="y")], name="inside").as_node()
    return Graph([make("a", "q", out="x"), choose, nested], name="outer")


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to everything inside plain data."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(found for key, inner in entries for found in places_in(inner, (*path, key)))]


@pytest.mark.parametrize("damage", [None, 7, "x", [], {}, [None], {"a": None}, "missing"])
def test_a_damaged_structure_is_drawn_or_refused_and_breaks_nothing(damage: Any) -> None:
    whole = stored(inner_graph())
    refused = 0
    for path in places_in(whole)[1:]:
        damaged = copy.deepcopy(whole)
        holder = damaged
        for key in path[:-1]:
            holder = holder[key]
        if damage == "missing":
            del holder[path[-1]]
        else:
            holder[path[-1]] = damage
        said = refusal(damaged)
        assert said is None or said.startswith(("The stored graph", "A stored graph"))
        refused += said is not None
    assert refused


def refusal(structure: Any) -> str | None:
    """Return why a structure is not drawn, None if it is."""
    try:
        viz.picture(structure, depth=2)
        viz.to_mermaid(structure, depth=2)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("version", [2, 0, "1", None, 1.5])
def test_a_structure_of_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="this release reads up to 1"):
        viz.picture({**stored(inner_graph()), "version": version})


@pytest.mark.parametrize("thing", [None, [], "graph", 3])
def test_what_is_neither_graph_nor_structure_is_refused(thing: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="graph"):
        viz.picture(thing)


def test_a_nested_graph_that_was_not_written_down_is_drawn_closed() -> None:
    structure = stored(inner_graph())
    structure["nodes"][2]["graph"] = None
    assert draw(structure, depth=3) == draw(structure)


def test_a_nest_deeper_than_can_be_read_is_drawn_closed_at_the_bottom() -> None:
    structure = stored(Graph([make("leaf", "x")], name="g"))
    for _ in range(3000):
        node_of = {"name": "g", "kind": "graph", "graph": structure, "inputs": ["x"], "outputs": []}
        structure = {"version": 1, "name": "g", "nodes": [node_of]}
    assert 40 < len(draw(structure, depth=10_000)["nodes"]) < 60


def test_what_is_missing_from_an_old_structure_is_empty() -> None:
    drawing = draw({"nodes": [{"name": "a", "outputs": ["x"]}, {"name": "b", "inputs": ["x", "y"]}]})
    assert [box["label"] for box in drawing["nodes"]] == ["a", "b", "y"]
    assert len(drawing["edges"]) == 2


# --- the picture ----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_a_picture_is_one_svg_without_script_or_anything_loaded(theme: str) -> None:
    picture = viz.picture(inner_graph(), depth=1, theme=theme)
    root = ElementTree.fromstring(picture)
    assert (root.get("role"), root.get("class")) == ("img", f"hgv hgv-{theme}")
    assert not re.search(r"<script|javascript:|onload|@import|url\(|href", picture)
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    assert ("prefers-color-scheme" in picture) == (theme == "auto")


def test_every_box_and_arrow_can_be_found() -> None:
    picture = viz.picture(inner_graph(), depth=1)
    found = groups(picture)
    assert {"a", "choose", "inside", "inside/deep", "q", "END"} <= found.keys()
    assert found["choose"].get("data-kind") == "gate"
    arrows = ElementTree.fromstring(picture).iter()
    ends = {(g.get("data-source"), g.get("data-target"), g.get("data-type")) for g in arrows}
    assert {("a", "choose", "data"), ("choose", "inside", "control"), ("a", "inside/deep", "data")} <= ends


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_or_control(text: str) -> None:
    structure = stored(inner_graph())
    structure["name"] = structure["nodes"][0]["name"] = text
    structure["nodes"][0]["types"]["outputs"]["x"] = text
    structure["nodes"][0]["outputs"].append(text)
    structure["nodes"][1]["labels"]["inside"] = text
    page = viz.visualize(structure, depth=1, show_types=True, overlay={text: {"status": "failed"}})
    assert page is not None
    ElementTree.fromstring(page.svg)
    for shown in (page.svg, page.html, page._repr_html_(), viz.picture(structure)):
        assert not re.search("<script|<img|[\x00-\x08\x1b\u202e]", shown)


def test_a_name_too_long_to_show_is_told_to_who_points_at_it() -> None:
    name = "n" * 100
    picture = viz.picture(Graph([make(name, "x")]))
    titles = [found.text for found in groups(picture)[name] if found.tag.endswith("title")]
    assert name in (titles[0] or "")


def test_types_are_written_on_demand() -> None:
    @node(output_name="n")
    def count(words: list[str]) -> int: ...

    graph = Graph([count])
    shown = "\n".join(ElementTree.fromstring(viz.picture(graph, show_types=True)).itertext())
    assert "words: list[str]" in shown
    assert "→ n: int" in shown
    assert "→ n: int" not in viz.picture(graph)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"theme": "drak"}, "Did you mean 'dark'"),
        ({"theme": None}, "unknown theme None"),
        ({"colouring": "heat"}, "colouring must be one of"),
        ({"direction": "RL"}, "direction must be one of"),
        ({"depth": -1}, "depth must be"),
        ({"overlay": {"a": {"status": "fine"}}}, "unknown status 'fine'"),
    ],
)
def test_unknown_options_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        viz.picture(inner_graph(), **option)


# --- with a run -----------------------------------------------------------------------------------


@node(output_name="parts")
def cut(text: str) -> list[str]:
    return text.split()


@node(output_name="length")
def measure(part: str) -> int:
    if part == "bad":
        raise ValueError("a bad part")
    return len(part)


@node(output_name="total")
def add(lengths: list[int]) -> int:
    return sum(lengths)


def measuring() -> Graph:
    inner = Graph([measure], name="inner").as_node()
    mapped = inner.with_inputs(part="parts").with_outputs(length="lengths").map_over("parts")
    return Graph([cut, mapped, add], name="measuring")


def log_of(text: str) -> RunLog:
    return SyncRunner().run(measuring(), {"text": text}, error_handling="continue").log


def test_a_log_tells_of_every_box_how_it_ended_and_how_often_it_ran() -> None:
    overlay = viz.overlay_of(log_of("one two three"))
    assert overlay is not None
    assert {path: facts["status"] for path, facts in overlay.items()} == {
        "cut": "completed",
        "inner": "completed",
        "inner/measure": "completed",
        "add": "completed",
    }
    assert overlay["inner/measure"]["runs"] == 3
    assert 0.99 < sum(overlay[path]["share"] for path in ("cut", "inner", "add")) < 1.01


def test_one_failed_item_makes_its_box_a_failed_one() -> None:
    picture = viz.picture(measuring(), depth=1, overlay=log_of("one bad"))
    found = groups(picture)
    statuses = {path: found[path].get("data-status") for path in ("cut", "inner", "inner/measure", "add")}
    assert statuses == {"cut": "completed", "inner": "failed", "inner/measure": "failed", "add": "pending"}
    assert found["text"].get("data-status") is None


def test_of_a_loop_the_last_execution_counts() -> None:
    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", END])
    def enough(n: int) -> Any:
        return END if n > 2 else "count"

    graph = Graph([count, enough]).with_entrypoint("count")
    picture = viz.picture(graph, overlay=SyncRunner().run(graph, {"n": 0}).log)
    assert "×3" in "".join(groups(picture)["count"].itertext())


def test_a_workflow_colours_the_picture_of_its_own_stored_graph(tmp_path: Path) -> None:
    store = SqliteCheckpointer(str(tmp_path / "runs.db"))
    SyncRunner(checkpointer=store).run(measuring(), {"text": "one two"}, workflow_id="w")
    workflow = store.workflow("w")
    assert workflow is not None
    assert workflow.graph is not None
    overlay = viz.overlay_of(workflow, store)
    assert overlay is not None
    assert overlay["inner"]["status"] == overlay["inner/measure"]["status"] == "completed"
    assert overlay["inner/measure"]["runs"] == 2
    found = groups(viz.picture(workflow.graph, overlay=workflow))
    assert found["add"].get("data-status") == "completed"


def test_time_colours_by_share() -> None:
    overlay = {"cut": {"status": "completed", "share": 0.9}, "add": {"status": "completed", "share": 0.1}}
    picture = viz.picture(measuring(), overlay=overlay, colouring="time")
    heat = re.findall(r'class="hgv-heat"[^>]*fill-opacity="([\d.]+)"', picture)
    assert sorted(map(float, heat)) == [0.06, 0.54]


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_has_a_look(status: str) -> None:
    picture = viz.picture(measuring(), overlay={"cut": {"status": status}})
    assert f"hgv-{status}" in (groups(picture)["cut"].get("class") or "")


@pytest.mark.parametrize("overlay", [3, "log", object()])
def test_what_is_no_run_is_refused(overlay: Any) -> None:
    with pytest.raises(TypeError, match="overlay must be a RunLog or a Workflow"):
        measuring().visualize(overlay=overlay)


def test_places_do_not_depend_on_a_run() -> None:
    layout = arrange(plain_boxes(draw(measuring(), depth=1)))
    overlay = viz.overlay_of(log_of("a b"))
    for picture in (
        svg(layout),
        svg(layout, overlay=overlay),
        svg(layout, overlay=overlay, colouring="time"),
    ):
        assert re.findall("<svg[^>]*>", picture) == re.findall("<svg[^>]*>", svg(layout))


# --- for notebooks and files ----------------------------------------------------------------------


def test_a_notebook_gets_a_frame_with_the_whole_page_inside() -> None:
    shown = measuring().visualize(depth=1)
    assert shown is not None
    assert shown._repr_html_().startswith("<iframe")
    assert "srcdoc=" in shown._repr_html_()
    assert "\n" not in shown._repr_html_()
    assert shown.svg in shown.html


def test_a_graph_draws_itself_in_a_notebook() -> None:
    html = measuring()._repr_html_()
    assert "<svg" in html
    assert "<script" not in html


@pytest.mark.parametrize(
    ("given_name", "name"), [("g", "g.html"), ("g.html", "g.html"), ("g.v2", "g.v2.html")]
)
def test_a_file_is_one_page(tmp_path: Path, given_name: str, name: str) -> None:
    assert measuring().visualize(filepath=tmp_path / given_name, overlay=log_of("a")) is None
    assert [path.name for path in tmp_path.iterdir()] == [name]
    page = (tmp_path / name).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "<script" not in page


def test_the_functions_take_the_graph_first() -> None:
    graph = measuring()
    assert viz.visualize(graph, theme="dark") == graph.visualize(theme="dark")


def test_a_picture_in_a_notebook_follows_the_theme_of_the_notebook() -> None:
    shown = graph_html(next(iter(GRAPHS.values()))[0]())
    dark, light = '[data-jp-theme-light="false"] .hgv-auto', '[data-jp-theme-light="true"] .hgv-auto'
    colours = dict(re.findall(r"([^{}<>]*\.hgv-auto)\{([^}]*)\}", shown))
    by_theme = {
        theme: next(rule for places, rule in colours.items() if theme in places) for theme in (dark, light)
    }
    assert by_theme[dark] != by_theme[light]
    preferred = re.search(r"@media \(prefers-color-scheme:dark\)\{\.hgv-auto\{([^}]*)\}", shown)
    assert preferred is not None
    assert by_theme[dark] == preferred[1]
