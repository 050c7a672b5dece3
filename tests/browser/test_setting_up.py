"""Without a browser, `make test` says what is missing before anything is tested."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_a_machine_without_a_browser_is_told_how_to_get_one(tmp_path: Path) -> None:
    for tool in ("make", "sh", "id", "python3", "echo"):
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name not in ("CHROMIUM", "MAKEFLAGS")}
    environment["PATH"] = str(tmp_path)
    ended = subprocess.run(
        ["make", "browser"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert (
        "The tests need Chromium. Install it (apt-get install chromium), or say where it is:" in ended.stderr
    )
