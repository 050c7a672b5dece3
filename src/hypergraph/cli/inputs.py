"""Inputs of runs on the command line: key=value pairs, and JSON from the line, a file or stdin."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable
from typing import Any

from hypergraph.cli.arguments import Option
from hypergraph.views.problems import USAGE, Problem

PAIRS = Option("KEY=VALUE", "an input: a Python literal like 3 or '[1, 2]', or text", many=True)
VALUES = Option("--values", "inputs as a JSON object: JSON, @file, or - for stdin", "JSON|@FILE|-")


def given_values(values: str | None, pairs: Iterable[str]) -> dict[str, Any]:
    """Return the inputs of --values, overridden by those of key=value.

    Raises:
        Problem: a value is not a JSON object, not a pair, or its file cannot be read.
    """
    found = {} if values is None else json_of(values, "--values")
    if not isinstance(found, dict):
        raise Problem(USAGE, f"--values must be a JSON object, not {type(found).__name__}")
    return {**found, **{name: literal(text) for name, text in map(pair_of, pairs)}}


def literal(text: str) -> Any:
    """Return the Python literal in a text, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def pair_of(text: str) -> tuple[str, str]:
    """Return both sides of key=value. Raises Problem without a key or an equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Problem(USAGE, f"Invalid argument {text!r}: expected KEY=VALUE")
    return key, value


def json_of(text: str, where: str) -> Any:
    """Return the value of a JSON text: the text itself, @file, or - for stdin.

    Raises:
        Problem: the text is not valid JSON, or cannot be read.
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
        hint = 'JSON strings need double quotes, as in \'{"city": "Ulm"}\''
        raise Problem(USAGE, f"Invalid JSON in {where}: {place}", hint) from None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Problem(USAGE, f"Cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(USAGE, f"Cannot read {path}: it is not UTF-8 text") from None
