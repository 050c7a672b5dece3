"""Output of commands: tables and trees for a terminal, JSON for programs, and texts of statuses and times."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from hypergraph.cli.call import Reply
from hypergraph.clock import now
from hypergraph.display import Block, Table, as_text, columns, escape, escape_json, execution_time, run_time
from hypergraph.views.problems import REFUSED, USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.views.workflows import WorkflowSummary

_COLOURS = {
    "FAILED": "31",
    "completed": "32",
    "cached": "36",
    "active": "34",
    "paused": "33",
    "partial": "33",
    "stopped": "33",
    "skipped": "2",
}
_OWN = r"(?<![\w`])hypergraph (?=[a-z])(?!demo\b|\w+ --help)"  # a command of ours in a text
# The characters that no shell changes.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-")
_LEAST = 6  # characters of a cell, in a narrow terminal too
_READABLE = 12  # characters that make a cell readable
_AGES = ((60, "s"), (60, "m"), (24, "h"), (10_000_000, "d"))
_LEFT_OUT_FIRST = frozenset({"Superstep"})  # in a narrow terminal; then columns from the right
_ESSENTIAL = {"ID", "Node", "Name", "Key", "Step", "Item", "Status", "Value", "Error"}


class Screen:
    """The output of one call."""

    def __init__(self, arguments: Sequence[str]) -> None:
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        self.lines = "--jsonl" in options
        self.machine = self.lines or "--json" in options
        terminal = sys.stdout.isatty()
        self.width = _width() if terminal else None
        self.database: str | None = None  # that --db gave
        self.colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def show(self, reply: Reply) -> None:
        """Print a reply; suggested commands repeat the database that was given."""
        if self.machine:
            self._print_json(reply.document)
            return
        if reply.header or reply.blocks is not tuple:
            print(self._laid_out(reply))
        for number, command in enumerate(reply.next[:3]):
            lead = "     " if number else "\nnext:"
            print(self._dim(f"{lead} {escape(located(command, self.database))}"))

    def complain(self, problem: Problem) -> None:
        """Print a problem: as JSON on stdout with --json, else on stderr."""
        if self.machine:
            print(as_json(problem.to_dict()))
            return
        for line in f"hypergraph: {problem.message}".split("\n"):
            say(escape(line))
        matches = [f"  {escape(match)}" for match in problem.matches]
        hint = [escape(located(problem.hint, self.database))] if problem.hint else []
        introduces = problem.hint.endswith((":", "?"))
        for line in (*hint, *matches) if introduces else (*matches, *hint):
            say(line)

    def _print_json(self, document: Any) -> None:
        if not self.lines:
            print(as_json(document, indent=2))
            return
        for item in document.get("items", [document]):
            print(as_json(item))

    def _laid_out(self, reply: Reply) -> str:
        blocks = [self._fitting(block) if isinstance(block, Table) else block for block in reply.blocks()]
        text = as_text(reply.header, *blocks)
        return self._painted(text, blocks) if self.colours else text

    def _fitting(self, table: Table) -> Table:
        """Drop less important columns, then shorten cells of the widest columns, until the table fits."""
        if self.width is None:
            return table
        rows = [list(table.headings), *([escape(cell) for cell in row] for row in table.rows)]
        widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
        for heading in (*_LEFT_OUT_FIRST.intersection(table.headings), *reversed(table.headings)):
            readable = sum(min(width, _READABLE) for width in widths)
            if readable > self._room(widths) and heading not in _ESSENTIAL and heading in rows[0]:
                place = rows[0].index(heading)
                del widths[place]
                for row in rows:
                    del row[place]
        while sum(widths) > self._room(widths) and max(widths) > _LEAST:
            widths[widths.index(max(widths))] -= 1
        short = [[_cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows[1:]]
        return table._replace(headings=rows[0], rows=short)

    def _room(self, widths: Sequence[int]) -> int:
        """Return the characters available for the cells of so many columns."""
        return (self.width or 0) - 3 - 2 * len(widths)

    def _painted(self, text: str, blocks: Sequence[Block]) -> str:
        statuses = iter(_statuses(blocks))
        wanted = next(statuses, None)
        painted = []
        for line in text.split("\n"):
            start = -1 if wanted is None else line.find(f"  {wanted}")
            if wanted is None or start < 0:
                painted.append(line)
                continue
            end = start + 2 + len(wanted)
            colour = _colour(wanted)
            painted.append(f"{line[: start + 2]}\x1b[{colour}m{line[start + 2 : end]}\x1b[0m{line[end:]}")
            wanted = next(statuses, None)
        return "\n".join(painted)

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colours else text


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line that is not part of the answer."""
    print(text, file=stream or sys.stderr)


