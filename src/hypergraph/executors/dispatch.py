"""Dispatch of node calls to executors."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import inspect
import os
import pickle
import shutil
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from itertools import count
from tempfile import mkdtemp
from types import FunctionType
from typing import Any

from hypergraph.display import did_you_mean
from hypergraph.engine.kernel import Carried, pass_on
from hypergraph.engine.plan import Step, inputs_of, prepare_call
from hypergraph.engine.run import CallWatch, Run
from hypergraph.exceptions import NotPicklableError, RemoteError, WorkerLostError, safe_text
from hypergraph.executors.worker import (
    DONE,
    GIVEN_UP,
    REPEATED,
    UNKNOWN,
    UNLOADABLE,
    UNPICKLABLE,
    Reply,
    Timed,
    call_function,
    load_function,
    pickled,
    took_mark,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.callable_node import portable
from hypergraph.nodes.function import FunctionNode

# Errors of executors that mean a lost worker, by name, so that none of these packages has to be installed.
# A run cancels only its own calls, so CancelledError means that the executor dropped the call.
_LOST_WORKER_ERRORS = {
    *("KilledWorker", "CommClosedError", "WorkerCrashedError", "RayActorError", "NodeDiedError"),
    *("OwnerDiedError", "LocalRayletDiedError"),
}


def lost_worker_of(
    error: Exception, executor: Executor, path: str, *, had_begun: bool
) -> WorkerLostError | None:
    """Return the error to raise if an executor's error means that a worker died, else None."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if not (isinstance(error, BrokenExecutor | CancelledError) or _LOST_WORKER_ERRORS & names):
        return None
    reason = f"{type(error).__name__}: {safe_text(error)}".rstrip(": ")
    stays_broken = isinstance(error, BrokenExecutor) and _loky(executor) is None
    if stays_broken:
        reason += (
            f"\nHow to fix: a broken {type(executor).__name__} stays broken. Create a new one and run again "
            "(a store keeps finished steps), or use an executor that replaces workers: loky, Dask, Ray. "
            'If it broke at its first call, move the code of the script below `if __name__ == "__main__":`.'
        )
    # Dask raises KilledWorker only after several retries of its own.
    is_final = stays_broken or "KilledWorker" in names
    return worker_lost(path, reason, is_final=is_final, is_broken=stays_broken, had_begun=had_begun)


def worker_lost(
    path: str, reason: str, *, is_final: bool, is_broken: bool = False, had_begun: bool = True
) -> WorkerLostError:
    """Return the error for a call whose worker died, or that was lost with the executor before it began."""
    what = f"The worker that called node {path!r} died" if had_begun else f"Node {path!r} was not called"
    return WorkerLostError(
        f"{what}: {reason}", node_name=path, is_final=is_final, is_broken=is_broken, had_begun=had_begun
    )


def usable_executor(executor: Executor) -> Executor:
    """Return the executor to submit to; loky replaces its reusable executor after it broke."""
    loky = _loky(executor)
    if loky is not None and executor._flags.broken:  # type: ignore[attr-defined]  # loky's own
        fresh: Executor = loky.get_reusable_executor(reuse=True)
        return fresh
    return executor


def _loky(executor: Executor) -> Any:
    """Return the module loky if this is its reusable executor."""
    loky = sys.modules.get("loky")
    is_reusable = type(executor).__name__ == "_ReusablePoolExecutor"
    return loky if loky is not None and is_reusable else None


INLINE_LIMIT = 16_384  # bytes; a smaller function goes along with every call
_MAX_ATTEMPTS = 8  # calls without the function before it goes along whatever its size
_MAX_LOSSES = 8  # times that a call is sent again which had not begun when its pool broke

Send = Callable[..., Awaitable[Reply]]


