"""What the result of a function means: a decision, an answer, or the values of several outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypergraph.nodes.gate import END, GateNode, RouteNode

Names = tuple[str, ...]
ABSENT: Any = type("ABSENT", (), {"__repr__": lambda self: "<absent>"})()  # an output that was not produced
NO_ANSWER: Any = object()  # what a handler that returned None says


def decider(gate: GateNode) -> Callable[[Any], Any]:
    """Return what turns the result of a gate into its decision, quickly for the usual result."""
    if gate.multi_target or not isinstance(gate, RouteNode):
        return gate.decide
    decide, targets = gate.decide, frozenset(gate.targets)

    def resolve(result: Any) -> Any:
        return result if (type(result) is str or result is END) and result in targets else decide(result)

    return resolve


def drop(result: Any) -> tuple[()]:
    """Return nothing: whatever a node without outputs returns is not wanted."""
    return ()


def unpacker(name: str, outputs: Names, originals: Names) -> Callable[[Any], Any]:
    """Return what turns the result of a node with several outputs into their values, in order.

    A dict may use the names the outputs have now, or those they had when the function was written. The
    returned function raises TypeError or ValueError naming the node.
    """
    wanted = len(outputs)

    def unpack(result: Any) -> Any:
        if type(result) is tuple or type(result) is list:
            if len(result) == wanted:
                return result
        elif isinstance(result, dict):
            if (named := _by_name(result, outputs, originals)) is not None:
                return named
            raise ValueError(
                f"Node {name!r} returned a dict with keys {list(result)}; its outputs are {outputs}."
            )
        elif result is None:
            raise TypeError(f"Node {name!r} returned None; it must return {wanted} values for {outputs}.")
        elif isinstance(result, (str, bytes, bytearray, set, frozenset)) or not hasattr(result, "__len__"):
            raise TypeError(
                f"Node {name!r} returned {type(result).__name__}; "
                f"it must return {wanted} values for {outputs}."
            )
        if len(result) != wanted:
            raise ValueError(
                f"Node {name!r} returned {len(result)} values; expected {wanted}, one for each of {outputs}."
            )
        return tuple(result)

    return unpack


def _by_name(result: dict[Any, Any], outputs: Names, originals: Names) -> tuple[Any, ...] | None:
    for names in (originals, outputs):  # where both fit, after a swap of names, the function means its own
        if result.keys() == set(names):
            return tuple(result[name] for name in names)
    return None


def answer_reader(name: str, outputs: Names, originals: Names) -> Callable[[Any], Any]:
    """Return what turns the result of an interrupt's handler into values, or NO_ANSWER.

    The returned function raises ValueError naming the node.
    """

    def read(result: Any) -> Any:
        if result is None:
            return NO_ANSWER
        if len(outputs) == 1:
            return result
        if not isinstance(result, dict):
            return (result, *(ABSENT for _ in outputs[1:]))
        if (named := _by_name(result, outputs, originals)) is not None:
            return named
        missing, extra = sorted(set(outputs) - set(result)), sorted(set(result) - set(outputs), key=str)
        raise ValueError(
            f"Interrupt {name!r}: its handler must return exactly {outputs}; "
            f"missing: {missing}, extra: {extra}"
        )

    return read
