"""Gates, which decide which nodes run next, and END.

A gate produces no values. `decide` checks the result of its function against the declared targets; the
decision is a target name, END, a list of names or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Self

from hypergraph.display import did_you_mean
from hypergraph.exceptions import warn_caller
from hypergraph.nodes.callable_node import CallableNode, P, R_co
from hypergraph.nodes.names import Names, got, require_name
from hypergraph.nodes.options import RetryPolicy, checked_retry, checked_timeout
from hypergraph.nodes.signature import sha256
from hypergraph.records import Decision


class _EndType(type):
    def __repr__(cls) -> str:
        return "END"

    __str__ = __repr__

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("END cannot be instantiated; use it without parentheses: return END")


class END(metaclass=_EndType):
    """Mark the end of a gate's branch; use it as a value, without parentheses."""


Target = str | type[END]
Targets = Iterable[Target] | Mapping[Target, str] | Target


class GateNode(CallableNode[P, R_co]):
    """Decide which targets run; the abstract base of RouteNode and IfElseNode."""

    abstract = True
    node_type = "BRANCH"
    targets: list[Target]  # node names and END, without repeats
    descriptions: dict[Any, str]  # texts about targets, for drawings
    cache: bool
    hide: bool
    retry: RetryPolicy | None  # how a failed attempt is repeated
    timeout: float | None  # seconds for one attempt
    default_open: bool  # whether a cycle can start at one of its targets, before its first decision
    multi_target = False  # whether it chooses a list of targets
    fallback: Target | None = None  # the target for the result None
    _aliases: Mapping[str, str] = MappingProxyType({})  # what the function calls a target -> its name

    def _set_up_gate(self, func: Any, name: str | None, targets: Iterable[Target], **options: Any) -> None:
        checked = dict.fromkeys(map(_checked_target, targets))
        if not checked:
            raise ValueError("A gate must have at least one target; name a node or END.")
        self._set_up(func, name, (), targets=list(checked), **options)
        self._refuse_generator()

    def with_function(self, func: Callable[..., Any]) -> Self:
        """Return a copy that decides by another function. Raises ValueError and TypeError as for nodes."""
        changed = super().with_function(func)
        changed._refuse_generator()
        return changed

    def with_targets(self, names: Mapping[str, str]) -> Self:
        """Return a copy whose targets have other names; its function still returns those that it knows."""
        changed = {old: new for old, new in names.items() if old in self.target_names}
        if not changed:
            return self
        aliases = {known: changed.get(target, target) for known, target in self._aliases.items()}
        copy = self._copy(
            _aliases={**changed, **aliases},
            targets=[_among(changed, target) for target in self.targets],
            descriptions={_among(changed, target): text for target, text in self.descriptions.items()},
        )
        for option in ("fallback", "when_true", "when_false"):
            if option in copy.__dict__:
                copy.__dict__[option] = _among(changed, copy.__dict__[option])
        return copy

    def _refuse_generator(self) -> None:
        if self.is_generator:
            raise TypeError(
                f"Gate {self.name!r} cannot be a generator. Compute the value in a node before it, "
                "and decide on that."
            )

    @property
    def target_names(self) -> tuple[str, ...]:
        """The targets that are nodes: all except END."""
        return tuple(t for t in self.targets if isinstance(t, str))

    @property
    def _known_targets(self) -> tuple[str, ...]:
        known = {target: name for name, target in self._aliases.items()}
        return tuple(known.get(name, name) for name in self.target_names)

    @property
    def definition_hash(self) -> str:
        """A hash over the function and the options that turn its result into a decision."""
        rules = (type(self), *self.targets, self.fallback, self.multi_target, self.default_open)
        return sha256(super().definition_hash, *map(str, rules))

    def decide(self, result: Any) -> Any:
        """Turn the result of the function into a decision. Raises TypeError or ValueError."""
        raise NotImplementedError

    @property
    def branch_data(self) -> dict[str, Any]:
        """The targets as strings, for drawings."""
        return {"targets": [str(target) for target in self.targets]}

    @property
    def nx_attrs(self) -> dict[str, Any]:
        """The attributes of this node in networkx graphs."""
        return {**super().nx_attrs, "branch_data": self.branch_data}

    def _check_target(self, result: Any) -> Any:
        if self._aliases and isinstance(result, str):
            result = self._aliases.get(result, result)
        for target in self.targets:
            if target is result or (isinstance(result, str) and target == result):
                return target
        what = repr(result) if isinstance(result, str) else f"a value of type {type(result).__name__}"
        if isinstance(result, str) and result == "END":
            hint = "Return END itself, without quotes: from hypergraph import END."
        else:
            hint = did_you_mean(result, self.target_names) or "Return one of them."
            hint += f" Or add {result!r} to targets=." if isinstance(result, str) else ""
        raise ValueError(
            f"Gate {self.name!r} returned an invalid target: {what}. Valid targets: {self.targets}. {hint}"
        )


