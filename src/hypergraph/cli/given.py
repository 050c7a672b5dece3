"""Values as they are written on a command line: key=value, JSON, @file, and - for stdin."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable
from typing import Any

from hypergraph.cli.options import Option
from hypergraph.views.problems import USAGE, Problem

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
