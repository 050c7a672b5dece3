"""Programs of the documentation, of the examples and of users under mypy --strict and pyright.

The ```python blocks of a page are one program, as in `tests/docs/test_docs.py`. One that awaits at its top
level becomes the body of a coroutine. A page may define a function again: each definition gets its own name.
It may also import modules that its reader writes. A line with `# E: ` and a text must be an error of both
checkers, that of mypy with this text; any other error is a failure.
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
from support.pages import blocks_of, examples

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = examples()
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
PYRIGHT = ROOT / "node_modules" / "pyright" / "index.js"
# Lines of pages that show an error, with the text of mypy.
SHOWN = {"def total(b: str, a) -> int:": "Function is missing a type annotation"}
# Thousands of modules of other libraries, on which no type of ours depends: most of the time of mypy.
OTHERS = (
    *("openai", "langsmith", "langgraph", "langchain_core", "pandas", "numpy"),
    *("fastapi", "starlette", "httpx", "rich"),
)
UNREAD = f"[mypy]\n[mypy-{','.join(f'{name}.*' for name in OTHERS)}]\nfollow_imports = skip\n"
STRICT = [
    *(
        "--strict",
        "--config-file=mypy.ini",
        "--no-error-summary",
        "--follow-imports=silent",
        "--allow-redefinition",
    ),
    *(
        "--disable-error-code=no-redef",  # a page has several files, one of which may import from another
        "--disable-error-code=import-not-found",
        "--disable-error-code=import-untyped",
    ),
    *("--explicit-package-bases", "--hide-error-context", "--allow-untyped-decorators"),
]
SETTINGS = {
    "pythonVersion": "3.11",
    "typeCheckingMode": "standard",
    "useLibraryCodeForTypes": False,  # a library without types is Any, as for mypy
    "reportRedeclaration": False,
    "reportMissingImports": False,
    "reportMissingModuleSource": False,
}
FOUND = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)")

Errors = dict[tuple[str, int], list[str]]
"""The texts of errors by file and line."""


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


def tree_of(text: str, name: str = "page") -> ast.Module:
    """Return the syntax tree of a program that may await at its top level."""
    tree = compile(text, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    return tree


def with_distinct_names(text: str) -> str:
    """Rename each definition that a later one replaces, and the uses of its name up to there."""
    tree = tree_of(text)
    definitions: dict[str, list[int]] = {}
    for each in tree.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = each.decorator_list[0].lineno if each.decorator_list else each.lineno
            definitions.setdefault(each.name, []).append(first)
    lines = [line.encode() for line in text.splitlines()]  # columns of a tree count bytes
    places: list[tuple[int, int, str]] = []
    for found in ast.walk(tree):
        if isinstance(found, ast.Name):
            places.append((found.lineno, found.col_offset, found.id))
        elif isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            column = lines[found.lineno - 1].index(found.name.encode(), found.col_offset + 4)
            places.append((found.lineno, column, found.name))
    for line, column, name in sorted(places, reverse=True):
        later = [first for first in definitions.get(name, [])[1:] if first > line]
        if later:
            old, end = lines[line - 1], column + len(name)
            lines[line - 1] = old[:end] + f"_{len(later)}".encode() + old[end:]
    return b"\n".join(lines).decode() + "\n"


def as_program(text: str) -> str:
    """Return a text of the documentation as a module that a type checker can read."""
    text = with_distinct_names(text)
    for line, error in SHOWN.items():
        text = text.replace(f"{line}\n", f"{line}  # E: {error}\n")
    if not waits(tree_of(text)):
        return text
    inner = re.sub(r"^(\s+)global ", r"\1nonlocal ", text.partition("\n")[2], flags=re.MULTILINE)
    return "async def page() -> None:\n" + textwrap.indent(inner, "    ")


def program_of(page: Path) -> str:
    """Return the blocks of a page as one program, each line where it stands on the page."""
    lines: list[str] = []
    for block in (block for block in blocks_of(page) if block.language == "python"):
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return as_program("\n".join(lines) + "\n")


def notebook_of(path: Path) -> str:
    """Return the cells of a notebook as one program; the last expression of a cell is not printed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return as_program("\n" + "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code"))


