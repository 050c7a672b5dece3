"""Every error this package raises on purpose, in one tree.

    HypergraphError
    ├── GraphConfigError          the graph was built wrong           .findings
    ├── RenameError               a rename that cannot be carried out
    ├── MissingInputError         the call lacks inputs               .missing .provided .message
    ├── IncompatibleRunnerError   this runner cannot run this graph   .message .node_name .capability
    ├── InfiniteLoopError         a loop did not end in time          .max_iterations .values .log
    ├── ExecutionError            base of run evidence                .partial_state
    │   └── NodeError             what is known about one failure
    ├── PanicError                a node raised SystemExit or alike   .node_name .value .stack
    ├── NodeTimeoutError          one attempt took too long           .node_name .timeout
    ├── CancellationError         the run was asked to stop           .node_name .values .cause .was_executing
    │   └── RunTimeoutError       the run's own time was up           .timeout
    ├── RemoteError, WorkerLostError, NotPicklableError   between runs and executors: `exceptions.executors`
    └── CheckpointError           the store failed or refused; its tree is drawn in `exceptions.stores`

The text of an error raised without arguments is the docstring of its class. Errors carry their
data as attributes and survive pickling and copying.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from datetime import datetime


_NOTE_PREFIX = "[hypergraph] "
_CONTEXT: Any = vars(BaseException)["__context__"]  # works whatever an exception class says about attributes


class HypergraphError(Exception):
    """Something this package noticed went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message if message is not None else type(self).__doc__ or type(self).__name__)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, {k: v for k, v in self.__dict__.items() if k != EVIDENCE})


