"""Execution of a graph by a command: its options, the runner, progress and the reply."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from math import prod
from typing import Any, NamedTuple, TypeVar

from hypergraph import AsyncRunner, Graph, MapResult, NodeError, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.checkpointers.overview import loose_ends_of
from hypergraph.cli.arguments import Option, positive
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.inputs import PAIRS, given_values
from hypergraph.cli.output import duration, located, quoted, say, status, suggested, until
from hypergraph.cli.remembered import ITEMS
from hypergraph.cli.tables import ROWS
from hypergraph.cli.targets import SERVICES, graph_at, services_at, target_of
from hypergraph.cli.wording import as_command_line, complaint, pardoning
from hypergraph.display import Table, escape, failed_status, plural, with_keys
from hypergraph.engine.admission import is_answer
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
from hypergraph.records import step_table
from hypergraph.runs.log import failed_inside, stats_table
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.run import Failure, ItemView, Output, RunView, map_view, run_view
from hypergraph.views.values import describe

T = TypeVar("T")

SINGLE_RUN_OPTIONS = (
    Option("--select", "return only this output", "NAME", many=True),
    Option("--entrypoint", "the node where a cycle starts", "NODE"),
    Option("--max-iterations", "the most rounds of a loop", "N", positive),
)
RUN_OPTIONS = (
    Option("--map-over", "run once for each item of this input", "KEY", many=True),
    Option(
        "--map-mode",
        "several mapped inputs side by side (zip, default), or all combinations (product)",
        "MODE",
        choices=("zip", "product"),
    ),
    Option("--key", "of a map: match stored items by this input instead of by their position", "KEY"),
    *SINGLE_RUN_OPTIONS,
    Option(
        "--error-handling",
        "of a map: stop at the first failed item (raise, default), or continue",
        "E",
        choices=("raise", "continue"),
    ),
    Option(
        "--max-concurrency",
        "how many nodes run at a time, items of maps included; of graphs with async nodes or questions",
        "N",
        positive,
    ),
    Option("--budget", "stop once nodes have recorded this much, like cost=1.5", "NAME=AMOUNT", many=True),
    SERVICES,
)
PROGRESS = Option("--progress", "print lines of progress to stderr even if it is not a terminal")
CODE_CHANGE = Option(
    "--code-change",
    "for steps whose code has changed: keep their results (default), rerun them, or error",
    "C",
    choices=("keep", "rerun", "error"),
)
NEW_TURN = Option("--new-turn", "count the given values as new even if they equal the stored ones")
RESUME_OPTIONS = (
    Option("--force", "take over even if another process owns the workflow, or after a crash loop"),
    NEW_TURN,
    CODE_CHANGE,
    Option(
        "--restart",
        "run failed items of maps again, also inside a completed run: from the failed node (node), "
        "or as new items (item)",
        "WHERE",
        choices=("node", "item"),
    ),
)


class Order(NamedTuple):
    """A graph with the inputs and options of a run."""

    target: str
    graph: Graph
    values: dict[str, Any]
    options: dict[str, Any]
    quiet: bool  # stdout is for the answer alone
    progress: bool = False  # print lines of progress without a terminal too
    database: str | None = None  # that --db gave
    can_take_over: bool = False  # the command has the option --force
    resumes: bool = False  # the command is about a stored workflow

    @property
    def workflow_id(self) -> str | None:
        """The id of the workflow, None if the run is not stored."""
        found: str | None = self.options.get("workflow_id")
        return found

    @property
    def is_map(self) -> bool:
        """Whether the graph runs once per item."""
        return "map_over" in self.options

    @property
    def item_count(self) -> int | None:
        """The number of items of a map; None for a single run, and for a map without lists."""
        lists = [self.values.get(name) for name in self.options.get("map_over", ())]
        lengths = [len(found) for found in lists if isinstance(found, list)]
        if not lists or len(lengths) < len(lists):
            return None
        return prod(lengths) if self.options["map_mode"] == "product" else max(lengths)

    def resuming(self, *more: str, options: Sequence[str] = ()) -> str:
        """Return the command that resumes it."""
        return self.command("resume", self.workflow_id or "", self.target, *more, options=options)

    def forking(self, workflow_id: str, at: str | None) -> str:
        """Return the command that forks a workflow with the values of the same names."""
        pairs = [f"{name}=..." for name in self.values]
        options = [] if at is None else ["--at", at]
        return self.command("fork", workflow_id, self.target, *pairs, options=options)

    def command(self, name: str, *places: object, options: Sequence[object] = ()) -> str:
        """Return another command about the same database."""
        return located(suggested(name, *places, options=options), self.database)


def order_of(call: Call, stored: Workflow | None = None, tags: Mapping[str, str] | None = None) -> Order:
    """Return the order of a call: its graph, inputs and options. Raises Problem if they are invalid.

    Of a `stored` workflow TARGET may be left out; it is in its tags, or in these.
    """
    given, pairs = call.options, list(getattr(call.options, PAIRS.key))
    target = given.target
    if stored is not None:
        if target is not None and "=" in target:
            target, pairs = None, [target, *pairs]
        target = target_of(target, stored.tags if tags is None else tags, stored.id)
    graph = graph_at(target)
    named = graph if stored is None else graph.recorded_as(stored.graph)
    values = given_values(named, given.values, pairs, given.map_over)
    options = options_of(given)
    if given.map_over and given.new_turn:
        raise Problem(USAGE, "--new-turn cannot be combined with --map-over")
    if given.map_over:
        options |= {"map_over": given.map_over, "map_mode": given.map_mode or "zip"}
        options["error_handling"] = given.error_handling or "raise"
        options |= {"key": given.key} if given.key is not None else {}
    elif given.map_mode or given.error_handling or given.key is not None:
        raise Problem(USAGE, "--map-mode, --key and --error-handling need --map-over")
    return new_order(call, target, graph, values, options)._replace(resumes=stored is not None)


def new_order(
    call: Call, target: str, graph: Graph, values: dict[str, Any], options: dict[str, Any]
) -> Order:
    """Return an order with what all commands that run a graph are given."""
    given = call.options
    quiet, progress = given.json or given.jsonl, getattr(given, "progress", False)
    return Order(
        target, graph, values, options, quiet, progress, call.database, can_take_over=hasattr(given, "force")
    )


def options_of(given: Any) -> dict[str, Any]:
    """Return the options of a runner that a call gives."""
    found: dict[str, Any] = {"entrypoint": given.entrypoint, "max_iterations": given.max_iterations}
    found["max_concurrency"] = getattr(given, "max_concurrency", None)
    options = {name: value for name, value in found.items() if value is not None}
    for name in ("force", "new_turn", "code_change", "restart"):
        if getattr(given, name, None):
            options[name] = getattr(given, name)
    if pairs := getattr(given, "budget", None):
        options["budget"] = dict(map(_limit, pairs))
    if getattr(given, "services", None):
        options["services"] = services_at(given.services)
    return {**options, "select": given.select} if given.select else options


def _limit(pair: str) -> tuple[str, float]:
    """Return the name and the number of --budget NAME=AMOUNT. Raises Problem for anything else."""
    name, _, text = pair.partition("=")
    try:
        most = float(text)
    except ValueError:
        most = 0.0
    if not name or not 0 < most < float("inf"):
        raise Problem(USAGE, f"Invalid budget {pair!r}", "Write --budget cost=1.5, a number greater than 0")
    return name, most


def remember_items(order: Order, store: Checkpointer) -> None:
    """Keep how many items a map has, the most it was given: `resume` must know if some have never begun."""
    count, wf = order.item_count, order.workflow_id or ""
    stored = store.backend.read_workflow(wf)
    if count is None or stored is None:
        return
    known = stored.tags.get(ITEMS, "")
    if not known.isdecimal() or int(known) < count:
        store.tag(wf, {ITEMS: str(count)})


def outcome(
    order: Order, store: Checkpointer | None, run: Callable[..., RunResult | MapResult] | None = None
) -> RunResult | MapResult:
    """Run an order, by `run` if it is given, and return the result, also of a failed run.

    Raises:
        Problem: the call is invalid, or the workflow refuses it.
    """
    try:
        with _prints_to(order.quiet), _warnings_as_lines():
            return (run or _run)(order, store)
    except KeyboardInterrupt:
        if store is not None and not order.is_map:
            say(f"Interrupted; to resume: {escape(order.resuming())}")
        raise
    except MissingInputError as error:
        missing = ", ".join(error.missing)
        hint = f"Give {' '.join(f'{name}=VALUE' for name in error.missing)}, or use --values"
        unknown = [name for name in order.values if name not in order.graph.inputs.all]
        extra = f"; unknown: {', '.join(map(repr, unknown))}" if unknown else ""
        raise Problem(USAGE, f"Missing inputs: {missing}{extra}", hint) from error
    except InvalidWorkflowIdError as error:
        raise Problem(USAGE, str(error)) from error
    except StoreError:
        raise
    except WorkflowError as error:
        if isinstance(error, WorkflowLockedError):
            raise complaint(error, can_take_over=order.can_take_over) from error
        raise Problem(REFUSED, as_command_line(str(error), order.forking)) from error
    except Exception as error:
        found = NodeError.of(error)
        if found is not None and isinstance(found.map_result, MapResult):
            return found.map_result
        if found is None and isinstance(error, ValueError | TypeError | GraphConfigError):
            raise Problem(USAGE, as_command_line(" ".join(str(error).splitlines()))) from error
        raise


def _run(order: Order, store: Checkpointer | None) -> RunResult | MapResult:
    graph = order.graph
    options: dict[str, Any] = {
        "error_handling": "continue",
        **order.options,
        "event_processors": _watchers(order.progress),
    }
    options = {name: value for name, value in options.items() if value is not None}
    waits = graph.has_async_nodes or graph.has_interrupts
    if not waits and "max_concurrency" in options:
        raise Problem(
            USAGE,
            "--max-concurrency has no effect: the graph has neither async nodes nor questions, and its nodes "
            "run one at a time",
        )
    runner: Any = AsyncRunner(checkpointer=store) if waits else SyncRunner(checkpointer=store)
    start: Callable[..., Any] = runner.map if order.is_map else runner.run
    result: RunResult | MapResult = (
        start(graph, order.values, **options)
        if not waits
        else run_async(start(graph, order.values, **options))
    )
    return result


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop of its own; Ctrl-C cancels it, and a second one ends it at once.

    asyncio.run cancels inside the signal handler, which may fall between two instructions of asyncio itself:
    a callback then fails and prints a traceback. Here the loop cancels in its own time.

    Raises:
        KeyboardInterrupt: the coroutine was interrupted.
    """
    is_interrupted = False

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.create_task(work)

        def interrupt(number: int, frame: object) -> None:
            nonlocal is_interrupted
            is_interrupted = True
            signal.signal(signal.SIGINT, signal.default_int_handler)
            loop.call_soon_threadsafe(task.cancel)

        if handles:
            signal.signal(signal.SIGINT, interrupt)
        return await task

    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    handles = is_usual and threading.current_thread() is threading.main_thread()
    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        if handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _watchers(lines: bool) -> list[EventProcessor]:
    if sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        return [RichProgressProcessor()]
    return [RichProgressProcessor(force_mode="non-tty")] if lines else []