class Payload:
    """The pickled function of one node, and its calls. Raises NotPicklableError if it cannot be pickled."""

    def __init__(self, run: Run, step: Step) -> None:
        self.step = step
        self.path = run.path_of(step.name)
        func = step.node.func
        try:
            self.code = pickled(portable(func))
        except ImportError:
            raise
        except Exception as error:
            culprit = _first_unpicklable(_globals_of(func))
            about = f"uses {culprit!r}, which" if culprit else "itself"
            raise self._refusal(f"its function {about}", culprit, error) from error
        self.key = hashlib.sha256(self.code).hexdigest()
        self._gather = prepare_call(step.node, _as_given, step.lists)
        self._uploads = 0
        self._upload_done: Any = None  # the signal of the upload in progress

    def arguments(self, run: Run, superstep: int) -> bytes:
        """Return the pickled arguments of a call. Raises NotPicklableError naming the argument."""
        try:
            return pickled(self._gather(run.values, run, superstep))
        except Exception as error:
            culprit = _first_unpicklable(inputs_of(self.step, run.values))
            raise self._refusal(f"its input {culprit!r}", culprit, error) from error

    def _refusal(self, what: str, name: str, error: Exception) -> NotPicklableError:
        reason = f"{type(error).__name__}: {safe_text(error)}"
        return NotPicklableError(
            f"Node {self.path!r} cannot be called by an executor: {what} cannot be pickled ({reason}).\n"
            "How to fix: create it inside the function, or keep the node local: executor={'other': ...}.",
            node_name=self.path,
            name=name,
        )

    async def call(self, run: Run, send: Send, arguments: bytes, claim: str, mark: str | None) -> Reply:
        """Call the function in a worker. A large one is sent only to workers that do not have it."""
        collects = self.step.node.is_generator
        code = self.code if len(self.code) <= INLINE_LIMIT else None
        if code is None and not self._uploads:
            await self._upload(run, send)
        for _ in range(_MAX_ATTEMPTS):
            uploads = self._uploads
            reply = await send(call_function, self.key, code, arguments, collects, claim, mark)
            if reply[0] != UNKNOWN:
                return reply
            if uploads == self._uploads:
                await self._upload(run, send)
        return await send(call_function, self.key, self.code, arguments, collects, claim, mark)

    async def _upload(self, run: Run, send: Send) -> None:
        """Send the function to a worker, one copy at a time: it may be large."""
        if self._upload_done is not None:
            await self._upload_done.wait()
            return
        self._upload_done = run.context.kernel.signal()
        try:
            reply = await send(load_function, self.key, self.code)
            self._uploads += reply[0] == DONE
        finally:
            self._upload_done.set()
            self._upload_done = None


def _as_given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def _globals_of(func: Any) -> Mapping[str, Any]:
    """Return the globals and captured variables of a function, by name."""
    if isinstance(func, FunctionType):
        found = inspect.getclosurevars(func)
        return {**found.globals, **found.nonlocals}
    owner = getattr(func, "__self__", None)
    return {} if owner is None else {type(owner).__name__: owner}


