"""The docs cannot lie: their Python runs, their outputs are what it prints, their commands exist.

The ```python blocks of a page run from top to bottom in one namespace, in an empty directory; top-level
`await` is allowed. A ```text block right below one is what that block must print, where durations, run ids
and the width of the columns that hold them may differ. ```bash blocks hold commands a reader can type.
"""

import ast
import asyncio
import atexit
import contextlib
import inspect
import io
import linecache
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
import types
from pathlib import Path

import pytest
from support.pages import Block, blocks_of, comparable
from support.strictness import strict_findings

from hypergraph.cli import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [*filter(Path.exists, [README]), *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"python", "text", "bash", "mermaid", "json", "toml", "html", "sql"}  # no second word for python
TYPED = {
    ROOT / "docs" / "tutorial" / name for name in ("first-graph.md", "durable-runs.md")
}  # test_tutorial.py
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
every_page_to_read = pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in TYPED], ids=lambda page: page.relative_to(ROOT).as_posix()
)


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of(page)
    expected = {id(block.after): block for block in blocks if block.language == "text" and block.after}
    module = types.ModuleType("__main__")  # what a reader's script would be; pickle and type hints look it up
    monkeypatch.setitem(sys.modules, "__main__", module)
    with strict_findings() as findings, asyncio.Runner() as runner:
        for block in (block for block in blocks if block.language == "python"):
            printed = run_block(page, block, module, runner)
            if answer := expected.get(id(block)):
                assert comparable(printed) == comparable(answer.text), f"{page.name}:{answer.line}: {printed}"
    assert findings == []


def run_block(page: Path, block: Block, module: types.ModuleType, runner: asyncio.Runner) -> str:
    name = f"{page}:{block.line}"  # known to linecache, so that inspect.getsource and tracebacks work
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    code = compile(block.text, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        outcome = eval(code, module.__dict__)
        if inspect.iscoroutine(outcome):
            runner.run(outcome)
    return stdout.getvalue()


def is_known(command: str) -> bool:
    """Tell whether a reader can type this: targets of make, extras of pip, commands and their options."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = command.partition("#")[0].split()
    if words[:1] == ["hypergraph"]:
        return main([*shlex.split(command, comments=True)[1:], "--help"]) == 0
    if words[:1] == ["make"]:
        return len(words) > 1 and set(words[1:]) <= set(targets)
    named = re.findall(r"(?:hypergraph|\.)\[([\w,-]+)\]", command)
    extras = {extra for names in named for extra in names.split(",")}
    return (
        words[:2] == ["pip", "install"] and len(words) > 2 and extras <= set(project["optional-dependencies"])
    )


@every_page_to_read
def test_python_on_the_page_runs_and_prints_what_it_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not below pytest's folder: a second pytest closes that to the user who runs the server of a page.
    place = tempfile.mkdtemp(prefix="page-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)  # after the servers, which come later
    monkeypatch.chdir(place)
    run_page(page, monkeypatch)


@every_page_to_read
def test_commands_on_the_page_exist(page: Path) -> None:
    lines = [
        line for block in blocks_of(page) if block.language == "bash" for line in block.text.splitlines()
    ]
    assert [line for line in lines if line.partition("#")[0].strip() and not is_known(line)] == []


@every_page
def test_blocks_on_the_page_name_a_language_we_check(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= LANGUAGES


def test_readme_is_one_short_page_that_names_both_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    assert "make demo" in text
    assert "make test" in text


GOOD_PAGE = """
```python
import asyncio, inspect, pickle
def double(x):
    return 2 * x
```
```python
await asyncio.sleep(0)
assert inspect.getsource(double).startswith("def double")
assert pickle.loads(pickle.dumps(double)) is double
print("  12ms  ", double(2), "run-0123456789ab")
```

```text
 <1ms 4 run-ba9876543210
```
1. Inside a list, with the loop of the block above:

   ```python
   if await asyncio.sleep(0, True):
       print("  three")
   ```
   ```text
     three
   ```
```python
asyncio.run(asyncio.sleep(0))
```
This text is not what the block above prints:
```text
anything
```
"""


def test_page_shares_a_namespace_and_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD_PAGE, encoding="utf-8")
    run_page(page, monkeypatch)
    assert [block.line for block in blocks_of(page)][:3] == [3, 8, 15]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```", "page.md:5: 1"),
        ("```python\nprint('a  b')\n```\n\n```text\na b\n```", "page.md:6"),
        ("```python\nx = 1\n```\n```python\nassert x == 2, 'second block'\n```", "second block"),
        ("```python\nx = 1\n", "page.md:1: this block is never closed"),
    ],
)
def test_page_that_lies_is_found(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        run_page(page, monkeypatch)


@pytest.mark.parametrize("shown", ["3ms", "<1ms", "0.3s", "12s", "1m02s", "1h02m05s"])
def test_durations_compare_equal(shown: str) -> None:
    assert comparable(f"done |  {shown}") == comparable("done | 250ms")


@pytest.mark.parametrize("shown", ["3 items", "x3ms", "1.2.3s", "3msec"])
def test_other_numbers_are_compared_as_they_are(shown: str) -> None:
    assert comparable(shown) == shown


def test_tables_compare_whatever_their_widths() -> None:
    wide = "  Node    Duration\n  ──────  ────────\n  a       1234ms \n"
    assert comparable(wide) == comparable("  Node  Duration\n  ────  ────────\n  a        1ms\n")
    assert comparable(wide) != comparable(wide.replace(" a ", " b "))


@pytest.mark.parametrize(
    "command",
    ["make demo", "make demo test  # both", "pip install -e '.[viz,cache]'", "hypergraph ls  # all"],
)
def test_commands_that_exist_are_known(command: str) -> None:
    assert is_known(command)


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "make tea",
        "rm -rf x",
        "pip install",
        "pip install -e '.[tea]'",
        "hypergraph tea",
        "hypergraph ls -x",
    ],
)
def test_other_commands_are_not_known(command: str) -> None:
    assert not is_known(command)
