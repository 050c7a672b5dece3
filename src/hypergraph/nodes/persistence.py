"""What a stored run may do with the steps of a node, and what follows when its process or worker dies.

The options are no part of what a node is: neither its results nor its definition_hash depend on them.
`HyperNode` has the values of nodes about which nothing was said.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from hypergraph.nodes.names import got
from hypergraph.nodes.signatures import callable_name, read_signature

# Called with (node_name, idempotency_key, inputs) for a step that began and has no result. Returns what the
# function would have returned, or NotImplemented when the function had no effect and is to run.
FindOut = Callable[[str, str, dict[str, Any]], Any]
OnAmbiguous = Literal["fail", "rerun"] | FindOut
OnWorkerLoss = Literal["fail", "rerun"]


def persistence(
    persist: Any, repeatable: Any, on_ambiguous: Any, artifact: Any, on_worker_loss: Any
) -> dict[str, Any]:
    """Return the attributes that tell a function node from one about which nothing was said.

    Raises TypeError or ValueError for what is not allowed, ValueError for options that exclude each other.
    """
    if persist is repeatable is True and on_ambiguous is artifact is on_worker_loss is None:
        return {}  # almost every node: nothing to check, nothing to carry
    _check_bool("persist", persist)
    _check_bool("repeatable", repeatable)
    if artifact is not None:
        _check_bool("artifact", artifact)
    _check_choice("on_worker_loss", on_worker_loss)
    if callable(on_ambiguous):
        _check_call(on_ambiguous)
    else:
        _check_choice("on_ambiguous", on_ambiguous, " or a callable")
    if repeatable and on_ambiguous is not None:
        raise ValueError(
            "on_ambiguous is only for nodes with repeatable=False: other nodes simply run again, so there is "
            "nothing to find out. Add repeatable=False, or leave on_ambiguous out."
        )
    if not (repeatable or persist):
        raise ValueError(
            "persist=False and repeatable=False exclude each other: a step that is not stored runs again on "
            "resume, and this one must not. Leave one of them out."
        )
    return {
        "persist": persist,
        "repeatable": repeatable,
        "on_ambiguous": "fail" if on_ambiguous is None and not repeatable else on_ambiguous,
        "artifact": artifact,
        "on_worker_loss": on_worker_loss or ("rerun" if repeatable else "fail"),
    }


def _check_bool(option: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{option} must be True or False, got {got(value)}")


def _check_choice(option: str, value: Any, also: str = "") -> None:
    if value is None:
        return
    allowed = f'{option} must be "fail" or "rerun"{also}'
    if not isinstance(value, str):
        raise TypeError(f"{allowed}, got {got(value)}")
    if value not in ("fail", "rerun"):
        raise ValueError(f"{allowed}, got {value!r}")


def _check_call(find_out: FindOut) -> None:
    """Refuse now what could not be called, because it is called only after a crash."""
    name = callable_name(find_out)
    found = read_signature(find_out)
    if found.is_async or found.is_generator:
        raise TypeError(f"on_ambiguous must be a plain function; {name!r} is async or a generator.")
    try:
        inspect.signature(find_out).bind("node_name", "idempotency_key", {})
    except TypeError as error:
        raise TypeError(
            f"on_ambiguous is called with (node_name, idempotency_key, inputs); {name!r} cannot be: {error}."
        ) from None
