"""Inputs of runs on the command line: KEY=VALUE pairs and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from typing import Any

from hypergraph import Graph
from hypergraph.cli.arguments import Option
from hypergraph.views.inputs import typed_values
from hypergraph.views.problems import USAGE, Problem

PAIRS = Option(
    "KEY=VALUE", "an input, converted to its declared type: n=3 ok=false items='[1, 2]'", many=True
)
VALUES = Option("--values", "inputs as a JSON object: JSON, @file, or - for stdin", "JSON|@FILE|-")


def given_values(
    graph: Graph, values: str | None, pairs: Iterable[str], mapped: Collection[str] = ()
) -> dict[str, Any]:
    """Return the inputs of --values and KEY=VALUE, as the types that the graph declares.

    `mapped` are inputs that hold a list of such values.

    Raises:
        Problem: as `values_and_texts`, and if a name is unknown or a value does not fit its type.
    """
    found, texts = values_and_texts(values, pairs)
    return typed_values(graph, found | texts, texts, mapped)


def values_and_texts(values: str | None, pairs: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of --values, and the texts of KEY=VALUE, by name.

    Raises:
        Problem: --values is not a JSON object, a pair lacks its "=", or a name is given twice.
    """
    found = {} if values is None else json_of(values, "--values")
    if not isinstance(found, dict):
        raise Problem(USAGE, f"--values must be a JSON object, not {type(found).__name__}")
    texts = pairs_of(pairs)
    for key in found.keys() & texts.keys():
        twice = f"{key!r} is given twice: {texts[key]!r} and {found[key]!r} in --values"
        raise Problem(USAGE, twice, "Give it once")
    return found, texts


def pairs_of(texts: Iterable[str]) -> dict[str, str]:
    """Return KEY=VALUE pairs by key. Raises Problem if a key is given twice, or as `pair_of`."""
    found: dict[str, str] = {}
    for key, value in map(pair_of, texts):
        if key in found:
            raise Problem(USAGE, f"{key!r} is given twice: {found[key]!r} and {value!r}", "Give it once")
        found[key] = value
    return found


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
