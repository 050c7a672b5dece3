"""Unusual callables and arguments: each becomes a node or is refused at construction, with a reason."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional
from unittest import mock

import pytest

from hypergraph import FunctionNode, Graph, GraphConfigError, IfElseNode, NodeContext, RouteNode, node
from hypergraph import NodeContext as Ctx

if TYPE_CHECKING:
    from nowhere import Nothing


def plus(x: int, y: int = 1) -> int:
    return x + y


async def plus_later(x, y=1):
    return x + y


def made(func: Any, **options: Any) -> FunctionNode:
    return FunctionNode(func, output_name="out", **options)


def shape(func: Any) -> tuple[str, tuple[str, ...], bool, bool]:
    found = made(func)
    return found.name, found.inputs, found.is_async, found.is_generator


# -- callables that work ---


class Callables:
    """Methods of every kind."""

    def method(self, x):
        return x

    async def method_later(self, x):
        return x

    @classmethod
    def of_class(cls, x):
        return x

    @staticmethod
    def alone(x):
        return x

    def __call__(self, x):
        yield x


class Later:
    """Called asynchronously."""

    async def __call__(self, x):
        return x


class ManyLater:
    """Called asynchronously, many times."""

    async def __call__(self, x):
        yield x


class Point(NamedTuple):
    """A class whose parameters live in __new__."""

    x: int
    y: int = 0


class Wrapper:
    """A decorator that is an object."""

    def __init__(self, func: Any) -> None:
        functools.update_wrapper(self, func)
        self.func = func

    def __call__(self, *args, **kwargs):
        return self.func(*args, **kwargs)


def keeping(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


def forgetting(func: Any) -> Any:
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (lambda x: x, ("<lambda>", ("x",), False, False)),
        (functools.partial(plus, 1), ("plus", ("y",), False, False)),
        (functools.partial(plus, y=2), ("plus", ("x", "y"), False, False)),
        (functools.partial(functools.partial(plus_later, 1)), ("plus_later", ("y",), True, False)),
        (functools.partial(Later()), ("Later", ("x",), True, False)),
        (functools.partial(Callables().method_later), ("method_later", ("x",), True, False)),
        (Callables().method, ("method", ("x",), False, False)),
        (Callables().method_later, ("method_later", ("x",), True, False)),
        (Callables.method, ("method", ("self", "x"), False, False)),
        (Callables.of_class, ("of_class", ("x",), False, False)),
        (Callables.alone, ("alone", ("x",), False, False)),
        (Callables(), ("Callables", ("x",), False, True)),
        (Later(), ("Later", ("x",), True, False)),
        (ManyLater(), ("ManyLater", ("x",), True, True)),
        (staticmethod(plus), ("plus", ("x", "y"), False, False)),
        (staticmethod(plus_later), ("plus_later", ("x", "y"), True, False)),
        (len, ("len", ("obj",), False, False)),
        (math.sqrt, ("sqrt", ("x",), False, False)),
        ({}.get, ("get", ("key", "default"), False, False)),
        (Point, ("Point", ("x", "y"), False, False)),
        (Wrapper, ("Wrapper", ("func",), False, False)),
        (Wrapper(plus), ("plus", ("x", "y"), False, False)),
        (keeping(plus), ("plus", ("x", "y"), False, False)),
        (functools.cache(plus), ("plus", ("x", "y"), False, False)),
        (functools.singledispatch(plus), ("plus", ("x", "y"), False, False)),
    ],
)
def test_a_callable_becomes_a_node(func: Any, expected: Any) -> None:
    assert shape(func) == expected
    assert len(made(func).definition_hash) == 64
    if str.isidentifier(expected[0]):
        assert Graph([made(func)]).inputs.all == expected[1]


def test_a_method_in_a_class_body_keeps_its_self() -> None:
    class Box:
        @node(output_name="y")
        def get(self, x):
            return self, x

    assert Box.get.inputs == ("self", "x")
    box = Box()
    assert Box.get(box, 1) == (box, 1)


def test_types_are_found_on_every_sort_of_callable() -> None:
    for func in (plus, functools.partial(plus), Wrapper(plus), keeping(plus), functools.cache(plus)):
        assert made(func).parameter_annotations == {"x": int, "y": int}
        assert made(func).output_annotation == {"out": int}
    assert made(Point).parameter_annotations == {"x": int, "y": int}
    assert made(Point).output_annotation == {"out": Point}


def test_a_partial_keeps_what_it_binds_as_a_default() -> None:
    assert made(functools.partial(plus, y=5)).defaults == {"y": 5}


def test_unhashable_defaults_are_values_like_others() -> None:
    def f(x=[1], *, y={"a": {2}}):  # noqa: B006
        return x

    assert made(f).defaults == {"x": [1], "y": {"a": {2}}}
    assert len(made(f).definition_hash) == 64


def test_a_function_without_source_works() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(a, b=2): return a + b", namespace)
    assert shape(namespace["f"]) == ("f", ("a", "b"), False, False)


# -- callables that are refused ---


class AttributesRaise:
    """Only what everything has can be asked for."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")

    def __call__(self, x):
        return x


class LiesAboutItself:
    """Its signature is no signature."""

    __signature__ = "x, y"

    def __call__(self, x):
        return x


