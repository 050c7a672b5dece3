"""Steps inside of a node: calls that are made once for each visit, and amounts that nodes record."""

from __future__ import annotations

import copy
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph import values  # a serializer is loaded on first access
from hypergraph.clock import waited
from hypergraph.display import bounded, preview
from hypergraph.engine.kernel import NOT_KNOWN, Expired
from hypergraph.engine.plan import Step, is_immutable
from hypergraph.engine.scheduler import differs
from hypergraph.exceptions import AmbiguousStepError, NodeTimeoutError, StepUsageError, safe_text
from hypergraph.nodes.options import OnAmbiguous, RetryPolicy, checked_retry, checked_timeout, persistence
from hypergraph.records import InnerStatus, InnerStep

if TYPE_CHECKING:
    from hypergraph.durability.inner_steps import InnerJournal
    from hypergraph.engine.run import Run, StepOutcome

_clock = time.perf_counter
_LONGEST_KEY = 512  # characters
_SHOWN = 300  # characters of arguments in an error
_LARGEST = 10**15  # amounts up to here are added up exactly, and their sums can be stored
_ADDING = threading.Lock()  # amounts may come from several threads


class Options(NamedTuple):
    """How a call is made; see `NodeContext.step`."""

    retry: RetryPolicy | None = None
    timeout: float | None = None
    repeatable: bool = True
    on_ambiguous: OnAmbiguous | None = None


PLAIN = Options()
_UNSET = (None, None, True, None)


def _checked(retry: Any, timeout: Any, repeatable: Any, on_ambiguous: Any) -> Options:
    """Return the options of a call. Raises TypeError or ValueError."""
    found = persistence(True, repeatable, on_ambiguous, None, None)
    resolve = found.get("on_ambiguous")
    return Options(checked_retry(retry), checked_timeout(timeout), repeatable, resolve)


class Entry:
    """What is known of a key: how its call ended, and what it returned."""

    __slots__ = (
        *("args", "awaited", "former", "index", "kwargs", "of_other_inputs", "payload", "status", "usage"),
        "value",
    )

    def __init__(
        self, index: int, status: InnerStatus, *, awaited: bool = False, payload: Any = None
    ) -> None:
        self.index = index  # its place among the calls of the visit
        self.status = status
        self.awaited = awaited  # whether `step` returns an awaitable
        self.of_other_inputs = False  # whether the node takes others by now, because its code has changed
        self.former: str | None = None  # the function, of a call with repeatable=False that other code made
        self.payload = payload  # as it is stored; the rest is for runs without a store
        self.args: tuple[Any, ...] = ()
        self.kwargs: Mapping[str, Any] = {}
        self.value: Any = None


class Opened:
    """A call under way, and how it ended."""

    __slots__ = (
        *("attempt", "entry", "error", "error_type", "func", "given", "key", "ms", "options", "overdue"),
        *("usage", "visit", "wall"),
    )

    def __init__(  # noqa: PLR0917 - the facts of one call
        self, visit: Visit, key: str, func: Callable[..., Any], given: Arguments, options: Options, index: int
    ) -> None:
        self.visit = visit
        self.key = key
        self.func = func
        self.given = given
        self.options = options
        self.attempt = 1
        self.overdue: NodeTimeoutError | None = None  # if its own timeout has passed
        self.usage: dict[str, float] | None = None
        self.entry = Entry(index, "running")
        self.wall = time.time()
        self.ms: float | None = None
        self.error: str | None = None
        self.error_type: str | None = None

    @property
    def function(self) -> str:
        """The name of the function."""
        return getattr(self.func, "__name__", None) or type(self.func).__name__

    def as_logged(self) -> InnerStep:
        """Return the call as a log shows it."""
        return InnerStep(
            *(self.key, self.entry.status, self.ms, self.error, self.error_type),
            attempt=self.attempt,
            usage=self.usage,
            started_at=self.wall,
        )


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_INSIDE: ContextVar[Opened | None] = ContextVar("hypergraph_inner_step", default=None)


