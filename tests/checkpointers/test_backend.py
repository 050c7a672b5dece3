"""What a backend must write, counted; and what every store promises, asked of one that writes no more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypergraph.checkpointers import Checkpointer, backend
from hypergraph.checkpointers.backend import Backend
from hypergraph.checkpointers.live import Live
from hypergraph.checkpointers.memory import MemoryBackend
from hypergraph.testing import CheckpointerConformance


def test_a_backend_writes_eighteen_members_and_the_eight_of_what_running_nodes_show() -> None:
    assert (len(Backend.__abstractmethods__), len(Live.__abstractmethods__)) == (18, 8)
    assert "eighteen abstract members of `Backend`, which come first, and the eight" in (
        backend.__doc__ or ""
    ).replace("\n", " ")
    assert "eighteen abstract members" in (Backend.__doc__ or "")


def test_what_must_be_written_comes_first() -> None:
    members = [name for name, found in vars(Backend).items() if callable(found) or hasattr(found, "fget")]
    public = [name for name in members if not name.startswith("_")]
    assert set(public[:18]) == Backend.__abstractmethods__


def _passed_on(name: str) -> Any:
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*args, **options)

    return call


def _snapshot(self: Any, work: Callable[[Any], Any]) -> Any:
    return self.inner.snapshot(lambda _: work(self))


class TestNothingButTheAbstract(CheckpointerConformance):
    survives_processes = False

    def make_store(self, folder: Path) -> Checkpointer:
        verbs: dict[str, Any] = {name: _passed_on(name) for name in Backend.__abstractmethods__}
        own = {"kind": "memory", "snapshot": _snapshot, "live": property(lambda self: self.inner.live)}
        made: Any = type("BareBackend", (Backend,), {**verbs, **own})()
        made.inner = MemoryBackend()
        return Checkpointer(made)
