"""A stranger at a terminal: follows a page from an empty folder, to the letter.

A ```python block below a line that ends with "`name.py`:" is a file to save under that name. The lines of a
```bash block are typed one after another; a ```text block right below is what the terminal shows then, and
without one it shows nothing. `hypergraph ui` goes on until Ctrl-C: the page it serves is asked for before.

`python tests/support/tutorial.py`, part of `make pictures`, follows the first two parts of docs/tutorial in
one session and writes what the terminal shows into them, and what a browser shows into a picture.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from support.pages import Block, blocks_of, comparable_in_a_terminal
from support.terminal import Terminal
from support.wheels import ROOT, collect, offline

PAGES = [ROOT / "docs" / "tutorial" / f"{name}.md" for name in ("first-graph", "durable-runs")]
PICTURE = ROOT / "docs" / "images" / "ui-tutorial.png"
NAMED = re.compile(r"`([\w.]+)`:$")
SERVING = "Press Ctrl-C to stop.\r\n"


def ask_for(address: str) -> None:
    """Look whether a page is there."""
    with build_opener(HTTPCookieProcessor()).open(address) as answer:
        assert "<title>" in answer.read().decode()


def photograph(address: str) -> None:
    """Take the picture of the page: the fork, and what its last step made."""
    from support.browsing import launched

    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 640})
        page.goto(address)
        page.get_by_text("order-1-cheap").click()
        for part in (".change", ".state .key", "svg.graph .told", ".axis, .wrow.critical"):
            page.locator(part).first.wait_for()
        page.screenshot(path=PICTURE, animations="disabled", caret="hide")


def follow(
    blocks: list[Block], folder: Path, visit: Callable[[str], None] = ask_for
) -> Iterator[tuple[Block, str]]:
    """Do what the blocks say in a folder; yield each block that was typed, with what the terminal showed."""
    work = folder / "first-steps"  # the page makes it
    with Terminal(folder, _surroundings(folder)) as terminal:
        for block in blocks:
            if block.language == "python":
                name = NAMED.search(block.prose)
                assert name, f"line {block.line}: no line above names the file"
                (work / name[1]).write_text(block.text, encoding="utf-8")
            elif block.language == "bash":
                yield block, "".join(_typed(terminal, line, visit) for line in block.text.splitlines())


def _surroundings(folder: Path) -> dict[str, str]:
    """Return the variables of the shell; a clone lies in the folder, and a `python3` is found."""
    (folder / "hypergraph").symlink_to(ROOT)
    programs = folder / "programs"
    programs.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys._base_executable)} "$@"\n')  # type: ignore[attr-defined]
    python.chmod(0o755)
    settings = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "BROWSER": "true"}
    return settings | offline(collect(folder / "wheels"))


def _typed(terminal: Terminal, line: str, visit: Callable[[str], None]) -> str:
    if not line.startswith("hypergraph ui"):
        return terminal.type(line)
    shown = terminal.type(line, upto=SERVING)
    address = re.search(r"http://\S+", shown)
    assert address, shown
    visit(address[0])
    return shown + terminal.interrupt()


def check(folder: Path, *pages: Path) -> None:
    """Follow pages in a folder, in one session; what the terminal shows must be what they say."""
    blocks = [block for page in pages for block in blocks_of(page)]
    answers = {id(block.after): block.text for block in blocks if block.language == "text"}
    for block, shown in follow(blocks, folder):
        said = answers.pop(id(block), "")
        assert comparable_in_a_terminal(shown) == comparable_in_a_terminal(said), (
            f"line {block.line}: {shown}"
        )
    assert not answers, "there are outputs of nothing"


def rewrite(folder: Path, *pages: Path) -> None:
    """Put what the terminal shows into the pages."""
    found = {page: blocks_of(page) for page in pages}
    shown = {id(block): text for block, text in follow([*chain(*found.values())], folder, photograph)}
    for page, blocks in found.items():
        lines = page.read_text(encoding="utf-8").splitlines()
        answers = {id(block.after): block for block in blocks if block.language == "text"}
        for block in reversed([block for block in blocks if id(block) in shown]):
            text = shown[id(block)]
            if old := answers.get(id(block)):
                start = old.line - 1
                lines[start : start + len(old.text.splitlines())] = text.rstrip("\n").splitlines()
            elif text:
                print(f"line {block.line} shows something: {text}")
        page.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        rewrite(Path(folder), *PAGES)
