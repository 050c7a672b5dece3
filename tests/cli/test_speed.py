"""Listing is what people do most: it takes hardly longer than starting Python, whatever the store holds."""

import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node
from hypergraph.checkpointers.sql.columns import WRITTEN

WORKFLOWS = 100_000
STEP = ", ".join(WRITTEN[True])
LIMIT = 4.0  # times as long as an interpreter that does nothing
HEAVY = ("dataclasses", "inspect", "json", "argparse", "msgspec", "asyncio", "hypergraph.engine")


@node(output_name="y")
def double(x: int) -> int:
    return 2 * x


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which one workflow was copied until there are many."""
    file = tmp_path_factory.mktemp("large") / "large.db"
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).run(Graph([double], name="g"), {"x": 1}, workflow_id="w0")
    store.backend.database.write(lambda connection: connection.make("workflows_by_parent"))  # as of many
    store.close()
    with sqlite3.connect(file) as connection:
        _, _, *workflow = connection.execute("SELECT * FROM workflows").fetchone()
        _, *step = connection.execute(f"SELECT {STEP} FROM steps").fetchone()
        keys = range(2, WORKFLOWS + 1)
        places = ", ".join("?" * (len(workflow) + 2))
        rows = ((key, f"w{key}", *workflow) for key in keys)
        connection.executemany(f"INSERT INTO workflows VALUES ({places})", rows)
        places = ", ".join("?" * (len(step) + 1))
        connection.executemany(
            f"INSERT INTO steps ({STEP}) VALUES ({places})", ((key, *step) for key in keys)
        )
    return file


def environment(cache: Path) -> dict[str, str]:
    """Return an environment in which modules are compiled once, as they are for users."""
    path = os.pathsep.join(filter(None, sys.path))
    return {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(cache), "PATH": os.environ["PATH"]}


def seconds(arguments: list[str], env: dict[str, str]) -> float:
    """Return what a process works, which other processes hardly change: not how long it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_listing_takes_at_most_four_times_as_long_as_python_itself(large: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    script = ["-c", "import sys; from hypergraph.cli import main; sys.exit(main())", "--db", str(large), "ls"]
    nothing, listing = ["-c", "pass"], script
    seconds(listing, env)  # compiles
    ratios: list[float] = []
    while len(ratios) < 6 and min(ratios, default=LIMIT + 1) > LIMIT:  # other work may be in the way
        pairs = [(seconds(nothing, env), seconds(listing, env)) for _ in range(12)]
        ratios.append(min(b for _, b in pairs) / min(a for a, _ in pairs))
    assert min(ratios) <= LIMIT, ratios


def loaded(modules: tuple[str, ...], *command: str) -> tuple[str, str]:
    """Return what a command prints, and which of these modules it loads."""
    code = (
        "import sys; from hypergraph.cli import main; code = main(); "
        f"print(*sorted(set({modules!r}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.strip()


def test_a_list_loads_neither_engine_nor_encoder(large: Path) -> None:
    printed, heavy = loaded(HEAVY, "--db", str(large), "ls", "--limit", "2")
    assert heavy == ""
    assert f"Workflows ({WORKFLOWS} total)" in printed


def test_a_workflow_at_a_glance_loads_neither_engine_nor_scheduler_nor_encoder(large: Path) -> None:
    ours = ("engine", "runs", "scheduling", "checkpointers.analysis", "values.serializers")
    heavy = ("msgspec", "asyncio", "hashlib", "pickle", *(f"hypergraph.{name}" for name in ours))
    printed, found = loaded(heavy, "--db", str(large), "show", "w0")
    assert found == ""
    assert "Workflow: w0" in printed
