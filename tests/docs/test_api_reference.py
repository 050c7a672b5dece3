"""The reference of the Python API is what the code says of itself, and the code says enough.

HYPERGRAPH_REGOLD=1 writes the pages anew.
"""

import doctest
import enum
import importlib
import inspect
import os
import re
from collections.abc import Callable

import pytest
from support.api_names import Members, contents, homes
from support.api_reference import PATHS, REFERENCE, pages, public_calls

from hypergraph import BaseRunner

CLASSES = [
    thing
    for things in contents().values()
    for name, thing in things.items()
    if inspect.isclass(thing) and thing.__name__ == name
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PATHS)
def test_a_page_of_the_api_is_what_the_code_says(name: str) -> None:
    file, text = REFERENCE / name, pages()[name]
    if os.environ.get("HYPERGRAPH_REGOLD"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "HYPERGRAPH_REGOLD=1 writes it anew"


@pytest.mark.parametrize("name", PATHS)
def test_no_table_of_the_api_is_empty(name: str) -> None:
    text = (REFERENCE / name).read_text(encoding="utf-8")
    assert re.findall(r"^\|[-|]+\|\n(?!\|)", text, re.MULTILINE) == []


def test_every_public_class_and_call_says_what_it_is() -> None:
    calls = [call for call in public_calls() if not call.__name__.startswith("test_")]
    silent = [call for call in calls if not inspect.getdoc(call)]
    assert [thing.__qualname__ for thing in [*silent, *(kind for kind in CLASSES if not kind.__doc__)]] == []


def test_every_attribute_of_a_public_class_is_explained() -> None:
    assert {
        f"{kind.__name__}.{attribute.name}"
        for kind in CLASSES
        if not issubclass(kind, enum.Enum)
        for attribute in Members(kind).attributes
        if not attribute.meaning
    } == set()


def unexplained(call: Callable[..., object]) -> set[str]:
    """Return the keywords that the docstring of a call does not mention."""
    doc = inspect.getdoc(call) or ""
    like = re.search(r"Takes the parameters of `(\w+)`", doc)
    if like is not None:
        doc += inspect.getdoc(getattr(BaseRunner, like[1])) or ""
    return {
        name
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and not re.search(rf"\b{name}\b", doc)
    }


def test_every_keyword_of_a_public_call_is_explained() -> None:
    fields = {kind for kind in CLASSES if hasattr(kind, "__dataclass_fields__")}  # explained as attributes
    made_by_us = {kind for kind in CLASSES if issubclass(kind, BaseException | enum.Enum)}
    calls = [call for call in public_calls() if call not in fields | made_by_us]
    assert len(calls) > 200
    assert {f"{call.__qualname__}({name}=)" for call in calls for name in unexplained(call)} == set()


def test_a_keyword_that_is_not_mentioned_is_found() -> None:
    def call(*, size: int, colour: str) -> None:
        """Take a size."""

    assert unexplained(call) == {"colour"}


def examples() -> dict[str, doctest.DocTest]:
    """Return the docstrings that show something, with every public name at hand."""
    names = {
        name: thing for things in contents().values() for name, thing in things.items() if name in homes()
    }
    parser = doctest.DocTestParser()
    found = {
        thing.__qualname__: parser.get_doctest(thing.__doc__ or "", dict(names), thing.__qualname__, None, 0)
        for thing in [*CLASSES, *public_calls()]
    }
    return {name: test for name, test in found.items() if test.examples}


@pytest.mark.parametrize("test", examples().values(), ids=list(examples()))
def test_an_example_in_a_docstring_does_what_it_says(test: doctest.DocTest) -> None:
    told: list[str] = []
    assert doctest.DocTestRunner().run(test, out=told.append).failed == 0, "".join(told)


def test_an_example_that_lies_is_found() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "sum", None, 0)
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1


def test_signatures_name_no_class_of_the_engine() -> None:
    text = "\n".join(pages().values())
    assert "ForwardRef" not in text
    inner = {
        name
        for module in ("hypergraph.engine.run", "hypergraph.engine.plan", "hypergraph.runners.stepping")
        for name, kind in vars(importlib.import_module(module)).items()
        if inspect.isclass(kind) and kind.__module__ == module and name not in homes()
    }
    assert {"Run", "Step", "Stepper"} <= inner
    named = {name for name in inner if re.search(rf"[:\[(|] ?{name}\b(?! [a-z])", text)}
    assert named - {"Step"} == set()
    assert "| `Step` | One node" not in text  # `Step` of `Upgrade` is a function
