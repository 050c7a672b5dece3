"""Dispatch of node calls to executors."""

from __future__ import annotations

import contextvars
import hashlib
import inspect
import os
import pickle
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from types import FunctionType
from typing import Any

from hypergraph.display import did_you_mean
from hypergraph.engine.kernel import Carried, pass_on
from hypergraph.engine.plan import Step, inputs_of, prepare_call
from hypergraph.engine.run import Run
from hypergraph.exceptions import NotPicklableError, RemoteError, WorkerLostError, safe_text
from hypergraph.executors.worker import (
    AGAIN,
    DONE,
    UNKNOWN,
    UNLOADABLE,
    UNPICKLABLE,
    Reply,
    learn,
    packed,
    serve,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.callable_node import portable
from hypergraph.nodes.function import FunctionNode

# By name, so that none of these packages has to be there. A call is never cancelled by anybody but its own
# run, so a cancelled one was dropped by its executor.
_LOST = {
    *("KilledWorker", "CommClosedError", "WorkerCrashedError", "RayActorError", "NodeDiedError"),
    *("OwnerDiedError", "LocalRayletDiedError"),
}


def loss_of(error: Exception, executor: Executor, path: str) -> WorkerLostError | None:
    """Return what to raise for an executor's error if it means that a worker died, else None."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if not (isinstance(error, BrokenExecutor | CancelledError) or _LOST & names):
        return None
    why = f"{type(error).__name__}: {safe_text(error)}".rstrip(": ")
    stays_broken = isinstance(error, BrokenExecutor) and _loky(executor) is None
    if stays_broken:
        why += (
            f"\nHow to fix: a broken {type(executor).__name__} stays broken. Make a new one and run again "
            "(a store keeps finished steps), or use an executor that replaces workers: loky, Dask, Ray. "
            'If it broke at its first call, put what the script does below `if __name__ == "__main__":`.'
        )
    return loss(path, why, is_final=stays_broken or "KilledWorker" in names)  # Dask has tried that often


def loss(path: str, why: str, *, is_final: bool) -> WorkerLostError:
    """Return the error for a call whose worker is gone."""
    text = f"The worker that called node {path!r} died: {why}"
    return WorkerLostError(text, node_name=path, is_final=is_final)


def renewed(executor: Executor) -> Executor:
    """Return the executor to submit to; loky puts a new one in the place of one that broke."""
    loky = _loky(executor)
    if loky is not None and executor._flags.broken:  # type: ignore[attr-defined]  # loky's own
        fresh: Executor = loky.get_reusable_executor(reuse=True)
        return fresh
    return executor


def _loky(executor: Executor) -> Any:
    """Return loky if this is its reusable executor."""
    loky = sys.modules.get("loky")
    is_reusable = type(executor).__name__ == "_ReusablePoolExecutor"
    return loky if loky is not None and is_reusable else None


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


Placing = Executor | Mapping[str, Executor]
_INTERPRETERS: Any = getattr(futures, "InterpreterPoolExecutor", ())  # threads that share no memory


class Places:
    """Where the nodes of one call of a runner are called.

    Raises ValueError for a dict that names nodes which are not there, or which cannot be called elsewhere.
    """

    def __init__(self, executor: Placing, graph: Graph) -> None:
        self._for_all = executor if isinstance(executor, Executor) else None
        self._by_path: Mapping[str, Executor] = {} if isinstance(executor, Executor) else executor
        self._parcels: dict[str, Parcel] = {}
        self._semaphores: dict[int, Any] = {}  # by executor
        if self._by_path and isinstance(graph, Graph):  # what is no graph is refused elsewhere
            _check_paths(self._by_path, graph)

    def of(self, run: Run, step: Step) -> Executor | None:
        """Return the executor that is to call a step, None where the run calls it itself."""
        if self._for_all is None:
            return self._by_path.get(run.path_of(step.name))
        return self._for_all if stays(step.node) is None else None

    async def call(self, executor: Executor, run: Run, step: Step, superstep: int) -> Any:
        """Have an executor call a step, and return what its function returned.

        Raises what the function raised, RemoteError for an exception that cannot be carried over,
        WorkerLostError, NotPicklableError, CancellationError when the run is to stop meanwhile.
        """
        if isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, _INTERPRETERS):
            result = await self._in_thread(executor, run, step, superstep)
        else:
            result = await self._across(executor, run, step, superstep)
        if step.node.is_generator:
            for item in result:
                run.stream(step.name, item)
        return result

    async def _in_thread(self, executor: ThreadPoolExecutor, run: Run, step: Step, superstep: int) -> Any:
        def call() -> Any:
            try:
                result = step.invoke(run.values, run, superstep)
                return list(result) if step.node.is_generator else result
            except StopIteration as error:
                raise Carried(error) from None

        context = contextvars.copy_context()
        future: Future[Any] = executor.submit(context.run, call)
        return (await _settled(run, step, future)).result()

    async def _across(self, executor: Executor, run: Run, step: Step, superstep: int) -> Any:
        path = run.path_of(step.name)
        parcel = self._parcels.get(path)
        if parcel is None:
            parcel = self._parcels[path] = Parcel(run, step)
        ticket = "" if step.node.on_worker_loss == "rerun" else f"hypergraph-{os.urandom(16).hex()}"

        async def send(function: Callable[..., Reply], *given: Any) -> Reply:
            try:
                future = renewed(executor).submit(function, *given, os.urandom(8))
                reply: Reply = (await _settled(run, step, future)).result()
                return reply
            except Exception as error:
                lost = loss_of(error, executor, path)
                if lost is None:
                    raise
                raise lost from error

        async with self._semaphore(executor, run):
            arguments = parcel.arguments(run, superstep)
            reply = await parcel.delivered(run, send, arguments, ticket)
        return _opened(reply, path, step)

    def _semaphore(self, executor: Executor, run: Run) -> AbstractAsyncContextManager[Any]:
        """Let no more calls into a pool than keep its workers busy: when it breaks, it loses all of them.

        Clusters lose single calls, and take as many as there are.
        """
        if id(executor) not in self._semaphores:
            workers = getattr(executor, "_max_workers", None)  # of the pools of processes, loky's among them
            made = nullcontext() if workers is None else run.scope.kernel.semaphore(2 * workers + 1)
            self._semaphores[id(executor)] = made
        found: AbstractAsyncContextManager[Any] = self._semaphores[id(executor)]
        return found


async def _settled(run: Run, step: Step, future: Future[Any]) -> Future[Any]:
    """Wait for a call to end. One that has to be repeated later can be given up, because the run is to stop.

    Raises CancellationError for what was given up.
    """
    scope = run.scope
    if await scope.kernel.until(future, scope if step.node.repeatable else None):
        return future
    raise scope.halt_error(run.path_of(step.name), was_executing=not future.cancel())


def _opened(reply: Reply, path: str, step: Step) -> Any:
    """Return the result in a reply, or raise what it tells."""
    kind, *rest = reply
    if kind == DONE:
        return _loaded(rest[0], path, step)
    if kind == AGAIN:
        why = "its executor began the call again on another worker, and it must not be repeated"
        raise loss(path, why, is_final=True)
    if kind == UNPICKLABLE:
        part, why = rest
        output = _output_of(step, part)
        raise NotPicklableError(
            f"Node {path!r}: its output {output!r} cannot come back from the executor ({why}).\n"
            "How to fix: return what can be pickled, or leave the node out of executor={...}.",
            node_name=path,
            name=output,
        )
    if kind == UNLOADABLE:
        what, type_name, text = rest
        raise RemoteError(
            f"A worker cannot load the {what} of node {path!r} ({type_name}: {text}).\n"
            "How to fix: install the modules it needs where the workers run, in the same versions.",
            type_name=type_name,
            text=text,
        )
    type_name, text, story, carried = rest
    return pass_on(_remembered(carried, type_name, text, story))


def _loaded(data: bytes, path: str, step: Step) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301 - from a worker of the user's own executor
    except Exception as error:  # its module is not to be had here, or its class cannot be made again
        output = ", ".join(step.outputs)
        raise NotPicklableError(
            f"Node {path!r}: its output {output!r} has come back from the executor and cannot be loaded here "
            f"({type(error).__name__}: {safe_text(error)}).\n"
            "How to fix: return what can be unpickled, and install the same modules here as on the workers.",
            node_name=path,
            name=output,
        ) from error


def _remembered(carried: bytes | None, type_name: str, text: str, story: str) -> BaseException:
    """Return the exception of a worker, with the traceback it had there as its cause."""
    stand_in = RemoteError(f"{type_name}: {text}", type_name=type_name, text=text, traceback=story)
    error: BaseException = stand_in
    if carried is not None:
        try:
            error = pickle.loads(carried)  # noqa: S301 - as above
        except BaseException:  # its module is not to be had here
            error = stand_in
    BaseException.__setattr__(error, "__cause__", RemoteTraceback(story))
    return error


class RemoteTraceback(Exception):
    """The traceback of an exception as it was printed in the worker."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _output_of(step: Step, part: int | str | None) -> str:
    """Return the name of the output that an item or key of a result stands for."""
    outputs = step.outputs
    if isinstance(part, int) and len(outputs) > 1 and part < len(outputs):
        return outputs[part]
    if isinstance(part, str) and len(outputs) > 1:
        original = step.node.original_outputs
        return outputs[original.index(part)] if part in original else part
    return outputs[0] if outputs else "its result"


def stays(node: Any) -> str | None:
    """Say what keeps a node with its run, None for one that can be called elsewhere."""
    if node.nested_graph is not None:
        return "is a nested graph; name the nodes inside it"
    if not isinstance(node, FunctionNode):
        return "is a gate"
    if node.is_interrupt:
        return "is an interrupt"
    if node.is_async:
        return "is async, and runs on the event loop"
    if any(param.is_context for param in node.signature.parameters):
        return "takes a NodeContext, which belongs to the run"
    return None


def _check_paths(given: Iterable[str], graph: Graph) -> None:
    nodes = dict(_paths(graph, ""))
    for path in given:
        if path not in nodes:
            hint = (
                did_you_mean(path, nodes) or "A node of a nested graph is named by its path: 'outer/inner'."
            )
            raise ValueError(
                f"executor= names {path!r}, and graph {graph.name or 'unnamed'!r} has no such node. {hint}"
            )
        reason = stays(nodes[path])
        if reason is not None:
            raise ValueError(f"executor= names {path!r}, which cannot be called elsewhere: it {reason}.")


def _paths(graph: Graph, prefix: str) -> Iterator[tuple[str, Any]]:
    for node in graph.iter_nodes():
        yield prefix + node.name, node
        if node.nested_graph is not None:
            yield from _paths(node.nested_graph, f"{prefix}{node.name}/")
