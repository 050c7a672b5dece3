"""The errors of this package.

    HypergraphError
    ├── GraphConfigError          invalid graph                      .findings
    ├── RenameError               invalid rename
    ├── MissingInputError         missing inputs of a call           .missing .provided .message
    ├── InvalidAnswerError        answer of another type             .key .field
    ├── QuestionExpiredError      question beyond its deadline       .node_name .due
    ├── IncompatibleRunnerError   graph that this runner cannot run  .message .node_name .capability
    ├── InfiniteLoopError         loop beyond max_iterations         .max_iterations .values .log
    ├── ExecutionError            base of NodeError                  .partial_state
    │   └── NodeError             evidence about one failure
    ├── PanicError                node that raised SystemExit         .node_name .value .stack
    ├── NodeTimeoutError          attempt beyond its timeout         .node_name .timeout
    ├── CancellationError         run that was asked to stop         .node_name .values .cause .was_executing
    │   └── RunTimeoutError       run beyond its timeout             .timeout
    ├── RemoteError               failure in a worker                .type_name .text .traceback
    ├── WorkerLostError           worker that died during a call     .node_name .is_final .had_begun
    ├── NotPicklableError         value that cannot be sent          .node_name .name
    └── CheckpointError           failure of a store
        ├── StoreError            .location
        │   └── StoreUnavailableError, StoreFullError, StoreReadOnlyError, StoreCorruptError,
        │       SchemaTooNewError .found .known
        ├── WorkflowError         .workflow_id
        │   ├── InvalidWorkflowIdError, OwnershipLostError, GraphChangedError, ItemChangedError,
        │   │   WorkflowLockedError .pid .host .since, GraphVersionError .pinned .version
        │   └── StepError         .node_name
        │       └── AmbiguousStepError, CrashLoopError
        └── ArtifactMissingError, DecryptionError

The docstring of a class is the message of an error raised without one. Errors carry their data as attributes
and survive pickling and copying.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from os.path import dirname, join
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from datetime import datetime


EVIDENCE = "__hypergraph_evidence__"  # the attribute of an exception that holds its NodeError
_PACKAGE = join(dirname(__file__), "")
_LOOPS = ("asyncio", "concurrent", "threading", "uvloop")  # what calls this package in tasks and threads
CALLED_AT: ContextVar[tuple[str, int] | None] = ContextVar("called_at", default=None)  # set by coroutines
# What a warning says instead, set where a run is stored under former names.
WORDING: ContextVar[Callable[[str], str] | None] = ContextVar("wording", default=None)
_NOTE_PREFIX = "[hypergraph] "
_CONTEXT: Any = vars(BaseException)["__context__"]  # works even if a class overrides attribute access


def safe_text(value: object) -> str:
    """Return str(value), or a placeholder if that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} whose text raises {type(error).__name__}>"


