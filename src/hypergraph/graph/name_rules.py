"""Rules about the names of a graph and of its nodes: B1 and B3 to B6."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterator

from hypergraph.graph.draft import Draft
from hypergraph.graph.findings import finding
from hypergraph.nodes.graph_node import GraphNode


def names_differ(draft: Draft) -> Iterator[str]:
    """B1: every node has a name of its own."""
    for name, count in Counter(node.name for node in draft.nodes).items():
        if count > 1:
            yield finding(
                f"Duplicate node name: {name!r}",
                f"{count} nodes of this graph are called {name!r}",
                fix=f"rename all but one, e.g. {name}.with_name('{name}_2').",
            )


def graph_name_is_plain(draft: Draft) -> Iterator[str]:
    """B3: a graph's name is part of paths and ids."""
    for character in "./":
        if draft.name and character in draft.name:
            yield finding(
                f"Invalid graph name: {draft.name!r} cannot contain {character!r}",
                "graph names cannot contain '.' or '/': these join names in ids and answers",
                fix=f"use another separator, e.g. {draft.name.replace(character, '_')!r}.",
            )


def end_is_reserved(draft: Draft) -> Iterator[str]:
    """B4: END means the end of a branch."""
    for node in draft.nodes:
        if node.name == "END":
            yield finding(
                "Invalid node name: 'END' is reserved for the end of a gate's branch",
                f"{node!r}",
                fix="give the node another name with with_name().",
            )


def names_are_identifiers(draft: Draft) -> Iterator[str]:
    """B5: names become parameters, so they have to be identifiers."""
    for node in draft.nodes:
        flaw = None if isinstance(node, GraphNode) else _flaw(node.name)
        if flaw:
            fix = "choose another name through with_name()."
            yield finding(f"Invalid node name: {node.name!r}{flaw}", f"node {node!r}", fix=fix)
        for output in node.outputs:
            flaw = _flaw(output)
            if flaw:
                where, fix = (
                    f"output of node {node.name!r}",
                    "choose another output_name, or use with_outputs().",
                )
                yield finding(f"Invalid output name: {output!r}{flaw}", where, fix=fix)


def _flaw(name: str) -> str | None:
    if not name.isidentifier():
        return ". Names must be valid Python identifiers"
    return " is a Python keyword" if keyword.iskeyword(name) else None


def nested_names_are_free(draft: Draft) -> Iterator[str]:
    """B6: result[NAME] is either a value or a nested result."""
    for node in draft.nodes:
        if isinstance(node, GraphNode):
            for producer in draft.wiring.producers.get(node.name, ()):
                if producer != node.name:
                    yield finding(
                        f"GraphNode name {node.name!r} collides with output of node {producer!r}",
                        f"result[{node.name!r}] would be ambiguous",
                        fix="rename the GraphNode with as_node(name=...), or the output.",
                    )