class Visit:
    """The inner steps of one visit of a node, and the amounts that were recorded in it."""

    def __init__(self, run: Run, step: Step, superstep: int) -> None:
        self.run = run
        self.step_of = step
        self.superstep = superstep
        self.is_closed = False
        self.usage: dict[str, float] | None = None  # outside of inner steps
        self.calls: dict[str, Opened | None] = {}  # by key, for the log; None for what was replayed
        self._numbers: dict[str, int] = {}  # of automatic keys
        self._places = count()  # of calls, in the order in which they began
        self._thread: int | None = None  # that calls without keys
        self._open: set[str] = set()
        self._taken_up: set[str] = set()  # recorded keys that this attempt has called
        self._entries: dict[str, Entry] | None = None
        self._ledger: InnerJournal | None = None

    # -- steps -----------------------------------------------------------------------------------------

    def step(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...]) -> Any:
        """Call a function once for this visit; see `NodeContext.step`."""
        options = PLAIN if given == _UNSET else _checked(*given)
        if isinstance(key, str):
            func, args = (args[0], args[1:]) if args else (None, ())
        else:
            key, func = None, key
        if not callable(func):
            raise TypeError(
                f"ctx.step takes a key and a function, or a function, and then its arguments; "
                f"node {self.path!r} passed {type(func).__name__}"
            )
        key = self._automatic(func) if key is None else self._checked(key)
        self._refuse_wrong_place(key)
        if not options.repeatable:
            self._refuse_unrecorded(key)
        entry = self.entries.get(key)
        if entry is not None and entry.of_other_inputs and options.repeatable:
            entry = None  # as for other values
        if entry is None and not options.repeatable:
            self._refuse_former(key, func, (args, kwargs))
        if entry is not None:
            self._taken_up.add(key)
            known = self._known(entry, key, (args, kwargs), options)
            if known is not NOT_KNOWN:
                return _ready(known) if entry.awaited else known
        context = self.run.context
        if _clock() >= context.halt_at:
            raise context.halt_error(self.path, was_executing=True)
        index = next(self._places) if entry is None else entry.index
        opened = Opened(self, key, func, (args, kwargs), options, index)
        if (earlier := self.calls.get(key)) is not None and earlier.usage is not None:
            opened.usage = dict(earlier.usage)  # of a call that failed in this visit
        self._open.add(key)
        if inspect.iscoroutinefunction(func):
            opened.entry.awaited = True
            return self._awaited(opened, None)
        return self._called(opened)

    @property
    def path(self) -> str:
        """The path of the node."""
        return self.run.path_of(self.step_of.name)

    @property
    def entries(self) -> dict[str, Entry]:
        """What is known of each key, read from the store on first use."""
        if self._entries is None:
            if self.run.journal is not None:
                self._ledger = self.run.journal.inner(self.step_of, self.superstep)
            self._entries = {} if self._ledger is None else self._ledger.recorded()
            if self._entries:
                self._places = count(max(entry.index for entry in self._entries.values()) + 1)
        return self._entries

    def again(self) -> None:
        """Prepare for another attempt of the node: automatic keys are counted from the beginning."""
        self._numbers.clear()
        self._open.clear()  # what an interrupted attempt left
        self._taken_up.clear()

    def _automatic(self, func: Callable[..., Any]) -> str:
        thread = threading.get_ident()
        self._thread = self._thread or thread
        if thread != self._thread:
            raise self._error(
                "calls ctx.step without a key from a second thread, where the order of calls is not the same "
                "every time. Give each call a key: ctx.step('name', function, ...)"
            )
        name = getattr(func, "__name__", None) or type(func).__name__
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return f"{name}-{number}"

    def _checked(self, key: str) -> str:
        if not key or len(key) > _LONGEST_KEY or not key.isprintable():
            raise ValueError(
                f"A key of ctx.step is printable text of 1 to {_LONGEST_KEY} characters, got {key[:80]!r}"
            )
        return key

    def _refuse_wrong_place(self, key: str) -> None:
        if self.step_of.node.transaction:
            raise self._error(
                f"calls ctx.step({key!r}) inside of its transaction, which is one commit as a whole. Call it "
                "in a node before or after this one"
            )
        inside = _INSIDE.get()
        if inside is not None and inside.visit is self:
            raise self._error(
                f"calls ctx.step({key!r}) inside of the step {inside.key!r}. Call one after the other in the "
                "body of the node; what one call does is recorded as a whole"
            )
        if key in self._open:
            raise self._error(
                f"calls ctx.step({key!r}) while the call of that key is not over. Give each call its own key"
            )

    def _refuse_unrecorded(self, key: str) -> None:
        """Raise StepUsageError for a call that must not be repeated where no record would prevent that."""
        recorder = self.run.context.recorder
        why = None if recorder is None else recorder.why_unrecorded(self.run)
        if why is not None:
            what, fix = why
            raise self._error(
                f"calls ctx.step({key!r}) with repeatable=False, and {what}. {fix}, or leave out "
                "repeatable=False"
            )

    def _error(self, what: str) -> StepUsageError:
        return StepUsageError(f"Node {self.path!r} {what}.", node_name=self.path)

    def _known(self, entry: Entry, key: str, given: Arguments, options: Options) -> Any:
        """Return what an earlier call returned, NOT_KNOWN if the call has to be made again."""
        if entry.status == "failed":
            return NOT_KNOWN
        if entry.status == "running":
            if options.repeatable:
                return NOT_KNOWN
            self._refuse_other_question(entry, key, given)
            return self._resolved(entry, key, given, options)
        found: Entry | None = entry
        if entry.payload is not None and self._ledger is not None:
            found = self._ledger.restored(entry)
            value = NOT_KNOWN if found is None else found.value
        else:
            value = _copied(entry.value)
        if found is None or value is NOT_KNOWN:  # what cannot be read is made again
            return NOT_KNOWN if options.repeatable else self._resolved(entry, key, given, options)
        self._refuse_other_arguments(found, key, given)
        self.calls.setdefault(key, None)
        return value

    def _refuse_other_question(self, entry: Entry, key: str, given: Arguments) -> None:
        """Raise AmbiguousStepError where a call that has begun would be made, or asked about, with others."""
        found = None if self._ledger is None else self._ledger.restored(entry)
        if found is not None and not self._is_same(found, given):
            raise AmbiguousStepError(
                f"Step {key!r} of node {self.path!r} must not be repeated, and began without leaving a "
                f"result, with other arguments than now: recorded are {_text(found.args, found.kwargs)}, "
                f"given are {_text(*given)}. Resume the workflow with the code that recorded it.",
                workflow_id=self.run.workflow_id,
                node_name=self.path,
            )

    def _refuse_former(self, key: str, func: Callable[..., Any], given: Arguments) -> None:
        """Raise an error for a call not to be repeated that other code has made under another key."""
        name = getattr(func, "__name__", None) or type(func).__name__
        for other, entry in self.entries.items():
            if entry.former != name or other in self._taken_up or self._ledger is None:
                continue
            found = self._ledger.restored(entry)
            if entry.status == "failed" or (found is not None and not self._is_same(found, given)):
                continue
            text = (
                f"Node {self.path!r} calls {name} as step {key!r}; other code has called it with the same "
                f"arguments as step {other!r}, which must not be repeated. Use the key {other!r}."
            )
            if entry.status == "running":
                raise AmbiguousStepError(text, workflow_id=self.run.workflow_id, node_name=self.path)
            raise StepUsageError(text, node_name=self.path)

    def _is_same(self, found: Entry, given: Arguments) -> bool:
        if len(found.args) != len(given[0]) or found.kwargs.keys() != given[1].keys():
            return False
        pairs = [*zip(found.args, given[0], strict=True)]
        pairs += [(value, given[1][name]) for name, value in found.kwargs.items()]
        return not any(self._is_other(before, now) for before, now in pairs)

    def _refuse_other_arguments(self, found: Entry, key: str, given: Arguments) -> None:
        if not self._is_same(found, given):
            raise self._error(
                f"calls ctx.step({key!r}) with other arguments than before: recorded are "
                f"{_text(found.args, found.kwargs)}, given are {_text(*given)}. Use another key for another "
                "call; make what a key is called with the same every time"
            )

    def _is_other(self, recorded: Any, given: Any) -> bool:
        if self._ledger is not None:
            return self._ledger.is_other(recorded, given)
        return differs(recorded, _form(given)) and _stored(recorded) != _stored(given)

    def _resolved(self, entry: Entry, key: str, given: Arguments, options: Options) -> Any:
        """Return what a call that must not be repeated has returned, NOT_KNOWN if it may be made."""
        resolve, where = options.on_ambiguous, f"{self.path}/{key}"
        if resolve == "rerun":
            return NOT_KNOWN
        if callable(resolve):
            name = f"{self.run.idempotency_key(self.step_of.name)}:{key}"
            known = resolve(where, name, {"args": given[0], "kwargs": given[1]})
            if known is NotImplemented:
                return NOT_KNOWN
            opened = Opened(self, key, resolve, given, options, entry.index)
            opened.entry.awaited = entry.awaited
            self._save(opened, "completed", 0.0, value=known)
            return known
        why = "it began without leaving a result"
        if entry.status == "completed":
            why = "its result cannot be restored"
        raise AmbiguousStepError(
            f"Step {key!r} of node {self.path!r} must not be repeated, and {why}. Find out what it did. Then "
            'let it run again with on_ambiguous="rerun", or pass a function that returns its result as '
            "on_ambiguous.",
            workflow_id=self.run.workflow_id,
            node_name=self.path,
        )

    # -- calls -----------------------------------------------------------------------------------------

    def _called(self, opened: Opened) -> Any:
        """Call a plain function; one that returns an awaitable becomes a call that is awaited."""
        handed_on = False
        try:
            while True:
                if opened.attempt == 1:
                    self._announce(opened)
                started, token = _clock(), _INSIDE.set(opened)
                try:
                    value = opened.func(*opened.given[0], **opened.given[1])
                    if inspect.isawaitable(value):
                        handed_on = opened.entry.awaited = True
                        return self._awaited(opened, value)
                    self._check_time(opened, _clock() - started)
                except BaseException as error:
                    delay = self._failed(opened, error, _clock() - started)
                    if delay is None:
                        raise
                else:
                    self._save(opened, "completed", _clock() - started, value=value)
                    return value
                finally:
                    _INSIDE.reset(token)
                context = self.run.context
                context.awake.wait(waited(min(delay, context.remaining())))
                self._try_again(opened)
        finally:
            if not handed_on:
                self._open.discard(opened.key)

    async def _awaited(self, opened: Opened, first: Awaitable[Any] | None) -> Any:
        """Await a call, as often as its retry policy wants."""
        kernel, context = self.run.context.kernel, self.run.context
        try:
            while True:
                if opened.attempt == 1 and first is None and not self._announce(opened, wait=False):
                    await kernel.settle(self.run.journal.catch_up)  # type: ignore[union-attr]  # it has one
                started, token = _clock(), _INSIDE.set(opened)
                try:
                    value = first if first is not None else opened.func(*opened.given[0], **opened.given[1])
                    first = None
                    if inspect.isawaitable(value):
                        try:
                            value = await kernel.within(value, opened.options.timeout)
                        except Expired:
                            raise self._overdue(opened) from None
                except BaseException as error:
                    delay = self._failed(opened, error, _clock() - started)
                    if delay is None:
                        raise
                else:
                    is_written = self._save(opened, "completed", _clock() - started, value=value, wait=False)
                    if not is_written:
                        await kernel.settle(self.run.journal.catch_up)  # type: ignore[union-attr]  # as above
                    return value
                finally:
                    _INSIDE.reset(token)
                await kernel.sleep(delay, context)
                self._try_again(opened)
        finally:
            self._open.discard(opened.key)

    def _try_again(self, opened: Opened) -> None:
        """Begin another attempt, unless the run must stop."""
        if _clock() >= self.run.context.halt_at:
            raise self.run.context.halt_error(self.path, was_executing=True)
        opened.attempt += 1

    def _announce(self, opened: Opened, *, wait: bool = True) -> bool:
        """Record that a call that must not be repeated is about to be made; return whether it is written."""
        return opened.options.repeatable or self._save(opened, "running", None, wait=wait)

    def _check_time(self, opened: Opened, seconds: float) -> None:
        if opened.options.timeout is not None and seconds > opened.options.timeout:
            raise self._overdue(opened)

    def _overdue(self, opened: Opened) -> NodeTimeoutError:
        opened.overdue = NodeTimeoutError(f"{self.path}/{opened.key}", opened.options.timeout or 0.0)
        return opened.overdue

    def _failed(self, opened: Opened, error: BaseException, seconds: float) -> float | None:
        """Record a failure; return the seconds until the next attempt, None if there is none."""
        retry, repeatable = opened.options.retry, opened.options.repeatable
        if not repeatable and (error is opened.overdue or not isinstance(error, Exception)):
            return None  # the outcome of an interrupted call is not known
        if isinstance(error, Exception) and retry is not None and retry.wants(error, opened.attempt):
            return retry.delay_before(opened.attempt + 1)
        self._save(opened, "failed", seconds, error=error)
        return None

    def _save(
        self,
        opened: Opened,
        status: InnerStatus,
        seconds: float | None,
        *,
        value: Any = None,
        error: BaseException | None = None,
        wait: bool = True,
    ) -> bool:
        """Record how a call stands; return False if that has to wait for a locked store."""
        entry, known = opened.entry, self.entries
        entry.status = status
        opened.ms = None if seconds is None else seconds * 1000
        if error is not None:
            kind = type(error)
            opened.error = safe_text(error) or kind.__name__
            opened.error_type = f"{kind.__module__}.{kind.__qualname__}"
        if self.is_closed:
            raise self._late()
        is_written = True
        if self._ledger is not None:
            entry.payload, is_written = self._ledger.save(opened, value, wait=wait)
        else:
            args, kwargs = opened.given  # the node may change them, and the result, in place
            entry.args = tuple(map(_form, args))
            entry.kwargs = {name: _form(arg) for name, arg in kwargs.items()}
            entry.value = _copied(value)
        known[opened.key] = entry
        if status != "running":
            self.calls[opened.key] = opened
        return is_written

    # -- amounts ---------------------------------------------------------------------------------------

    def record(self, amounts: dict[str, Any]) -> None:
        """Add amounts to the inner step under way, or to the node; see `NodeContext.record`."""
        for name, amount in amounts.items():
            check_amount(name, amount)
        inside = _INSIDE.get()
        with _ADDING:
            if self.is_closed:
                raise self._late()
            target: Visit | Opened = inside if inside is not None and inside.visit is self else self
            target.usage = added(target.usage, amounts)
        self.run.context.spend(amounts)

    def _late(self) -> StepUsageError:
        return late(self.path)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self, outcome: StepOutcome) -> None:
        """Say that the node has returned: nothing more can be recorded in this visit."""
        with _ADDING:
            self.is_closed = True
        outcome.visit = self
        if self.usage is not None and self.run.journal is not None:
            self.run.journal.spent(self.step_of, self.superstep, self.usage)

    @property
    def logged(self) -> tuple[InnerStep, ...]:
        """The calls as a log shows them."""
        return tuple(
            InnerStep(key, "completed", replayed=True) if call is None else call.as_logged()
            for key, call in self.calls.items()
        )

    @property
    def total(self) -> dict[str, float] | None:
        """The amounts of the visit, those of its inner steps included."""
        found = self.usage
        for call in self.calls.values():
            if call is not None and call.usage is not None:
                found = added(None if found is None else dict(found), call.usage)
        return found


