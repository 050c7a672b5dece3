"""The files in `deploy`: their syntax, and that their commands and times fit the worker."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypergraph.cli.commands.worker import worker_options

DEPLOY = Path(__file__).parents[2] / "deploy"
OPTIONS = {option.name for option in worker_options}


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def drain_in(command: str) -> int:
    found = re.search(r"--drain (\d+)", command)
    assert found is not None
    return int(found[1])


def assert_known(command: str) -> None:
    """Check that a command line of a worker has no unknown option."""
    given = {word for word in shlex.split(command.partition(" worker ")[2]) if word.startswith("--")}
    assert given <= OPTIONS


def test_the_compose_file_is_valid_and_leaves_time_to_drain() -> None:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert found.keys() == {"services", "secrets", "volumes"}
    worker = found["services"]["worker"]
    (command,) = worker["command"]
    assert_known(command)
    assert seconds(worker["stop_grace_period"]) > drain_in(command) + 10
    for service in found["services"].values():
        assert set(service["secrets"]) <= found["secrets"].keys()
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= found["volumes"].keys()
        assert set(service.get("depends_on", ())) <= found["services"].keys()


def test_the_unit_is_valid_and_leaves_time_to_drain(tmp_path: Path) -> None:
    text = (DEPLOY / "hypergraph-worker@.service").read_text()
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert_known(service["ExecStart"])
    assert int(service["TimeoutStopSec"]) > drain_in(service["ExecStart"]) + 10


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "hypergraph-worker@.service").read_text()
    copy = tmp_path / "hypergraph-worker@.service"
    copy.write_text(text.replace("/opt/myapp/.venv/bin/hypergraph", sys.executable))
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert "hypergraph-worker" not in ended.stderr, ended.stderr
