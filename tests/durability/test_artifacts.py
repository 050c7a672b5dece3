"""Large values of stored runs: files beside the rows, read only by who asks for them, missed without harm."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.durable import Bodies, bodies, read
from support.nasty import CODECS, SERIALIZERS, kept

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    FileArtifactStore,
    MemoryArtifactStore,
    ObjectArtifactStore,
    SqliteCheckpointer,
    Undecodable,
)
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.exceptions import CheckpointError, StoreFullError, StoreReadOnlyError

__all__ = ["bodies"]  # a fixture

LARGE = 200 * 1024


def text_of(letter: str) -> str:
    """Return a long text that cannot be compressed away."""
    return random.Random(letter).randbytes(LARGE // 2).hex()


class Counting(MemoryArtifactStore):
    """An artifact store that counts what is read, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = 0
        self.failing: Exception | None = None

    def put(self, data: Any, *, content_type: str) -> ArtifactRef:
        if self.failing is not None:
            raise self.failing
        return super().put(data, content_type=content_type)

    def get(self, ref: ArtifactRef) -> bytes:
        self.gets += 1
        return super().get(ref)


def large(bodies: Bodies, artifact: bool | None = None) -> Graph:
    """Return a graph with a large value in its middle, a small one beside it, and a look at each."""

    @node(output_name="text", artifact=artifact)
    def write(letter: str) -> str:
        bodies.enter("write")
        return text_of(letter)

    @node(output_name="title")
    def name(letter: str) -> str:
        bodies.enter("name")
        return letter.upper()

    @node(output_name="length")
    def measure(text: str, title: str) -> int:
        bodies.enter("measure")
        return len(text)

    return Graph([write, name, measure], name="large")


def run(store: SqliteCheckpointer, graph: Graph, workflow_id: str = "w", **options: Any) -> Any:
    return SyncRunner(checkpointer=store).run(graph, workflow_id=workflow_id, **options)


def files(store: SqliteCheckpointer) -> list[Path]:
    return [
        f for f in Path(f"{store.backend.location}-artifacts").rglob("*") if f.is_file() and f.name != ".lock"
    ]


def sizes(store: SqliteCheckpointer) -> dict[str, int]:
    """Return how long the rows of values are."""
    with sqlite3.connect(store.backend.location) as connection:
        found = dict(connection.execute("SELECT name, length(data) FROM vals"))
    connection.close()
    return found


def stopped(store: SqliteCheckpointer, bodies: Bodies, **options: Any) -> None:
    """Run until the value is stored, and fail in the node that takes it."""
    bodies.failing["measure"] = OSError("stopped")
    with pytest.raises(OSError, match="stopped"):
        run(store, large(bodies), letter="a", **options)
    bodies.failing.clear()
    bodies.take()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteCheckpointer]:
    made = SqliteCheckpointer(tmp_path / "w.db")
    yield made
    made.close()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[tuple[SqliteCheckpointer, Counting]]:
    artifacts = Counting()
    made = SqliteCheckpointer(tmp_path / "w.db", artifact_store=artifacts)
    yield made, artifacts
    made.close()


# -- where values go -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codecs", CODECS)
@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_a_large_value_is_a_file_and_its_row_stays_small(
    tmp_path: Path, bodies: Bodies, serializer: str, codecs: str
) -> None:
    store = kept(("sqlite", serializer, codecs), tmp_path, artifact_threshold=64)
    assert isinstance(store, SqliteCheckpointer)
    run(store, large(bodies), letter="a")
    assert len(files(store)) == 1
    assert sizes(store)["text"] < 512
    assert store.state("w")["text"] == text_of("a")
    is_readable = text_of("a")[:1000].encode() in files(store)[0].read_bytes()
    assert is_readable is (codecs == "plain")
    store.close()


