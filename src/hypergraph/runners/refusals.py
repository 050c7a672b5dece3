"""Calls that cannot work, refused before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from hypergraph.exceptions import IncompatibleRunnerError, MissingInputError
from hypergraph.graph.findings import did_you_mean
from hypergraph.graph.graph import Graph

if TYPE_CHECKING:
    from hypergraph.runners.base import RunnerCapabilities


def needs_interrupts(graph: Graph, why: str) -> IncompatibleRunnerError:
    """Return the error for a graph whose interrupts nobody could answer."""
    names = [node.name for node in graph.interrupt_nodes] or ["a nested graph"]
    return IncompatibleRunnerError(
        f"The graph has an InterruptNode ({', '.join(names)}), and {why}.", names[0], "supports_interrupts"
    )


def check_graph(graph: Graph, runner: str, can: RunnerCapabilities) -> None:
    """A1: refuse what a runner cannot run. Raises TypeError for what is no graph, IncompatibleRunnerError."""
    if not isinstance(graph, Graph):
        raise TypeError(f"A runner runs a Graph, got {type(graph).__name__}. Build one: Graph([node, ...]).")
    if not can.supports_async_nodes and graph.has_async_nodes:
        names = [node.name for node in graph.iter_nodes() if node.is_async]
        raise IncompatibleRunnerError(
            f"{runner} cannot run async nodes: {', '.join(names)}. Use AsyncRunner.",
            names[0],
            "supports_async_nodes",
        )
    if not can.supports_interrupts and graph.has_interrupts:
        raise needs_interrupts(graph, f"{runner} cannot pause; use AsyncRunner")


def check_mapped(graph: Graph, names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Check the names to map over. Raises ValueError or MissingInputError."""
    if not names:
        raise ValueError("map_over needs at least one input name.")
    if len(set(names)) < len(names):
        raise ValueError(f"map_over names an input twice: {', '.join(names)}.")
    missing = [name for name in names if name not in given]
    if missing:
        hint = did_you_mean(missing[0], given) or "How to fix: pass a list for it in `values`."
        raise MissingInputError(
            f"map_over names {', '.join(map(repr, missing))}, which was not given. "
            f"{hint} Inputs: {graph.inputs.all}",
            missing,
            sorted(given),
        )


def checked_executor(given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return what was given as executor. Raises TypeError unless it is one, or a dict of them by node."""
    executors = list(given.values()) if isinstance(given, Mapping) else [] if given is None else [given]
    for executor in executors:
        if not isinstance(executor, Executor):
            raise TypeError(
                "executor must be a concurrent.futures.Executor or a dict from node names to such, "
                f"got {type(executor).__name__}"
            )
    return dict(given) if isinstance(given, Mapping) else given


def chosen_executor(own: Any, given: Any) -> Executor | Mapping[str, Executor] | None:
    """Return who calls the nodes of a call: the executor it was given (`{}`: nobody else), or its runner's.

    Raises TypeError for what is no executor.
    """
    return own if given is None else checked_executor(given) or None
