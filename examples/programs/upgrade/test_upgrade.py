"""Runs that began in October end with the code of November, whose prices have another type."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.exceptions import GraphVersionError
from hypergraph.migration import migrate

HERE = Path(__file__).parent


@pytest.fixture
def release() -> Iterator[Any]:
    """Load the shop of a month under the same module name, as a new process would."""

    def load(month: str) -> Any:
        spec = importlib.util.spec_from_file_location("shop", HERE / month / "shop.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["shop"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    del sys.modules["shop"]


OCTOBER = """
import shop
from hypergraph import SyncRunner

runner = SyncRunner(checkpointer="orders.db")
assert runner.run(shop.orders, item="tea", workflow_id="waits").paused
assert runner.run(shop.orders, item="milk", workflow_id="done")["receipt"] == "milk: 2.5 euros"
shop.online = False
assert runner.run(shop.orders, item="milk", workflow_id="failed", error_handling="continue").failed
"""


def environment(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *sys.path]), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def october(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that waits for an answer, one that failed, and one that is done."""
    folder = tmp_path_factory.mktemp("october")
    subprocess.run([sys.executable, "-c", OCTOBER], cwd=folder, env=environment(HERE / "october"), check=True)
    return folder / "orders.db"


@pytest.fixture
def database(october: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(october, tmp_path))


def test_running_work_moves_to_the_new_release(database: Path, release: Any) -> None:
    shop = release("november")
    with SqliteCheckpointer(database) as store:
        runner = SyncRunner(checkpointer=store)
        with pytest.raises(GraphVersionError):
            runner.run(shop.orders, approved=True, workflow_id="waits")
        assert migrate(store, shop.orders, dry_run=True).ok
        assert migrate(store, shop.orders).ok
        with pytest.warns(UserWarning, match="'offer' has changed"):
            waited = runner.run(shop.orders, approved=True, workflow_id="waits")
        assert waited["order"] == shop.Order("tea", 250)
        assert waited["mail"] == "Dear customer, tea: 250 cents"
        with pytest.warns(UserWarning, match="has changed"):
            assert runner.run(shop.orders, workflow_id="failed")["receipt"] == "milk: 250 cents"
        assert store.state("done")["receipt"] == "milk: 2.5 euros"  # what is done stays as it was


def test_a_type_that_changed_without_an_upgrade_is_refused(database: Path) -> None:
    text = (HERE / "november" / "shop.py").read_text(encoding="utf-8")
    without = text.replace("register(Order, version=2, upgrade={1: in_cents})", "")
    (database.parent / "shop.py").write_text(without, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "hypergraph",
        "--db",
        str(database),
        "migrate",
        "shop:orders",
        "--dry-run",
    ]
    done = subprocess.run(
        command, cwd=database.parent, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "offer: its output order.price was float, and is int now" in done.stdout
