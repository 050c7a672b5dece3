"""Graphs held to strict types while the code that makes them stays as it is."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypergraph import GraphConfigError
from hypergraph.graph import graph as making
from hypergraph.graph.wiring import Wiring


@contextmanager
def strict_findings() -> Iterator[list[str]]:
    """Check every graph made in the block with strict_types=True too; the list gets the findings."""
    found: list[str] = []
    usual = making.validate_graph

    def validate_both(nodes: Any, *, edges: Any, name: Any, strict_types: bool) -> Wiring:
        edges = None if edges is None else list(edges)
        wiring = usual(nodes, edges=edges, name=name, strict_types=strict_types)
        if not strict_types:
            try:
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    usual(nodes, edges=edges, name=name, strict_types=True)
                found.extend(str(each.message) for each in warned if "type hint" in str(each.message))
            except GraphConfigError as error:
                found.extend(f"{name}: {finding}" for finding in error.findings)
        return wiring

    making.validate_graph = validate_both
    try:
        yield found
    finally:
        making.validate_graph = usual
