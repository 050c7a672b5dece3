"""Rows that somebody planted: read, listed, printed, searched and resumed, with nothing imported or called.

Every hostile value stands in a workflow of its own, in the place of a value that a node made. One process
looks at all of them, under an audit hook that notes whatever Python imports, compiles, starts or opens.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.durable import Bodies, pipeline
from support.processes import Elsewhere, elsewhere

from hypergraph import Graph, SyncRunner
from hypergraph.checkpointers import CodecChain, SqliteCheckpointer, Undecodable, ZlibCodec, ZstdCodec
from hypergraph.exceptions import ValueUnreadableError

__all__ = ["elsewhere"]  # a fixture

MIB = 1024 * 1024
HEX = "ab" * 32
WATCHED = (
    "import",
    "exec",
    "compile",
    "open",
    "os.",
    "subprocess.",
    "pickle.",
    "socket.connect",
    "ctypes.",
    "shutil.",
)
_NEEDED = ("os.listdir", "os.scandir")  # none of these changes or runs anything


class Canary:
    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch canary",)


def _tagged(name: str, fields: Any) -> bytes:
    return json.dumps({"$": "object", "of": name, "v": fields}).encode()


def _patch(start: int, end: int, head: int, checksum: int, rest: bytes) -> bytes:
    return struct.pack(">QQII", start, end, head, checksum) + rest


def _reference(key: str, size: str = "5", checksum: str = "") -> bytes:
    return f"v1 file {size} {key} {checksum or 'sha256:' + key} application/json".encode()


PICKLED = pickle.dumps(Canary())
ZEROS = bytes(64 * MIB)
HOSTILE: dict[str, tuple[Any, Any, Any, str]] = {  # format, data, base -> part of the reason
    "pickle called json": ("json/1", PICKLED, None, "not readable as json"),
    "pickle": ("pickle/1", PICKLED, None, "written as 'pickle/1', this store reads 'json/1'"),
    "os.system": ("json/1", _tagged("os:system", ["touch canary"]), None, "os:system"),
    "subprocess": ("json/1", _tagged("subprocess:Popen", {"args": "touch canary"}), None, "subprocess:Popen"),
    "a module": ("json/1", _tagged("antigravity:fly", {}), None, "antigravity:fly"),
    "a class that moved": ("json/1", _tagged("gone.away:Thing", {"x": 1}), None, "gone.away:Thing"),
    "deep json": ("json/1", b"[" * 200_000 + b"]" * 200_000, None, "not readable as json"),
    "deep tags": ("json/1", b'{"$":"tuple","v":[' * 50_000, None, "not readable as json"),
    "a long integer": ("json/1", json.dumps({"$": "int", "v": "9" * 5000}).encode(), None, ""),
    "no utf-8": ("json/1", b'"\xff\xfe"', None, "not readable as json"),
    "nothing": ("json/1", b"", None, "not readable as json"),
    "half": ("json/1", b'{"a": [1,', None, "not readable as json"),
    "a zlib bomb": ("json/1+zlib/1", zlib.compress(ZEROS), None, "larger than the 1048576 bytes"),
    "a zstd bomb": ("json/1+zstd/1", zstandard.compress(ZEROS), None, "larger than the 1048576 bytes"),
    "a zstd frame that lies": ("json/1+zstd/1", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8, None, ""),
    "no zlib": ("json/1+zlib/1", b"not compressed", None, "cannot decompress the stored bytes"),
    "an unknown codec": ("json/1+rot13/1", b"1", None, "has no codec 'rot13'"),
    "a format of nonsense": ("+/~@+", b"1", None, ""),
    "an empty format": ("", b"1", None, "written as ''"),
    "a newer format": ("json/99", b"1", None, "written as 'json/99'"),
    "a patch that does not fit": ("json/1~", _patch(0, 10**6, 0, 0, b"x"), 0, "does not fit"),
    "a patch of a lie": ("json/1~", _patch(0, 1, 0, 12345, b"7"), 0, "does not fit"),
    "a patch with an endless head": ("json/1~", _patch(0, 1, 2**32 - 1, 0, b"7"), 0, "does not fit"),
    "a patch turned around": ("json/1~", _patch(2**63, 1, 0, 0, b"7"), 0, "does not fit"),
    "a patch cut off": ("json/1~", b"\x00" * 7, 0, "is cut off"),
    "a patch of the future": ("json/1~", _patch(0, 1, 0, 0, b"7"), 99, "beginning of a growing value"),
    "a patch of nothing": ("json/1~", _patch(0, 1, 0, 0, b"7"), -5, ""),
    "a base that is text": ("json/1~", _patch(0, 1, 0, 0, b"7"), "x", "beginning of a growing value"),
    "a reference upwards": ("json/1@", _reference("../" * 21 + "x"), None, "reference to an artifact"),
    "a reference to a file": ("json/1@", _reference("/etc/passwd"), None, "reference to an artifact"),
    "a reference to nothing": ("json/1@", _reference(HEX), None, "The artifact " + HEX),
    "a reference of a huge size": ("json/1@", _reference(HEX, "9" * 17), None, "The artifact " + HEX),
    "a reference that is none": ("json/1@", b"\xff\xfe", None, ""),
    "text for bytes": ("json/1", "7", None, ""),
    "a number for bytes": ("json/1", 2**40, None, ""),
    "bytes for a format": (b"json/1", b"7", None, ""),
}


OF_CLASSES = ("os.system", "subprocess", "a module", "a class that moved")  # refused, not made again
OF_SETTINGS = ("pickle", "an unknown codec", "a newer format")


def opened(folder: Path) -> SqliteCheckpointer:
    reads = [ZlibCodec(max_size=MIB), ZstdCodec(max_size=MIB)]
    return SqliteCheckpointer(folder / "w.db", codec=CodecChain(also_reads=reads))


def plant(folder: Path) -> None:
    """Stop a workflow for each hostile value before the node that takes it, and put it there."""
    store, bodies = opened(folder), Bodies()
    bodies.failing["s3"] = OSError("stopped")
    runner = SyncRunner(checkpointer=store)
    for name in ("harmless", *HOSTILE):
        runner.run(pipeline(bodies), v0=0, workflow_id=name, error_handling="continue")
    store.close()
    connection = sqlite3.connect(folder / "w.db")
    for name, (format, data, base, _) in HOSTILE.items():
        own = "workflow = (SELECT key FROM workflows WHERE id = ?)"
        if base is not None:  # something that it could extend
            connection.execute(
                "INSERT INTO vals SELECT workflow, kind, name, 0, 0, 's0', 0, 'json/1', ?, x'5b315d', NULL "
                f"FROM vals WHERE {own} AND name = 'v2'",
                (zlib.crc32(b"[1]"), name),
            )
        checksum = zlib.crc32(data) if isinstance(data, bytes) else 0
        connection.execute(
            f"UPDATE vals SET format = ?, data = ?, base = ?, checksum = ? WHERE {own} AND name = 'v2' "
            "AND superstep = 1",
            (format, data, base, checksum, name),
        )
    connection.commit()
    connection.close()


def look(store: SqliteCheckpointer, graph: Graph, bodies: Bodies, workflow_id: str) -> dict[str, Any]:
    """Do with a workflow what people do; return what was found in place of the value, and what ran."""
    state, steps, point = store.state(workflow_id), store.steps(workflow_id), store.checkpoint(workflow_id)
    found = [
        state.get("v2"),
        next(s for s in steps if s.node_name == "s2").values.get("v2"),
        point.values.get("v2"),
    ]
    store.workflows()
    shown = str(store.workflow(workflow_id)) + json.dumps([step.to_dict() for step in steps])
    runner = SyncRunner(checkpointer=store)
    refused: list[str] = []
    results: list[Any] = []
    for options in ({"fork_from": (workflow_id, 2), "workflow_id": f"fork of {workflow_id}"}, {}):
        try:
            results.append(runner.run(graph, **{"workflow_id": workflow_id, **options})["v5"])
        except ValueUnreadableError as error:
            refused.append(error.class_name or "")
    return {
        "reasons": [value.reason if isinstance(value, Undecodable) else repr(value) for value in found],
        "undecodable": [isinstance(value, Undecodable) for value in found],
        "others": (state["v1"], point.values["v0"]),
        "shown": len(shown) > 0,
        "ran": bodies.take(),
        "results": results,
        "refused": refused,
        "after": store.state(workflow_id),
    }


def watch(folder: Path) -> dict[str, Any]:
    """Look at every workflow, and return what was found and what Python did meanwhile."""
    store, happened, bodies = opened(folder), [], Bodies()
    graph = pipeline(bodies)
    look(store, graph, bodies, "harmless")  # whatever is loaded on first use
    store.search("nothing")
    bodies.take()

    def note(event: str, args: tuple[Any, ...]) -> None:
        if active and event.startswith(WATCHED) and not event.startswith(_NEEDED):
            happened.append((event, repr(args[:2])[:200]))

    active, modules = True, set(sys.modules)
    sys.addaudithook(note)
    compile("1", "control", "eval")
    found = {name: look(store, graph, bodies, name) for name in HOSTILE}
    mentioned = store.search("s2", limit=None)
    active = False
    store.close()
    return {
        "found": found,
        "mentioned": len(mentioned),
        "happened": happened,
        "modules": sorted(set(sys.modules) - modules),
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere) -> dict[str, Any]:
    """What a process of its own saw in the planted store."""
    folder = tmp_path_factory.mktemp("planted")
    plant(folder)
    found: dict[str, Any] = elsewhere(watch, folder)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_planted_value_is_undecodable_and_made_again_or_refused(seen: dict[str, Any], name: str) -> None:
    found = seen["found"][name]
    assert found["undecodable"] == [True] * 3, found["reasons"]
    assert all(HOSTILE[name][3] in reason and len(reason) < 1000 for reason in found["reasons"]), found[
        "reasons"
    ]
    assert found["others"] == (1, 0)
    if name in OF_CLASSES:
        assert found["refused"] == [HOSTILE[name][3]] * 2
        assert found["results"] == found["ran"] == []
        return
    if name in OF_SETTINGS:  # another store may read it
        assert found["refused"] == ["", ""]
        assert found["results"] == found["ran"] == []
        return
    assert found["results"] == [5, 5]
    assert found["ran"] == ["s2", "s3", "s4", "s5"] * 2
    assert found["after"] == {f"v{n}": n for n in range(1, 6)}


def test_nothing_was_imported_started_or_opened(seen: dict[str, Any]) -> None:
    assert seen["modules"] == []
    foreign = [one for one in seen["happened"] if "w.db" not in one[1]]
    assert foreign == [("compile", "(b'1', 'control')")], "more than what shows that somebody watches"


def test_the_search_goes_past_them(seen: dict[str, Any]) -> None:
    assert seen["mentioned"] >= 2 * len(HOSTILE)


def test_artifacts_are_swept_past_them(tmp_path: Path) -> None:
    plant(tmp_path)
    assert opened(tmp_path).gc(older_than=0) == 0
