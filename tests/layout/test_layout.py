"""Layouts: no overlaps, nothing lost, deterministic, for any input."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hypergraph.layout import DIRECTIONS, Layout, PlacedBox, PlacedEdge, arrange
from hypergraph.layout.routing import spaced

KINDS = ("function", "gate", "interrupt", "graph", "input", "end")
HEXAGON = "gate"


def random_drawing(seed: int, *, most: int = 14) -> dict[str, Any]:
    """Return boxes within boxes and arrows between any of them: loops, doubles, to themselves, to parents."""
    random = Random(seed)
    nodes: list[dict[str, Any]] = []
    for number in range(random.randint(0, most)):
        parents = [node["id"] for node in nodes if node["kind"] == "graph"]
        parent = random.choice(parents) if parents and random.random() < 0.5 else None
        label = random.choice(["f", "load_page", "größe", "計算する計算", "n" * 60, "<b>&"])
        kind = random.choice(KINDS)
        rows = [f"row {row}" for row in range(random.randint(0, 2))] if kind == "function" else []
        nodes.append(
            {
                "id": f"b{number}",
                "kind": kind,
                "label": label,
                "parent": parent,
                "rows": rows,
                "path": f"p{number}",
            }
        )
    edges = []
    for _ in range(random.randint(0, 2 * len(nodes))):
        source, target = random.choice(nodes)["id"], random.choice(nodes)["id"]
        labels = random.choice([[], [], ["True"], ["a long label for an arrow indeed", "x"]])
        kind = random.choice(["data", "control", "ordering"])
        edges.append({"source": source, "target": target, "type": kind, "labels": labels})
    return {"name": "any", "nodes": nodes, "edges": edges}


def inside(inner: tuple[float, ...], outer: tuple[float, ...], slack: float = 0.15) -> bool:
    x, y, width, height = inner
    left, top, wide, high = outer
    right, bottom = left + wide + slack, top + high + slack
    return left - slack <= x and top - slack <= y and x + width <= right and y + height <= bottom


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    slack = 0.15  # numbers are rounded to tenths
    return (
        one[0] + slack < other[0] + other[2]
        and other[0] + slack < one[0] + one[2]
        and one[1] + slack < other[1] + other[3]
        and other[1] + slack < one[1] + one[3]
    )


def area(box: PlacedBox) -> tuple[float, ...]:
    return box["x"], box["y"], box["width"], box["height"]


def on_border(point: list[float], box: PlacedBox) -> bool:
    x, y, width, height = area(box)
    to_side = min(abs(point[0] - x), abs(point[0] - x - width))
    to_end = min(abs(point[1] - y), abs(point[1] - y - height))
    reach = 0.25 if box["kind"] != HEXAGON or box["open"] else 12  # pointed ends lie within the box
    return inside((*point, 0, 0), (x, y, width, height), 0.25) and min(to_side, to_end) <= reach


def points(edge: PlacedEdge) -> Iterator[tuple[float, float]]:
    """Walk along a curve."""
    curve = edge["curve"]
    for first in range(0, len(curve) - 1, 3):
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = curve[first : first + 4]
        for step in range(11):
            t = step / 10
            u = 1 - t
            yield (
                u**3 * ax + 3 * u * u * t * bx + 3 * u * t * t * cx + t**3 * dx,
                u**3 * ay + 3 * u * u * t * by + 3 * u * t * t * cy + t**3 * dy,
            )


def check(layout: Layout) -> None:
    """Hold a layout against all that must be true of it."""
    boxes = {box["id"]: box for box in layout["boxes"]}
    canvas = (0.0, 0.0, layout["width"], layout["height"])
    numbers = [*canvas, *(n for box in boxes.values() for n in area(box))]
    numbers += [n for edge in layout["edges"] for point in edge["curve"] for n in point]
    assert all(math.isfinite(number) for number in numbers)
    for box in boxes.values():
        assert inside(area(box), area(boxes[box["parent"]]) if box["parent"] else canvas)
    listed = list(boxes.values())
    for number, one in enumerate(listed):
        for other in listed[number + 1 :]:
            assert one["parent"] != other["parent"] or not overlap(area(one), area(other))
    for edge in layout["edges"]:
        check_edge(edge, boxes, canvas)


def check_edge(edge: PlacedEdge, boxes: dict[str, PlacedBox], canvas: tuple[float, ...]) -> None:
    source, target = boxes[edge["source"]], boxes[edge["target"]]
    assert len(edge["curve"]) % 3 == 1
    assert on_border(edge["curve"][0], source)
    assert on_border(edge["curve"][-1], target)
    closed = [box for box in boxes.values() if not box["open"]]
    for point in points(edge):
        assert inside((*point, 0, 0), canvas)
        for box in closed:
            x, y, width, height = area(box)
            assert not overlap((*point, 0.2, 0.2), (x + 0.5, y + 0.5, width - 1, height - 1)), box["id"]
    assert (edge["label_box"] is not None) == bool(edge["label"])
    if edge["label_box"] is not None:
        assert inside(tuple(edge["label_box"]), canvas)
        assert not any(overlap(tuple(edge["label_box"]), area(box)) for box in closed)


@given(st.integers(0, 2**32), st.sampled_from(DIRECTIONS))
@example(24, "LR")  # several parts, one with a nested box that arrows pass
@settings(max_examples=150, deadline=None)
def test_nothing_overlaps_and_every_arrow_goes_from_border_to_border(seed: int, direction: str) -> None:
    drawing = random_drawing(seed)
    layout = arrange(drawing, direction=direction)
    assert [box["id"] for box in layout["boxes"]] == [node["id"] for node in drawing["nodes"]]
    assert len(layout["edges"]) == len(drawing["edges"])
    check(layout)


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_labels_do_not_cover_each_other(seed: int) -> None:
    layout = arrange(random_drawing(seed))
    labels = [tuple(edge["label_box"]) for edge in layout["edges"] if edge["label_box"]]
    assert not any(overlap(one, other) for n, one in enumerate(labels) for other in labels[n + 1 :])


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_the_same_input_has_the_same_layout(seed: int) -> None:
    assert arrange(random_drawing(seed)) == arrange(random_drawing(seed))


def boxes_of(*names: str, **about: Any) -> list[dict[str, Any]]:
    return [{"id": name, "kind": "function", "label": name, **about} for name in names]


def arrows(*pairs: str, **about: Any) -> list[dict[str, Any]]:
    return [{"source": pair[0], "target": pair[1], **about} for pair in pairs]


def places(layout: Layout) -> dict[str, PlacedBox]:
    return {box["id"]: box for box in layout["boxes"]}


def test_arrows_lead_down_or_to_the_right() -> None:
    drawing = {"nodes": boxes_of(*"abc"), "edges": arrows("ab", "bc")}
    down, right = places(arrange(drawing)), places(arrange(drawing, direction="LR"))
    assert down["a"]["y"] < down["b"]["y"] < down["c"]["y"]
    assert down["a"]["x"] == down["b"]["x"] == down["c"]["x"]
    assert right["a"]["x"] < right["b"]["x"] < right["c"]["x"]


def test_an_arrow_back_goes_around_what_is_between() -> None:
    layout = arrange({"nodes": boxes_of(*"abc"), "edges": arrows("ab", "bc", "ca")})
    found = places(layout)
    assert found["a"]["y"] < found["b"]["y"] < found["c"]["y"]
    back = layout["edges"][2]["curve"]
    assert back[0][1] == found["c"]["y"] + found["c"]["height"]
    assert back[-1][1] == found["a"]["y"]
    assert max(x for x, _ in back) > found["b"]["x"] + found["b"]["width"]


def test_parts_without_arrows_between_them_stand_side_by_side() -> None:
    found = places(arrange({"nodes": boxes_of(*"abcd"), "edges": arrows("ab", "cd")}))
    assert found["a"]["y"] == found["c"]["y"]
    assert found["c"]["x"] > found["a"]["x"] + found["a"]["width"]


def test_many_parts_fill_several_rows() -> None:
    layout = arrange({"nodes": boxes_of(*(f"n{number}" for number in range(60))), "edges": []})
    assert len({box["y"] for box in layout["boxes"]}) > 1
    check(layout)


def test_a_binary_tree_is_drawn_without_crossings_and_each_box_over_its_branches() -> None:
    names = [f"n{number}" for number in range(15)]
    edges = [{"source": f"n{(n - 1) // 2}", "target": f"n{n}"} for n in range(1, 15)]
    found = places(arrange({"nodes": boxes_of(*names), "edges": edges}))
    for number in range(7):
        left, own, right = (found[f"n{n}"] for n in (2 * number + 1, number, 2 * number + 2))
        assert left["x"] < own["x"] < right["x"] or right["x"] < own["x"] < left["x"]


def test_arrows_alike_from_one_box_share_their_way() -> None:
    names = [f"n{number}" for number in range(300)]
    chain = [{"source": one, "target": other} for one, other in pairwise(names)]
    shared = [{"source": "config", "target": name} for name in names]
    layout = arrange({"nodes": boxes_of("config", *names), "edges": chain + shared})
    assert len({tuple(edge["curve"][0]) for edge in layout["edges"] if edge["source"] == "config"}) == 1


def test_long_texts_are_cut_and_kept_whole_beside() -> None:
    name = "n" * 200
    box = arrange({"nodes": boxes_of(name), "edges": []})["boxes"][0]
    assert box["label"].endswith("…")
    assert len(box["label"]) < 40
    assert box["title"] == name


def test_wide_letters_get_more_room() -> None:
    found = arrange({"nodes": boxes_of("計算計算計算計算", "abcdefgh"), "edges": []})["boxes"]
    assert found[0]["width"] > found[1]["width"]


def test_nothing_has_an_empty_layout() -> None:
    layout = arrange({"nodes": [], "edges": []})
    assert (layout["boxes"], layout["edges"]) == ([], [])
    assert layout["width"] > 0


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ({"nodes": boxes_of("a", "a"), "edges": []}, "duplicate id of boxes: 'a'"),
        (
            {"nodes": boxes_of("a", parent="b"), "edges": []},
            "the parent 'b' of box 'a' must be listed before it",
        ),
        ({"nodes": boxes_of("a"), "edges": arrows("ab")}, "unknown target of an arrow: 'b'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(drawing: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arrange(drawing)


@pytest.mark.parametrize("direction", ["TB", "", None])
def test_another_direction_is_refused(direction: Any) -> None:
    with pytest.raises(ValueError, match="direction must be one of TD, LR"):
        arrange({"nodes": [], "edges": []}, direction=direction)


@given(st.lists(st.floats(-50, 50), max_size=12), st.floats(0, 8))
def test_spaced_places_keep_order_distance_and_limits(wanted: list[float], gap: float) -> None:
    found = spaced(sorted(wanted), gap, -50, 50)
    assert all(-50 <= x <= 50 for x in found)
    assert all(b - a >= min(gap, 100 / max(1, len(found) - 1)) - 1e-6 for a, b in pairwise(found))


def pipeline(size: int) -> dict[str, Any]:
    """Return a graph as people write them: each step takes from a few before it, some go back."""
    random = Random(size)
    edges = []
    for number in range(1, size):
        for source in {random.randrange(max(0, number - 10), number) for _ in range(2)}:
            edges.append({"source": f"n{source}", "target": f"n{number}"})
        if number % 20 == 0:
            edges.append({"source": f"n{number}", "target": f"n{number - 5}", "labels": ["again"]})
    return {"nodes": boxes_of(*(f"n{number}" for number in range(size))), "edges": edges}


def seconds(drawing: dict[str, Any]) -> float:
    found = []
    for _ in range(3):
        start = time.perf_counter()
        arrange(drawing)
        found.append(time.perf_counter() - start)
    return min(found)


@pytest.mark.slow
def test_ten_times_the_boxes_take_at_most_sixty_times_as_long() -> None:
    assert seconds(pipeline(300)) < 60 * seconds(pipeline(30))


@pytest.mark.slow
def test_a_thousand_boxes_are_laid_out_as_they_should_be() -> None:
    layout = arrange(pipeline(1000))
    assert len(layout["boxes"]) == 1000
    assert all(math.isfinite(n) for edge in layout["edges"] for point in edge["curve"] for n in point)
