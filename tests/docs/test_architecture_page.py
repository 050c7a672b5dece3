"""The pages for contributors: every path in them exists, and the picture shows the layers in order."""

import re
from pathlib import Path

import pytest
from test_architecture import LAYERS, PUBLIC

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hypergraph"
PAGES = [ROOT / "docs" / "contributing" / "architecture.md", ROOT / "CONTRIBUTING.md"]
PATH = re.compile(r"\+?[\w.-]*(?:/[\w.*-]*)+|\+?[\w-]+\.(?:py|js|md|toml|db)|Makefile")
PICTURE = re.compile(r"│ (\w+) +│ [^│]+│$", re.MULTILINE)


def paths_in(text: str) -> list[str]:
    """Return the paths in code style; those in blocks of code count if they begin with a folder of ours."""
    blocks = re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL)
    for block in blocks:
        text = text.replace(block, "")
    found = [span for span in re.findall(r"`([^`\n]+)`", text) if PATH.fullmatch(span)]
    return found + [path for block in blocks for path in re.findall(r"\b(?:tests|docs|src)/[\w./-]+", block)]


def wrong(path: str) -> bool:
    """Return whether a path leads nowhere, or one that is said to be new leads somewhere."""
    name = path.removeprefix("+")
    exists = (PACKAGE / name).exists() or (ROOT / name).exists()
    return exists if path.startswith("+") else not exists


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    paths = paths_in(page.read_text(encoding="utf-8"))
    assert len(paths) > 10
    assert [path for path in paths if wrong(path)] == []


def test_the_picture_shows_the_layers_in_their_order() -> None:
    rows = PICTURE.findall(PAGES[0].read_text(encoding="utf-8"))
    assert rows[::-1] == ["hypergraph" if layer == PUBLIC else layer for layer in LAYERS]


def test_the_ten_examples_and_the_nine_files_are_there() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    changes = text.split("## Where a change goes")[1].split("\n## ")[0]
    assert len(re.findall(r"^\| (?!Change|-)", changes, re.MULTILINE)) == 10
    assert len(re.findall(r"^\d\. `", text, re.MULTILINE)) == 9


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see `engine/plan.py` and `run()`", ["engine/plan.py"]),
        (
            "`+nodes/kind.py`, `__init__.py`, `tests/engine/`",
            ["+nodes/kind.py", "__init__.py", "tests/engine/"],
        ),
        ("```bash\npytest tests/none.py\n```", ["tests/none.py"]),
        ("`hypergraph show`, `a = 1`, `max_concurrency`", []),
    ],
)
def test_paths_are_found(text: str, paths: list[str]) -> None:
    assert paths_in(text) == paths


def test_a_path_that_leads_nowhere_is_found() -> None:
    assert wrong("engine/none.py")
    assert wrong("+engine/plan.py")
    assert not wrong("engine/plan.py")
    assert not wrong("+engine/none.py")
