"""What holds on every cluster, whoever runs it: a test module brings the fixture `cluster`, its executor."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hypergraph import CancellationError, FunctionNode, Graph, SyncRunner
from hypergraph.exceptions import RemoteError, RunTimeoutError, WorkerLostError
from hypergraph.testing import RecordingProcessor
from support import away
from support.pools import kind
from support.running import OnAsync, OnSync

__all__ = ["kind"]  # a fixture
Kind = type[OnSync | OnAsync]


class OnACluster:
    """Tests to inherit."""

    def test_functions_are_called_there(self, kind: Kind, cluster: Any) -> None:
        offset = 10
        graph = Graph([away.where, FunctionNode(lambda x: x + offset, "add", "y")])
        result = kind(executor=cluster).run(graph, x=1)
        assert result["pid"] != os.getpid()
        assert result["y"] == 11

    def test_items_are_called_at_the_same_time(self, kind: Kind, cluster: Any, tmp_path: Path) -> None:
        os.mkfifo(fifo := str(tmp_path / "fifo"))
        results = kind(executor=cluster).map(
            Graph([away.meet]), fifo=fifo, side=["left", "right"], map_over="side"
        )
        assert results["end"] == ["left", "right"]

    def test_exceptions_come_back(self, cluster: Any) -> None:
        runner = SyncRunner(executor=cluster)
        with pytest.raises(ValueError, match="boom") as caught:
            runner.run(Graph([away.fail_as]), kind="value_error")
        assert "in _raise_value_error" in str(caught.value.__cause__)
        with pytest.raises(RemoteError, match="1 and 2"):
            runner.run(Graph([away.fail_as]), kind="needs_two")

    def test_a_large_function_is_known_by_its_hash(self, cluster: Any) -> None:
        weights = os.urandom(1_000_000)
        graph = Graph([FunctionNode(lambda x: x + len(weights), "predict", "y")])
        results = SyncRunner(executor=cluster).map(graph, x=list(range(20)), map_over="x")
        assert results["y"] == [1_000_000 + x for x in range(20)]

    def test_a_call_whose_worker_died_is_made_again(self, kind: Kind, cluster: Any, tmp_path: Path) -> None:
        notes = tmp_path / "notes"
        kind(executor=cluster).run(Graph([away.die_at_first]), notes=str(notes))
        assert notes.read_text() == "xx"

    def test_a_call_that_must_not_be_repeated_is_not(self, kind: Kind, cluster: Any, tmp_path: Path) -> None:
        notes = tmp_path / "notes"
        with pytest.raises(WorkerLostError, match="'die'"):
            kind(executor=cluster).run(Graph([away.die_once_for_all]), notes=str(notes))
        assert notes.read_text() == "x"

    def test_a_stop_does_not_wait(self, kind: Kind, cluster: Any, tmp_path: Path) -> None:
        class Stops(RecordingProcessor):
            def on_event(self, event: Any) -> None:
                if type(event).__name__ == "NodeStartEvent":
                    on.runner.stop("w")

        os.mkfifo(fifo := str(tmp_path / "fifo"))
        on = kind(executor=cluster)
        with pytest.raises(CancellationError):
            on.run(Graph([away.wait_for_ever]), fifo=fifo, run_id="w", event_processors=[Stops()])
        self._release(fifo, on)

    def test_the_time_of_a_run_is_up_while_a_worker_goes_on(
        self, kind: Kind, cluster: Any, tmp_path: Path
    ) -> None:
        os.mkfifo(fifo := str(tmp_path / "fifo"))
        on = kind(executor=cluster)
        with pytest.raises(RunTimeoutError):
            on.run(Graph([away.wait_for_ever]), fifo=fifo, timeout=0.05)
        self._release(fifo, on)

    def _release(self, fifo: str, on: Any) -> None:
        """Set a worker free that may have begun to wait, and see that the cluster goes on to work."""
        end = threading.Thread(target=lambda: Path(fifo).write_text("go"), daemon=True)
        end.start()
        assert on.run(Graph([away.double]), x=2)["doubled"] == 4