class HypergraphError(Exception):
    """The base class of all errors of this package."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message if message is not None else type(self).__doc__ or type(self).__name__)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != EVIDENCE}
        for cls in type(self).__mro__:
            slots = vars(cls).get("__slots__", ())
            state |= {name: getattr(self, name) for name in slots if hasattr(self, name)}
        return _rebuild, (type(self), self.args, state)


def _rebuild(cls: type[HypergraphError], args: tuple[Any, ...], state: dict[str, Any]) -> HypergraphError:
    error = cls.__new__(cls, *args)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


# -- graphs and calls ----------------------------------------------------------------------------------


class GraphConfigError(HypergraphError):
    """The graph is invalid; each finding says how to fix it."""

    def __init__(self, message: str | None = None, findings: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.findings: tuple[str, ...] = tuple(findings) or (str(self),)  # one text per problem

    @classmethod
    def from_findings(cls, findings: Sequence[str]) -> GraphConfigError:
        """Return one error for all findings; its message starts with the first."""
        text = findings[0]
        if len(findings) > 1:
            text += f"\n\nThe graph has {len(findings)} problems; the others are:"
            text += "".join(f"\n\n{number}. {finding}" for number, finding in enumerate(findings[1:], 2))
        return cls(text, findings)


class RenameError(HypergraphError):
    """A rename refers to an unknown name, or would produce a duplicate."""


class MissingInputError(HypergraphError):
    """Required inputs are missing; pass them to run() or bind them to the graph."""

    def __init__(
        self, message: str | None = None, missing: Sequence[str] = (), provided: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = str(self)  # the message
        self.missing = list(missing)  # names of missing inputs
        self.provided = list(provided)  # names of provided inputs


class InvalidAnswerError(HypergraphError, ValueError):
    """An answer does not fit the type of its question, or cannot be stored; nothing was written."""

    def __init__(self, message: str | None = None, *, key: str = "", field: str = "") -> None:
        super().__init__(message)
        self.key = key  # of the question
        self.field = field  # what does not fit: the key, or a part of the answer, as in "refund.amount"


class QuestionExpiredError(HypergraphError):
    """The deadline of a question has passed, and the question has no default."""

    def __init__(
        self, message: str | None = None, *, node_name: str = "", due: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.node_name = node_name  # the node that asks
        self.due = due  # when the deadline was


class MissingServiceError(HypergraphError, LookupError):
    """A node asks for a service that was not given; pass it to run() or to the runner."""

    def __init__(self, node_name: str, name: str, known: tuple[str, ...] = ()) -> None:
        listed = f"Given are: {', '.join(known)}." if known else "None are given."
        super().__init__(
            f"Node {node_name!r} asks for the service {name!r}. {listed} "
            f"How to fix: runner.run(..., services={{{name!r}: ...}})."
        )
        self.node_name = node_name  # the node
        self.name = name  # what it asks for
        self.known = known  # the names that are given


class IncompatibleRunnerError(HypergraphError):
    """The graph needs a capability that this runner lacks; use AsyncRunner."""

    def __init__(
        self, message: str | None = None, node_name: str | None = None, capability: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = str(self)  # the message
        self.node_name = node_name  # the node that needs the capability
        self.capability = capability  # the missing capability


# -- runs ----------------------------------------------------------------------------------------------


class GraphWarning(UserWarning):
    """A graph that is sound, but may not run as it looks."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message  # the text


class InfiniteLoopError(HypergraphError):
    """The run exceeded maximum iterations; check the loop's gate or raise max_iterations."""

    def __init__(
        self,
        max_iterations: int,
        message: str | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        log: Any = None,
    ) -> None:
        super().__init__(
            message
            or f"The run exceeded maximum iterations ({max_iterations}) and still had nodes to execute. "
            "Check that the loop's gate can decide END, or raise max_iterations."
        )
        self.message = str(self)  # the message
        self.max_iterations = max_iterations  # the limit
        self.values: Mapping[str, Any] = values if values is not None else {}  # the state at the end
        self.log = log  # the run log


MaxIterationsError = InfiniteLoopError