def test_the_threshold_decides_what_is_large(tmp_path: Path, bodies: Bodies) -> None:
    for threshold, count in ((LARGE + 2, 0), (LARGE + 1, 1), (0, 4)):  # with its two quotes
        folder = tmp_path / str(threshold)
        folder.mkdir()
        store = SqliteCheckpointer(folder / "w.db", artifact_threshold=threshold)
        run(store, large(bodies), letter="a")
        assert len(files(store)) == count
        assert store.state("w") == {"text": text_of("a"), "title": "A", "length": LARGE}
        store.close()


@pytest.mark.parametrize(("artifact", "count"), [(True, 1), (False, 0), (None, 1)])
def test_a_node_may_say_where_its_values_go(
    store: SqliteCheckpointer, bodies: Bodies, artifact: bool | None, count: int
) -> None:
    run(store, large(bodies, artifact), letter="a")
    assert len(files(store)) == count
    assert (sizes(store)["text"] > LARGE) is (count == 0)
    small = Graph([node(output_name="x", artifact=True)(lambda y: y).with_name("small")])
    run(store, small, "small", y=1)
    assert len(files(store)) == count + 1
    assert store.state("small") == {"x": 1}


def test_the_same_content_is_stored_once(store: SqliteCheckpointer, bodies: Bodies) -> None:
    for workflow_id in ("a", "b", "c"):
        run(store, large(bodies), workflow_id, letter="x")
    assert len(files(store)) == 1
    run(store, large(bodies), "d", letter="y")
    assert len(files(store)) == 2


def test_a_large_input_is_a_file_too(store: SqliteCheckpointer) -> None:
    graph = Graph([node(output_name="n")(lambda text: len(text) + 0).with_name("measure")])
    run(store, graph, text="x" * LARGE)
    assert len(files(store)) == 1
    assert store.checkpoint("w").values == {"text": "x" * LARGE, "n": LARGE}


def test_a_large_value_that_grows_is_one_file_and_small_rows(store: SqliteCheckpointer) -> None:
    graph = Graph([node(output_name="x")(lambda turn: ["a" * LARGE, *range(turn)]).with_name("grow")])
    for turn in range(10):
        run(store, graph, turn=turn)
    assert len(files(store)) == 1
    for turn in range(10):
        assert store.state("w", superstep=turn) == {"x": ["a" * LARGE, *range(turn)]}


# -- who reads them --------------------------------------------------------------------------------------

LOOKS: dict[str, Callable[[SqliteCheckpointer], Any]] = {
    "list": lambda store: store.workflows(),
    "print a list": lambda store: str(store.workflows()),
    "list by step": lambda store: store.workflows(where="node:write status=completed"),
    "workflow": lambda store: store.workflow("w"),
    "its steps": lambda store: store.workflow("w").steps,
    "print": lambda store: str(store.workflow("w")),
    "html": lambda store: store.workflow("w")._repr_html_(),
    "as json": lambda store: store.workflow("w").to_dict(),
    "steps without values": lambda store: store.steps("w", values=False),
    "search": lambda store: read(store, "search", "measure"),
    "stats": lambda store: read(store, "stats"),
    "lineage": lambda store: read(store, "lineage", "w"),
    "retain": lambda store: store.backend.retain("w", store.policy, store.encoding),
}


@pytest.mark.parametrize("look", LOOKS)
def test_who_looks_at_workflows_loads_no_artifact(
    counted: tuple[SqliteCheckpointer, Counting], bodies: Bodies, look: str
) -> None:
    store, artifacts = counted
    run(store, large(bodies), letter="a")
    artifacts.gets = 0
    assert LOOKS[look](store) != []
    assert artifacts.gets == 0
    assert store.state("w")["text"] == text_of("a")
    assert artifacts.gets == 1


def test_a_fork_and_a_finished_run_put_nothing_again(
    counted: tuple[SqliteCheckpointer, Counting], bodies: Bodies
) -> None:
    store, artifacts = counted
    run(store, large(bodies), letter="a")
    artifacts.failing = AssertionError("put again")
    run(store, large(bodies), "fork", fork_from=("w", 0))
    run(store, large(bodies))
    assert bodies.take() == ["write", "name", "measure", "measure"]


