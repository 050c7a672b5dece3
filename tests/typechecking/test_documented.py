"""Programs of the documentation under mypy --strict and pyright, and the examples under mypy.

The ```python blocks of a page are one program, as in `tests/docs/test_docs.py`. One that awaits at its top
level becomes the body of a coroutine. A page may define a name again, and import modules that its reader
writes.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import blocks_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.py"))
PYRIGHT = ROOT / "node_modules" / "pyright" / "index.js"
# Pages that a type checker does not accept, each with the reason.
LEFT_OUT = {
    "docs/coming-from-langgraph.md": "half of its programs are those of LangGraph",
    "docs/reference/checks.md": "shows what the checks of a graph refuse",
    "docs/how-to/limit-concurrency.md": "its global names are local in a coroutine",
    "docs/how-to/use-postgres.md": "a server for tests that does not export its function",
    "docs/how-to/run-a-cluster.md": "a server for tests that does not export its function",
    "docs/how-to/run-nodes-elsewhere.md": "an exception whose class is made at run time",
}
STRICT = [
    *("--strict", "--config-file=", "--no-error-summary", "--follow-imports=silent", "--allow-redefinition"),
    *("--disable-error-code=no-redef", "--disable-error-code=import-not-found"),
    *("--disable-error-code=import-untyped", "--explicit-package-bases"),
]
SETTINGS = {
    "pythonVersion": "3.11",
    "typeCheckingMode": "standard",
    "reportMissingImports": False,
    "reportMissingModuleSource": False,
    "reportRedeclaration": False,
}


def waits(tree: ast.AST) -> bool:
    """Say whether a program awaits at its top level."""
    for found in ast.iter_child_nodes(tree):
        if isinstance(found, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(found, ast.comprehension) and found.is_async:
            return True
        nested = isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        if not nested and waits(found):
            return True
    return False


def program_of(page: Path) -> str:
    """Return the blocks of a page as one program, each line where it stands on the page."""
    lines: list[str] = []
    for block in (block for block in blocks_of(page) if block.language == "python"):
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    text = "\n".join(lines) + "\n"
    tree = compile(text, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not waits(tree):
        return text
    return "async def page() -> None:\n" + textwrap.indent("\n".join(lines[1:]), "    ") + "\n"


def programs() -> Iterator[tuple[str, str]]:
    """Yield the name of a file and its program, for each page that has one."""
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        text = program_of(page) if name not in LEFT_OUT else ""
        if text.strip():
            yield name.removesuffix(".md").replace("/", "_").replace("-", "_") + ".py", text


def as_package(path: Path) -> str:
    """Return the program of an example, with its modules imported from its own folder."""
    names = "|".join(sibling.stem for sibling in path.parent.glob("*.py"))
    text = path.read_text(encoding="utf-8")
    text = re.sub(rf"^from ({names}) import", rf"from {path.parent.name}.\1 import", text, flags=re.MULTILINE)
    return re.sub(rf"^import ({names})$", rf"from {path.parent.name} import \1", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs of all pages and examples."""
    made = tmp_path_factory.mktemp("documented")
    for name, text in programs():
        (made / name).write_text(text, encoding="utf-8")
    for path in EXAMPLES:
        copied = made / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(as_package(path), encoding="utf-8")
    return made


@pytest.mark.slow
def test_mypy_accepts_every_documented_program(folder: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *STRICT,
            "--cache-dir",
            str(folder / ".types"),
            *map(str, folder.glob("*.py")),
        ],
        env={**os.environ, "MYPYPATH": os.pathsep.join([str(ROOT / "src"), str(folder / "examples")])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    assert [line for line in done.stdout.splitlines() if ": error: " in line] == []


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists() or shutil.which("node") is None, reason="npm ci installs pyright")
def test_pyright_accepts_every_documented_program(folder: Path) -> None:
    settings = {"include": ["*.py"], "extraPaths": [str(ROOT / "src")], **SETTINGS}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        ["node", str(PYRIGHT), "--pythonpath", sys.executable, "--outputjson"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 50
    errors = [
        f"{Path(error['file']).name}:{error['range']['start']['line'] + 1}: {error['message']}"
        for error in found["generalDiagnostics"]
        if error["severity"] == "error"
    ]
    assert errors == []


def test_every_page_that_is_left_out_exists() -> None:
    assert [name for name in LEFT_OUT if not (ROOT / name).exists()] == []


def test_a_page_that_awaits_becomes_a_coroutine(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nimport asyncio\nawait asyncio.sleep(0)\n```\n", encoding="utf-8")
    assert program_of(page).splitlines()[:3] == [
        "async def page() -> None:",
        "    import asyncio",
        "    await asyncio.sleep(0)",
    ]
    page.write_text("```python\nasync def f() -> None:\n    await g()\n```\n", encoding="utf-8")
    assert program_of(page) == "\nasync def f() -> None:\n    await g()\n"
