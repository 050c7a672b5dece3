"""Notebooks, executed in a kernel of their own.

`python tests/support/notebooks.py FILE` prints one, `--save` keeps it.

What would differ from one execution to the next for no reason (times, versions) is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def executed(path: Path) -> str:
    """Return the notebook with the outputs it has now. Raises CellExecutionError where a cell does."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {}
    return nbformat.writes(notebook) + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if sys.argv[2:] == ["--save"]:
        file.write_text(executed(file), encoding="utf-8")
    else:
        print(executed(file))
