"""Failed runs of production, found and repaired on the command line; nothing is posted twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hypergraph import SyncRunner

HERE = Path(__file__).parent


@pytest.fixture
def production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The night: two runs complete, one meets wrong data, one a rate that is missing."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "invoices.py", tmp_path)
    (tmp_path / "rates.json").write_text('{"at": 0.2}')
    from invoices import invoices

    runner = SyncRunner(checkpointer="runs.db")
    for number, country in ((1, "at"), (2, "at"), (3, "at"), (4, "de")):
        given = {"number": number, "country": country}
        runner.run(invoices, given, workflow_id=f"invoice-{number}", error_handling="continue")
    return tmp_path


def hypergraph(folder: Path, *words: str, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    command = [sys.executable, "-m", "hypergraph", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_morning_after(production: Path) -> None:
    found = json.loads(hypergraph(production, "errors", "--json"))
    assert sorted(group["node"] for group in found["items"]) == ["look_up_rate", "price"]
    assert "{'number': '3', 'net': '12,50'}" in hypergraph(production, "step", "invoice-3", "2")

    (production / "rates.json").write_text('{"at": 0.2, "de": 0.19}')
    hypergraph(production, "resume", "invoice-4", "invoices:invoices")
    repaired = 'invoice={"number": "3", "net": "12.50"}'
    hypergraph(production, "resume", "invoice-3", "invoices:invoices", repaired)

    assert json.loads(hypergraph(production, "errors", "--json"))["items"] == []
    assert (production / "posted.txt").read_text().splitlines() == ["1 15.0", "2 15.0", "4 14.88", "3 15.0"]
    assert "given" in hypergraph(production, "why", "invoice-3", "posted")  # the repair is on record