def _prints_to(quiet: bool) -> Any:
    """Redirect what nodes print to stderr if stdout is for the answer alone."""
    return redirect_stdout(sys.stderr) if quiet else nullcontext()


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings as one line each, without a place in this package."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(
            f"warning: {escape(as_command_line(str(message)))}"
        )
        yield


def reply_to(result: RunResult | MapResult, order: Order, store: Checkpointer | None = None) -> Reply:
    """Return the reply of a command that ran a graph. With its store it says if given values did nothing."""
    name = order.graph.name
    if isinstance(result, MapResult):
        view = map_view(result, name, order.workflow_id, _keys_of(order, store))
    else:
        view = run_view(result, name)
    code = 0 if view["status"] in ("completed", "paused") else 1
    unused = [_unused(order)] if store is not None and _is_unused(result, order, store) else []
    return Reply(
        view,
        lambda: [*unused, *_failed_inside(result, order, store), *_blocks(result, view, order)],
        _header(view, order),
        _next(view, order),
        code,
    )


def _keys_of(order: Order, store: Checkpointer | None) -> dict[str, str | None]:
    """Return the keys of the items of a map, by their ids; empty for a map without a key."""
    if store is None or not order.workflow_id or "key" not in order.options:
        return {}
    return {item.id: item.fingerprint for item in store.backend.read_items(order.workflow_id)}


