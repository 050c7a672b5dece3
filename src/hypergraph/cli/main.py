"""Entry point of the command line: finds the command, parses its arguments, prints its reply."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hypergraph.cli.arguments import FOR_ALL, Option, parse
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import Screen
from hypergraph.cli.registry import COMMANDS, READING, module_of, spelled
from hypergraph.cli.wording import complaint
from hypergraph.display import did_you_mean
from hypergraph.exceptions import HypergraphError
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE, Problem

_CODES = {NOT_FOUND: 1, AMBIGUOUS: 1, USAGE: 2, STORE: 3, REFUSED: 4}
_MARGIN, _LEFT = 80, 24  # columns of a help text, and of the names in it
_INTERRUPTED, _PIPE_CLOSED = 130, 141  # 128 and the number of the signal, as in shells


def overview() -> str:
    """Return the text of `hypergraph --help`."""
    lines = [
        "usage: hypergraph [--db URL] COMMAND ...",
        "",
        "Inspect stored workflows, run graphs, maintain the store.",
    ]
    for part in dict.fromkeys(command.part for command in COMMANDS.values()):
        lines += ["", f"{part}:"]
        rows = [
            (spelled(name), command.summary) for name, command in COMMANDS.items() if command.part == part
        ]
        lines += _columns(rows, max(len(name) for name, _ in rows))
    lines += ["", "Help for a command: hypergraph help COMMAND. Output for programs: --json."]
    return "\n".join(lines)


def manual(name: str, options: Sequence[Option]) -> str:
    """Return the text of `hypergraph COMMAND --help`."""
    summary, _, examples = COMMANDS[name]
    lines = [f"usage: {usage(name, options)}", "", f"{summary[0].upper()}{summary[1:]}."]
    parts = {
        "arguments": [option for option in options if option.is_argument],
        "options": [option for option in options if not option.is_argument],
        "for every command": FOR_ALL,
    }
    for title, found in parts.items():
        if found:
            rows = [(syntax(option), _about(option)) for option in found]
            lines += ["", f"{title}:", *_columns(rows, max(len(left) for left, _ in rows))]
    lines += ["", "examples:", *(f"  hypergraph {example}" for example in examples)]
    return "\n".join(lines)


def usage(name: str, options: Sequence[Option]) -> str:
    """Return the usage line of a command."""
    words = [f"hypergraph {spelled(name)}"]
    for option in options:
        if option.is_argument:
            word = option.name + (" ..." if option.many else "")
            words.append(word if option.needed else f"[{word}]")
        elif option.needed:
            words.append(f"{option.name} {option.value}")
    if not all(option.is_argument for option in options):
        words.append("[options]")
    return " ".join(words)


def syntax(option: Option) -> str:
    """Return an option with its short name and the placeholder of its value."""
    names = f"{option.short}, {option.name}" if option.short else option.name
    return f"{names} {option.value}".rstrip()


def _about(option: Option) -> str:
    return option.help + ("; repeatable" if option.many and not option.is_argument else "")


def _columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Return rows of two columns, of which the second is wrapped at the right margin."""
    import textwrap  # help alone needs it

    width = min(width, _LEFT)
    for left, right in rows:
        first, *rest = textwrap.wrap(right, _MARGIN - width - 4, break_on_hyphens=False) or [""]
        if len(left) > width:
            yield f"  {left}"
            yield f"  {'':<{width}}  {first}"
        else:
            yield f"  {left:<{width}}  {first}"
        yield from (f"  {'':<{width}}  {line}" for line in rest)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    screen = Screen(arguments)
    try:
        code = _run(arguments, screen)
        sys.stdout.flush()
        if argv is None:
            gc.freeze()  # the process ends, and would look for garbage in every module before: 8 of 64 ms
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (Problem, HypergraphError) as error:
        problem = complaint(error)
        screen.complain(problem)
        return _CODES[problem.code]
    return code


def _run(arguments: list[str], screen: Screen) -> int:
    before: list[str] = []
    while arguments and arguments[0].startswith("-"):
        if arguments[0] == "--version":
            arguments[0] = "version"
            break
        before.append(arguments.pop(0))
        if before[-1] == "--db" and arguments:
            before.append(arguments.pop(0))
    if not arguments:
        parse(before, FOR_ALL)
        print(overview())
        return 0
    name, rest = command_of(arguments)
    try:
        given = parse([*before, *rest], (*options_of(name), *FOR_ALL))
    except Problem as problem:
        problem.hint = problem.hint or f"Usage: {usage(name, options_of(name))}"
        raise
    if given.help:
        print(manual(name, options_of(name)))
        return 0
    call = Call(given)
    screen.database = call.database
    with _ended_by_interrupt(name):
        reply = _action(name)(call)
        screen.show(reply)
    return reply.code


@contextmanager
def _ended_by_interrupt(name: str) -> Iterator[None]:
    """Let Ctrl-C end the process while a command reads, whatever it is at.

    Python itself would wait until a call of SQLite or of a parser returns, which a large file delays. A
    command that writes is interrupted by Python, between two calls.
    """
    import signal
    import threading

    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if name not in READING or not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_SIMILAR = 0.7  # commands are short: what is less similar is another word
_QUESTIONS = "Open questions are in hypergraph show WF; to answer one: hypergraph answer WF KEY=VALUE"
_OTHER_WORDS = {
    "list": "Did you mean 'ls'?",
    **dict.fromkeys(("ask", "asked", "pending", "question", "questions"), _QUESTIONS),
}


def command_of(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command, which may be two words, and its arguments."""
    name, *rest = arguments
    if rest and f"{name}-{rest[0]}" in COMMANDS:
        return f"{name}-{rest[0]}", rest[1:]
    if name in COMMANDS:
        return name, rest
    several = [spelled(known) for known in COMMANDS if known.startswith(f"{name}-")]
    hint = _OTHER_WORDS.get(name) or did_you_mean(name, COMMANDS, cutoff=_SIMILAR)
    hint = hint or "To list the commands: hypergraph --help"
    raise Problem(USAGE, f"Unknown command: {name}", f"Commands: {', '.join(several)}" if several else hint)


def options_of(name: str) -> tuple[Option, ...]:
    """Return the arguments and options of a command."""
    options: tuple[Option, ...] = getattr(module_of(name), f"{name.replace('-', '_')}_options")
    return options


def _action(name: str) -> Callable[[Call], Reply]:
    function = "import_" if name == "import" else name.replace("-", "_")
    action: Callable[[Call], Reply] = getattr(module_of(name), function)
    return action
