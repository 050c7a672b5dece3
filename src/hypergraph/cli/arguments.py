"""Arguments of commands: options as data, parsing, and values as typed on a command line."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hypergraph.display import did_you_mean
from hypergraph.views.problems import USAGE, Problem


class Option(NamedTuple):
    """An option (its name begins with "--") or an argument (its name is in capitals)."""

    name: str
    help: str
    value: str = ""  # what follows an option, in words; nothing for a switch
    kind: Callable[[str], Any] = str  # raises ValueError that says what would be right
    default: Any = None
    many: bool = False  # may be given several times
    needed: bool = False
    short: str = ""  # "-o"
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name under which a call finds what was given."""
        return self.name.lstrip("-").replace("-", "_").lower()

    @property
    def is_argument(self) -> bool:
        """Whether it has no name on the command line."""
        return not self.name.startswith("-")


class Given:
    """What a call was given: an attribute for every option and argument there is."""

    def __init__(self, options: Iterable[Option]) -> None:
        for option in options:
            switch = not option.value and not option.is_argument
            default = [] if option.many else False if switch else option.default
            setattr(self, option.key, default)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


FOR_ALL = (
    Option("--db", "a file or postgresql://...; else $HYPERGRAPH_DB, pyproject.toml, ./workflows.db", "URL"),
    Option("--json", "answer with one JSON document"),
    Option("--jsonl", "answer with one JSON document a line"),
    Option("--help", "show this", short="-h"),
)


def number(text: str) -> int:
    """Return a whole number, from 0 on."""
    if not text.isdecimal() or len(text) > 15:
        raise ValueError("a whole number")
    return int(text)


def parse(arguments: Sequence[str], options: Sequence[Option]) -> Given:
    """Return what was given.

    Raises:
        Problem: something is unknown, missing, or no value of its kind.
    """
    known = {name: option for option in options for name in (option.name, option.short) if name}
    places = [option for option in options if option.is_argument]
    given, seen, words = Given(options), set(), list(arguments)
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
        raise Problem(USAGE, f"{' and '.join(missing)} must be given")
    return given


def _place(places: list[Option], word: str) -> Option:
    if not places:
        raise Problem(USAGE, f"Nothing takes {word!r} here")
    return places[0] if places[0].many else places.pop(0)


def _named(word: str, words: list[str], known: dict[str, Option]) -> tuple[Option, str]:
    name, equals, value = word.partition("=")
    option = known.get(name)
    if option is None or option.is_argument:
        raise Problem(USAGE, f"There is no option {name}", did_you_mean(name, known) or "--help lists them")
    if not option.value:
        if equals:
            raise Problem(USAGE, f"{name} takes no value")
        return option, ""
    if not equals:
        if not words:
            raise Problem(USAGE, f"{name} needs a value: {option.help}")
        value = words.pop(0)
    return option, value


def _set(given: Given, option: Option, text: str) -> None:
    if not option.value and not option.is_argument:
        setattr(given, option.key, True)
        return
    if option.choices and text not in option.choices:
        hint = did_you_mean(text, option.choices) or ""
        raise Problem(USAGE, f"{option.name} is one of {', '.join(option.choices)}, not {text!r}", hint)
    try:
        value = option.kind(text)
    except ValueError as expected:
        raise Problem(USAGE, f"{option.name} must be {expected}, not {text!r}") from None
    if option.many:
        getattr(given, option.key).append(value)
    else:
        setattr(given, option.key, value)


PAIRS = Option("KEY=VALUE", "an input: a Python literal like 3 or '[1, 2]', else text", many=True)
VALUES = Option("--values", "inputs as a JSON object: JSON, @file, or - for stdin", "JSON|@FILE|-")


def given_values(values: str | None, pairs: Iterable[str]) -> dict[str, Any]:
    """Return the inputs of --values, with key=value over them.

    Raises:
        Problem: something is no JSON object, no pair, or in no file.
    """
    found = {} if values is None else json_of(values, "--values")
    if not isinstance(found, dict):
        raise Problem(USAGE, f"--values must be a JSON object of inputs, not {type(found).__name__}")
    return {**found, **{name: literal(text) for name, text in map(pair_of, pairs)}}


def literal(text: str) -> Any:
    """Return the Python literal that a text is, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def pair_of(text: str) -> tuple[str, str]:
    """Return the two sides of key=value. Raises Problem without a key or an equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Problem(USAGE, f"{text!r} is not of the form KEY=VALUE")
    return key, value


def json_of(text: str, where: str) -> Any:
    """Return what a JSON text means: the text itself, @file, or - for stdin.

    Raises:
        Problem: it is no JSON, or cannot be read; the error says where.
    """
    if text == "-":
        text, where = sys.stdin.read(), "stdin"
    elif text.startswith("@"):
        text, where = _read(text[1:]), text[1:]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place = str(error)
        if isinstance(error, json.JSONDecodeError):
            place = f"line {error.lineno}, column {error.colno}: {error.msg}"
        hint = 'JSON needs double quotes around texts, as in \'{"city": "Ulm"}\''
        raise Problem(USAGE, f"{where} is no JSON: {place}", hint) from None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Problem(USAGE, f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(USAGE, f"{path} is no text in UTF-8") from None
