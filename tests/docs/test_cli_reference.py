"""The reference of the command line: from its first table on the commands write it themselves.

HYPERGRAPH_REGOLD=1 writes it anew; what stands before the table is written by hand.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hypergraph.cli.arguments import FOR_ALL, Option
from hypergraph.cli.main import manual, options_of, overview, syntax, usage
from hypergraph.cli.registry import COMMANDS, spelled
from hypergraph.views.sql import VIEWS

DOCS = Path(__file__).parents[2] / "docs"


def rows(options: Sequence[Option]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for option in options:
        several = "; repeatable" if option.many and not option.is_argument else ""
        needed = "; required" if option.needed and not option.is_argument else ""
        is_said = all(choice in option.help for choice in option.choices)
        chosen = "" if is_said else f"; one of {', '.join(option.choices)}"
        name, text = syntax(option).replace("|", "\\|"), option.help.replace("|", "\\|")
        yield f"| `{name}` | {text}{chosen}{needed}{several} |"


def reference() -> str:
    parts = ["## For every command\n", *rows(FOR_ALL)]
    for part in dict.fromkeys(command.part for command in COMMANDS.values()):
        parts.append(f"\n## {part[0].upper()}{part[1:]}")
        for name, command in COMMANDS.items():
            if command.part == part:
                options = options_of(name)
                parts += [
                    f"\n### {spelled(name)}\n",
                    f"`{usage(name, options)}`: {command.summary}.",
                ]
                parts += ["", *rows(options)] if options else []
    return "\n".join(parts) + "\n"


def sql_reference() -> str:
    parts = []
    for view, columns in VIEWS.items():
        parts += [f"## {view}\n", "| Column | |", "|---|---|"]
        parts += [f"| `{name}` | {column.what} |" for name, column in columns.items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


@pytest.mark.parametrize(("name", "written"), [("cli.md", reference), ("sql.md", sql_reference)])
def test_the_reference_is_what_the_commands_say(name: str, written: Callable[[], str]) -> None:
    file, text = DOCS / "reference" / name, written()
    introduction, heading, _ = file.read_text(encoding="utf-8").partition(text[: text.index("\n")])
    assert heading
    if os.environ.get("HYPERGRAPH_REGOLD"):
        file.write_text(introduction + text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == introduction + text, "HYPERGRAPH_REGOLD=1 writes it anew"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_action_and_plain_options(name: str) -> None:
    options = options_of(name)
    text = manual(name, options)
    assert text.startswith(f"usage: hypergraph {spelled(name)}")
    assert COMMANDS[name].summary in overview()
    assert not COMMANDS[name].summary.endswith(".")
    for option in options:
        assert option.help
        assert option.is_argument or re.fullmatch(r"--[a-z]+(-[a-z]+)*", option.name)
    names = [option.name for option in (*options, *FOR_ALL)]
    assert len(names) == len(set(names))
