"""`hypergraph export` and `import`: what leaves a store enters another one as it was, and nothing worse."""

import base64
import json
import re
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli
from support.cli_stories import STORIES, stories

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import AesGcmCodec, SqliteCheckpointer
from hypergraph.checkpointers.sql.transfer import dump
from hypergraph.views.export import SCHEMA, exported, imported
from hypergraph.views.problems import Problem

__all__ = ["stories"]


def text_of(store: SqliteCheckpointer, workflow_id: str, *, lines: bool = False) -> bytes:
    return b"".join(exported(store, workflow_id, lines=lines))


@pytest.mark.parametrize("lines", [False, True], ids=["json", "jsonl"])
@pytest.mark.parametrize("story", STORIES)
def test_an_import_restores_every_row(stories: Cli, tmp_path: Path, story: str, lines: bool) -> None:
    source, target = SqliteCheckpointer(stories.database), SqliteCheckpointer(tmp_path / "other.db")
    found = imported(target, text_of(source, story, lines=lines))
    assert found["ids"] == [story, *(child.id for child in below(source, story))]
    assert dump(target, story) == dump(source, story)
    assert repr(target.state(story)) == repr(source.state(story))  # what cannot be read equals nothing
    assert str(target.workflow(story)) == str(source.workflow(story))
    assert repr(target.steps(story)) == repr(source.steps(story))


def below(store: SqliteCheckpointer, workflow_id: str) -> list[Any]:
    return [one for child in store.backend.children(workflow_id) for one in (child, *below(store, child.id))]


@node(output_name="odd")
def make(n: int) -> tuple[Decimal, set[int], bytes]:
    return Decimal("1.50"), {1, 2}, b"\xff\x00"


@node(output_name="large")
def grow(odd: Any) -> str:
    return "x" * 300_000


@node(output_name="end")
def fail(large: str) -> int:
    raise OSError("not yet")


graph = Graph([make, grow, fail], name="values")


def failed_run(path: Path, **options: Any) -> SqliteCheckpointer:
    store = SqliteCheckpointer(path, **options)
    SyncRunner(checkpointer=store).run(graph, n=1, workflow_id="w", error_handling="continue")
    return store


def test_types_and_artifacts_come_along_under_another_id(tmp_path: Path) -> None:
    content = text_of(failed_run(tmp_path / "a.db"), "w")
    target = SqliteCheckpointer(tmp_path / "b.db")
    assert imported(target, content, name="v")["ids"] == ["v"]
    state = target.state("v")
    assert state["odd"] == (Decimal("1.50"), {1, 2}, b"\xff\x00")
    assert len(state["large"]) == 300_000
    assert [step.node_name for step in target.steps("v")] == ["make", "grow", "fail"]


def test_an_imported_run_goes_on_where_it_failed(tmp_path: Path) -> None:
    target = SqliteCheckpointer(tmp_path / "b.db")
    imported(target, text_of(failed_run(tmp_path / "a.db"), "w"))
    calls: list[str] = []

    @node(output_name="end")
    def fail(large: str) -> int:
        calls.append("fail")
        return len(large)

    done = SyncRunner(checkpointer=target).run(Graph([make, grow, fail], name="values"), workflow_id="w")
    assert (done["end"], calls) == (300_000, ["fail"])


def test_children_get_the_new_id_in_front(stories: Cli, tmp_path: Path) -> None:
    source, target = SqliteCheckpointer(stories.database), SqliteCheckpointer(tmp_path / "b.db")
    ids = imported(target, text_of(source, "nightly-1"), name="again")["ids"]
    assert ids[:3] == ["again", "again/score_all", "again/score_all/item-0"]
    assert target.steps("again")[1].child_workflow_id == "again/score_all"
    assert target.workflows(parent="again/score_all").total == 3


def test_a_part_of_a_workflow_needs_its_parent_or_an_id_of_its_own(stories: Cli, tmp_path: Path) -> None:
    source, target = SqliteCheckpointer(stories.database), SqliteCheckpointer(tmp_path / "b.db")
    content = text_of(source, "batch-1/item-2")
    with pytest.raises(Problem, match="its parent 'batch-1' is not here"):
        imported(target, content)
    assert imported(target, content, name="alone")["ids"] == ["alone"]
    assert target.workflows().total == 1