def _first_unpicklable(values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        try:
            pickled(value)
        except Exception:
            return name
    return ""


ExecutorChoice = Executor | Mapping[str, Executor]
_NO_LIMIT = 2**62
_INTERPRETERS: Any = getattr(futures, "InterpreterPoolExecutor", ())  # threads without shared memory


class NodeExecutors:
    """The executors of one call of a runner, and the payloads of the nodes they call.

    Raises ValueError for a dict with unknown nodes, or with nodes that an executor cannot call.
    """

    def __init__(self, executor: ExecutorChoice, graph: Graph) -> None:
        self._for_all = executor if isinstance(executor, Executor) else None
        self._by_path: Mapping[str, Executor] = {} if isinstance(executor, Executor) else executor
        self._payloads: dict[str, Payload] = {}
        self._limits: dict[int, Any] = {}  # by executor
        self._marks: dict[int, Marks] = {}  # by executor
        self._timed = isinstance(graph, Graph) and _has_timeouts(graph)
        given = [executor] if isinstance(executor, Executor) else executor.values()
        if any(not isinstance(one, ThreadPoolExecutor) or isinstance(one, _INTERPRETERS) for one in given):
            pickled(None)  # what is missing is told once, before the first call
        if self._by_path and isinstance(graph, Graph):  # check_graph refuses anything else
            _check_paths(self._by_path, graph)

    def of(self, run: Run, step: Step) -> Executor | None:
        """Return the executor that calls a step, None if the run calls it itself."""
        if self._for_all is None:
            return self._by_path.get(run.path_of(step.name))
        return self._for_all if reason_to_stay(step.node) is None else None

    async def call(self, executor: Executor, run: Run, step: Step, superstep: int, watch: CallWatch) -> Any:
        """Call a step through an executor and return the result of its function.

        Earlier items come first, so that they are finished first.

        Raises the exception of the function, RemoteError for one that cannot be unpickled, WorkerLostError,
        NotPicklableError, CancellationError if the run is stopped meanwhile.
        """
        if isinstance(executor, ThreadPoolExecutor) and not isinstance(executor, _INTERPRETERS):
            async with self._turns(executor, run).turn(_rank(run)):
                result = await self._in_thread(executor, run, step, superstep, watch)
        else:
            result = await self._across(executor, run, step, superstep, watch)
        if step.node.is_generator:
            for item in result:
                run.stream(step.name, item)
        return result

    async def _in_thread(
        self, executor: ThreadPoolExecutor, run: Run, step: Step, superstep: int, watch: CallWatch
    ) -> Any:
        def call() -> Any:
            watch.begin()
            try:
                result = step.invoke(run.values, run, superstep)
                return list(result) if step.node.is_generator else result
            except StopIteration as error:
                raise Carried(error) from None

        context = contextvars.copy_context()
        future: Future[Any] = executor.submit(context.run, call)
        return (await _finished(run, step, future)).result()

    async def _across(
        self, executor: Executor, run: Run, step: Step, superstep: int, watch: CallWatch
    ) -> Any:
        path = run.path_of(step.name)
        payload = self._payloads.get(path)
        if payload is None:
            payload = self._payloads[path] = Payload(run, step)
        claim = "" if step.node.on_worker_loss == "rerun" else f"hypergraph-{os.urandom(16).hex()}"

        mark: Mark | None = None

        async def send(function: Callable[..., Timed], *given: Any) -> Reply:
            try:
                future = usable_executor(executor).submit(function, *given, os.urandom(8))
                found: Timed = (await _finished(run, step, future, mark)).result()
                watch.spent, reply = found
                return reply
            except Exception as error:
                had_begun = mark is None or not mark.give_up()
                lost = lost_worker_of(error, executor, path, had_begun=had_begun)
                if lost is None:
                    raise
                raise lost from error

        async with self._turns(executor, run).turn(_rank(run)):
            arguments, losses = payload.arguments(run, superstep), 0
            marks = self._marks.setdefault(id(executor), Marks()) if _is_local(executor) else None
            reply: Reply | None = None
            while marks is not None and reply is None:
                mark, ended = marks.new(watch, step.node.timeout), marks.ended
                try:
                    reply = await payload.call(run, send, arguments, claim, mark.path)
                except WorkerLostError as error:
                    # Where no call begins, workers die at their start, and would do so again.
                    others_begin = marks.ended > ended or marks.is_any_begun()
                    losses += 1
                    if error.had_begun or error.is_final or losses > _MAX_LOSSES or not others_begin:
                        raise
                finally:
                    marks.end(mark)
            if reply is None or reply[0] == GIVEN_UP:  # the marks were removed under the run
                mark = None
                watch.begin()  # nothing tells when a worker of a cluster begins
                reply = await payload.call(run, send, arguments, claim, None)
        watch.outcome.in_doubt = reply[0] in (DONE, UNPICKLABLE)  # it has returned
        return _result_of(reply, path, step)

    def _turns(self, executor: Executor, run: Run) -> Any:
        """Limit the calls in a pool to what keeps its workers busy: when it breaks, it loses all of them.

        With timeouts, no call waits in the pool, where nothing tells when it begins. Clusters lose single
        calls, so they have no limit.
        """
        if id(executor) not in self._limits:
            self._limits[id(executor)] = run.context.kernel.turns(self._width(executor))
        return self._limits[id(executor)]

    def _width(self, executor: Executor) -> int:
        workers: int | None = getattr(executor, "_max_workers", None)  # pools, including loky's
        if workers is None:
            return _NO_LIMIT
        in_memory = isinstance(executor, ThreadPoolExecutor)
        return workers + (0 if self._timed and not in_memory else workers + 1)

    @property
    def width(self) -> int:
        """How many calls all executors together take at a time."""
        given = [*self._by_path.values()] if self._for_all is None else [self._for_all]
        return sum(self._width(executor) for executor in {id(one): one for one in given}.values())


class Mark:
    """A file by which a call in another process of this machine says that it has begun.

    A pool does not tell: for it, a call runs while the process that is to make it still starts. The call
    and the run both try to create the file. If the run is first, the call is given up.
    """

    def __init__(self, path: str, watch: CallWatch, timeout: float | None) -> None:
        self.path, self._watch, self._timeout = path, watch, timeout
        self._is_given_up = False

    def look(self) -> float | None:
        """Start the timeout of a call that has begun; return the seconds until the next look, if any.

        A call that has not begun by now cannot be late before its whole timeout has passed.
        """
        if self._timeout is None:
            return None
        try:
            since = time.time() - os.stat(self.path).st_mtime
        except OSError:
            return self._timeout
        self._watch.begin(min(max(since, 0.0), self._timeout))
        return None

    def give_up(self) -> bool:
        """Keep the call from beginning; return whether it has not begun."""
        self._is_given_up = self._is_given_up or took_mark(self.path)
        return self._is_given_up

    def has_begun(self) -> bool:
        """Return whether the call has begun, as far as that can be seen."""
        return not self._is_given_up and os.path.exists(self.path)

    def end(self) -> bool:
        """Note whether the call has begun, and return it. One that has not never will."""
        if self.give_up():
            return False
        self._watch.outcome.called = True
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        return True


class Marks:
    """The marks of the calls of a run by an executor, in a directory that is removed when the run is over."""

    def __init__(self) -> None:
        self.ended = 0  # calls that had begun
        self._open: set[Mark] = set()
        self._folder: str | None = None
        self._numbers = count()

    def new(self, watch: CallWatch, timeout: float | None) -> Mark:
        """Return the mark of one call."""
        if self._folder is None:
            self._folder = mkdtemp(prefix="hypergraph-calls-")
            weakref.finalize(self, _remove, self._folder, os.getpid())
        mark = Mark(os.path.join(self._folder, str(next(self._numbers))), watch, timeout)
        self._open.add(mark)
        return mark

    def end(self, mark: Mark) -> None:
        """Note that a call is over, or lost."""
        self._open.discard(mark)
        self.ended += mark.end()

    def is_any_begun(self) -> bool:
        """Return whether a call has begun and is not over, or its loss was not noted yet."""
        return any(mark.has_begun() for mark in self._open)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of the process
        shutil.rmtree(folder, ignore_errors=True)


def _is_local(executor: Executor) -> bool:
    """Return whether the workers of an executor see the files of this process."""
    kinds = (ProcessPoolExecutor, *((_INTERPRETERS,) if _INTERPRETERS else ()))
    return isinstance(executor, kinds) or _loky(executor) is not None


async def _finished(run: Run, step: Step, future: Future[Any], mark: Mark | None = None) -> Future[Any]:
    """Wait for a call to end. A repeatable call is abandoned when the run is asked to stop.

    Raises CancellationError for an abandoned call.
    """
    context = run.context
    look = None if mark is None else mark.look
    if await context.kernel.until(future, context if step.node.repeatable else None, look):
        return future
    is_dropped = future.cancel() or (mark is not None and mark.give_up())
    raise context.halt_error(run.path_of(step.name), was_executing=not is_dropped)


def _result_of(reply: Reply, path: str, step: Step) -> Any:
    """Return the result in a reply, or raise its error."""
    kind, *rest = reply
    if kind == DONE:
        return _loaded(rest[0], path, step)
    if kind == REPEATED:
        reason = "its executor repeated the call on another worker, but the node is not repeatable"
        raise worker_lost(path, reason, is_final=True)
    if kind == UNPICKLABLE:
        part, reason = rest
        output = _output_of(step, part)
        raise NotPicklableError(
            f"Node {path!r}: its output {output!r} cannot be pickled in the worker ({reason}).\n"
            "How to fix: return a picklable value, or leave the node out of executor={...}.",
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
    type_name, text, traceback, exception = rest
    return pass_on(_exception_of(exception, type_name, text, traceback))


def _loaded(data: bytes, path: str, step: Step) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301 - from a worker of the user's own executor
    except Exception as error:  # its module is missing here, or its class cannot be rebuilt
        output = ", ".join(step.outputs)
        raise NotPicklableError(
            f"Node {path!r}: its output {output!r} came back from the executor but cannot be unpickled here "
            f"({type(error).__name__}: {safe_text(error)}).\n"
            "How to fix: return a value that can be unpickled, and install the modules of the workers here.",
            node_name=path,
            name=output,
        ) from error


def _exception_of(data: bytes | None, type_name: str, text: str, traceback: str) -> BaseException:
    """Return the exception of a worker, with its traceback there as the cause."""
    substitute = RemoteError(f"{type_name}: {text}", type_name=type_name, text=text, traceback=traceback)
    error: BaseException = substitute
    if data is not None:
        try:
            error = pickle.loads(data)  # noqa: S301 - as above
        except BaseException:  # its module is missing here
            error = substitute
    BaseException.__setattr__(error, "__cause__", RemoteTraceback(traceback))
    return error


class RemoteTraceback(Exception):
    """The traceback of an exception, as printed in the worker."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _output_of(step: Step, part: int | str | None) -> str:
    """Return the name of the output at an index or key of a result."""
    outputs = step.outputs
    if isinstance(part, int) and len(outputs) > 1 and part < len(outputs):
        return outputs[part]
    if isinstance(part, str) and len(outputs) > 1:
        original = step.node.original_outputs
        return outputs[original.index(part)] if part in original else part
    return outputs[0] if outputs else "its result"


def reason_to_stay(node: Any) -> str | None:
    """Return why an executor cannot call a node, None if it can."""
    if node.nested_graph is not None:
        return "is a nested graph; name the nodes inside it"
    if not isinstance(node, FunctionNode):
        return "is a gate"
    if node.is_interrupt:
        return "is an interrupt"
    if node.is_async:
        return "is async and runs on the event loop"
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
                f"executor= names {path!r}, but graph {graph.name or 'unnamed'!r} has no such node. {hint}"
            )
        reason = reason_to_stay(nodes[path])
        if reason is not None:
            raise ValueError(f"executor= names {path!r}, which an executor cannot call: it {reason}.")


def _has_timeouts(graph: Graph) -> bool:
    return any(getattr(node, "timeout", None) is not None for _, node in _paths(graph, ""))


def _rank(run: Run) -> tuple[int, ...]:
    """Return the place of a run among the items around it, from the outermost."""
    outer = run.map_run.parent if run.map_run is not None else run.parent
    own = (run.item_index or 0,) if run.map_run is not None else ()
    return (*(_rank(outer) if outer is not None else ()), *own)


def _paths(graph: Graph, prefix: str) -> Iterator[tuple[str, Any]]:
    for node in graph.iter_nodes():
        yield prefix + node.name, node
        if node.nested_graph is not None:
            yield from _paths(node.nested_graph, f"{prefix}{node.name}/")
