"""InterruptNode and the decorator `interrupt`: nodes that can pause a run until an answer arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.names import Names, as_names


class InterruptNode(FunctionNode):
    """Ask the handler for an answer, and pause the run if it returns None.

    >>> InterruptNode(lambda draft: None, "review", "approved").outputs
    ('approved',)

    Raises TypeError without output_name, and what FunctionNode raises.

    Args:
        source: the handler, or a node that supplies its function
        name: the name of the node; by default that of the function
        output_name: the name of the answer, or several names for several answers
        rename_inputs: maps parameter names to input names
        cache: keep answers in the cache of the runner
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        hide: leave the node out of drawings
    """

    is_interrupt = True
    on_worker_loss = None  # an option of plain function nodes only

    def __init__(
        self,
        source: Callable[..., Any],
        name: str | None = None,
        output_name: Names = None,
        *,
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


def interrupt(
    output_name: Names,
    *,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> Callable[[Callable[..., Any]], InterruptNode]:
    """Turn a function into an interrupt. Raises what InterruptNode raises.

    >>> @interrupt("decision")
    ... def review(draft: str) -> str | None:
    ...     return None if len(draft) > 100 else "accepted"  # None pauses the run
    >>> review.is_interrupt
    True

    Args:
        output_name: the name of the answer, or several names for several answers
        rename_inputs: maps parameter names to input names
        cache: keep answers in the cache of the runner
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        hide: leave the node out of drawings
    """
    if callable(output_name):
        raise TypeError('@interrupt needs an output_name: write @interrupt(output_name="answer").')
    return lambda func: InterruptNode(
        func,
        None,
        output_name,
        rename_inputs=rename_inputs,
        cache=cache,
        emit=emit,
        wait_for=wait_for,
        hide=hide,
    )