def test_encrypted_values_stay_encrypted_and_bound(tmp_path: Path) -> None:
    key = b"k" * 32
    content = text_of(failed_run(tmp_path / "a.db", codec=AesGcmCodec(key)), "w")
    assert b"xxxxxx" not in base64.b64decode(re.findall(rb'"data":"([^"]{999,})"', content)[0])
    with pytest.raises(Problem, match="encrypted and bound"):
        imported(SqliteCheckpointer(tmp_path / "b.db"), content, name="v")
    with_key = SqliteCheckpointer(tmp_path / "c.db", codec=AesGcmCodec(key))
    imported(with_key, content, name="v")
    imported(with_key, content)
    assert with_key.state("v") == with_key.state("w")
    assert with_key.state("v")["odd"][1] == {1, 2}


def test_an_id_that_is_taken_is_refused_and_nothing_is_changed(stories: Cli, tmp_path: Path) -> None:
    source, target = SqliteCheckpointer(stories.database), SqliteCheckpointer(tmp_path / "b.db")
    content = text_of(source, "batch-1")
    imported(target, content)
    before = dump(target, "batch-1")
    with pytest.raises(Problem, match="exists already") as caught:
        imported(target, content)
    assert caught.value.code == "refused"
    assert dump(target, "batch-1") == before


WORKFLOW = {"kind": "workflow", "id": "w", "status": "completed", "created_at": "2026-01-01T00:00:00Z"}
STEP = {
    "kind": "step",
    "superstep": 0,
    "node": "n",
    "index": 0,
    "status": "completed",
    "created_at": "2026-01-01T00:00:00Z",
}
VALUE = {
    "kind": "value",
    "role": "output",
    "name": "x",
    "superstep": 0,
    "index": 0,
    "node": "n",
    "version": 1,
    "format": "json/1",
    "checksum": zlib.crc32(b"1"),
    "data": "MQ==",
}
HOSTILE: dict[str, Any] = {
    "no parts": [],
    "a step before its workflow": [STEP, WORKFLOW],
    "an unknown kind": [{"kind": "code", "id": "w"}],
    "an unknown field": [{**WORKFLOW, "owner_pid": 1}],
    "an unknown status": [{**WORKFLOW, "status": "great"}],
    "an id of another kind": [{**WORKFLOW, "id": 7}],
    "a bad id": [{**WORKFLOW, "id": "a\x00b"}],
    "an id in another workflow": [{**WORKFLOW, "id": "a/../b"}],
    "a stranger": [WORKFLOW, {**WORKFLOW, "id": "other"}],
    "a child that is none": [WORKFLOW, {**WORKFLOW, "id": "w/x", "parent_id": "victim"}],
    "the same workflow twice": [WORKFLOW, {**WORKFLOW, "id": "w/x", "parent_id": "w"}] * 2,
    "the same step twice": [WORKFLOW, STEP, STEP],
    "the same value twice": [WORKFLOW, VALUE, VALUE],
    "a negative superstep": [WORKFLOW, {**STEP, "superstep": -1}],
    "a number beyond all": [WORKFLOW, {**STEP, "index": 2**63}],
    "a value that was changed": [WORKFLOW, STEP, {**VALUE, "data": "Mg=="}],
    "data that is no base64": [WORKFLOW, {**VALUE, "data": "%%"}],
    "a forged artifact": [WORKFLOW, {"kind": "artifact", "reference": "v1 file 1 ../x", "data": "MQ=="}],
    "an artifact of another name": [
        WORKFLOW,
        {
            "kind": "artifact",
            "reference": f"v1 file 1 {'0' * 64} sha256:{'0' * 64} application/octet-stream",
            "data": "MQ==",
        },
    ],
    "code in a field": [WORKFLOW, {**STEP, "more": {"__class__": "os.system"}}],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_makes_no_sense_is_refused_whole(tmp_path: Path, name: str) -> None:
    store = SqliteCheckpointer(tmp_path / "x.db")
    parts = HOSTILE[name]
    document = json.dumps({"schema": SCHEMA, "items": parts}).encode()
    lines = b"\n".join(json.dumps(part).encode() for part in ({"schema": SCHEMA}, *parts))
    for content in (document, lines):
        with pytest.raises(Problem):
            imported(store, content)
        assert store.workflows(limit=None) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"PK\x03\x04", b"[]", b"{}", b'{"schema": 3}', b'{"schema": "other/1", "items": []}',
     b'{"schema": "hypergraph.export/2", "items": []}', b'{"schema": "hypergraph.export/1"}',
     b"[" * 100_000, b'{"schema": "hypergraph.export/1", "items": ' + b"[" * 100_000, b"\xff\xfe\n\xff"],
)  # fmt: skip
def test_a_foreign_file_is_told_to_be_none_of_ours(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Problem, match="export") as caught:
        imported(SqliteCheckpointer(tmp_path / "x.db"), content)
    assert caught.value.code == "usage"


