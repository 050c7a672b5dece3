"""The conformance suite of stores."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from hypergraph.checkpointers import Checkpointer
from hypergraph.testing.conformance.answers import AnswerTests
from hypergraph.testing.conformance.crashes import CrashTests, FenceTests
from hypergraph.testing.conformance.inner import InnerTests
from hypergraph.testing.conformance.outlines import OutlineTests, OverviewTests
from hypergraph.testing.conformance.ownership import BackgroundTests, CommitTests, OwnershipTests
from hypergraph.testing.conformance.process import Another
from hypergraph.testing.conformance.races import ClockTests, ProcessTests, ThreadTests
from hypergraph.testing.conformance.signals import SignalTests
from hypergraph.testing.conformance.stores import StepTests, ValueTests
from hypergraph.testing.conformance.upkeep import AwaitableTests, IdTests, ListTests, UpkeepTests


class CheckpointerConformance(
    StepTests,
    OutlineTests,
    OverviewTests,
    ValueTests,
    InnerTests,
    AnswerTests,
    SignalTests,
    CommitTests,
    OwnershipTests,
    BackgroundTests,
    IdTests,
    ListTests,
    UpkeepTests,
    AwaitableTests,
    CrashTests,
    FenceTests,
    ThreadTests,
    ProcessTests,
    ClockTests,
):
    """Subclass it in a test module, say how a store is made, and pytest does the rest.

    `survives_processes = False` leaves out what takes other processes: for stores whose data ends with
    theirs. Otherwise the subclass must be at the top level of a file, because the other processes load it.
    Tests of its own may take the fixtures `store`, and `other`, which starts a process with the same data.
    """

    survives_processes: ClassVar[bool] = True  # whether data outlives its process

    def make_store(self, folder: Path) -> Checkpointer:
        """Return an empty store; called again with the same folder, one over the same data.

        Raises:
            NotImplementedError: the subclass does not say how.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method make_store(self, folder)")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Checkpointer]:
        """The store to be tested."""
        made = self.make_store(tmp_path)
        yield made
        made.close()

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Callable[[], Another]]:
        """Start other processes with a store over the same data."""
        if not self.survives_processes:
            pytest.skip("the data of this store ends with its process")
        if not hasattr(signal, "SIGKILL"):
            pytest.skip("needs POSIX signals")
        started: list[Another] = []

        def start() -> Another:
            started.append(Another(type(self), tmp_path))
            return started[-1]

        yield start
        for process in started:
            process.end()
