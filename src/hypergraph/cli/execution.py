"""Running a graph for a command: the runner, progress and the outcome."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, NamedTuple

from hypergraph import AsyncRunner, Graph, MapResult, NodeError, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.call import Reply
from hypergraph.cli.output import duration, quoted, say, status
from hypergraph.cli.stores import finished
from hypergraph.display import Table, escape, plural
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
from hypergraph.runs.log import failed_status, stats_table, step_table
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.run import Failure, ItemView, Output, RunView, map_view, run_view


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


_ROWS = 20


def reply_to(result: RunResult | MapResult, order: Order) -> Reply:
    """Return the answer of a command that ran a graph."""
    name = order.graph.name
    if isinstance(result, MapResult):
        view = map_view(result, name, order.workflow_id)
    else:
        view = run_view(result, name)
    code = 0 if view["status"] in ("completed", "paused") else 1
    return Reply(view, lambda: _blocks(result, view, order), _header(view, order), _next(view, order), code)


def _header(view: RunView, order: Order) -> list[str]:
    name = view["workflow_id"] if order.workflow_id else view["graph"] or "unnamed"
    title = f"Workflow: {name}" if order.workflow_id else f"Run: {name}"
    items = [plural(len(view["items"]), "item")] if "items" in view else []
    return [title, status(view["status"]), *items, duration(view["duration_ms"])]


def _blocks(result: RunResult | MapResult, view: RunView, order: Order) -> Iterator[Table | str]:
    if isinstance(result, MapResult):
        yield _items(view.get("items", []))
        yield stats_table(result.log.node_stats)
    elif result.log is not None and result.log.steps:
        stats = result.log.node_stats
        looped = len(stats) < len(result.log.steps)
        yield stats_table(stats) if looped else step_table(result.log.steps)
    if view["outputs"]:
        yield _outputs(view["outputs"])
    if view["error"] is not None:
        yield _told(view["error"])
        if order.workflow_id and order.is_map:
            again = quoted("--id", order.workflow_id, "--resume")
            yield f"What completed is kept; to run the rest, give the same command with {again}"
        elif order.workflow_id:
            yield f"What completed is kept; once it is mended, go on: {order.resuming()}"
    if view["question"] is not None:
        asked = view["question"]
        yield f"Waits for an answer to {asked['node']}: {asked['type']} {asked['text']}"
        if order.workflow_id:
            yield f"Answer: {order.resuming(*(f'{key}=...' for key in asked['keys']))}"


def _items(items: list[ItemView]) -> Table:
    failed_first = sorted(items, key=lambda item: (item["error"] is None, item["item"]))
    rows = [
        (
            item["item"],
            status(item["status"]) if item["error"] is None else _failed(item["error"]),
            ", ".join(f"{output['name']}={output['text']}" for output in item["outputs"]),
        )
        for item in failed_first[:_ROWS]
    ]
    left_out = len(items) - len(rows)
    more = f"... and {plural(left_out, 'more item')}" if left_out else ""
    return Table(("Item", "Status", "Outputs"), rows, more)


def _failed(error: Failure) -> str:
    return failed_status(error["message"], error["node"])


def _outputs(outputs: list[Output]) -> Table:
    rows = [(found["name"], found["type"], _size(found), found["text"]) for found in outputs[:_ROWS]]
    left_out = len(outputs) - len(rows)
    return Table(
        ("Output", "Type", "Size", "Value"),
        rows,
        f"... and {plural(left_out, 'more output')}" if left_out else "",
    )


def _size(output: Output) -> str:
    return "—" if output["size"] is None else str(output["size"])


def _told(error: Failure) -> str:
    where = f" in node {error['node']}, superstep {error['superstep']}" if error["node"] else ""
    item = "" if error["item"] is None else f", item {error['item']}"
    return f"{error['type']}{where}{item}: {error['message'].strip() or '(no message)'}"


def _next(view: RunView, order: Order) -> list[str]:
    if not order.workflow_id:
        return []
    show = quoted("hypergraph", "show", order.workflow_id)
    if view["status"] == "completed" and not order.is_map:
        return [show, quoted("hypergraph", "state", order.workflow_id)]
    if order.is_map:
        return [show, quoted("hypergraph", "ls", "--parent", order.workflow_id)]
    return [show]
