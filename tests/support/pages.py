"""Pages of the documentation, taken apart: their fenced blocks, and outputs made comparable.

What may differ between an output on a page and the real one is named here, and nowhere else: durations, the
ids that runs get by themselves, the width of the columns that hold them; and for what is typed into a
terminal also the day and time, how long ago that was, the releases that are installed, the port and the
secret of the web page, and the order of rows that are sorted by how long things took. Colours are off.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>.*)")
DURATION = re.compile(r"(?<![\w.])(\d+h\d\dm\d\ds|\d+m\d\ds|<?\d+ms|\d+(\.\d+)?s)(?!\w)")
RUN_ID = re.compile(r"\brun-[0-9a-z]{12}\b")
BY_TIME = re.compile(r"(?<= A time B runs B time\n ─ ─ ─ ─ ─\n)( .+\n)+")  # rows of `hypergraph diff`
VARYING_IN_A_TERMINAL = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d \((now|\d+[smh] ago)\)": "WHEN",
    r"^hypergraph [\d.]+ \| Python [\w.+]+ \| SQLite [\d.]+": "RELEASES",
    r"http://127\.0\.0\.1:\d+/#token=[\w-]+": "ADDRESS",
}


@dataclass
class Block:
    """One fenced block: its language, its text and the number of its first line."""

    language: str
    text: str
    line: int
    after: "Block | None" = None  # the block right above, with nothing but blank lines between
    prose: str = ""  # the last line of text above, if there is no other block between


def blocks_of(page: Path) -> list[Block]:
    blocks: list[Block] = []
    above, prose, fence, body = None, "", None, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.fullmatch(line)
        if fence is None and match:
            fence, body, start = match, [], number + 1
        elif fence and line.strip() == fence["ticks"]:
            text = "".join(line.removeprefix(fence["indent"]) + "\n" for line in body)
            above = Block(fence["language"].strip(), text, start, above, prose)
            blocks.append(above)
            fence, prose = None, ""
        elif fence:
            body.append(line)
        elif line.strip():
            above, prose = None, line.strip()
    assert fence is None, f"{page.name}:{start - 1}: this block is never closed"
    return blocks


def examples() -> list[Path]:
    """Return the programs of the examples, without their tests and their twins in another library."""
    found = (Path(__file__).parents[2] / "examples").rglob("*.py")
    return sorted(path for path in found if not path.name.startswith(("test_", "langgraph_")))


def comparable(output: str) -> str:
    """Leave out what differs from run to run: durations, run ids, and the padding around them."""
    text = RUN_ID.sub("run-ID", DURATION.sub("TIME", output))
    if "TIME" in text or "─" in text:
        text = re.sub("─+", "─", re.sub(" +", " ", text))
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def comparable_in_a_terminal(output: str) -> str:
    """Leave out besides what differs from day to day, and from machine to machine."""
    for varying, name in VARYING_IN_A_TERMINAL.items():
        output = re.sub(varying, name, output, flags=re.MULTILINE)
    return BY_TIME.sub(lambda rows: "\n".join(sorted(rows[0].splitlines())) + "\n", comparable(output) + "\n")