class GraphConfigError(HypergraphError):
    """The graph cannot work as it is put together; every finding says how to fix it."""

    def __init__(self, message: str | None = None, findings: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.findings: tuple[str, ...] = tuple(findings) or (str(self),)  # each problem, as a text

    @classmethod
    def from_findings(cls, findings: Sequence[str]) -> GraphConfigError:
        """Join all findings into one error whose text begins with the first."""
        text = findings[0]
        if len(findings) > 1:
            text += f"\n\nThe graph has {len(findings)} problems; the others are:"
            text += "".join(f"\n\n{number}. {finding}" for number, finding in enumerate(findings[1:], 2))
        return cls(text, findings)


class RenameError(HypergraphError):
    """A rename names something that is not there, or would give two things one name."""


class MissingInputError(HypergraphError):
    """The run lacks inputs it cannot do without; pass them in `values` or bind them to the graph."""

    def __init__(
        self, message: str | None = None, missing: Sequence[str] = (), provided: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = str(self)  # the text
        self.missing = list(missing)  # names that are needed
        self.provided = list(provided)  # names that were given


class IncompatibleRunnerError(HypergraphError):
    """The graph needs something this runner cannot do; use AsyncRunner."""

    def __init__(
        self, message: str | None = None, node_name: str | None = None, capability: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = str(self)  # the text
        self.node_name = node_name  # the node that needs it
        self.capability = capability  # what the runner lacks


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
        self.message = str(self)  # the text
        self.max_iterations = max_iterations  # the limit
        self.values: Mapping[str, Any] = values if values is not None else {}  # the state at the end
        self.log = log  # of the run


MaxIterationsError = InfiniteLoopError


class ExecutionError(HypergraphError):
    """A run failed; `partial_state` holds what it had produced until then."""

    def __init__(self, message: str | None = None, partial_state: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.partial_state: Mapping[str, Any] = {} if partial_state is None else partial_state  # the values


class NodeError(ExecutionError):
    """The evidence about one failure: where it happened, on what inputs, in which state.

    It is never raised out of a run. `NodeError.of(exc)` finds it for an exception that a run raised,
    `result.failure` holds it for a run that returned.
    """

    inputs: Mapping[str, Any]  # what the node took, as it left them
    item_index: int | None = None  # the place in a map, if it was an item
    map_result: Any = None  # of the whole map, if it was one
    result: Any = None  # of the run

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
        # The message is built on demand: a cause's own __str__ may be slow or may raise.
        self.partial_state = values if values is not None else {}
        self.node_name = node_name  # with the path of the graphs around it
        self.cause = cause  # the exception itself
        self.op = op  # "execute", "route", "interrupt" or "cancel"
        self.superstep = superstep  # the round of the run, from 0
        self.inputs = inputs if inputs is not None else {}
        if item_index is not None:
            self.item_index = item_index
        if map_result is not None:
            self.map_result = map_result
        if result is not None:
            self.result = result

    @property
    def values(self) -> Mapping[str, Any]:
        """The state at the point of failure, inputs included."""
        return self.partial_state

    @property
    def log(self) -> Any:
        """The run log, the failed node included."""
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
        """Return the evidence for an exception that came out of a run, None for any other."""
        try:
            evidence = error.__dict__[EVIDENCE]
        except Exception:  # a hostile exception class may refuse even to be looked at
            return None
        return evidence if isinstance(evidence, NodeError) else None


class PanicError(HypergraphError):
    """A node raised something that is meant to end the process; the process goes on."""

    def __init__(self, node_name: str, value: BaseException) -> None:
        super().__init__(f"node {node_name} panicked: {safe_text(value)}")
        self.node_name = node_name  # which node
        self.value = value  # what it raised

    @property
    def stack(self) -> str:
        """The formatted traceback; formatted on access, because that is slow."""
        import traceback  # it loads the tokenizer, which few programs need

        return "".join(traceback.format_exception(self.value))


class NodeTimeoutError(HypergraphError, TimeoutError):
    """One attempt of a node took longer than its timeout."""

    def __init__(self, node_name: str, timeout: float) -> None:
        super().__init__(f"node {node_name} took longer than its timeout of {timeout:g} s")
        self.node_name = node_name  # which node
        self.timeout = timeout  # its limit in seconds


class CancellationError(HypergraphError):
    """The run was asked to stop before it was done; `values` holds the state of all completed nodes."""

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
        self.node_name = node_name  # at which node
        self.cause = cause  # the timeout, or the request to stop
        self.values: Mapping[str, Any] = values if values is not None else {}  # of all completed nodes
        self.was_executing = was_executing  # False if it stopped between nodes


class RunTimeoutError(CancellationError, TimeoutError):
    """The run took longer than the timeout given to it."""

    def __init__(self, node_name: str, cause: BaseException, *, timeout: float = 0.0, **about: Any) -> None:
        super().__init__(node_name, cause, **about)
        self.timeout = timeout  # the limit in seconds


class StopRequested(Exception):
    """Somebody asked the run to stop; the cause inside a CancellationError."""

    def __init__(self, info: Any = None) -> None:
        super().__init__("stop requested" if info is None else f"stop requested: {safe_text(info)}")
        self.info = info


def attach_evidence(error: BaseException, evidence: NodeError) -> None:
    """Remember the evidence on the exception itself, which may refuse ordinary attributes."""
    try:
        error.__dict__[EVIDENCE] = evidence
    except Exception:  # noqa: S110 - a hostile exception class loses its evidence, not its identity
        pass


def reraise(error: BaseException) -> NoReturn:
    """Raise an exception once more, as it is: the context it came with stays its context."""
    context = _CONTEXT.__get__(error)
    try:
        raise error
    finally:
        _CONTEXT.__set__(error, context)


def annotate(error: BaseException, note: str) -> None:
    """Put one note of ours on the exception, in place of an earlier one."""
    try:
        notes = getattr(error, "__notes__", None)
        if notes:
            notes[:] = [text for text in notes if not str(text).startswith(_NOTE_PREFIX)]
        error.add_note(_NOTE_PREFIX + note)
    except Exception:  # noqa: S110 - a note is a courtesy
        pass


EVIDENCE = "__hypergraph_evidence__"


def _rebuild(cls: type[HypergraphError], args: tuple[Any, ...], state: dict[str, Any]) -> HypergraphError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def safe_text(value: object) -> str:
    """Return str(value), or a placeholder when that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} whose text raises {type(error).__name__}>"


class RemoteError(HypergraphError):
    """A node failed in a worker; this stands for an exception that cannot be carried over."""

    def __init__(
        self, message: str | None = None, *, type_name: str = "", text: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.type_name = type_name  # module-qualified class of the exception
        self.text = text  # its message
        self.traceback = traceback  # formatted, from the worker


class WorkerLostError(HypergraphError):
    """A worker died while it called a node; what the call did is not known.

    `is_final` says that the executor would not do any better if it was asked once more.
    """

    def __init__(self, message: str | None = None, *, node_name: str = "", is_final: bool = False) -> None:
        super().__init__(message)
        self.node_name = node_name  # whose call was lost
        self.is_final = is_final  # see above


class NotPicklableError(HypergraphError, TypeError):
    """Something cannot be sent to an executor or back; leave the node local, or pass what can be pickled."""

    def __init__(self, message: str | None = None, *, node_name: str = "", name: str = "") -> None:
        super().__init__(message)
        self.node_name = node_name  # whose call it was
        self.name = name  # of the input or output, if it was one


class CheckpointError(HypergraphError):
    """The store failed; the cause says how."""


class StoreError(CheckpointError):
    """The store at one location is in trouble."""

    def __init__(self, message: str | None = None, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location  # the path or address of the store, without passwords


class StoreUnavailableError(StoreError):
    """The store cannot be reached; check its path or address, and that no other program keeps it locked."""


class StoreFullError(StoreError):
    """The store has no room left; free some disk space (or prune old workflows) and resume."""


class StoreReadOnlyError(StoreError):
    """The store cannot be written; check the permissions of its file and of the folder around it."""


class StoreCorruptError(StoreError):
    """The store's content is damaged; restore it from a backup, or move it away and start afresh."""


class SchemaTooNewError(StoreError):
    """The store was written by a newer release; upgrade hypergraph, nothing was changed."""

    def __init__(
        self, message: str | None = None, *, location: str | None = None, found: int = 0, known: int = 0
    ) -> None:
        super().__init__(message, location=location)
        self.found = found  # the version of the schema in the store
        self.known = known  # the newest one this release knows


class WorkflowError(CheckpointError):
    """The store refuses something about one workflow."""

    def __init__(self, message: str | None = None, *, workflow_id: str | None = None) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id  # which workflow


class WorkflowNotFoundError(WorkflowError, LookupError):
    """There is no workflow with this id."""


class InvalidWorkflowIdError(WorkflowError):
    """A workflow id is 1 to 512 bytes of printable text, without "/" and blanks at its ends."""


class WorkflowLockedError(WorkflowError):
    """Somebody else is running this workflow; wait for it, stop it, or take over with force=True."""

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
        self.pid = pid  # the process at work
        self.host = host  # its machine
        self.since = since  # when it began


class OwnershipLostError(WorkflowError):
    """Somebody else took this workflow over; this run must stop, what it had written stays."""


class GraphChangedError(WorkflowError):
    """The graph differs from the recorded one; pass code_change="keep" or "rerun", or use a new id."""


class ItemChangedError(WorkflowError):
    """A map item has other inputs than the recorded one; use a new id, or map(..., key=)."""


class StepError(WorkflowError):
    """The store cannot go on at one node of a workflow."""

    def __init__(
        self, message: str | None = None, *, workflow_id: str | None = None, node_name: str | None = None
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.node_name = node_name  # which node


class AmbiguousStepError(StepError):
    """A step that must not repeat began and has no result; find out, or pass on_ambiguous="rerun"."""


class CrashLoopError(StepError):
    """The same node took its process along three times; fix it, then resume with force=True."""


class ArtifactMissingError(CheckpointError):
    """A large value is gone from the artifact store; restore its file, or let the step run again."""


class DecryptionError(CheckpointError):
    """A stored value cannot be decrypted; give the store the key it was written with."""


__all__ = [  # every error of the tree, whichever module it is written in
    name
    for name, thing in globals().items()
    if isinstance(thing, type) and issubclass(thing, HypergraphError)
]
