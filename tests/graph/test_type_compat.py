"""Strict types: outgoing types that fit required ones, and those that do not."""

# ruff: noqa: UP006, F821 - both spellings of a type must work, and names may be unknown

import enum
import typing
import warnings
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Concatenate,
    ForwardRef,
    Generic,
    Literal,
    LiteralString,
    Never,
    NewType,
    NoReturn,
    Optional,
    ParamSpec,
    Protocol,
    SupportsInt,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Union,
    Unpack,
    runtime_checkable,
)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.graph.type_compat import fits
from hypergraph.nodes.signature import MISSING

T = TypeVar("T")
Number = TypeVar("Number", int, float)
Named = TypeVar("Named", bound=Sequence[str])
Whole = TypeVar("Whole", bound=int)
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
UserId = NewType("UserId", int)
AdminId = NewType("AdminId", UserId)


class Animal: ...


class Dog(Animal):
    def bark(self) -> str:
        return "wau"


class Box(Generic[T]): ...


class SmallBox(Box[T]): ...


class Barks(Protocol):
    def bark(self) -> str: ...


class HasName(Protocol):
    name: str


@runtime_checkable
class HasBoth(Protocol):
    name: str

    def bark(self) -> str: ...


class Giver(Protocol[T]):
    def give(self) -> T: ...


class Film(TypedDict):
    title: str


class LongFilm(Film):
    minutes: int


class Colour(enum.Enum):
    RED = 1


class Hostile(type):
    def __subclasscheck__(cls, other: type) -> bool:
        raise RuntimeError("no")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = type.__hash__


class Guarded(metaclass=Hostile): ...