def _failed_inside(result: RunResult | MapResult, order: Order, store: Checkpointer | None) -> Iterator[str]:
    """Yield how many items failed in maps inside a run, and how to run them again."""
    if isinstance(result, MapResult):
        return
    if store is not None and order.workflow_id and result.paused:  # its log does not tell
        failed = store.backend.count_failed([order.workflow_id]).get(order.workflow_id, 0)
    else:
        failed = failed_inside(result.log)
    if not failed:
        return
    if not order.workflow_id:
        yield f"{plural(failed, 'item')} failed inside"
        return
    stored = None if store is None else store.backend.read_workflow(order.workflow_id)
    reasons = loose_ends_of(store, stored).reasons if store is not None and stored is not None else []
    again = order.resuming(options=("--restart", "node", *pardoning(reason for _, reason in reasons)))
    yield f"{plural(failed, 'item')} failed inside. To run them again: {again}"
    yield f"To see why they failed: {order.command('errors', order.workflow_id)}"


def _unused(order: Order) -> str:
    if all(is_answer(order.graph, name) for name in order.values):
        return "Nothing ran: the question has been answered with the same value."
    return "Nothing ran: the values equal the stored ones. To use them again: --new-turn."


def _is_unused(result: RunResult | MapResult, order: Order, store: Checkpointer) -> bool:
    """Return whether values were given to a completed run that has them already, so that no node ran."""
    if isinstance(result, MapResult) or not (order.values and order.workflow_id and result.completed):
        return False
    steps = result.log.steps
    if not steps or any(step.status != "skipped" for step in steps):
        return False
    begun = store.backend.read_turns(order.workflow_id)[
        -1
    ].superstep  # new values that no node takes begin a turn
    return begun <= max(step.superstep for step in steps)


