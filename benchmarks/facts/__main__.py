"""Compare the table on the page with what the installed libraries do; end with 1 if a cell is wrong."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "comparison.md"
LIBRARIES = {  # columns of the table, and the modules that try them
    "hypergraph": "ours",
    "LangGraph": "langgraph",
    "Burr": "burr",
    "pipefunc": "pipefunc",
    "Hamilton": "hamilton",
    "pydantic-graph": "pydantic_graph",
}


def told(column: str) -> dict[str, bool]:
    """Return what the page says of a library, by row; what can be tried begins with "yes" or "no"."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head = next(row for row in rows if "hypergraph" in row)
    cells = {row[0]: row[head.index(column)] for row in rows if len(row) == len(head)}
    return {row: cell.startswith("yes") for row, cell in cells.items() if re.match(r"(yes|no)\b", cell)}


def differences(column: str) -> list[str]:
    """Return what is wrong in a column: a cell that is wrong, or one that no program tries."""
    says = told(column)
    facts = importlib.import_module(f"benchmarks.facts.{LIBRARIES[column]}").FACTS
    tried = {row: check() for row in says for words, check in facts.items() if row.startswith(words)}
    wrong = [f"{row}: it is {'yes' if seen else 'no'}" for row, seen in tried.items() if seen != says[row]]
    return wrong + [f"{row}: not tried" for row in says if row not in tried]


def main() -> int:
    """Check every library that is installed; return 1 if the page is wrong."""
    logging.disable(logging.CRITICAL)
    is_wrong = False
    for column in LIBRARIES:
        try:
            found = differences(column)
        except ImportError as error:
            print(f"{column}: left out ({error})")
            continue
        is_wrong |= bool(found)
        print(f"{column}:", "; ".join(found) or "as the page says")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
