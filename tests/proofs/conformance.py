"""The contract of stores, asked of each by the public suite; a slice has none, `make test` asks it all."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from proofs.outcome import Outcome

NAME = "conformance of stores"
TESTS = ["checkpointers/test_conformance.py", "checkpointers/postgres/test_store.py"]


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Run the conformance tests of every store and count them."""
    return tested(Outcome(NAME), TESTS, scale)


def tested(outcome: Outcome, files: Sequence[str], scale: float) -> Outcome:
    """Run files of tests and count each test as a case, unless only a slice is asked for."""
    if scale < 1:
        outcome.skipped = "its tests have it all"
        return outcome
    with outcome.timed(), tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        paths = [str(Path(__file__).parent.parent / name) for name in files]
        subprocess.run([*command, *paths], check=False, stdout=subprocess.DEVNULL)
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("skipped") is None:
                found = [*case.findall("failure"), *case.findall("error")]
                outcome.count(f"{case.get('name')}:\n{found[0].text}" if found else None)
    return outcome