def _header(view: RunView, order: Order) -> list[str]:
    name = view["workflow"] if order.workflow_id else view["graph"] or "unnamed"
    title = f"Workflow: {name}" if order.workflow_id else f"Run: {name}"
    items = [plural(len(view["items"]), "item")] if "items" in view else []
    return [title, status(view["status"]), *items, duration(view["duration_ms"])]


def _blocks(result: RunResult | MapResult, view: RunView, order: Order) -> Iterator[Table | str]:
    if isinstance(result, MapResult):
        yield _items(view.get("items", []))
        yield stats_table(result.log.node_stats)
    elif result.log.steps:
        stats = result.log.node_stats
        looped = len(stats) < len(result.log.steps)
        yield stats_table(stats) if looped else _supersteps(step_table(result.log.steps))
        first = min(step.superstep for step in result.log.steps)
        if looped and first:
            yield f"These are the steps of this turn, from superstep {first} on. `show` counts all turns."
    if view["outputs"]:
        yield _outputs(view["outputs"], {} if isinstance(result, MapResult) else _last_items(result, order))
    if view["error"] is not None:
        yield _error(view["error"])
        if order.workflow_id and order.is_map:
            again = "again" if order.resumes else f"with {quoted('--id', order.workflow_id, '--resume')}"
            yield f"Completed items are stored. To run the others: the same command {again}"
        elif order.workflow_id:
            again = order.resuming(options=pardoning([view["error"]["type"]]))
            yield f"Completed steps are stored. Fix the cause, then resume: {again}"
    for asked in view["questions"][:ROWS]:
        if asked["reason"] == "timer":
            yield f"{asked['node']} waits until {until(asked['due'])}"
            if order.workflow_id:
                yield f"Resume what is due: {order.command('resume', order.target, options=['--due'])}"
            continue
        by = "" if asked["due"] is None else f" until {until(asked['due'])}"
        yield f"{asked['node']} waits for an answer{by}: {asked['type']} {asked['text']}"
        if order.workflow_id:
            keys = [f"{key}=..." for key in asked["keys"]]
            answering = order.command("answer", order.workflow_id, *keys)
            yield f"Answer: {answering if order.is_map else order.resuming(*keys)}"
    if len(view["questions"]) > ROWS:
        yield f"... and {plural(len(view['questions']) - ROWS, 'more question')}"