class ExecutionError(HypergraphError):
    """A run failed; `partial_state` holds the values produced until then."""

    __slots__ = ("partial_state",)

    def __init__(self, message: str | None = None, partial_state: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.partial_state: Mapping[str, Any] = {} if partial_state is None else partial_state  # by name


class NodeError(ExecutionError):
    """Describe one failure: the node, its inputs and the state of the run.

    A run never raises it. `NodeError.of(exc)` returns it for an exception that came out of a run,
    `result.failure` holds it in the result of a failed run.

    >>> look_up = FunctionNode(lambda item: {"tea": 2.5}[item], "look_up", "price")
    >>> try:
    ...     SyncRunner().run(Graph([look_up]), item="milk")
    ... except KeyError as error:
    ...     print(NodeError.of(error).node_name, dict(NodeError.of(error).inputs))
    look_up {'item': 'milk'}
    """

    # Slots: a run that fails makes one, and a dict of so many attributes costs as much as the rest of it.
    __slots__ = ("cause", "inputs", "item_index", "map_result", "node_name", "op", "result", "superstep")

    inputs: Mapping[str, Any]  # the inputs of the node, with changes made in place

    def __init__(
        self,
        node_name: str,
        cause: BaseException,
        *,
        op: str = "execute",
        superstep: int = 0,
        item_index: int | None = None,
        values: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        result: Any = None,
        map_result: Any = None,
    ) -> None:
        # The message is built on demand: __str__ of the cause may be slow or raise.
        self.partial_state = values if values is not None else {}
        self.node_name = node_name  # the node, below the path of nested graphs
        self.cause = cause  # the original exception
        self.op = op  # "execute", "route", "interrupt" or "cancel"
        self.superstep = superstep  # the superstep of the run, from 0
        self.inputs = inputs if inputs is not None else {}
        self.item_index = item_index  # the index of the item in a map
        self.map_result = map_result  # the result of the whole map
        self.result = result  # the result of the run

    @property
    def values(self) -> Mapping[str, Any]:
        """The state at the point of failure, inputs included."""
        return self.partial_state

    @property
    def log(self) -> Any:
        """The run log, including the failed node."""
        return getattr(self.result, "log", None)

    @property
    def run_id(self) -> str | None:
        """The id of the run that failed."""
        return getattr(self.result, "run_id", None)

    @property
    def workflow_id(self) -> str | None:
        """The id of the stored workflow, if the run had one."""
        return getattr(self.result, "workflow_id", None)

    def __str__(self) -> str:
        return f"node {self.node_name}: {self.op}: {safe_text(self.cause)}"

    @staticmethod
    def of(error: BaseException | None) -> NodeError | None:
        """Return the evidence about an exception that came out of a run, None for others.

        >>> try:
        ...     SyncRunner().run(Graph([FunctionNode(lambda x: 1 / x, "invert", "y")]), x=0)
        ... except ZeroDivisionError as error:
        ...     print(NodeError.of(error), NodeError.of(error).inputs)
        node invert: execute: division by zero {'x': 0}
        """
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            error = error.__cause__  # Python lets no StopIteration out of a coroutine
        try:
            evidence = error.__dict__[EVIDENCE]
        except Exception:  # an exception class can refuse attribute access
            return None
        return evidence if isinstance(evidence, NodeError) else None


class PanicError(HypergraphError):
    """A node raised SystemExit or another BaseException; the process keeps running."""

    def __init__(self, node_name: str, value: BaseException) -> None:
        super().__init__(f"node {node_name} panicked: {safe_text(value)}")
        self.node_name = node_name  # the node
        self.value = value  # the exception it raised
        self.__cause__ = value

    @property
    def stack(self) -> str:
        """The formatted traceback, formatted on access."""
        import traceback  # imports the tokenizer, which few programs need

        return "".join(traceback.format_exception(self.value))


class NodeTimeoutError(HypergraphError, TimeoutError):
    """One attempt of a node took longer than its timeout."""

    def __init__(self, node_name: str, timeout: float) -> None:
        super().__init__(f"node {node_name} took longer than its timeout of {timeout:g} s")
        self.node_name = node_name  # the node
        self.timeout = timeout  # its timeout in seconds


class CancellationError(HypergraphError):
    """The run was asked to stop before its end; `values` holds the state of all completed nodes."""

    def __init__(
        self,
        node_name: str,
        cause: BaseException,
        *,
        values: Mapping[str, Any] | None = None,
        was_executing: bool = False,
    ) -> None:
        when = "during" if was_executing else "before"
        super().__init__(f"cancelled {when} node {node_name}: {safe_text(cause)}")
        self.node_name = node_name  # the node at which it stopped
        self.cause = cause  # the timeout or the stop request
        self.values: Mapping[str, Any] = values if values is not None else {}  # outputs of completed nodes
        self.was_executing = was_executing  # False if the run stopped between nodes


class RunTimeoutError(CancellationError, TimeoutError):
    """The run took longer than its timeout."""

    def __init__(self, node_name: str, cause: BaseException, *, timeout: float = 0.0, **about: Any) -> None:
        super().__init__(node_name, cause, **about)
        self.timeout = timeout  # in seconds


class BudgetExceededError(CancellationError):
    """The run has used up its budget; run it again with a larger one to continue."""

    def __init__(self, node_name: str, cause: BaseException, *, name: str = "", **about: Any) -> None:
        super().__init__(node_name, cause, **about)
        self.name = name  # what was used up, as in "cost"


class StopRequested(Exception):
    """A stop request; the cause of a CancellationError."""

    def __init__(self, info: Any = None) -> None:
        super().__init__("stop requested" if info is None else f"stop requested: {safe_text(info)}")
        self.info = info


# -- executors -----------------------------------------------------------------------------------------


class RemoteError(HypergraphError):
    """A node failed in a worker with an exception that cannot be sent back."""

    def __init__(
        self, message: str | None = None, *, type_name: str = "", text: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.type_name = type_name  # qualified name of the exception class
        self.text = text  # the message of the exception
        self.traceback = traceback  # the formatted traceback of the worker


class WorkerLostError(HypergraphError):
    """A worker died during the call of a node, whose outcome is unknown, or before the call began."""

    def __init__(
        self,
        message: str | None = None,
        *,
        node_name: str = "",
        is_final: bool = False,
        is_broken: bool = False,
        had_begun: bool = True,
    ) -> None:
        super().__init__(message)
        self.node_name = node_name  # the node
        self.is_final = is_final  # whether the executor would lose another call too
        self.is_broken = is_broken  # whether the executor takes no more calls of any node
        self.had_begun = had_begun  # False if the function was not called, as far as the executor tells


class NotPicklableError(HypergraphError, TypeError):
    """A value cannot be pickled for an executor; run the node locally, or pass a value that can be."""

    def __init__(self, message: str | None = None, *, node_name: str = "", name: str = "") -> None:
        super().__init__(message)
        self.node_name = node_name  # the node
        self.name = name  # the input or output, if it is one


# -- stores --------------------------------------------------------------------------------------------


class CheckpointError(HypergraphError):
    """The store failed; see the cause."""


class StoreError(CheckpointError):
    """The store at a location failed."""

    def __init__(self, message: str | None = None, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location  # the path or address of the store, without passwords


class StoreUnavailableError(StoreError):
    """The store is unavailable; check its path or address, and whether another program has locked it."""


class StoreFullError(StoreError):
    """The store is full; free disk space or prune old workflows, then resume."""


class StoreReadOnlyError(StoreError):
    """The store is read-only; check the permissions of its file and folder."""


class StoreCorruptError(StoreError):
    """The store is damaged; restore it from a backup, or move it away and start over."""


class SchemaTooNewError(StoreError):
    """The store was written by a newer release; upgrade hypergraph. Nothing was changed."""

    def __init__(
        self, message: str | None = None, *, location: str | None = None, found: int = 0, known: int = 0
    ) -> None:
        super().__init__(message, location=location)
        self.found = found  # the schema version of the store
        self.known = known  # the newest schema version of this release


class WorkflowError(CheckpointError):
    """The store refused an operation on a workflow."""

    def __init__(self, message: str | None = None, *, workflow_id: str | None = None) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id  # the workflow


class WorkflowNotFoundError(WorkflowError, LookupError):
    """The workflow does not exist."""


class InvalidWorkflowIdError(WorkflowError):
    """A workflow id is 1 to 512 bytes of printable text, without "/" and without blanks at its ends."""


class WorkflowLockedError(WorkflowError):
    """Another process runs this workflow; wait with wait=True, stop it, or take over with force=True."""

    def __init__(
        self,
        message: str | None = None,
        *,
        workflow_id: str | None = None,
        pid: int | None = None,
        host: str | None = None,
        since: datetime | None = None,
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.pid = pid  # the owner process
        self.host = host  # the machine of the owner
        self.since = since  # the start of its run


class OwnershipLostError(WorkflowError):
    """Another process took over this workflow; this run stops, its stored steps stay."""


class GraphChangedError(WorkflowError):
    """The graph differs from the recorded one; pass code_change="keep" or "rerun", or use a new id."""


class GraphVersionError(WorkflowError):
    """Unfinished work is pinned to another version of the code; run it with that version, or migrate it."""

    def __init__(
        self,
        message: str | None = None,
        *,
        workflow_id: str | None = None,
        pinned: str | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.pinned = pinned  # the version of the workflow
        self.version = version  # that of the graph that was passed


class ItemChangedError(WorkflowError):
    """The inputs of a map item differ from the recorded ones; use a new id, or map(..., key=...)."""


class ValueUnreadableError(WorkflowError):
    """A stored value that is needed cannot be read; make its class known, or pass the value again."""

    def __init__(
        self,
        message: str | None = None,
        *,
        workflow_id: str | None = None,
        name: str | None = None,
        class_name: str | None = None,
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.name = name  # the input or output
        self.class_name = class_name  # the class that is not known, as "module:Class"


class StepError(WorkflowError):
    """A workflow cannot continue at a node."""

    def __init__(
        self, message: str | None = None, *, workflow_id: str | None = None, node_name: str | None = None
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.node_name = node_name  # the node


class AmbiguousStepError(StepError):
    """A step with repeatable=False started and has no result; check its effect, or use on_ambiguous."""


class CrashLoopError(StepError):
    """The process died three times in the same node; fix the node, then resume with force=True."""


class StepUsageError(HypergraphError):
    """A node used `ctx.step` or `ctx.record` in a way that cannot be repeated; the message says how."""

    def __init__(self, message: str | None = None, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name  # the node


class TransactionError(HypergraphError):
    """A node with transaction=True tried to end its transaction itself, or has none."""

    def __init__(self, message: str | None = None, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name  # the node


class ArtifactMissingError(CheckpointError):
    """A value is missing in the artifact store; restore its file, or run the step again."""


class DecryptionError(CheckpointError):
    """A stored value cannot be decrypted; pass the key it was written with."""


# -- raising and annotating ----------------------------------------------------------------------------


def attach_evidence(error: BaseException, evidence: NodeError) -> None:
    """Attach the evidence to the exception, which may refuse ordinary attributes."""
    try:
        error.__dict__[EVIDENCE] = evidence
    except Exception:  # noqa: S110 - raised without evidence, if the class refuses attributes
        pass


def reraise(error: BaseException) -> NoReturn:
    """Raise an exception again, with its original context."""
    context = _CONTEXT.__get__(error)
    try:
        raise error
    finally:
        _CONTEXT.__set__(error, context)


def calling_line() -> tuple[str, int]:
    """Return the file and the line of the first caller outside of this package."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    is_loop = frame.f_globals.get("__name__", "").partition(".")[0] in _LOOPS
    return CALLED_AT.get() or _line(frame) if is_loop else _line(frame)


def _line(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno


def warn_caller(text: str) -> None:
    """Warn, with the line that called this package as the place, in the words of `WORDING`."""
    wording = WORDING.get()
    warnings.warn_explicit(text if wording is None else wording(text), UserWarning, *calling_line())


def annotate(error: BaseException, note: str) -> None:
    """Add a note of this package to the exception, replacing an earlier one."""
    try:
        notes = getattr(error, "__notes__", None)
        if notes:
            notes[:] = [text for text in notes if not str(text).startswith(_NOTE_PREFIX)]
        error.add_note(_NOTE_PREFIX + note)
    except Exception:  # noqa: S110 - raised without the note
        pass


__all__ = [  # every error class, and the warning
    name
    for name, thing in globals().items()
    if isinstance(thing, type) and issubclass(thing, (HypergraphError, GraphWarning))
]
