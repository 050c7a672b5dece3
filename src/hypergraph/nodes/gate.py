"""Gates: functions that decide which nodes run next, and END.

A gate produces no values. What its function returns is checked by `decide` against the targets it
declared; the decision is a target name, END, a list of names or None.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from hypergraph.nodes.base import require_name
from hypergraph.nodes.callable_node import CallableNode, Names
from hypergraph.nodes.fingerprint import sha256
from hypergraph.records import Decision


class _EndType(type):
    def __repr__(cls) -> str:
        return "END"

    __str__ = __repr__

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("END cannot be instantiated; use it as it is: return END")


class END(metaclass=_EndType):
    """Mark the end of a gate's branch; used as a value, never instantiated."""


Target = str | type[END]


class GateNode(CallableNode):
    """Decide which targets run; abstract base of RouteNode and IfElseNode."""

    node_type = "BRANCH"
    targets: list[Target]
    descriptions: dict[Any, str]
    cache: bool
    hide: bool
    default_open: bool
    multi_target = False

    def _set_up_gate(
        self, func: Any, name: str | None, targets: Sequence[Target], *, default_open: bool, **options: Any
    ) -> None:
        source = func.func if isinstance(func, CallableNode) else func
        checked: list[Target] = []
        for target in targets:
            if target is not END:
                require_name(target, "a gate's target")
            if target == "END":
                raise ValueError(
                    "A gate has 'END' as a string target. Import END from hypergraph and use it without quotes."
                )
            if target not in checked:
                checked.append(target)
        if not checked:
            raise ValueError("A gate must have at least one target; name a node or END.")
        self._set_up(source, name, (), targets=checked, default_open=bool(default_open), **options)
        if self.signature.is_generator:
            raise TypeError(f"Gate {self.name!r} cannot be a generator: it decides once and returns its target.")
        if self.signature.is_async:
            raise TypeError(
                f"Gate {self.name!r} cannot be async: let an async node compute the value the gate decides on."
            )

    @property
    def target_names(self) -> tuple[str, ...]:
        """The targets that are nodes: all but END."""
        return tuple(t for t in self.targets if isinstance(t, str))

    @property
    def definition_hash(self) -> str:
        """A hash over the function and the targets it may choose."""
        return sha256(super().definition_hash, *map(str, self.targets))

    def decide(self, result: Any) -> Any:
        """Turn what the function returned into a decision. Raises TypeError or ValueError naming the gate."""
        raise NotImplementedError

    @property
    def branch_data(self) -> dict[str, Any]:
        """The targets as drawings show them, END spelled "END"."""
        return {"targets": [str(target) for target in self.targets]}

    @property
    def nx_attrs(self) -> dict[str, Any]:
        """The attributes of every node, and the branches."""
        return {**super().nx_attrs, "branch_data": self.branch_data}

    def _check_target(self, result: Any) -> Any:
        if isinstance(result, str) and result == "END":
            warnings.warn(
                f"Gate {self.name!r} returned the string 'END'; return END itself to end its branch.",
                UserWarning,
                stacklevel=2,
            )
        for target in self.targets:
            if target is result or (isinstance(result, str) and target == result):
                return target
        close = difflib.get_close_matches(result, self.target_names, n=1) if isinstance(result, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        shown = repr(result) if isinstance(result, str) else f"a value of type {type(result).__name__}"
        raise ValueError(
            f"Gate {self.name!r} returned an invalid target: {shown}. Valid targets: {self.targets}.{hint}"
        )


class RouteNode(GateNode):
    """Choose among named targets.

    Raises TypeError for async and generator functions, ValueError for missing or contradictory targets.
    """

    fallback: Target | None

    def __init__(
        self,
        func: Callable[..., Any],
        targets: Sequence[Target] | Mapping[Target, str],
        *,
        fallback: Target | None = None,
        multi_target: bool = False,
        cache: bool = False,
        hide: bool = False,
        default_open: bool = True,
        name: str | None = None,
        rename_inputs: Mapping[str, str] | None = None,
        emit: Names = None,
        wait_for: Names = None,
    ) -> None:
        if fallback is not None and multi_target:
            raise ValueError("A route cannot have both fallback and multi_target; return a list with the fallback.")
        if isinstance(targets, str) or targets is END:
            targets = [targets]  # one target, given without its list
        listed = list(targets)
        self._set_up_gate(
            func,
            name,
            listed if fallback is None else [*listed, fallback],
            default_open=default_open,
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            descriptions=dict(targets) if isinstance(targets, Mapping) else {},
            fallback=fallback,
            multi_target=bool(multi_target),
            cache=bool(cache),
            hide=bool(hide),
        )

    def decide(self, result: Any) -> Any:
        """Check a returned target, list of targets or None. Raises TypeError or ValueError naming the gate."""
        if self.multi_target:
            if result is None:
                return Decision()
            if not isinstance(result, list):
                raise TypeError(
                    f"Gate {self.name!r} has multi_target=True but returned {type(result).__name__}; return a list."
                )
            return Decision(dict.fromkeys(map(self._check_target, result)))
        if result is None:
            return self.fallback
        if isinstance(result, (list, tuple, set)):
            raise TypeError(
                f"Gate {self.name!r} has multi_target=False but returned a list "
                f"({type(result).__name__}); return one target or declare multi_target=True."
            )
        return self._check_target(result)

    def __repr__(self) -> str:
        return f"RouteNode({self._label()}, targets={self.targets})"


class IfElseNode(GateNode):
    """Choose between two targets by True and False.

    Raises TypeError for async and generator functions, ValueError for equal targets.
    """

    when_true: Target
    when_false: Target

    def __init__(
        self,
        func: Callable[..., Any],
        when_true: Target,
        when_false: Target,
        *,
        cache: bool = False,
        hide: bool = False,
        default_open: bool = True,
        name: str | None = None,
        rename_inputs: Mapping[str, str] | None = None,
        emit: Names = None,
        wait_for: Names = None,
    ) -> None:
        if when_true is when_false or (isinstance(when_true, str) and when_true == when_false):
            raise ValueError(f"An ifelse needs two different targets, got {when_true!r} twice.")
        self._set_up_gate(
            func,
            name,
            [when_true, when_false],
            default_open=default_open,
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            descriptions={True: "True", False: "False"},
            when_true=when_true,
            when_false=when_false,
            cache=bool(cache),
            hide=bool(hide),
        )

    @property
    def branch_data(self) -> dict[str, Any]:
        """The two targets, END spelled "END"."""
        return {"when_true": str(self.when_true), "when_false": str(self.when_false)}

    def decide(self, result: Any) -> Any:
        """Choose by a bool. Raises TypeError naming the gate for anything else."""
        if result is True:
            return self.when_true
        if result is False:
            return self.when_false
        raise TypeError(
            f"Gate {self.name!r} must return True or False, got {type(result).__name__}; wrap the result in bool()."
        )

    def __repr__(self) -> str:
        return f"IfElseNode({self._label()}, true={self.when_true}, false={self.when_false})"


def route(
    targets: Sequence[Target] | Mapping[Target, str],
    *,
    fallback: Target | None = None,
    multi_target: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], RouteNode]:
    """Turn a function that returns a target (or several) into a gate. Raises what RouteNode raises."""
    if callable(targets) and targets is not END:
        raise TypeError('@route needs its targets: write @route(targets=["a", "b"]).')
    return lambda func: RouteNode(func, targets, fallback=fallback, multi_target=multi_target, **options)


def ifelse(when_true: Target, when_false: Target, **options: Any) -> Callable[[Callable[..., Any]], IfElseNode]:
    """Turn a function that returns a bool into a gate. Raises what IfElseNode raises."""
    return lambda func: IfElseNode(func, when_true, when_false, **options)