def late(path: str) -> StepUsageError:
    """Return the error for a context that is used after its node has returned."""
    return StepUsageError(
        f"Node {path!r} has ended, and something that it started still uses its context. Wait for tasks and "
        "threads before the node returns.",
        node_name=path,
    )


def check_amount(name: str, amount: Any) -> None:
    """Raise TypeError for what is not a number, ValueError for NaN, infinite and negative ones."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"ctx.record({name}=...) takes a number, got {type(amount).__name__}")
    if not 0 <= amount <= _LARGEST:
        raise ValueError(f"ctx.record({name}=...) takes a number from 0 to {_LARGEST:.0e}, got {amount!r}")


def added(found: dict[str, float] | None, more: Mapping[str, float]) -> dict[str, float]:
    """Return amounts with others added; the first ones are changed in place."""
    found = {} if found is None else found
    for name, amount in more.items():
        found[name] = found.get(name, 0) + amount
    return found


def usage_inside(inner: Any) -> dict[str, float]:
    """Return what was recorded in a nested run, or in all items of a nested map."""
    total: dict[str, float] = {}
    runs = [inner] if hasattr(inner, "records") else [run for run in inner.runs if run is not None]
    for run in runs:
        for outcome in run.records[3::4]:
            visit, below = getattr(outcome, "visit", None), getattr(outcome, "inner", None)
            if visit is not None and visit.total is not None:
                added(total, visit.total)
            if below is not None:
                added(total, usage_inside(below))
    return total


async def _ready(value: Any) -> Any:
    return value


def _copied(value: Any) -> Any:
    """Return a copy that a later change does not reach, NOT_KNOWN of what cannot be copied.

    That is mostly used up by the attempt that made it: an open file, a generator, a connection.
    """
    if value is NOT_KNOWN or is_immutable(value):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # anything may be in it
        return NOT_KNOWN


class _Form(bytes):
    """A value as bytes, to compare it with another one."""

    def __repr__(self) -> str:
        return self.decode("utf-8", "replace")


def _form(value: Any) -> Any:
    """Return what a later change does not reach, to compare it with another value."""
    return value if is_immutable(value) else _stored(value)


def _stored(value: Any) -> _Form:
    """Return what two values have in common that `==` may not tell, as NaN; the type, if it has no form."""
    if type(value) is _Form:
        return value
    try:
        return _Form(values.JsonSerializer().serialize(value))
    except Exception:  # anything may be in it
        return _Form(f"<{type(value).__name__}>".encode())


def _text(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    parts = [preview(arg) for arg in args] + [f"{name}={preview(arg)}" for name, arg in kwargs.items()]
    return "(" + bounded(", ".join(parts), _SHOWN) + ")"
