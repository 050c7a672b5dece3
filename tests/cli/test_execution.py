"""Coroutines of a command, and the Ctrl-C that ends them."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from hypergraph.cli.execution import run_async


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Handle SIGINT as a terminal has it: a process in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_inside_a_callback_of_asyncio_leaves_the_callback_whole() -> None:
    complaints: list[Any] = []

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        waiter = loop.create_future()

        def complete() -> None:  # as asyncio.wait does, with the signal in between
            if not waiter.done():
                signal.raise_signal(signal.SIGINT)
                waiter.set_result(None)

        loop.call_soon(complete)
        await waiter
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_async(waits())
    assert complaints == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_ends_what_does_not_heed_the_first() -> None:
    async def stubborn() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        run_async(stubborn())


def test_a_cancellation_of_its_own_is_not_an_interrupt() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(cancelled())