def _among(names: Mapping[str, str], target: Any) -> Any:
    return names.get(target, target) if isinstance(target, str) else target


def _checked_target(target: Any) -> Target:
    if target is not END and require_name(target, "a gate's target") == "END":
        raise ValueError("A gate has 'END' as a string target. Write END without quotes, from hypergraph.")
    return target  # type: ignore[no-any-return]  # END or a string


class RouteNode(GateNode[P, R_co]):
    """Choose among named targets.

    Raises TypeError for generator functions and options of the wrong type, ValueError for missing targets,
    for `fallback` together with `multi_target` and for a timeout that is not positive.

    Args:
        func: the function that decides, sync or async
        targets: node names and END; a dict maps them to descriptions
        fallback: the target for the result None
        multi_target: the function returns a list of targets
        cache: keep decisions in the cache of the runner
        hide: leave the gate out of drawings
        default_open: a cycle can start at one of the targets, before the first decision of the gate
        name: the name of the gate; by default that of the function
        rename_inputs: maps parameter names to input names
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before the gate runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
    """

    def __init__(
        self,
        func: Callable[P, R_co],
        targets: Targets,
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
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
    ) -> None:
        if fallback is not None and multi_target:
            raise ValueError(
                "A route cannot have both fallback and multi_target; return [fallback] instead of None."
            )
        if isinstance(targets, str) or targets is END:
            targets = [targets]  # a single target
        if not isinstance(targets, Iterable):
            raise TypeError(f"targets must be a list of node names or a dict, got {got(targets)}")
        listed = [*targets] if fallback is None else [*targets, fallback]
        self._set_up_gate(
            func,
            name,
            listed,
            default_open=bool(default_open),
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            descriptions=dict(targets) if isinstance(targets, Mapping) else {},
            fallback=fallback,
            multi_target=bool(multi_target),
            cache=bool(cache),
            hide=bool(hide),
            retry=checked_retry(retry),
            timeout=checked_timeout(timeout),
        )

    def decide(self, result: Any) -> Any:
        """Turn a target, a list of targets or None into a decision. Raises TypeError or ValueError."""
        if self.multi_target:
            if result is None:
                return Decision()
            if not isinstance(result, list):
                kind = "END" if result is END else type(result).__name__
                raise TypeError(
                    f"Gate {self.name!r} has multi_target=True but returned {kind}; return a list"
                    + (": [END]." if result is END else ".")
                )
            chosen = dict.fromkeys(map(self._check_target, result))
            if len(chosen) < len(result):
                twice = next(name for name in chosen if result.count(name) > 1)
                warn_caller(
                    f"Gate {self.name!r} chose {twice!r} {result.count(twice)} times; it runs once. To run "
                    "it for each of several calls, map a graph over them: graph.as_node().map_over('calls')."
                )
            return Decision(chosen)
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


