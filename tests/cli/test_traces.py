"""Tracebacks that are cut: the last line of the user's own code is among what is left."""

from __future__ import annotations

import pytest

from hypergraph.cli.tables import trace_lines


def frame(file: str, code: str) -> list[str]:
    return [f'  File "{file}", line 3, in f', f"    {code}", "    ^^^^"]


OWN = frame("/home/ann/shop.py", "frame = pandas.read_csv(path)")
THEIRS = frame("/venv/lib/python3.11/site-packages/pandas/io.py", "return read(path)")
OURS = frame("/src/hypergraph/engine/execute.py", "value = step.call()")
END = ["ValueError: no columns"]


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        ([OURS, OWN, *[THEIRS] * 9], ["... 4 lines before", *OWN, "... 19 lines of libraries"]),
        ([*[THEIRS] * 9, OWN], ["... 23 lines before"]),
        ([*[THEIRS] * 9], ["... 20 lines before"]),
        ([OURS, THEIRS, OWN], []),
        (
            [OWN, *[THEIRS] * 2, OWN, *[THEIRS] * 9],
            ["... 10 lines before", *OWN, "... 19 lines of libraries"],
        ),
    ],
    ids=["own first", "own last", "none", "short", "two of them"],
)
def test_the_line_of_the_user_is_shown(frames: list[list[str]], shown: list[str]) -> None:
    lines = ["Traceback (most recent call last):", *(line for each in frames for line in each), *END]
    whole = len(lines) <= 12
    expected = [*shown, *(lines if whole else lines[-9:])]
    assert [line[2:] for line in trace_lines("\n".join(lines) + "\n", 12 if whole else 9)] == expected
    assert [line[2:] for line in trace_lines("\n".join(lines))] == lines
