"""ReceiveNode and the function that makes one: a run waits for a value that is sent to it by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypergraph.answers import checked_signal
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.names import Names
from hypergraph.nodes.signature import MISSING


class ReceiveNode(InterruptNode):
    """Wait for a signal; `receive` makes one.

    Its output is the value that was sent. An answer under the name of the output ends the wait as well.

    Args:
        source: a function without parameters, whose result is not used
        name: the name of the node; by default that of the function
        output_name: the name of its output, the value
        signal: the name under which the value is sent; by default that of the node
        answer: the type of the value
        timeout: how long to wait, as a timedelta or in seconds; then `default` is the value
        default: the value after that; without one the run fails with QuestionExpiredError
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before it starts
        hide: leave the node out of drawings
    """

    reason = "signal"  # why a run waits at it, as in `PauseInfo`
    signal: str  # the name under which the value is sent

    def __init__(
        self,
        source: Callable[..., Any],
        name: str | None = None,
        output_name: Names = None,
        *,
        signal: str | None = None,
        answer: Any = MISSING,
        timeout: timedelta | float | None = None,
        default: Any = MISSING,
        emit: Names = None,
        wait_for: Names = None,
        hide: bool = False,
    ) -> None:
        super().__init__(
            source,
            name,
            output_name,
            answer=answer,
            timeout=timeout,
            default=default,
            emit=emit,
            wait_for=wait_for,
            hide=hide,
        )
        if len(self.data_outputs) != 1:
            raise ValueError(f"Receive node {self.name!r} has one output, the value that is sent.")
        self.__dict__.update(signal=checked_signal(self.name if signal is None else signal))


def receive(
    name: str,
    answer: Any = MISSING,
    *,
    output_name: str | None = None,
    signal: str | None = None,
    timeout: timedelta | float | None = None,
    default: Any = MISSING,
    emit: Names = None,
    wait_for: Names = None,
    hide: bool = False,
) -> ReceiveNode:
    """Make a node that waits for a signal, which `store.send(workflow_id, name, value)` sends.

    A value that was sent before the node runs is kept for it. Values of one name are received in the order in
    which they were sent, each of them once.

    >>> receive("payment", float, wait_for="order").outputs
    ('payment',)

    Args:
        name: the name of the node
        answer: the type of the value
        output_name: the name of its output; by default that of the node
        signal: the name under which the value is sent; by default that of the node
        timeout: how long to wait, as a timedelta or in seconds; then `default` is the value
        default: the value after that; without one the run fails with QuestionExpiredError
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before it starts
        hide: leave the node out of drawings

    Raises:
        ValueError: the signal has a name that cannot be one, the timeout is not positive, or there is a
            default without a timeout.
        TypeError: a name is not a text.
        InvalidAnswerError: the default is of another type.
    """
    sent = checked_signal(name if signal is None else signal)

    def wait() -> str:
        return sent  # part of its code: another signal is another node

    return ReceiveNode(
        wait,
        name,
        output_name or name,
        signal=sent,
        answer=None if answer is MISSING else answer,
        timeout=timeout,
        default=default,
        emit=emit,
        wait_for=wait_for,
        hide=hide,
    )