@pytest.mark.parametrize("lines", [True, False])
def test_a_file_that_lacks_parts_is_refused(stories: Cli, tmp_path: Path, lines: bool) -> None:
    content = b"".join(exported(SqliteCheckpointer(stories.database), "batch-1", lines=lines))
    rows = content.splitlines(keepends=True)
    store = SqliteCheckpointer(tmp_path / "x.db")
    for damaged in (b"".join(rows[:-2]), b"".join(rows[:5] + rows[6:]), b"".join(rows[:1]), content[:-20]):
        with pytest.raises(Problem):
            imported(store, damaged)
        assert store.workflows(limit=None) == []
    with pytest.raises(Problem, match=r"not whole: it has \d+ of \d+ parts"):
        imported(store, b"".join(rows[:5] + rows[6:]))
    imported(store, content)


def test_pickled_values_are_taken_only_on_request_and_never_opened(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "x.db")
    raw = b"cos\nsystem\n(S'touch owned'\ntR."
    boom = {"data": base64.b64encode(raw).decode(), "checksum": zlib.crc32(raw)}
    parts = [WORKFLOW, STEP, {**VALUE, "format": "pickle/1", **boom}]
    content = json.dumps({"schema": SCHEMA, "items": parts}).encode()
    with pytest.raises(Problem, match="pickled values") as caught:
        imported(store, content)
    assert caught.value.code == "refused"
    imported(store, content, allow_pickle=True)
    assert type(store.state("w")["x"]).__name__ == "Undecodable"
    assert not Path("owned").exists()


def test_a_part_whose_inputs_are_those_of_the_whole_is_not_exported_without_them(tmp_path: Path) -> None:
    load = node(output_name="docs")(lambda n: ["doc"] * n).with_name("load")

    def use(question: str, docs: list[str]) -> str:
        return question * len(docs)

    inner = Graph([node(output_name="answer")(use)], name="inner")
    mapped = inner.as_node(name="each").map_over("question")
    store = SqliteCheckpointer(tmp_path / "x.db")
    SyncRunner(checkpointer=store).run(Graph([load, mapped]), n=10, question=["a"], workflow_id="w")
    with pytest.raises(
        Problem, match="'docs' of 'w/each/item-0' is a value of the workflow around"
    ) as caught:
        text_of(store, "w/each/item-0")
    assert caught.value.hint == "Export the whole: hypergraph export w"
    other = SqliteCheckpointer(tmp_path / "other.db")
    imported(other, text_of(store, "w"), name="copy")
    assert other.inputs("copy/each/item-0")["docs"] == ["doc"] * 10


@pytest.mark.slow
def test_the_screens(stories: Cli, tmp_path: Path) -> None:
    here = Cli(stories.database, tmp_path)
    assert "Exported order-456 to o.html | html" in here("export", "order-456", "-o", "o.html").out
    assert here.json("export", "order-456", "--format", "json", "--out", "o")["format"] == "json"
    here.golden("export-exists", "export", "order-456", "-o", "o.html", code=4)
    here.golden("export-no-format", "export", "order-456", "-o", "o.txt", code=2)
    here.golden("export-no-file", "export", "order-456", code=2)
    here.golden("export-unknown", "export", "order-45x", "-o", "x.json", code=1)
    here.golden("export-no-folder", "export", "order-456", "-o", "no/where.json", code=2)
    assert here("export", "order-456", "-o", "-", "--format", "jsonl").out.startswith(
        '{"schema":"hypergraph.export/1","parts":7}'
    )
    other = Cli(tmp_path / "other.db")
    other.golden("import", "import", "o")
    other.golden("import-taken", "import", "o", code=4)
    assert other.json("import", "o", "--as", "mine")["ids"] == ["mine"]
    other.golden("import-no-file", "import", "nowhere.json", code=2)
    other.golden("import-foreign", "import", "o.html", code=2)
    assert oct((tmp_path / "o").stat().st_mode & 0o777) == "0o600"