def _supersteps(table: Table) -> Table:
    """Return a table of a log in the words of the commands, where a step has an index of its own."""
    headings = ["Superstep" if heading == "Step" else heading for heading in table.headings]
    return table._replace(headings=tuple(headings))


def _items(items: list[ItemView]) -> Table:
    failed_first = sorted(items, key=lambda item: (item["error"] is None, item["item"]))
    rows = [
        (
            item["item"],
            status(item["status"]) if item["error"] is None else _failed(item["error"]),
            ", ".join(f"{output['name']}={output['text']}" for output in item["outputs"]),
        )
        for item in failed_first[:ROWS]
    ]
    left_out = len(items) - len(rows)
    more = f"... and {plural(left_out, 'more item')}" if left_out else ""
    table = Table(("Item", "Status", "Outputs"), rows, more)
    return with_keys(table, [item["key"] for item in failed_first[:ROWS]])


def _failed(error: Failure) -> str:
    return failed_status(error["message"], error["node"])


def _last_items(result: RunResult, order: Order) -> dict[str, str]:
    """Return the texts of the lists that nodes append to: the last item is what the run has added."""
    names = {name for node in order.graph.nodes.values() for name in node.append}
    lists = {name: value for name in names if isinstance(value := result.values.get(name), list)}
    return {name: f"[..., {describe(value[-1])['text']}]" for name, value in lists.items() if len(value) > 1}


def _outputs(outputs: list[Output], texts: Mapping[str, str]) -> Table:
    rows = [
        (found["name"], found["type"], _size(found), texts.get(found["name"], found["text"]))
        for found in outputs[:ROWS]
    ]
    left_out = len(outputs) - len(rows)
    return Table(
        ("Output", "Type", "Size", "Value"),
        rows,
        f"... and {plural(left_out, 'more output')}" if left_out else "",
    )


def _size(output: Output) -> str:
    return "—" if output["size"] is None else str(output["size"])


def _error(error: Failure) -> str:
    where = f" in node {error['node']}, superstep {error['superstep']}" if error["node"] else ""
    item = "" if error["item"] is None else f", item {error['item']}"
    return f"{error['type']}{where}{item}: {as_command_line(error['message'].strip()) or '(no message)'}"


def _next(view: RunView, order: Order) -> list[str]:
    if not order.workflow_id:
        return []
    show = order.command("show", order.workflow_id)
    if view["status"] == "completed" and not order.is_map:
        return [show, order.command("state", order.workflow_id)]
    if order.is_map:
        return [show, order.command("ls", options=["--parent", order.workflow_id])]
    return [show]