def write_file(path: str, data: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read: it holds what a store holds.

    Raises:
        Problem: the file exists and must not be overwritten, or it cannot be written.
    """
    how = os.O_TRUNC if overwrite else os.O_EXCL
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError:
        hint = "Choose another name, or overwrite it with --force"
        raise Problem(REFUSED, f"{path} already exists", hint) from None
    except OSError as error:
        raise Problem(USAGE, f"Cannot write {path}: {error.strerror or error}") from error


def located(text: str, database: str | None) -> str:
    """Return a command of ours, or a text with some, that name the database, if it was named."""
    if not database:
        return text
    own = f"{quoted('hypergraph', '--db', database)} "
    if text.startswith("hypergraph "):  # one command: the rest may be anything
        return own + text.removeprefix("hypergraph ") if re.match(_OWN, text) else text
    return re.sub(_OWN, lambda _: own, text)


def suggested(command: str, *places: object, options: Sequence[object] = ()) -> str:
    """Return a command of ours, quoted for a shell; an id that begins with a dash is no option."""
    if any(str(place).startswith("-") for place in places):
        return quoted("hypergraph", command, *options, "--", *places)
    return quoted("hypergraph", command, *places, *options)


def list_of_items(wf: str, command: str) -> list[str]:
    """Return the commands that say more about a map: its items, and the same command about one of them."""
    return [quoted("hypergraph", "ls", "--parent", wf), suggested(command, f"{wf}/item-0")]


def quoted(*words: object) -> str:
    """Return a command line, quoted for a shell."""
    texts = [str(word) for word in words]
    if all(text and _PLAIN.issuperset(text) for text in texts):  # as most are
        return " ".join(texts)
    import shlex  # takes long to import

    return shlex.join(texts)


def as_json(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON text."""
    import json  # text output does not need it

    # What json escapes is left: an end of a line in the result is between values.
    return escape_json(json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False))


def _statuses(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Table) and "Status" in block.headings:
            place = block.headings.index("Status")
            yield from (escape(row[place]) for row in block.rows)


def _colour(status: str) -> str:
    word = status.partition(":")[0].partition(" ")[0].removesuffix("…")
    return next((colour for name, colour in _COLOURS.items() if name.startswith(word)), "0")


def _cut(cell: str, width: int) -> str:
    if columns(cell) <= width:
        return cell
    while columns(cell) >= width and cell:
        cell = cell[:-1]
    return cell + "…"


def _width() -> int:
    given = os.environ.get("COLUMNS", "")
    try:
        asked = int(given) if given.isdecimal() else os.get_terminal_size().columns
    except (ValueError, OSError):
        asked = 0
    return asked or 80  # some terminals do not report theirs


def status(name: str) -> str:
    """Return a status; failures in capitals, to stand out without colours too."""
    return name.upper() if name == "failed" else name


def owned_status(found: WorkflowSummary) -> str:
    """Return the status of a workflow, and of an active one whether its owner process is gone."""
    notes = ["owner process is gone"] if found["alive"] is False else []
    notes += [f"{found['failed_inside']} failed inside"] if found["failed_inside"] else []
    return status(found["status"]) + (f" ({', '.join(notes)})" if notes else "")


def duration(ms: float | None) -> str:
    """Return the duration of a run, a dash if it is unknown."""
    return execution_time(None) if ms is None else run_time(ms)


def when(time: str | None) -> str:
    """Return a time as local time and age."""
    if not time:
        return "—"
    moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
    return f"{moment.astimezone():%Y-%m-%d %H:%M} ({age(moment)})"


def age(moment: datetime) -> str:
    """Return the age of a time, like "5m ago"."""
    left = (now() - moment).total_seconds()
    return "now" if left < 1 else f"{_amount_of_time(left)} ago"


def _amount_of_time(left: float, least: int = 1) -> str:
    """Return a time in the largest unit of which there are at least so many."""
    units = iter(_AGES)
    size, unit = next(units)
    while left >= size * least:
        left /= size
        size, unit = next(units)
    return f"{int(left)}{unit}"


def until(time: str | None) -> str:
    """Return a time to come as local time, and how soon that is."""
    if not time:
        return "—"
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M} ({how_soon(time)})"


def has_passed(time: str | None) -> bool:
    """Say whether a time has come."""
    return time is not None and datetime.fromisoformat(time) <= now()


def how_soon(time: str) -> str:
    """Return how soon a time comes, like "in 3h"; "now" if it has come."""
    left = (datetime.fromisoformat(time) - now()).total_seconds()
    return (
        "now" if left <= 0 else f"in {_amount_of_time(left, 2)}"
    )  # "in 47h": what is left must not look less


class Branch(NamedTuple):
    """A line of a tree, and the branches below it."""

    text: str
    below: list[Branch]


def tree_lines(root: Branch) -> list[str]:
    """Return a tree with one line per branch, without recursion."""
    lines: list[str] = []
    to_do = [(root, "", "")]
    while to_do:
        branch, lead, indent = to_do.pop()
        lines.append(f"{indent}{lead}{branch.text}")
        own = indent + {"": "", "├── ": "│   ", "└── ": "    "}[lead]
        last = len(branch.below) - 1
        for place in range(last, -1, -1):
            to_do.append((branch.below[place], "└── " if place == last else "├── ", own))
    return lines


def tree_of(rows: Sequence[tuple[int, str]]) -> list[str]:
    """Return the lines of a tree from rows of depth and text, parents first."""
    root = Branch(rows[0][1], [])
    way = [root.below]
    for depth, text in rows[1:]:
        branch = Branch(text, [])
        del way[depth:]
        way[-1].append(branch)
        way.append(branch.below)
    return tree_lines(root)
