"""Help as text: the overview of all commands, and one command with its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypergraph.cli.commands import COMMANDS
from hypergraph.cli.options import FOR_ALL, Option


def overview() -> str:
    """Return what `hypergraph --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [
        "usage: hypergraph [--db URL] COMMAND ...",
        "",
        "Look at stored workflows, run graphs, keep the store in order.",
    ]
    for part in dict.fromkeys(command.part for command in COMMANDS.values()):
        lines += ["", f"{part}:"]
        lines += [
            f"  {name.replace('-', ' '):<{width}}  {command.summary}"
            for name, command in COMMANDS.items()
            if command.part == part
        ]
    return "\n".join([*lines, "", "hypergraph COMMAND --help says more; --json answers with JSON."])


def manual(name: str, options: Sequence[Option]) -> str:
    """Return what `hypergraph COMMAND --help` prints."""
    summary = COMMANDS[name].summary
    lines = [f"usage: {usage(name, options)}", "", f"{summary[0].upper()}{summary[1:]}."]
    parts = {
        "arguments": [option for option in options if option.is_argument],
        "options": [option for option in options if not option.is_argument],
        "for every command": FOR_ALL,
    }
    for title, found in parts.items():
        if found:
            lines += ["", f"{title}:", *_lines(found)]
    return "\n".join(lines)


def usage(name: str, options: Sequence[Option]) -> str:
    """Return one line that shows how a command is written."""
    words = [f"hypergraph {name.replace('-', ' ')}"]
    for option in options:
        if option.is_argument:
            word = option.name + (" ..." if option.many else "")
            words.append(word if option.needed else f"[{word}]")
        elif option.needed:
            words.append(f"{option.name} {option.value}")
    if not all(option.is_argument for option in options):
        words.append("[options]")
    return " ".join(words)


def spelled(option: Option) -> str:
    """Return how an option is written."""
    names = f"{option.short}, {option.name}" if option.short else option.name
    return f"{names} {option.value}".rstrip()


def _lines(options: Sequence[Option]) -> Iterator[str]:
    width = max(len(spelled(option)) for option in options)
    for option in options:
        many = "; may be given several times" if option.many and not option.is_argument else ""
        yield f"  {spelled(option):<{width}}  {option.help}{many}"