# -- what is missing -------------------------------------------------------------------------------------


def remove(store: SqliteCheckpointer) -> None:
    for file in files(store):
        file.unlink()


def alter(store: SqliteCheckpointer) -> None:
    for file in files(store):
        file.write_bytes(b"b" * file.stat().st_size)


def cut(store: SqliteCheckpointer) -> None:
    for file in files(store):
        file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("harm", [remove, alter, cut])
def test_a_missing_artifact_is_made_again_if_somebody_needs_it(
    store: SqliteCheckpointer, bodies: Bodies, harm: Callable[[SqliteCheckpointer], None]
) -> None:
    stopped(store, bodies)
    harm(store)
    found = store.state("w")
    assert isinstance(found["text"], Undecodable)
    assert "The artifact " in found["text"].reason
    assert found["title"] == "A"
    assert [step.node_name for step in store.steps("w")] == ["write", "name", "measure"]
    assert store.checkpoint("w").values["letter"] == "a"
    assert run(store, large(bodies))["length"] == LARGE
    assert bodies.take() == ["write", "measure"]
    assert store.state("w") == {"text": text_of("a"), "title": "A", "length": LARGE}


def test_a_missing_artifact_that_nobody_needs_is_no_matter(store: SqliteCheckpointer, bodies: Bodies) -> None:
    run(store, large(bodies), letter="a")
    remove(store)
    bodies.take()
    assert run(store, large(bodies))["length"] == LARGE
    assert bodies.take() == []


def test_an_artifact_that_is_put_back_is_there_again(store: SqliteCheckpointer, bodies: Bodies) -> None:
    stopped(store, bodies)
    (file,) = files(store)
    content = file.read_bytes()
    file.unlink()
    assert isinstance(store.state("w")["text"], Undecodable)
    file.write_bytes(content)
    assert run(store, large(bodies))["length"] == LARGE
    assert bodies.take() == ["measure"]


def test_a_store_without_the_artifacts_says_so(tmp_path: Path, bodies: Bodies) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", artifact_store=MemoryArtifactStore())
    stopped(store, bodies)
    store.close()
    other = SqliteCheckpointer(tmp_path / "w.db")
    found = other.state("w")["text"]
    assert isinstance(found, Undecodable)
    assert "put into a 'memory' store" in found.reason
    other.close()


# -- what goes -------------------------------------------------------------------------------------------


def test_deleting_and_sweeping_removes_what_no_workflow_has(
    store: SqliteCheckpointer, bodies: Bodies
) -> None:
    run(store, large(bodies), "a", letter="x")
    run(store, large(bodies), "b", letter="x")
    run(store, large(bodies), "c", letter="y")
    assert read(store, "gc", older_than=0) == 0
    read(store, "delete", "a", "c")
    assert len(files(store)) == 2
    assert read(store, "gc") == 0, "a run may be about to refer to it"
    assert read(store, "gc", older_than=0) == 1
    assert store.state("b")["text"] == text_of("x")
    read(store, "delete", "b")
    assert read(store, "gc", older_than=0) == 1
    assert files(store) == []


@pytest.mark.parametrize("codecs", ["plain", "zstd+aes"])
def test_a_fork_keeps_the_artifacts_of_its_origin(tmp_path: Path, bodies: Bodies, codecs: str) -> None:
    store = kept(("sqlite", "json", codecs), tmp_path, artifact_threshold=64)
    stopped(store, bodies)
    bodies.failing["measure"] = OSError("stopped")
    with pytest.raises(OSError, match="stopped"):
        run(store, large(bodies), "fork", fork_from=("w", 0))
    bodies.failing.clear()
    read(store, "delete", "w")
    read(store, "gc", older_than=0)
    assert store.state("fork")["text"] == text_of("a")
    assert run(store, large(bodies), "fork")["length"] == LARGE
    assert bodies.take() == ["measure"]
    store.close()