class TypeAliasType:
    """What a `type` statement makes, also where the syntax does not exist yet."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self.compute = value

    @property
    def __value__(self) -> Any:
        return self.compute()


Alias = TypeAliasType(lambda: list[int])
Lost = TypeAliasType(lambda: nowhere)
Endless = TypeAliasType(lambda: list[Endless])
Bottomless = TypeAliasType(lambda: list[Bottomless])

ROWS: list[tuple[Any, list[Any], list[Any]]] = [  # required, what fits, what does not
    # plain classes, missing annotations, None
    (int, [int, bool, MISSING, Never, NoReturn, 5, P, "int"], [str, float, Any, None, int | str, object]),
    (float, [float], [int]),
    (Animal, [Dog], [int]),
    (MISSING, [int, None, MISSING], []),
    (None, [None, type(None), Literal[None]], [int]),
    (type(None), [None], [int]),
    (Any, [Any, int, int | str, int | Any, Callable[[int], str], "Nowhere"], []),
    (object, [Any, int, int | str, Callable[[int], str], Literal[1]], []),
    # type variables
    (int, [T, Number, Whole], []),
    (T, [int, int | str, list[int]], []),
    (Number, [int, float, bool], [str, int | float]),
    (Whole, [int, bool], [str, int | str]),
    (Named, [list[str], str], [list[int]]),
    (list[Number], [list[int], list[T]], [list[str]]),
    # unions
    (int | str, [int, str, Union[str, int], bool | str], [float, int | None, int | float]),
    (Union[str, int], [str | int, bool], [bytes]),
    (Optional[int], [None, int, bool | None, Annotated[int | None, "x"]], [str, str | None]),
    (int | Any, [str], []),
    (Never, [Never], [int]),
    # Annotated
    (Annotated[int, "unit"], [int, Annotated[bool, "other"]], [Annotated[str, "unit"]]),
    (Annotated[int, np.zeros(2)], [Annotated[int, np.zeros(2)]], [str]),
    (list[Annotated[int, "a"]], [list[Annotated[int, "b"]], list[int]], [list[str]]),
    # generics
    (list[int], [typing.List[int], list[bool], list, typing.List], [list[str], list[Any], set[int], set]),
    (list, [list[int], typing.List], [tuple, Sequence]),
    (list[Any], [list[int], list], [int]),
    (Sequence[int], [list[int], list, str], [list[str], set[int], dict[int, int]]),
    (Sequence, [list[int], str], [int]),
    (Iterable[str], [list[str], Sequence[str]], [dict[str, int]]),
    (Mapping[str, Sequence[int]], [dict[str, list[bool]], dict], [dict[str, list[str]], list]),
    (Box[int], [Box[bool], Box, SmallBox[bool], SmallBox], [Box[str], SmallBox[str], int]),
    (SmallBox[int], [SmallBox[int]], [Box[int]]),
    (type[Animal], [type[Dog], type], [type[int], Animal]),
    (abc.Hashable, [int, tuple[int]], [list]),
    # tuples
    (tuple[int, str], [tuple[bool, str], tuple, typing.Tuple], [tuple[str, int], tuple[int], tuple[()]]),
    (tuple[int, int], [tuple[int, *Ts], tuple[int, *tuple[int, ...]], tuple[Unpack[Ts]]], [tuple[int, ...]]),
    (tuple[int, ...], [tuple[bool, ...], tuple[int, bool], tuple[()]], [tuple[int, str], list[int]]),
    (tuple[()], [tuple[()], tuple], [tuple[int]]),
    (Sequence[int], [tuple[int, ...], tuple[int, bool], tuple[()]], [tuple[int, str], tuple[str, ...]]),
    # literals
    (Literal["a", "b"], [Literal["a"], Literal["b", "a"]], [Literal["a", "c"], str, Literal[b"a"]]),
    (Literal[True], [Literal[True]], [Literal[1], bool]),
    (Literal["a", None], [None], [str]),
    (str, [Literal["a"], Literal["a", "b"], LiteralString], [Literal["a", 1], Literal[None]]),
    (LiteralString, [Literal["a"]], [int]),
    (int, [Literal[1], Literal[True]], [Literal["int"]]),
    (str | int, [Literal["a", 1]], [Literal["a", None]]),
    (Optional[str], [Literal["a", None]], [Literal[1]]),
    (Colour, [Literal[Colour.RED]], [Literal[1]]),
    (list[str], [list[Literal["Nowhere"]]], [list[Literal[1]]]),
    # callables: what they are given must fit what they take, what they return must fit what is wanted
    (Callable[[int], str], [Callable[[object], str], Callable[[int], Literal["a"]]], [Callable[[bool], str]]),
    (Callable[[int], str], [Callable[..., str], Callable, Callable[P, str]], [Callable[P, int], int]),
    (Callable[[int], str], [type(len), type[str]], [Callable[[int], int], Callable[[int, int], str]]),
    (Callable[..., str], [Callable[[int], str]], [Callable[[int], int]]),
    (Callable[Concatenate[int, P], str], [Callable[[int], str]], [Callable[[int], int]]),
    (typing.Callable, [Callable[[int], str], Dog.__class__], [int]),
    # new types
    (UserId, [UserId, AdminId], [int, Literal[1]]),
    (AdminId, [AdminId], [UserId]),
    (int, [UserId, AdminId], []),
    (str, [], [UserId]),
    (list[int], [list[UserId]], [list[NewType("Name", str)]]),
    # protocols and typed dicts
    (Barks, [Barks, Dog], [Animal, int]),
    (HasBoth, [Dog], [Animal]),
    (HasName, [Dog, Box[int]], []),
    (Giver[int], [], [Box[int]]),
    (SupportsInt, [int], [str]),
    (Film, [LongFilm], [dict, dict[str, str], Mapping]),
    (LongFilm, [], [Film]),
    (dict, [Film], []),
    # aliases and forward references that can be resolved
    (Alias, [list[bool], "list[int]"], [list[str]]),
    (Sequence[int], [Alias, ForwardRef("list[int]"), list["int"]], [list["str"]]),
    (Bottomless, [Endless], [int]),
    # what is no type, or will not answer, cannot be known
    ([int], [int], []),
    (Guarded, [Guarded, int], []),
]


def test_each_type_is_fitted_by_these_and_no_others() -> None:
    for required, fitting, unfitting in ROWS:
        assert [one for one in fitting if not fits(one, required)] == [], required
        assert [one for one in unfitting if fits(one, required)] == [], required


@pytest.mark.parametrize(
    ("outgoing", "required"),
    [
        ("Nowhere", int),
        (int, ForwardRef("Nowhere")),
        (list["Nowhere"], list[int]),
        (Lost, int),
        ("a b", int),
        ("It", "It"),
    ],
)
def test_unresolvable_references_are_skipped_with_a_warning(outgoing: Any, required: Any) -> None:
    with pytest.warns(UserWarning, match="Unresolvable type hint"):
        assert fits(outgoing, required)


def test_an_unresolvable_reference_does_not_hide_a_mismatch_beside_it() -> None:
    with pytest.warns(UserWarning, match="Unresolvable type hint 'Nowhere'"):
        assert not fits(dict["Nowhere", int], dict[str, str])


def test_a_warning_turned_into_an_error_is_raised() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Unresolvable"):
            fits("Nowhere", int)


def test_literal_values_are_no_forward_references() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fits(Literal["Nowhere"], Literal["Nowhere", "Elsewhere"])
        assert not fits(list[Literal["Nowhere"]], list[int])


def attempt(make: Callable[..., Any], *parts: Any) -> Any:
    """Build a hint; what typing refuses to build becomes a list of the parts."""
    try:
        return make(*parts)
    except Exception:
        return list[parts]


PLAIN = [int, str, bool, float, None, object, Any, Dog, Barks, HasBoth, Film, UserId, T, Number, Named, Whole]
ODD = [P, Ts, Never, MISSING, ..., 5, "Nowhere", "int", [int], Guarded, Alias, Endless, Lost, np.zeros(2)]
BARE = [list, typing.List, typing.Tuple, Callable, typing.Callable, Union, Literal, Box, Generic, Protocol]
LITERALS = st.lists(st.sampled_from(["a", "Nowhere", 1, True, None, Colour.RED, (1, 2)]), min_size=1)
COMPOSERS: list[tuple[int, Callable[..., Any]]] = [
    (1, lambda a: list[a]),
    (1, lambda a: Sequence[a]),
    (1, lambda a: tuple[a, ...]),
    (1, lambda a: Box[a]),
    (1, lambda a: Giver[a]),
    (1, lambda a: type[a]),
    (1, lambda a: Optional[a]),
    (1, lambda a: Annotated[a, np.zeros(2)]),
    (1, lambda a: tuple[Unpack[a]]),
    (1, lambda a: Callable[a, int]),
    (2, lambda a, b: dict[a, b]),
    (2, lambda a, b: tuple[a, b]),
    (2, lambda a, b: Union[a, b]),
    (2, lambda a, b: a | b),
    (2, lambda a, b: Callable[[a], b]),
    (2, lambda a, b: Callable[Concatenate[a, P], b]),
]
Hint = Callable[[], Any]  # a recipe rather than a hint, so that one can be built twice


def composed(children: st.SearchStrategy[Hint]) -> st.SearchStrategy[Hint]:
    return st.one_of(
        st.tuples(st.just(make), st.tuples(*[children] * arity)).map(
            lambda drawn: lambda: attempt(drawn[0], *(part() for part in drawn[1]))
        )
        for arity, make in COMPOSERS
    )


leaves = st.sampled_from([*PLAIN, *ODD, *BARE]).map(lambda leaf: lambda: leaf)
literals = LITERALS.map(lambda values: lambda: Literal[tuple(values)])
hints = st.recursive(leaves | literals, composed, max_leaves=6)
ignore_skipped = pytest.mark.filterwarnings("ignore:Unresolvable type hint")


@ignore_skipped
@given(hints)
def test_every_type_fits_itself_any_and_nothing(hint: Hint) -> None:
    assert fits(hint(), hint())
    assert fits(hint(), Any)
    assert fits(hint(), MISSING)
    assert fits(MISSING, hint())


@ignore_skipped
@given(hints, hints)
def test_every_question_has_an_answer(outgoing: Hint, required: Hint) -> None:
    assert fits(outgoing(), required()) in (True, False)


@ignore_skipped
@given(hints, hints)
def test_a_type_fits_every_union_it_is_in(hint: Hint, other: Hint) -> None:
    try:
        union = Union[hint(), other()]
    except Exception:  # typing refuses it
        return
    assert fits(hint(), union)