class IfElseNode(GateNode[P, R_co]):
    """Choose between two targets by True and False.

    Raises TypeError for generator functions and options of the wrong type, ValueError for equal targets
    and for a timeout that is not positive.

    Args:
        func: the function that decides, sync or async
        when_true: the target for True
        when_false: the target for False
        cache: keep decisions in the cache of the runner
        hide: leave the gate out of drawings
        default_open: a cycle can start at one of the targets, before the first decision of the gate
        name: the name of the gate; by default that of the function
        rename_inputs: maps parameter names to input names
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before the gate runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
    """

    when_true: Target
    when_false: Target

    def __init__(
        self,
        func: Callable[P, R_co],
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
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
    ) -> None:
        if when_true is when_false or (isinstance(when_true, str) and when_true == when_false):
            raise ValueError(f"An ifelse needs two different targets, got {when_true!r} twice.")
        self._set_up_gate(
            func,
            name,
            [when_true, when_false],
            default_open=bool(default_open),
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            descriptions={True: "True", False: "False"},
            when_true=when_true,
            when_false=when_false,
            cache=bool(cache),
            hide=bool(hide),
            retry=checked_retry(retry),
            timeout=checked_timeout(timeout),
        )

    @property
    def branch_data(self) -> dict[str, Any]:
        """The two targets as strings, for drawings."""
        return {"when_true": str(self.when_true), "when_false": str(self.when_false)}

    def decide(self, result: Any) -> Any:
        """Turn True or False into the target. Raises TypeError for anything else."""
        if result is True:
            return self.when_true
        if result is False:
            return self.when_false
        fix = "add a return statement" if result is None else "wrap the result in bool()"
        got = "None" if result is None else type(result).__name__
        raise TypeError(f"Gate {self.name!r} must return True or False, got {got}; {fix}.")

    def __repr__(self) -> str:
        return f"IfElseNode({self._label()}, true={self.when_true}, false={self.when_false})"


def route(
    targets: Targets,
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
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[P, R_co]], RouteNode[P, R_co]]:
    """Turn a function that returns a target, or a list of them, into a gate. Raises what RouteNode raises.

    >>> @route(targets=["revise", END])
    ... def is_good_enough(score: float) -> str | type[END]:
    ...     return END if score > 0.9 else "revise"
    >>> is_good_enough.targets
    ['revise', END]

    Args:
        targets: node names and END; a dict maps them to descriptions
        fallback: the target for the result None
        multi_target: the function returns a list of targets
        cache: keep decisions in the cache of the runner
        hide: leave the gate out of drawings
        default_open: a cycle can start at one of the targets, before the first decision of the gate
        name: the name of the gate; by default that of the function
        rename_inputs: maps parameter names to input names
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before the gate runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
    """
    if callable(targets) and targets is not END:
        raise TypeError('@route needs its targets: write @route(targets=["a", "b"]).')
    return lambda func: RouteNode(  # type: ignore[return-value]  # mypy: a generic lambda is not one
        func,
        targets,
        fallback=fallback,
        multi_target=multi_target,
        cache=cache,
        hide=hide,
        default_open=default_open,
        name=name,
        rename_inputs=rename_inputs,
        emit=emit,
        wait_for=wait_for,
        retry=retry,
        timeout=timeout,
    )


def ifelse(
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
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[P, R_co]], IfElseNode[P, R_co]]:
    """Turn a function that returns True or False into a gate. Raises what IfElseNode raises.

    >>> @ifelse(when_true="publish", when_false="revise")
    ... def is_accepted(decision: str) -> bool:
    ...     return decision == "yes"
    >>> is_accepted.targets
    ['publish', 'revise']

    Args:
        when_true: the target for True
        when_false: the target for False
        cache: keep decisions in the cache of the runner
        hide: leave the gate out of drawings
        default_open: a cycle can start at one of the targets, before the first decision of the gate
        name: the name of the gate; by default that of the function
        rename_inputs: maps parameter names to input names
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before the gate runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
    """
    return lambda func: IfElseNode(  # type: ignore[return-value]  # mypy: a generic lambda is not one
        func,
        when_true,
        when_false,
        cache=cache,
        hide=hide,
        default_open=default_open,
        name=name,
        rename_inputs=rename_inputs,
        emit=emit,
        wait_for=wait_for,
        retry=retry,
        timeout=timeout,
    )