def test_the_retention_lets_artifacts_go(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", retention="latest")
    graph = Graph([node(output_name="x")(lambda turn: str(turn) * LARGE).with_name("make")])
    for turn in range(3):
        run(store, graph, turn=turn)
    assert len(files(store)) == 3
    read(store, "gc", older_than=0)
    assert len(files(store)) == 1
    assert store.state("w") == {"x": "2" * LARGE}
    store.close()


# -- stores in trouble -----------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [StoreFullError, StoreReadOnlyError])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_value_that_cannot_be_put_stops_the_run_and_leaves_no_half_of_it(
    tmp_path: Path, bodies: Bodies, trouble: type[CheckpointError], durability: Any
) -> None:
    artifacts = Counting()
    store = SqliteCheckpointer(tmp_path / "w.db", artifact_store=artifacts, durability=durability)
    artifacts.failing = trouble("no room", location="somewhere")
    with pytest.raises(trouble):
        run(store, large(bodies), letter="a")
    assert "text" not in store.state("w")
    assert "write" not in [step.node_name for step in store.steps("w")]
    assert "measure" not in bodies.take()
    artifacts.failing = None
    assert run(store, large(bodies))["length"] == LARGE
    assert store.state("w") == {"text": text_of("a"), "title": "A", "length": LARGE}
    store.close()


def test_a_folder_that_is_a_file_stops_the_run(tmp_path: Path, bodies: Bodies) -> None:
    Path(tmp_path, "w.db-artifacts").write_text("not a folder")
    store = SqliteCheckpointer(tmp_path / "w.db")
    with pytest.raises(CheckpointError):
        run(store, large(bodies), letter="a")
    assert "text" not in store.state("w")
    store.close()


@pytest.mark.parametrize("where", ["memory", "local"])
def test_object_storage_serves_as_well(tmp_path: Path, bodies: Bodies, where: str) -> None:
    objects = pytest.importorskip("obstore.store")
    kind = objects.MemoryStore() if where == "memory" else objects.LocalStore(tmp_path)
    later = ObjectArtifactStore(kind, clock=lambda: time.time() + 7 * 24 * 3600)
    store = SqliteCheckpointer(tmp_path / "w.db", artifact_store=later)
    stopped(store, bodies)
    assert store.state("w")["text"] == text_of("a")
    assert run(store, large(bodies))["length"] == LARGE
    assert bodies.take() == ["measure"]
    read(store, "delete", "w")
    assert read(store, "gc", older_than=0) == 1
    store.close()


def test_artifacts_are_private_files(store: SqliteCheckpointer, bodies: Bodies) -> None:
    assert isinstance(store.encoding.artifacts, FileArtifactStore)
    run(store, large(bodies), letter="a")
    (file,) = files(store)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


class Watched(FileArtifactStore):
    """An artifact store that tells what is fetched."""

    fetched: ClassVar[list[int]] = []

    def get(self, ref: ArtifactRef) -> bytes:
        self.fetched.append(ref.size)
        return super().get(ref)


def test_a_resume_fetches_only_what_is_still_taken(tmp_path: Path) -> None:
    fails = [True]

    @node(output_name="raw")
    def load(n: int) -> str:
        return "r" * 400_000

    @node(output_name="short")
    def shorten(raw: str) -> str:
        return "s" * 300_000

    @node(output_name="length")
    def measure(short: str) -> int:
        if fails:
            raise OSError(fails.pop())
        return len(short)

    Watched.fetched.clear()
    store = SqliteCheckpointer(tmp_path / "runs.db", artifact_store=Watched(tmp_path / "large"))
    runner, graph = SyncRunner(checkpointer=store), Graph([load, shorten, measure])
    with pytest.raises(OSError, match="True"):
        runner.run(graph, n=1, workflow_id="w")
    assert runner.run(graph, workflow_id="w", select="length")["length"] == 300_000
    assert Watched.fetched == [300_002]
    assert runner.run(graph, workflow_id="w", select="length").values == {"length": 300_000}
    assert Watched.fetched == [300_002]
    assert len(runner.run(graph, workflow_id="w")["raw"]) == 400_000
