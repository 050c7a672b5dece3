"""Commands that keep a store in order: tags, deletions, backups, checks, copies."""

import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, Cli
from support.cli_stories import stories

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.views.check import check
from hypergraph.views.database import database
from hypergraph.views.doctor import features, health
from hypergraph.views.workflows import with_owners, workflows

__all__ = ["stories"]

pytestmark = pytest.mark.slow  # every call is a process


@pytest.fixture
def mine(stories: Cli, tmp_path: Path) -> Cli:
    """The command, about a copy of the stories that may be changed."""
    SqliteCheckpointer(stories.database).backup(str(tmp_path / "mine.db"))
    return Cli(tmp_path / "mine.db")


def answered(cli: Cli, answer: bytes, *words: str) -> int:
    """Run a command in a terminal, answer its question, and return how it ended."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hypergraph", "--db", cli.database, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=theirs, stdout=pipe, stderr=pipe, env=ENVIRONMENT) as process:
        os.write(ours, answer + b"\n")
        _, asked = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert b"This cannot be undone. [y/N]" in asked
    return process.returncode


def test_tags_are_set_listed_and_taken_off(mine: Cli) -> None:
    mine.golden("tag", "tag", "order-456", "user=ann", "team=a b")
    assert mine.json("tag", "order-456", "--remove", "team")["tags"] == {"user": "ann"}
    assert [item["id"] for item in mine.json("ls", "--tag", "user=ann")["items"]] == ["order-456"]
    mine.golden("tag-nothing", "tag", "order-456", code=2)
    mine.golden("tag-no-pair", "tag", "order-456", "user", code=2)
    mine.golden("tag-unknown", "tag", "nobody", "user=ann", code=1)


def test_a_deletion_is_asked_for_and_takes_children_along(mine: Cli) -> None:
    mine.golden("rm-refused", "rm", "batch-1", code=4)
    assert answered(mine, b"n", "rm", "batch-1") == 4
    assert mine.json("ls", "--graph", "rag_pipeline")["total"] == 1
    assert answered(mine, b"y", "rm", "batch-1") == 0
    assert mine.json("ls", "--graph", "rag_pipeline")["total"] == 0
    mine.golden("rm", "rm", "nightly-1", "refine-1", "--yes")
    mine.golden("rm-unknown", "rm", "order-456", "nobody", "--yes", code=1)
    assert mine.json("ls", "--graph", "orders")["total"] == 3


def test_pruning_goes_by_age(mine: Cli) -> None:
    mine.golden("prune-dry", "prune", "--older-than", "100d", "--keep-failed", "--dry-run")
    assert mine.json("prune", "--older-than", "1000d", "--yes")["ids"] == []
    refused = mine("prune", "--older-than", "100d", "--keep-failed", code=4)
    assert "without a terminal, add --yes" in refused.err
    kept = mine.json("prune", "--older-than", "100d", "--keep-failed", "--yes")["ids"]
    assert "order-457" in kept
    assert {item["status"] for item in mine.json("ls")["items"]} == {"failed", "partial", "paused"}
    mine.golden("prune-nonsense", "prune", "--older-than", "tomorrow", code=2)
    mine.golden("prune-no-age", "prune", code=2)


def test_leftovers_are_collected(mine: Cli) -> None:
    mine.golden("gc", "gc")
    assert mine.json("gc", "--older-than", "0s")["removed"] == 0


def test_a_backup_opens_like_the_original_and_overwrites_nothing(mine: Cli, tmp_path: Path) -> None:
    mine.golden("backup", "backup", "copy.db")
    assert Cli(tmp_path / "copy.db").json("ls")["total"] == mine.json("ls")["total"]
    mine.golden("backup-exists", "backup", "copy.db", code=4)
    mine("tag", "@last", "again=yes")
    mine("backup", "copy.db", "--force")
    assert "again=yes" in Cli(tmp_path / "copy.db")("show", "@last").out
    assert [name for name in os.listdir(tmp_path) if "before" in name] == []
    assert "may overwrite" in mine("backup", "mine.db", "--force", code=4).err
    assert "folder exists" in mine("backup", "no/such/folder.db", code=3).err


def test_info_and_check_of_a_sound_store(mine: Cli) -> None:
    found = mine.json("db", "info")
    assert found == database(SqliteCheckpointer(mine.database))
    assert (found["workflows"]["failed"], found["children"], found["schema_version"]) == (2, 10, 4)
    assert "Database: FILE" in mine.settled(mine("db", "info").out)
    mine.golden("db-check", "db", "check")
    mine.golden("db-migrate", "db", "migrate")
    assert mine.json("db", "migrate")["after"] == 4
    mine.golden("db-without-a-verb", "db", code=2)


def test_a_check_finds_damaged_values_rows_and_lost_artifacts(tmp_path: Path) -> None:
    @node(output_name="large")
    def grow(n: int) -> str:
        return "x" * 300_000

    store = SqliteCheckpointer(tmp_path / "x.db")
    SyncRunner(checkpointer=store).run(Graph([grow]), n=1, workflow_id="big")
    SyncRunner(checkpointer=store).run(Graph([grow]), n=1, workflow_id="same")
    assert check(store)["items"] == []
    assert (database(store)["artifacts"], check(store)["artifacts"]) == (1, 1)  # the lock is none
    with sqlite3.connect(store.backend.location) as connection:
        connection.execute("UPDATE vals SET data = x'00' WHERE name = 'n'")
        connection.execute("UPDATE steps SET versions = 'nonsense'")
    connection.close()
    shutil.rmtree(store.backend.location + "-artifacts")
    found = [item["what"] for item in check(store)["items"]]
    assert any("value 'n' of superstep 0 is damaged" in what for what in found)
    assert any("contains a damaged row" in what for what in found)
    assert any("the file is missing" in what for what in found)
    assert Cli(store.backend.location).json("db", "check", code=3)["items"]


def test_workflows_are_copied_to_another_file(mine: Cli, tmp_path: Path) -> None:
    mine.golden("db-copy", "db", "copy", "mine.db", "all.db")
    assert Cli(tmp_path / "all.db").json("ls")["total"] == mine.json("ls")["total"]
    mine.golden("db-copy-some", "db", "copy", "mine.db", "some.db", "--workflow", "batch-1")
    assert Cli(tmp_path / "some.db").json("ls", "--parent", "batch-1")["total"] == 6
    mine.golden("db-copy-taken", "db", "copy", "mine.db", "some.db", code=4)
    mine.golden("db-copy-nothing", "db", "copy", "no.db", "x.db", code=3)


def test_the_doctor_reads_the_extras_from_the_package() -> None:
    found = features()
    assert found["zstd"] == ["zstandard"]
    assert set(found["ui"]) == {"starlette", "uvicorn"}
    assert not {"all", "dev", "cluster"} & found.keys()


def test_the_doctor_looks_at_the_store(mine: Cli, tmp_path: Path) -> None:
    found = mine.json("doctor")
    assert found["trouble"] == 0
    assert {"python", "hypergraph", "sqlite", "store", "active"} <= {item["check"] for item in found["items"]}
    assert "No problems" in mine("doctor").out
    new = tmp_path / "new.db"
    assert f"new.db; hypergraph --db {new} run creates it" in Cli(new)("doctor").out
    (tmp_path / "odd.db").write_text("this is no database" * 90)
    assert Cli(tmp_path / "odd.db").json("doctor", code=3)["trouble"] == 1


def test_a_workflow_that_nobody_runs_any_more_is_told_from_one_at_work(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "x.db")
    program = (
        "import os, sys\nfrom hypergraph.checkpointers import SqliteCheckpointer\n"
        "from hypergraph.checkpointers.records import NewWorkflow\n"
        "store = SqliteCheckpointer(sys.argv[1])\n"
        "store.backend.claim(sys.argv[2], NewWorkflow(), store.encoding)\n"
        "print('claimed', flush=True)\n"
        "sys.stdin.read()\nos._exit(9)"
    )
    command = [sys.executable, "-c", program, store.backend.location]
    subprocess.run([*command, "dead"], check=False, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    with subprocess.Popen(
        [*command, "alive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        found = {
            item["id"]: item["alive"]
            for item in with_owners(store, workflows(store.backend, status="active"))["items"]
        }
        findings = {item["check"]: item["detail"] for item in health(store.backend.location)["items"]}
    assert found == {"alive": True, "dead": False}
    assert findings["active"] == "alive"
    assert findings["left active"].startswith("dead: their owner processes are gone")


def test_version_schema_and_completion(mine: Cli) -> None:
    assert mine.json("version")["schema"] == "hypergraph.version/1"
    assert mine("version").out.startswith("hypergraph ")
    assert '"const": "hypergraph.version/1"' in mine("schema", "version").out
    mine.golden("schema-unknown", "schema", "stpes", code=1)
    assert "hypergraph.run/1" in mine("schema").out
    mine.golden("completion-unknown", "completion", "tcsh", code=2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_sound(mine: Cli, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    script = mine("completion", shell, "--full").out
    done = subprocess.run([shell, "-n"], input=script.encode(), check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bash_completes_commands_options_choices_and_ids(mine: Cli, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    command = tmp_path / "hypergraph"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hypergraph "$@"\n')
    command.chmod(0o755)
    SqliteCheckpointer(mine.database).create_workflow("$(touch owned)")
    (tmp_path / "script").write_text(mine("completion", "bash", "--full").out)
    program = (
        'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hypergraph; echo "${COMPREPLY[*]}"'
    )
    environment = ENVIRONMENT | {"HYPERGRAPH_DB": mine.database, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = {
        "hypergraph exp": "export",
        "hypergraph db c": "check copy",
        "hypergraph run --map-mode p": "product",
        "hypergraph resume order-456": "order-456-retry order-456",
        "hypergraph ls --st": "--status",
        "hypergraph rm $": "",
    }
    for line, wanted in asked.items():
        words = ["bash", "-c", program, "bash", *line.split(" ")]
        done = subprocess.run(words, check=True, capture_output=True, cwd=tmp_path, env=environment)
        assert done.stdout.decode().strip() == wanted, line
    assert not (tmp_path / "owned").exists()
