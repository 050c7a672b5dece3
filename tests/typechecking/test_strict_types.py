"""Graphs of the examples, the notebook and the tutorial under strict_types.

`tests/docs/test_docs.py` does the same with the graphs of the other pages.
"""

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.pages import blocks_of, examples
from support.strictness import strict_findings
from support.tutorial import NAMED
from support.tutorial import PAGES as TUTORIAL

ROOT = Path(__file__).parents[2]
EXAMPLES = examples()


Execute = Callable[[Path], None]


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Execute]:
    """Execute a program as a module, beside the modules of its folder; these are forgotten afterwards."""
    folders: list[str] = []

    def execute(path: Path) -> None:
        monkeypatch.syspath_prepend(path.parent)
        folders.append(str(path.parent))
        runpy.run_path(str(path), run_name=path.stem)

    yield execute
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(tuple(folders)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({path.parent.name for path in EXAMPLES}))
def test_graphs_of_an_example_have_strict_types(folder: str, imported: Execute) -> None:
    for path in EXAMPLES:
        if path.parent.name == folder:
            with strict_findings() as findings:
                imported(path)
            assert (path.name, findings) == (path.name, [])


def test_graphs_of_the_notebook_have_strict_types(imported: Execute, tmp_path: Path) -> None:
    cells = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    program = tmp_path / "tour.py"
    program.write_text(
        "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"),
        encoding="utf-8",
    )
    with strict_findings() as findings:
        imported(program)
    assert findings == []


def test_graphs_of_the_tutorial_have_strict_types(imported: Execute, tmp_path: Path) -> None:
    for page in TUTORIAL:
        for block in blocks_of(page):
            name = NAMED.search(block.prose)
            if block.language == "python" and name:
                (tmp_path / name[1]).write_text(block.text, encoding="utf-8")
                with strict_findings() as findings:
                    imported(tmp_path / name[1])
                assert (name[1], findings) == (name[1], [])
