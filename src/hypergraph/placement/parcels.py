"""One node made ready to travel: its function as bytes, known by their hash, and its arguments put together.

Small functions go along with every call. Large ones (a method of a loaded model) are taught to a worker
first and are then called by their hash; a worker that does not know it says so.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import FunctionType
from typing import Any

from hypergraph.engine.run import Run
from hypergraph.exceptions import NotPicklableError, safe_text
from hypergraph.nodes.callable_node import portable
from hypergraph.placement.envelope import DONE, UNKNOWN, Reply, learn, packed, serve
from hypergraph.plan.calling import inputs_of, prepare_call
from hypergraph.plan.steps import Step

LIGHT = 16_384  # bytes of a function that are cheaper to send than to ask about
_ROUNDS = 8  # how often workers are asked before the function goes along whatever it weighs

Send = Callable[..., Awaitable[Reply]]


class Parcel:
    """What crosses of one node. Raises NotPicklableError for a function that cannot."""

    def __init__(self, run: Run, step: Step) -> None:
        self.step = step
        self.path = run.path_of(step.name)
        func = step.node.func
        try:
            self.code = packed(portable(func))
        except ImportError:
            raise
        except Exception as error:
            culprit = _first_unpicklable(_uses(func))
            about = f"uses {culprit!r}, which" if culprit else "itself"
            raise self._refusal(f"its function {about}", culprit, error) from error
        self.key = hashlib.sha256(self.code).hexdigest()
        self._gather = prepare_call(step.node, _as_given)
        self._lessons = 0
        self._lesson: Any = None  # the signal of one that is under way

    def arguments(self, run: Run, superstep: int) -> bytes:
        """Return the arguments of a call. Raises NotPicklableError naming the one that cannot travel."""
        try:
            return packed(self._gather(run.values, run, superstep))
        except Exception as error:
            culprit = _first_unpicklable(inputs_of(self.step.node, run.values))
            raise self._refusal(f"its input {culprit!r}", culprit, error) from error

    def _refusal(self, what: str, name: str, error: Exception) -> NotPicklableError:
        why = f"{type(error).__name__}: {safe_text(error)}"
        return NotPicklableError(
            f"Node {self.path!r} cannot be called by an executor: {what} cannot be pickled ({why}).\n"
            "How to fix: make it inside the function, or keep the node local: executor={'other node': ...}.",
            node_name=self.path,
            name=name,
        )

    async def delivered(self, run: Run, send: Send, arguments: bytes, ticket: str) -> Reply:
        """Have the call made by a worker that knows the function; send it to those that do not."""
        collects = self.step.node.is_generator
        code = self.code if len(self.code) <= LIGHT else None
        if code is None and not self._lessons:
            await self._teach(run, send)
        for _ in range(_ROUNDS):
            lessons = self._lessons
            reply = await send(serve, self.key, code, arguments, collects, ticket)
            if reply[0] != UNKNOWN:
                return reply
            if lessons == self._lessons:
                await self._teach(run, send)
        return await send(serve, self.key, self.code, arguments, collects, ticket)

    async def _teach(self, run: Run, send: Send) -> None:
        """Send the function to some worker, one copy at a time: it may be large."""
        if self._lesson is not None:
            await self._lesson.wait()
            return
        self._lesson = run.scope.kernel.signal()
        try:
            reply = await send(learn, self.key, self.code)
            self._lessons += reply[0] == DONE
        finally:
            self._lesson.set()
            self._lesson = None


def _as_given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def _uses(func: Any) -> Mapping[str, Any]:
    """Return what a function takes from around it, by name."""
    if isinstance(func, FunctionType):
        found = inspect.getclosurevars(func)
        return {**found.globals, **found.nonlocals}
    owner = getattr(func, "__self__", None)
    return {} if owner is None else {type(owner).__name__: owner}


def _first_unpicklable(values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        try:
            packed(value)
        except Exception:
            return name
    return ""
