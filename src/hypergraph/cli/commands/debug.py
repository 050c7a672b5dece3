"""`hypergraph debug`: a run that stops before each node and waits for a line."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from typing import Any, TextIO

from hypergraph import END, AsyncRunner, Graph, RunResult, SyncRunner
from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.execution import (
    RESUME_OPTIONS,
    SINGLE_RUN_OPTIONS,
    Order,
    new_order,
    options_of,
    outcome,
    reply_to,
)
from hypergraph.cli.inputs import PAIRS, VALUES, given_values, pair_of
from hypergraph.cli.output import say
from hypergraph.cli.remembered import APP
from hypergraph.cli.targets import SERVICES, TARGET, graph_at
from hypergraph.display import Table, as_text, escape, preview
from hypergraph.records import fresh_run_id
from hypergraph.runners import AsyncRunDebugger, NodeStop, RunDebugger
from hypergraph.views.inputs import fitted, literal
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.stores import store_at

debug_options = (
    TARGET._replace(name="APP"),
    PAIRS,
    VALUES,
    Option("--id", "the id of the workflow, default a new one; an existing one is resumed", "ID"),
    *SINGLE_RUN_OPTIONS,
    SERVICES,
    *RESUME_OPTIONS,
    Option("--no-store", "do not store the run"),
)

_HELP = """\
n                 call the node, and stop before the next one (also: an empty line)
e NAME=VALUE ...  change inputs of the node; then n
s VALUE           do not call the node: this is what it makes, or what a gate chooses
s NAME=VALUE ...  the same, for several outputs
b                 go back by one step, in a fork
c                 continue to the end without a stop
p NAME            print an input in full
q                 quit: the run is stopped, and can be resumed"""


def debug(call: Call) -> Reply:
    """Run a graph step by step, as lines of the standard input say."""
    given = call.options
    graph = graph_at(given.app)
    values = given_values(graph, given.values, getattr(given, PAIRS.key))
    options = options_of(given)
    store = None
    if not given.no_store:
        store = store_at(call.address, create=True)
        options["workflow_id"] = fresh_run_id() if given.id is None else given.id
        options["tags"] = {APP: given.app}
    elif given.id is not None:
        raise Problem(USAGE, "--id cannot be combined with --no-store")
    order = new_order(call, given.app, graph, values, options)
    session = _Session(graph, sys.stderr if order.quiet else sys.stdout)
    result = outcome(order, store, session.run)
    if store is not None:
        order = order._replace(options={**options, "workflow_id": session.workflow_id})
    reply = reply_to(result, order)
    if not session.left_before:
        return reply
    lines = [f"Stopped before node {session.left_before}."]
    lines += [f"To resume it: {order.resuming()}"] if store is not None else []
    return reply._replace(blocks=lambda: [lines], code=0)


class _Session:
    """Lines that a person types, and a run that follows them."""

    def __init__(self, graph: Graph, screen: TextIO) -> None:
        self.graph, self.screen = graph, screen
        self.workflow_id: str | None = None
        self.left_before = ""  # the node before which the person has quit
        self.has_helped = False

    def run(self, order: Order, store: Checkpointer | None) -> RunResult:
        """Run to the end, or until the person quits."""
        options = {"error_handling": "continue", **order.options}
        if self.graph.has_async_nodes:
            return asyncio.run(self._awaited(order, AsyncRunner(checkpointer=store), options))
        debugger: RunDebugger = SyncRunner(checkpointer=store).iter(
            self.graph, order.values, step=True, **options
        )
        for stop in debugger:
            self.workflow_id = stop.workflow_id
            if not self._asked(stop):
                debugger.close()
                break
        self.workflow_id = debugger.workflow_id
        return debugger.result

    async def _awaited(self, order: Order, runner: AsyncRunner, options: dict[str, Any]) -> RunResult:
        debugger: AsyncRunDebugger = runner.iter(self.graph, order.values, step=True, **options)
        async for stop in debugger:
            if not self._asked(stop):
                break
        await debugger.aclose()
        self.workflow_id = debugger.workflow_id
        return debugger.result

    def _asked(self, stop: NodeStop) -> bool:
        """Show a stop, and do what is typed; return whether the run proceeds."""
        edits: dict[str, Any] = {}
        self._show(stop, edits)
        while True:
            line = self._line()
            word, _, rest = (line or "quit").strip().partition(" ")
            try:
                if word in ("q", "quit"):
                    self.left_before = stop.node
                    return False
                if word in ("e", "edit"):
                    pairs = map(pair_of, shlex.split(rest))
                    edits |= {name: self._input(stop, name, text) for name, text in pairs}
                    self._show(stop, edits)
                elif word in ("p", "print"):
                    self._print(stop, rest.strip(), edits)
                elif (act := self._actions(stop, edits, rest).get(word)) is not None:
                    act()
                    return True
                else:
                    self._say(_HELP)
            except (Problem, ValueError, TypeError) as error:
                self._say(escape(error.message if isinstance(error, Problem) else str(error)))

    @staticmethod
    def _actions(stop: NodeStop, edits: dict[str, Any], rest: str) -> dict[str, Callable[[], None]]:
        """Return what makes the run proceed, by the words for it."""
        actions = {
            "next": lambda: stop.edit(**edits),
            "skip": lambda: _skip(stop, rest),
            "back": stop.back,
            "continue": stop.finish,
        }
        return {"": actions["next"], **actions, **{name[0]: act for name, act in actions.items()}}

    def _input(self, stop: NodeStop, name: str, text: str) -> Any:
        stop.edit(**{name: text})  # refuses an unknown one
        kinds = [node.get_input_type(name) for node in self.graph.consumers_of(name)]
        declared = next((kind for kind in kinds if kind is not None), None)
        return fitted(name, text, declared, is_text=True)

    def _show(self, stop: NodeStop, edits: dict[str, Any]) -> None:
        stop.edit(**edits) if edits else stop.edit()
        rows = [
            (name, preview(edits.get(name, value)), "edited" if name in edits else "")
            for name, value in {**stop.inputs, **edits}.items()
        ]
        shown = [Table(("Input", "Value", ""), rows)] if rows else []
        self._say(as_text((f"Before: {stop.node}", f"superstep {stop.superstep}"), *shown))
        if not self.has_helped:
            self.has_helped = True
            self._say("n next, e edit, s skip, b back, c continue, p print, q quit, h help")

    def _print(self, stop: NodeStop, name: str, edits: dict[str, Any]) -> None:
        values = {**stop.inputs, **edits}
        if name not in values:
            raise ValueError(
                f"Node {stop.node!r} has no input {name!r}; it has: {', '.join(values) or 'none'}"
            )
        self._say("\n".join(map(escape, str(values[name]).splitlines())))

    def _line(self) -> str | None:
        """Return the next line, None at the end of the input and for Ctrl-C."""
        print("> ", end="", file=self.screen, flush=True)
        try:
            return sys.stdin.readline() or None
        except KeyboardInterrupt:
            self._say("")
            return None

    def _say(self, text: str) -> None:
        say(text, self.screen)


def _skip(stop: NodeStop, rest: str) -> None:
    words = shlex.split(rest)
    names = {word.partition("=")[0] for word in words if "=" in word}
    if words and len(names) == len(words) and names <= set(stop.outputs):
        stop.skip(**{name: literal(text) for name, text in map(pair_of, words)})
    elif rest.strip():
        stop.skip(_decision(stop, rest.strip()) if stop.targets else literal(rest.strip()))
    else:
        stop.skip()


def _decision(stop: NodeStop, text: str) -> Any:
    """Return what a gate is told to choose: END itself, True or False, or the name of a target."""
    value = literal(text)
    if isinstance(value, (bool, list)):
        return value
    return END if text == "END" else text
