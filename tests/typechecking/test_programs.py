"""Programs of users under mypy --strict: every expected error is found, and no other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
SOURCE = Path(__file__).parents[2] / "src"
_FOUND = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], list[str]]:
    """The errors of all programs, by file and line."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"),
            *("--follow-imports=silent", "--cache-dir", str(tmp_path_factory.mktemp("types"))),
            *(str(path) for path in PROGRAMS),
        ],
        env={**os.environ, "MYPYPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    errors: dict[tuple[str, int], list[str]] = {}
    for line in done.stdout.splitlines():
        if match := _FOUND.fullmatch(line):
            errors.setdefault((Path(match["file"]).name, int(match["line"])), []).append(match["text"])
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_every_expected_error_is_found_and_no_other(
    program: Path, found: dict[tuple[str, int], list[str]]
) -> None:
    expected = {
        number: line.split("# E: ")[1]
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
        if "# E: " in line
    }
    errors = {line: texts for (file, line), texts in found.items() if file == program.name}
    assert expected
    assert {line: texts for line, texts in errors.items() if line not in expected} == {}
    missed = {line: (text, errors.get(line)) for line, text in expected.items()}
    assert {n: pair for n, pair in missed.items() if not any(pair[0] in e for e in pair[1] or ())} == {}