@pytest.mark.parametrize("func", [forgetting(plus), mock.Mock(), print, lambda **options: options])
def test_a_callable_with_variadic_parameters_is_refused(func: Any) -> None:
    for make in (made, lambda func: RouteNode(func, ["a"]), lambda func: IfElseNode(func, "a", "b")):
        with pytest.raises(TypeError, match=r"cannot take \*+\w+: a graph passes inputs by name"):
            make(func)


def test_a_callable_without_readable_signature_is_refused() -> None:
    for func in (max, dict, type, operator.itemgetter, AttributesRaise(), LiesAboutItself()):
        with pytest.raises(
            TypeError, match=r"The signature of '\w+' cannot be read .* Wrap it in a function: def \w+\(x\)"
        ):
            made(func)


@pytest.mark.parametrize("thing", [3, "plus", None, [plus], classmethod(plus), object()])
def test_what_is_not_callable_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="needs a function or another callable, got"):
        made(thing)
    for gate in (lambda: RouteNode(thing, ["a"]), lambda: IfElseNode(thing, "a", "b")):
        with pytest.raises(TypeError, match="needs a function"):
            gate()


def test_a_wrapper_that_wraps_itself_is_refused() -> None:
    def f(x):
        return x

    f.__wrapped__ = f  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="signature of 'f' cannot be read"):
        made(f)


def test_a_thing_that_cannot_be_shown_is_refused_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    for build in (lambda: made(Shy()), lambda: Graph([Shy()]), lambda: made(plus, wait_for=Shy())):
        with pytest.raises(TypeError, match="<Shy>"):
            build()


# -- hostile callables ---


class NoHash:
    """Cannot be hashed, and says so loudly."""

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __call__(self, x, y=1):
        return x


class NoComparison(NoHash):
    """Cannot be compared either."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = NoHash.__hash__


def test_callables_need_no_hash() -> None:
    first = made(NoHash())
    second = first.with_name("second").with_inputs(x="out").with_outputs(out="z")
    graph = Graph([first, second, RouteNode(NoHash(), ["second"], name="gate")])
    assert graph.inputs.all == ("x", "y")
    assert len(graph.definition_hash) == 64


def test_a_callable_that_refuses_comparison_can_be_a_method_but_not_an_object() -> None:
    with pytest.raises(TypeError, match=r"cannot be read \(no comparison\)"):
        made(NoComparison())
    graph = Graph([made(NoComparison().__call__, name="f")])
    assert graph.inputs.all == ("x", "y")
    assert len(graph.definition_hash) == 64


def test_defaults_need_neither_equality_nor_hash() -> None:
    def f(x=NoComparison()):  # noqa: B008
        return x

    assert Graph([made(f), made(f).with_name("g").with_outputs(out="z")]).inputs.optional == ("x",)


def test_a_magic_attribute_is_not_taken_for_a_fact() -> None:
    class Magic:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and name != "__name__":
                raise AttributeError(name)
            return 42

        def __call__(self, x):
            return x

    assert shape(Magic()) == ("Magic", ("x",), False, False)


# -- NodeContext under unresolvable hints: this module imports `Nothing` for type checkers only ---


def whole(x: Nothing, ctx: NodeContext):
    return x


def optional(x: Nothing, ctx: NodeContext | None = None):
    return x


def old_style(x: Nothing, ctx: Optional[NodeContext] = None):
    return x


def annotated(x: Nothing, ctx: Annotated[NodeContext, "the context"]):
    return x


def renamed(x: Nothing, ctx: Ctx):
    return x


def half_quoted(x: Nothing, ctx: Optional["NodeContext"] = None):  # noqa: UP037
    return x


def local_name() -> Any:
    from hypergraph import NodeContext as Local  # noqa: F401

    def f(x: Nothing, ctx: hypergraph.NodeContext | None):  # noqa: F821
        return x

    return f


@pytest.mark.parametrize("func", [whole, optional, old_style, annotated, renamed, half_quoted, local_name()])
def test_the_context_is_found_although_other_hints_cannot_be_resolved(func: Any) -> None:
    assert made(func).inputs == ("x",)
    assert made(func).parameter_annotations == {}


def test_the_context_is_found_on_methods_and_partials_and_objects() -> None:
    class Box:
        def method(self, x, ctx: NodeContext):
            return x

        def __call__(self, x, ctx: NodeContext):
            return x

    for func in (Box().method, Box(), functools.partial(Box().method), keeping(Box().method)):
        assert made(func).inputs == ("x",)


# -- names ---


@pytest.mark.parametrize("name", ["two words", "1st", "a.b", "a/b", "", "class", "END", "ünïcode!"])
def test_a_node_with_an_unusable_name_exists_but_builds_no_graph(name: str) -> None:
    assert made(plus, name=name).name == name
    with pytest.raises(GraphConfigError, match="Invalid node name"):
        Graph([made(plus, name=name)])


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(GraphConfigError, match=r"Invalid node name: '<lambda>'.*"):
        Graph([made(lambda x: x)])
    assert Graph([made(lambda x: x, name="same")]).outputs == ("out",)


def test_identifiers_of_any_language_are_fine() -> None:
    assert Graph([made(plus, name="größe")]).nodes["größe"]


@pytest.mark.parametrize(
    "options", [{"rename_inputs": 3}, {"rename_inputs": {"x": 3}}, {"rename_inputs": ["x"]}]
)
def test_renames_are_a_mapping_of_names(options: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        made(plus, **options)