def programs() -> Iterator[tuple[str, str]]:
    """Yield the name of a file and its program, for pages, notebooks, examples and programs of users."""
    for page in PAGES:
        text = program_of(page)
        if text.strip():
            name = page.relative_to(ROOT).as_posix()
            yield name.removesuffix(".md").replace("/", "_").replace("-", "_") + ".py", text
    for path in NOTEBOOKS:
        yield f"notebook_{path.stem}.py", notebook_of(path)
    for path in EXAMPLES:
        yield path.relative_to(ROOT).as_posix(), as_package(path)
    for path in PROGRAMS:
        yield f"programs/{path.name}", path.read_text(encoding="utf-8")


def as_package(path: Path) -> str:
    """Return the program of an example, with its modules imported from its own folder."""
    names = "|".join(sibling.stem for sibling in path.parent.glob("*.py"))
    package = ".".join(path.parent.relative_to(ROOT / "examples").parts)
    text = path.read_text(encoding="utf-8")
    text = re.sub(rf"^from ({names}) import", rf"from {package}.\1 import", text, flags=re.MULTILINE)
    return re.sub(rf"^import ({names})$", rf"from {package} import \1", text, flags=re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all programs."""
    for name, text in programs():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def expected(folder: Path) -> dict[tuple[str, int], str]:
    """Return the texts of the errors that programs are to have, by file and line."""
    return {
        (path.relative_to(folder).as_posix(), number): line.split("# E: ")[1]
        for path in folder.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "# E: " in line
    }


def mypy(folder: Path) -> Errors:
    """Return the errors of mypy in all programs of a folder."""
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.py"))]
    (folder / "mypy.ini").write_text(UNREAD, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *STRICT, "--cache-dir", str(folder / ".types"), *files],
        env={**os.environ, "MYPYPATH": os.pathsep.join([str(ROOT / "src"), str(folder / "examples")])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    errors: Errors = {}
    for match in filter(None, map(FOUND.fullmatch, done.stdout.splitlines())):
        errors.setdefault((match["file"], int(match["line"])), []).append(match["text"])
    return errors


def pyright(folder: Path) -> Errors:
    """Return the errors of pyright in all programs of a folder."""
    paths = [str(ROOT / "src"), str(folder / "examples")]
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"include": ["."], "extraPaths": paths, **SETTINGS}), encoding="utf-8"
    )
    done = subprocess.run(
        ["node", str(PYRIGHT), "--pythonpath", sys.executable, "--outputjson"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.rglob("*.py")))
    errors: Errors = {}
    for error in found["generalDiagnostics"]:
        if error["severity"] == "error":
            file = Path(error["file"]).relative_to(folder.resolve()).as_posix()
            errors.setdefault((file, error["range"]["start"]["line"] + 1), []).append(error["message"])
    return errors


def unexpected(errors: Errors, wanted: dict[tuple[str, int], str]) -> list[str]:
    """Return the errors at other places than the wanted ones, as lines."""
    return [
        f"{file}:{line}: {text}"
        for (file, line), texts in errors.items()
        for text in texts
        if (file, line) not in wanted
    ]


@pytest.mark.slow
def test_mypy_finds_the_expected_errors_and_no_other(folder: Path) -> None:
    errors, wanted = mypy(folder), expected(folder)
    assert unexpected(errors, wanted) == []
    assert [each for each in wanted.items() if each[1] not in "".join(errors.get(each[0], []))] == []


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists() or shutil.which("node") is None, reason="npm ci installs pyright")
def test_pyright_finds_the_expected_errors_and_no_other(folder: Path) -> None:
    errors, wanted = pyright(folder), expected(folder)
    assert unexpected(errors, wanted) == []
    assert [each for each in wanted.items() if each[0] not in errors and each[1] not in SHOWN.values()] == []


def test_a_wrong_argument_of_a_node_is_among_the_expected_errors() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PROGRAMS]
    assert all("# E: " in text for text in texts)
    assert any("# E: Argument 1" in text for text in texts)


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


def test_a_global_name_of_a_page_that_awaits_belongs_to_its_coroutine() -> None:
    text = "\nn = 0\ndef f() -> None:\n    global n\n    n += 1\nawait g()\n"
    assert "        nonlocal n\n" in as_program(text)


def test_definitions_of_one_name_become_several() -> None:
    text = "@f('é', f)\ndef f(): return f\nf()\nclass f: ...\nf = g(f=f)\ndef f(): ...\nf()\n"
    assert with_distinct_names(text) == (
        "@f_2('é', f_2)\ndef f_2(): return f_2\nf_2()\nclass f_1: ...\nf_1 = g(f=f_1)\ndef f(): ...\nf()\n"
    )
