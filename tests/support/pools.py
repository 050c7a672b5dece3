"""Executors for tests, and what they share."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any

import pytest

from support.running import OnAsync, OnSync


def forked(workers: int = 1) -> ProcessPoolExecutor:
    """Make a pool of processes that know what this one knows."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"))


class Noting(ProcessPoolExecutor):
    """A pool that remembers what was submitted."""

    def __init__(self) -> None:
        super().__init__(2, mp_context=multiprocessing.get_context("fork"))
        self.submitted: list[Future[Any]] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted.append(future := super().submit(*args, **kwargs))
        return future


@pytest.fixture
def stuck(fifo: str) -> Iterator[Noting]:
    """A pool whose workers may wait for the other end of the pipe; in the end somebody is there."""
    with Noting() as executor:
        yield executor
        while wait(executor.submitted, timeout=0.01).not_done:
            try:
                end = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody waits there now
                continue
            os.close(end)


@pytest.fixture(params=[OnSync, OnAsync], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> type[OnSync | OnAsync]:
    """A runner of either kind, to be made with an executor."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def fifo(tmp_path: Any) -> str:
    """A pipe on which one process waits for another."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return str(path)
