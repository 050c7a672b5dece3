"""Trees as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Branch:
    """A line, and what stands below it."""

    text: str
    below: list[Branch] = field(default_factory=list)


def tree_lines(root: Branch) -> list[str]:
    """Return a tree, one line for each branch; as deep as it may be, nothing recurses."""
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
    """Return the lines of a tree that is told as rows of depth and text, parents first."""
    root = Branch(rows[0][1])
    way = [root.below]
    for depth, text in rows[1:]:
        branch = Branch(text)
        del way[depth:]
        way[-1].append(branch)
        way.append(branch.below)
    return tree_lines(root)
