"""One browser for these tests, one server for each database, databases that are written only once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import PATIENCE_MS, launched, looking_at
from support.ui_serving import Served, environment, serving

from browser.databases import WRITERS

Serve = Callable[..., Served]
Look = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of the databases. Whoever comes first writes them, all at the same time."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "browsed"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "written").exists():
            _write_all(folder)
            (folder / "written").touch()
    return folder


def _write_all(folder: Path) -> None:
    command = [sys.executable, "-m", "browser.databases"]
    options: dict[str, Any] = {"env": environment(), "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, name, folder / f"{name}.db"], **options) for name in WRITERS]
    for process in started:
        _, said = process.communicate()
        assert process.returncode == 0, said


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser without windows."""
    expect.set_options(timeout=PATIENCE_MS)
    with launched() as started:
        yield started


@pytest.fixture(scope="package")
def serve(databases: Path) -> Iterator[Serve]:
    """Return the server of one of the databases, which nobody changes."""
    running: dict[str, Served] = {}
    with ExitStack() as stack:

        def started(name: str) -> Served:
            if name not in running:
                running[name] = stack.enter_context(serving(databases / f"{name}.db", "--read-only"))
            return running[name]

        yield started


@pytest.fixture
def look(browser: Browser, serve: Serve) -> Look:
    """Open the page of one of the databases; whatever goes wrong in it fails the test."""

    def opened(name: str, **context: Any) -> AbstractContextManager[Page]:
        return looking_at(browser, serve(name), **context)

    return opened
