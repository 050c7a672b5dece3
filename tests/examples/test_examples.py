"""Every example runs as a reader would run it, and shows what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FACTS = {
    "retry_and_timeout.py": [
        "the line is busy (attempt 2); trying again",
        "price 12.5, attempts 3",
        "failed: node ask_warehouse took longer than its timeout",
    ],
    "state_machine.py": [
        "tries=2, page='<title>Tea</title>', title='Tea'",
        "node parse: execute: not a URL: example.org\nJob(url='example.org', tries=1",
    ],
    "stream_a_reply.py": [
        "You asked: What is the answer? The answer is 42. \n--- when it is done",
        "'You asked: What is the answer? The answer is 42.'",
    ],
}


def test_every_example_has_facts_to_check() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(FACTS)


def test_every_folder_is_tried_as_its_readme_says() -> None:
    tests = "".join(
        path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_examples_*.py")
    )
    folders = {path.parent.name for path in EXAMPLES.glob("*/*.py")}
    assert folders == set(re.findall(r'follow\("(\w+)"', tests))


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTS)
def test_example_runs_and_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [fact for fact in FACTS[name] if fact not in done.stdout] == []
    assert list(tmp_path.iterdir()) == []
