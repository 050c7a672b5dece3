"""A notebook session: fifty orders, three corrected, two prices compared, one run forked."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient


def test_the_notebook_calls_what_failed_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(Path(__file__).with_name("session.ipynb"), as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    texts = [
        "".join(o.get("text") or o["data"]["text/plain"] for o in outputs) for outputs in cells if outputs
    ]
    assert "47 completed, 3 failed" in texts[0]
    assert [line.split()[1] for line in texts[1].splitlines()[1:]] == ["107", "121", "140"]
    assert (texts[2], texts[3], texts[5]) == ("[107, 121, 140]\n", "4590.0", "0.0 43.2\n")
    assert "item-4   values differ at position 1 in add_tax" in texts[4]
