"""Interrupts: places where a run may wait for an answer from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.names import Names, as_names
from hypergraph.nodes.options import explained_node


@explained_node
class InterruptNode(FunctionNode):
    """Ask a handler for the answer; when it returns None the run pauses.

    Raises TypeError without output_name, and what FunctionNode raises.
    """

    is_interrupt = True
    on_worker_loss = None  # no option of interrupts, as of all nodes but plain function nodes

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
            raise TypeError("An interrupt needs an output_name: the name under which its answer arrives.")
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


@explained_node
def interrupt(
    output_name: Names,
    *,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> Callable[[Callable[..., Any]], InterruptNode]:
    """Turn a function into an interrupt. Raises what InterruptNode raises."""
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
