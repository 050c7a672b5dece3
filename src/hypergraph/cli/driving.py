"""Running a graph for a command: the runner it needs, progress and warnings on stderr, what it gives back."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, NamedTuple

from hypergraph import AsyncRunner, Graph, MapResult, NodeError, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.screens import quoted, say
from hypergraph.cli.waiting import finished
from hypergraph.display import escape
from hypergraph.events import EventProcessor
from hypergraph.events.rich_progress import RichProgressProcessor
from hypergraph.exceptions import (
    GraphConfigError,
    InvalidWorkflowIdError,
    MissingInputError,
    StoreError,
    WorkflowError,
    WorkflowLockedError,
)
from hypergraph.views.problems import REFUSED, USAGE, Problem


class Order(NamedTuple):
    """What is to be run."""

    target: str
    graph: Graph
    values: dict[str, Any]
    options: dict[str, Any]
    quiet: bool  # stdout belongs to the answer alone

    @property
    def workflow_id(self) -> str | None:
        """The workflow it is written down as."""
        found: str | None = self.options.get("workflow_id")
        return found

    @property
    def is_map(self) -> bool:
        """Whether it runs once for each item."""
        return "map_over" in self.options

    def resuming(self, *more: str) -> str:
        """Return the command that goes on with it."""
        return quoted("hypergraph", "resume", self.workflow_id or "", self.target, *more)


def outcome(order: Order, store: Checkpointer | None) -> RunResult | MapResult:
    """Run it and return the result, also of a failed run.

    Raises:
        Problem: the call makes no sense, or the workflow refuses it.
    """
    try:
        with _apart(order.quiet), _told_warnings():
            return _run(order, store)
    except KeyboardInterrupt:
        if store is not None and not order.is_map:
            say(f"Interrupted; to go on: {escape(order.resuming())}")
        raise
    except MissingInputError as error:
        missing = ", ".join(error.missing)
        hint = f"Give them: {' '.join(f'{name}=VALUE' for name in error.missing)}, or with --values"
        unknown = [name for name in order.values if name not in order.graph.inputs.all]
        extra = f"; there is no input {', '.join(map(repr, unknown))}" if unknown else ""
        raise Problem(USAGE, f"Inputs are missing: {missing}{extra}", hint) from error
    except InvalidWorkflowIdError as error:
        raise Problem(USAGE, str(error)) from error
    except (WorkflowLockedError, StoreError):
        raise
    except WorkflowError as error:
        raise Problem(REFUSED, str(error)) from error
    except Exception as error:
        found = NodeError.of(error)
        if found is not None and isinstance(found.map_result, MapResult):
            return found.map_result
        if found is None and isinstance(error, ValueError | TypeError | GraphConfigError):
            raise Problem(USAGE, " ".join(str(error).splitlines())) from error
        raise


def _run(order: Order, store: Checkpointer | None) -> RunResult | MapResult:
    graph = order.graph
    options: dict[str, Any] = {"error_handling": "continue", **order.options, "event_processors": _watchers()}
    options = {name: value for name, value in options.items() if value is not None}
    waits = graph.has_async_nodes or graph.has_interrupts
    runner: Any = AsyncRunner(checkpointer=store) if waits else SyncRunner(checkpointer=store)
    start: Callable[..., Any] = runner.map if order.is_map else runner.run
    result: RunResult | MapResult = (
        start(graph, order.values, **options)
        if not waits
        else finished(start(graph, order.values, **options))
    )
    return result


def _watchers() -> list[EventProcessor]:
    if sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        return [RichProgressProcessor()]
    return []


def _apart(quiet: bool) -> Any:
    """Return where the prints of nodes go: with --json not among the answer."""
    return redirect_stdout(sys.stderr) if quiet else nullcontext()


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Say warnings in a line each, without the place in our code that gave them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {escape(message)}")
        yield
