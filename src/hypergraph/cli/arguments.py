"""Arguments and options of commands: declaration and parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hypergraph.display import closest, did_you_mean
from hypergraph.views.problems import USAGE, Problem


class Option(NamedTuple):
    """An option (its name starts with "--") or an argument (its name is in capitals)."""

    name: str
    help: str
    value: str = ""  # the placeholder of its value in help texts; empty for a flag
    kind: Callable[[str], Any] = str  # converts a value; raises ValueError with what is expected
    default: Any = None
    many: bool = False  # may be given several times
    needed: bool = False
    short: str = ""  # "-o"
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The attribute that holds its value."""
        return self.name.lstrip("-").replace("-", "_").lower()

    @property
    def is_argument(self) -> bool:
        """Whether it is given by position."""
        return not self.name.startswith("-")


class Namespace:
    """Parsed arguments: an attribute for every option and argument of a command."""

    def __init__(self, options: Iterable[Option]) -> None:
        for option in options:
            flag = not option.value and not option.is_argument
            default = [] if option.many else False if flag else option.default
            setattr(self, option.key, default)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def repeated(options: Iterable[Option], given: Any, without: Iterable[str] = ()) -> list[str]:
    """Return the options that a call was given, as words for the command of the next page."""
    words: list[str] = []
    for option in options:
        value = getattr(given, option.key)
        if option.is_argument or option.key in ("cursor", *without):
            continue
        if value is None or value is False or value == option.default:
            continue
        for each in value if option.many else [value]:
            words += [option.name, str(each)] if option.value else [option.name]
    return words


FOR_ALL = (
    Option("--db", "a file or postgresql://...; default: $HYPERGRAPH_DB, pyproject.toml, ./runs.db", "URL"),
    Option("--json", "print one JSON document"),
    Option("--jsonl", "print one JSON document per line"),
    Option("--help", "show this help", short="-h"),
)


_ALIASES = {"--out": "--output"}


def number(text: str) -> int:
    """Return a number of at least 0."""
    if not text.isdecimal() or len(text) > 15:
        raise ValueError("a whole number")
    return int(text)


def positive(text: str) -> int:
    """Return a number of at least 1."""
    if (found := number(text)) == 0:
        raise ValueError("a whole number of at least 1")
    return found


def parse(arguments: Sequence[str], options: Sequence[Option]) -> Namespace:
    """Return the parsed arguments.

    Raises:
        Problem: an argument is unknown, missing or invalid.
    """
    known = {name: option for option in options for name in (option.name, option.short) if name}
    places = [option for option in options if option.is_argument]
    given, seen, words = Namespace(options), set(), list(arguments)
    only_arguments = False
    while words:
        word = words.pop(0)
        if word == "--" and not only_arguments:
            only_arguments = True
            continue
        if only_arguments or not word.startswith("-") or word == "-":
            option, value = _place(places, word), word
        else:
            option, value = _named(word, words, known)
        seen.add(option.name)
        _set(given, option, value)
    missing = [option.name for option in options if option.needed and option.name not in seen]
    if missing and not getattr(given, "help", False):
        kind = "option" if missing[0].startswith("-") else "argument"
        raise Problem(USAGE, f"Missing {kind}{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
    return given


def _place(places: list[Option], word: str) -> Option:
    if not places:
        raise Problem(USAGE, f"Unexpected argument {word!r}")
    return places[0] if places[0].many else places.pop(0)


def _named(word: str, words: list[str], known: dict[str, Option]) -> tuple[Option, str]:
    name, equals, value = word.partition("=")
    option = known.get(_ALIASES.get(name, name))
    if option is None or option.is_argument:
        close = closest(name.strip("-"), [each.strip("-") for each in known if each.startswith("--")])
        hint = "To list the options: --help" if close is None else f"Did you mean '--{close}'?"
        raise Problem(USAGE, f"Unknown option: {name}", hint)
    if not option.value:
        if equals:
            raise Problem(USAGE, f"Option {name} takes no value")
        return option, ""
    if not equals:
        if not words:
            raise Problem(USAGE, f"Option {name} needs a value: {option.help}")
        value = words.pop(0)
    return option, value


def _set(given: Namespace, option: Option, text: str) -> None:
    if not option.value and not option.is_argument:
        setattr(given, option.key, True)
        return
    if option.choices and text not in option.choices:
        hint = did_you_mean(text, option.choices) or ""
        raise _invalid(option, text, f"one of {', '.join(option.choices)}", hint)
    try:
        value = option.kind(text)
    except ValueError as expected:
        raise _invalid(option, text, str(expected)) from None
    if option.many:
        getattr(given, option.key).append(value)
    else:
        setattr(given, option.key, value)


def _invalid(option: Option, text: str, expected: str, hint: str = "") -> Problem:
    return Problem(USAGE, f"Invalid value for {option.name}: {text!r} (expected {expected})", hint)
