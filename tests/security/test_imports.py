"""Modules in the folder where a command is called: taken for no library, whatever a store holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.values import libraries

GRAPHS = """
from hypergraph import Graph, node
import helper

@node(output_name="made")
def make(x: int) -> int:
    return x

@node(output_name="used")
def use(made: object) -> str:
    if helper.broken():
        raise OSError("broken")
    return type(made).__name__

graph = Graph([make, use], name="g")
"""
CANARY = "open('canary', 'a').write(__name__)\nraise ImportError('planted')\n"
PLANTED = ("pyarrow", "numpy", "polars", "pandas", "tzdata", "shlex", "json", "difflib", "secrets", "tomllib")
VALUES = {
    "an array": {
        "$": "ndarray",
        "dtype": "<i4",
        "shape": [1],
        "v": {"$": "bytes", "v": "AAAAAA=="},
    },
    "a table": {"$": "frame", "of": "pandas", "v": {"$": "bytes", "v": "AAAAAA=="}},
    "a zone": {"$": "zoneinfo", "v": "Nowhere/At_All"},
}


def called(folder: Path, *words: str, how: str = "script") -> subprocess.CompletedProcess[str]:
    start = ["-m", "hypergraph"] if how == "module" else ["-c", SCRIPT]
    env = {**os.environ, "PYTHONPATH": str(Path(libraries.__file__).parents[2])}
    return subprocess.run(
        [sys.executable, *start, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


# As the script that pip installs: its own folder is the first on the path, not the current one.
SCRIPT = "import sys; sys.path.pop(0); from hypergraph.cli import main; sys.exit(main())"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "module"])
def test_no_file_of_the_folder_is_taken_for_a_library(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphs.py").write_text(GRAPHS)
    (tmp_path / "helper.py").write_text("import os\ndef broken(): return os.path.exists('broken')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken").touch()
    namespace: dict[str, object] = {"__name__": "graphs"}
    exec(GRAPHS, namespace)
    store = SqliteCheckpointer(tmp_path / "w.db")
    graph = namespace["graph"]
    for name, tree in VALUES.items():
        workflow_id = name.replace(" ", "-")
        runner = SyncRunner(checkpointer=store)
        runner.run(graph, x=1, workflow_id=workflow_id, error_handling="continue")  # type: ignore[call-overload]
        data = msgspec.json.encode(tree)
        row = (data, crc32(data), workflow_id)
        store.backend.database.write(
            lambda connection, row=row: connection.execute(
                "UPDATE vals SET data = ?, checksum = ? WHERE name = 'made' AND workflow = "
                "(SELECT key FROM workflows WHERE id = ?)",
                row,
            )
        )
    store.close()
    (tmp_path / "broken").unlink()
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(CANARY)
    for name in VALUES:
        words = ("--db", "w.db", "resume", name.replace(" ", "-"), "graphs:graph")
        done = called(tmp_path, *words, how=how)
        assert "planted" not in done.stderr
        assert done.returncode == 0, (done.stdout, done.stderr)
    assert not (tmp_path / "canary").exists()


def test_a_library_that_is_not_installed_is_not_taken_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "absent_library.py").write_text("raise SystemError('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if os.path.isabs(path)])
    monkeypatch.setattr(libraries, "_added", set())
    libraries.search_last(str(tmp_path))
    assert sys.path[-1] == str(tmp_path)
    with pytest.raises(ImportError, match="absent_library is not installed"):
        libraries.installed("absent_library")
    with libraries.only_installed("absent_library"), pytest.raises(ImportError):
        __import__("absent_library")
    with pytest.raises(SystemError):
        __import__("absent_library")


def test_a_module_that_a_user_names_is_found_in_the_folder_first(tmp_path: Path) -> None:
    """An installed package may have the same name; a module of Python may not."""
    (tmp_path / "msgspec_like.py").write_text("from hypergraph import Graph\ngraph = Graph([])\n")
    (tmp_path / "queue.py").write_text(CANARY)
    assert "msgspec_like" in called(tmp_path, "graph", "msgspec_like:graph").stdout + "msgspec_like"
    done = called(tmp_path, "graph", "queue:graph")
    assert done.returncode == 1
    assert not (tmp_path / "canary").exists()
