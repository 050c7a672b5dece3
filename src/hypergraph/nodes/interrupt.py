"""InterruptNode and the decorator `interrupt`: nodes that can pause a run until an answer arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from types import NoneType
from typing import Any, Self

from hypergraph.answers import Schema, converted, schema_of, without_none
from hypergraph.nodes.callable_node import P, R_co
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.names import Names, as_names, got
from hypergraph.nodes.signature import MISSING


class InterruptNode(FunctionNode[P, R_co]):
    """Ask the handler for an answer, and pause the run if it returns None.

    >>> InterruptNode(lambda draft: None, "review", "approved").outputs
    ('approved',)

    Raises TypeError without output_name, ValueError for a timeout that is not positive or a default without
    timeout, InvalidAnswerError for a default of another type, and what FunctionNode raises.

    Args:
        source: the handler, or a node that supplies its function
        name: the name of the node; by default that of the function
        output_name: the name of the answer, or several names for several answers
        answer: the type of the answer; by default what the handler declares to return, without None
        timeout: how long the question is open, as a timedelta or in seconds; then `default` is the answer
        default: the answer after that; without one the run fails with QuestionExpiredError
        rename_inputs: maps parameter names to input names
        cache: keep answers in the cache of the runner
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        hide: leave the node out of drawings
    """

    is_interrupt = True
    reason = "interrupt"  # why a run waits at it, as in `PauseInfo`
    on_worker_loss = None  # an option of plain function nodes only
    answer: Any  # the type of the answer, MISSING to go by the handler
    open_for: timedelta | None  # how long the question is open
    default: Any  # the answer after that, MISSING without one

    def __init__(
        self,
        source: Callable[P, R_co],
        name: str | None = None,
        output_name: Names = None,
        *,
        answer: Any = MISSING,
        timeout: timedelta | float | None = None,
        default: Any = MISSING,
        rename_inputs: Mapping[str, str] | None = None,
        cache: bool = False,
        emit: Names = None,
        wait_for: Names = None,
        hide: bool = False,
    ) -> None:
        if not as_names(output_name, "output_name"):
            raise TypeError("An interrupt needs an output_name, the name of its answer.")
        super().__init__(
            source,
            name,
            output_name,
            rename_inputs=rename_inputs,
            cache=cache,
            emit=emit,
            wait_for=wait_for,
            hide=hide,
        )
        self.__dict__.update(answer=answer, open_for=_checked_deadline(timeout, default), default=default)
        if default is not MISSING:
            self.__dict__["default"] = self.as_answers(self._spread(default))

    def _spread(self, default: Any) -> tuple[Any, ...]:
        """Return the default as one value for each answer."""
        names = self.data_outputs
        if len(names) == 1:
            return (default,)
        if not isinstance(default, tuple) or len(default) != len(names):
            raise ValueError(f"default must be a tuple of {len(names)} answers, one for each output")
        return default

    def get_output_type(self, output: str) -> Any:
        """Return the type of an answer, as written if it cannot be resolved; None if unknown.

        It is the return type of the handler without None: None means that no answer is given yet.
        """
        declared = self.signature.declared.get("return") if self.answer is MISSING else self.answer
        if declared is NoneType:
            return None
        known = without_none(declared)
        return self._output_types(declared if known is None else known).get(output)

    @cached_property
    def answer_types(self) -> dict[str, Any]:
        """The declared type of each answer, as far as there is one."""
        declared = self.signature.hints.get("return") if self.answer is MISSING else self.answer
        return self._output_types(without_none(declared))

    @cached_property
    def answer_schemas(self) -> dict[str, Schema]:
        """The type of each answer as a JSON Schema, as far as there is one."""
        found = {name: schema_of(declared) for name, declared in self.answer_types.items()}
        return {name: schema for name, schema in found.items() if schema is not None}

    def as_answers(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return answers as their declared types. Raises InvalidAnswerError."""
        types = self.answer_types
        names = self.data_outputs
        return tuple(converted(n, value, types.get(n)) for n, value in zip(names, given, strict=True))

    def _copy(self, **changes: Any) -> Self:
        clone = super()._copy(**changes)
        for name in ("answer_types", "answer_schemas"):
            clone.__dict__.pop(name, None)  # computed once per node, by the names of its outputs
        return clone


LONGEST = timedelta(days=365_000)  # to wait; a moment after it may have no date


def _checked_deadline(timeout: Any, default: Any) -> timedelta | None:
    if timeout is None:
        if default is not MISSING:
            raise ValueError("default is the answer after a timeout, and there is none; add timeout=...")
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, timedelta)):
        raise TypeError(f"timeout must be a timedelta or a number of seconds, got {got(timeout)}")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not 0 < seconds <= LONGEST.total_seconds():
        raise ValueError(f"timeout must be greater than 0, and at most {LONGEST.days} days, got {timeout!r}")
    return timedelta(seconds=seconds)


def interrupt(
    output_name: Names,
    *,
    answer: Any = MISSING,
    timeout: timedelta | float | None = None,
    default: Any = MISSING,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> Callable[[Callable[P, R_co]], InterruptNode[P, R_co]]:
    """Turn a function into an interrupt. Raises what InterruptNode raises.

    >>> @interrupt("decision")
    ... def review(draft: str) -> str | None:
    ...     return None if len(draft) > 100 else "accepted"  # None pauses the run
    >>> review.is_interrupt
    True

    Args:
        output_name: the name of the answer, or several names for several answers
        answer: the type of the answer; by default what the handler declares to return, without None
        timeout: how long the question is open, as a timedelta or in seconds; then `default` is the answer
        default: the answer after that; without one the run fails with QuestionExpiredError
        rename_inputs: maps parameter names to input names
        cache: keep answers in the cache of the runner
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        hide: leave the node out of drawings
    """
    if callable(output_name):
        raise TypeError('@interrupt needs an output_name: write @interrupt(output_name="answer").')
    return lambda func: InterruptNode(  # type: ignore[return-value]  # mypy: a generic lambda is not one
        func,
        None,
        output_name,
        answer=answer,
        timeout=timeout,
        default=default,
        rename_inputs=rename_inputs,
        cache=cache,
        emit=emit,
        wait_for=wait_for,
        hide=hide,
    )
