"""NodeContext: the view of its run that a node function can ask for.

A parameter annotated `NodeContext` receives one. The context refers to its run, so that whatever can change
(stop request, deadline) is read at the time of the question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from hypergraph.exceptions import MissingServiceError

if TYPE_CHECKING:
    from hypergraph.nodes.options import OnAmbiguous, RetryPolicy

T = TypeVar("T")

_ENDLESS = float("inf")
DEFAULT_LOGGER = logging.getLogger("hypergraph")


class RunFacts(Protocol):
    """The part of a run that a context reads."""

    @property
    def run_id(self) -> str: ...
    @property
    def workflow_id(self) -> str | None: ...
    @property
    def logger(self) -> logging.Logger: ...
    @property
    def stop_requested(self) -> bool: ...
    @property
    def deadline(self) -> float | None: ...
    @property
    def services(self) -> Mapping[str, Any]: ...
    def check(self, name: str) -> None: ...
    def attempt_of(self, name: str) -> tuple[int, float | None]: ...
    def stream(self, name: str, chunk: Any, superstep: int | None = None) -> None: ...
    def progress(self, name: str, how_far: tuple[float, float | None, str], superstep: int) -> None: ...
    def shown(self, name: str) -> tuple[str, Mapping[str, Any]]: ...
    def visit(self, name: str, superstep: int) -> Any: ...
    def connection(self, name: str) -> Any: ...
    def idempotency_key(self, name: str) -> str: ...


class NodeContext:
    """Give a node function the ids, logger, deadline and stop request of its run.

    >>> @node(output_name="total")
    ... def add_up(numbers: list[int], context: NodeContext) -> int:
    ...     total = 0
    ...     for number in numbers:
    ...         context.check()  # raises once the run should stop
    ...         total += number
    ...     return total
    >>> add_up.inputs
    ('numbers',)
    """

    __slots__ = ("_name", "_run", "superstep")

    def __init__(self, run: RunFacts, name: str, superstep: int) -> None:
        # Made for every call of a node that asks for it, so it is small: everything else is read on demand.
        self._run = run
        self._name = name
        self.superstep = superstep  # the superstep of the run, from 0

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._run.attempt_of(self._name)[0]

    @property
    def run_id(self) -> str:
        """The id of the run that executes this node."""
        return self._run.run_id

    @property
    def workflow_id(self) -> str | None:
        """The id of the stored workflow, None without one."""
        return self._run.workflow_id

    @property
    def node_name(self) -> str:
        """The name of the node, below the "/"-joined path of the graphs around it."""
        return self._run.shown(self._name)[0]

    @property
    def idempotency_key(self) -> str:
        """A string that is the same for this step in every attempt and after a resume."""
        return self._run.idempotency_key(self._name)

    @property
    def logger(self) -> logging.Logger:
        """The logger given to the runner, by default `logging.getLogger("hypergraph")`."""
        return self._run.logger

    @property
    def deadline(self) -> float | None:
        """The earlier of run and node deadline on the monotonic clock, None without one."""
        known = (self._run.deadline, self._run.attempt_of(self._name)[1])
        return min((moment for moment in known if moment is not None), default=None)

    @property
    def stop_requested(self) -> bool:
        """Whether the run has been asked to stop."""
        return self._run.stop_requested

    @property
    def connection(self) -> Any:
        """The connection of a node with transaction=True: of sqlite3 or psycopg, as its store.

        What is executed through it and the step itself are one commit, which is made when the function has
        returned; an exception rolls both back. Raises TransactionError in other nodes, and for statements and
        methods that would end the transaction.
        """
        return self._run.connection(self._name)

    @overload
    def service(self, name: str) -> Any: ...
    @overload
    def service(self, name: str, kind: type[T]) -> T: ...
    def service(self, name: str, kind: Any = None) -> Any:
        """Return what was given to the run, or to the runner, under this name; it is never stored.

        With a class as second argument the result has that type, for type checkers and by a check.

        >>> @node(output_name="reply")
        ... def ask(question: str, context: NodeContext) -> str:
        ...     return context.service("translate", dict)[question]
        >>> SyncRunner().run(Graph([ask]), question="one", services={"translate": {"one": "eins"}})["reply"]
        'eins'

        Raises:
            MissingServiceError: there is none of this name.
            TypeError: it is not of the class.
        """
        services = self._run.services
        if name not in services:
            raise MissingServiceError(self.node_name, name, tuple(services))
        found = services[name]
        if kind is not None and not isinstance(found, kind):
            raise TypeError(
                f"Node {self.node_name!r} asks for the service {name!r} as {kind.__name__}, and it is "
                f"{type(found).__name__}"
            )
        return found

    def check(self) -> None:
        """Raise CancellationError or NodeTimeoutError once the run should stop or a deadline has passed."""
        self._run.check(self._name)

    def stream(self, chunk: Any) -> None:
        """Emit a StreamingChunkEvent; values are not affected.

        With `stream=True` on the node, the chunk is also kept in the store, where other processes read it:
        see `Checkpointer.read_stream`. Raises TypeError for a chunk that cannot be stored there, and
        StepUsageError after the node has ended.
        """
        self._run.stream(self._name, chunk, self.superstep)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Show how far the node is: in progress bars, in `hypergraph watch` and to event processors.

        More than `total` counts as all of it. The store gets it twice a second at most.

        Raises:
            ValueError: a number is negative or not finite.
            TypeError: it is not a number.
            StepUsageError: the node has ended.
        """
        for what, number in (("done", done), ("total", total)):
            if number is None and what == "total":
                continue
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise TypeError(f"{what} must be a number, not {number!r}")
            if not 0 <= number < _ENDLESS:
                raise ValueError(f"{what} must be a finite number from 0 on, not {number!r}")
        self._run.progress(self._name, (done, total, str(text)), self.superstep)

    @overload
    def step(
        self,
        key: str,
        func: Callable[..., T],
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        repeatable: bool = True,
        on_ambiguous: OnAmbiguous | None = None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    def step(
        self,
        func: Callable[..., T],
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        repeatable: bool = True,
        on_ambiguous: OnAmbiguous | None = None,
        **kwargs: Any,
    ) -> T: ...
    def step(
        self,
        key: Any,
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        repeatable: bool = True,
        on_ambiguous: OnAmbiguous | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function once for this visit of the node, and record its result before it is returned.

        When the node is called again, after a crash or in another attempt, a recorded key gives its result
        without a call. A call that failed is made again. The result of a coroutine function is awaited:
        `await context.step(...)`, also several at once with `asyncio.gather`. Without a store the record is
        in memory, for as long as the visit.

        >>> @node(output_name="answer")
        ... def ask(question: str, context: NodeContext) -> str:
        ...     found = context.step("search", lambda text: f"about {text}", question)
        ...     return context.step("write", str.title, found)
        >>> SyncRunner().run(Graph([ask]), question="cats")["answer"]
        'About Cats'

        Args:
            key: the name of the call, unique within the visit; left out, it is the name of the function and
                a number: "search-1", "search-2"
            args: the function, unless it came first, and its arguments
            retry: when a failed call is made again
            timeout: seconds for each attempt before NodeTimeoutError
            repeatable: False for a call that must not be made twice: it is announced before it is made
            on_ambiguous: what to do about an announced call without a result: "fail", "rerun", or a function
                of the path, an idempotency key and the arguments that returns the result
            kwargs: keyword arguments of the function

        Raises:
            StepUsageError: the key was called with other arguments, is open, or is used inside of another
                step; an automatic key in a second thread; repeatable=False under a policy that does not
                store inner steps; the node has ended.
            AmbiguousStepError: a call with repeatable=False began and left no result.
            CancellationError: the run was asked to stop, or its budget is used up.
            Exception: whatever the function raised.
        """
        visit = self._run.visit(self._name, self.superstep)
        return visit.step(key, args, kwargs, (retry, timeout, repeatable, on_ambiguous))

    def record(self, **amounts: float) -> None:
        """Add what this step has used: tokens, money, anything in numbers.

        Amounts of one name are added up, for the inner step under way, the node, the run and the workflow.
        A result that is replayed adds nothing.

        >>> @node(output_name="reply")
        ... def call_model(prompt: str, context: NodeContext) -> str:
        ...     context.record(input_tokens=812, output_tokens=91, cost=0.0042)
        ...     return prompt.upper()
        >>> SyncRunner().run(Graph([call_model]), prompt="hi").log.usage
        {'input_tokens': 812, 'output_tokens': 91, 'cost': 0.0042}

        Raises:
            TypeError: an amount is not a number.
            ValueError: an amount is negative, infinite or NaN.
            StepUsageError: the node has ended.
        """
        self._run.visit(self._name, self.superstep).record(amounts)

    def __repr__(self) -> str:
        return f"NodeContext({self.node_name!r}, superstep={self.superstep}, attempt={self.attempt})"
