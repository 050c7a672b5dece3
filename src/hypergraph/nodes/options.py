"""Options of nodes: retry, persistence, and their meaning."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hypergraph.display import explained
from hypergraph.nodes.names import got
from hypergraph.nodes.signature import callable_name, read_signature

MEANINGS = {
    "source": "the function, or a node whose function is taken",
    "func": "the function that decides; neither async nor a generator",
    "graph": "the graph inside",
    "name": "what the node is called; by default what its function, or its graph, is called",
    "output_name": "what the result is called; several names take it apart, None drops it",
    "targets": "names of nodes, and END; a dict maps them to descriptions",
    "when_true": "the target for True",
    "when_false": "the target for False",
    "fallback": "the target for None",
    "multi_target": "whether the function returns a list of targets; not together with fallback",
    "default_open": "whether its targets may begin a cycle before the gate first ran",
    "durability": '"nested" stores inner steps as a workflow of their own, "atomic" all as one step',
    "lift": "the outputs that the parent gets, in this order; by default all",
    "rename_inputs": "from names of parameters to names of inputs",
    "cache": "whether results are remembered, by a runner that has a cache",
    "hide": "whether drawings leave the node out",
    "emit": "outputs without a value, for others to wait for",
    "wait_for": "outputs of others that must be there before the node runs; they are no inputs",
    "retry": "whether, how often and how soon a failed attempt is repeated",
    "timeout": "seconds for one attempt, then it fails with NodeTimeoutError",
    "offload": "whether AsyncRunner calls a sync function in a worker thread",
    "persist": "False stores the step without its outputs; a resumed run that needs them makes them again",
    "repeatable": "False: a function that began must not run again, even if a crash left open what it did",
    "on_ambiguous": 'for such a step: "fail" (the default), "rerun", or a callable that finds out',
    "artifact": "True stores outputs outside of the row, False in it, None decides by size",
    "on_worker_loss": '"rerun", or "fail" (the default if not repeatable), when an executor loses its worker',
    "params": "names of the inputs that hold one value per item",
    "mode": '"zip" takes items side by side, "product" in all combinations',
    "error_handling": '"raise" ends the map at a failing item, "continue" gives None for its outputs',
    "clone": "deep-copy the other values for each item: True, or a list of names",
}
explained_node = explained(MEANINGS)


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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Try a failing node again, waiting longer each time.

    >>> policy = RetryPolicy(max_attempts=4, initial_delay=1.0, jitter=0)
    >>> [policy.delay_before(attempt) for attempt in (2, 3, 4)]
    [1.0, 2.0, 4.0]

    Raises ValueError for numbers out of range and TypeError for a `retry_on` that names no exceptions.
    """

    max_attempts: int = 3  # the first one included
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)  # else it fails at once
    initial_delay: float = 0.5  # seconds before the second attempt
    backoff_multiplier: float = 2.0  # by which the delay grows each time
    max_delay: float = 30.0  # seconds it never exceeds
    jitter: float = 0.1  # fraction by which the delay varies at random

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise ValueError(f"max_attempts must be a positive int, got {self.max_attempts!r}")
        for field in ("initial_delay", "backoff_multiplier", "max_delay"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field} must not be negative, got {getattr(self, field)!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must lie between 0 and 1, got {self.jitter!r}")
        kinds = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise TypeError(f"retry_on must be an exception class or a tuple of them, got {self.retry_on!r}")

    def wants(self, error: BaseException, attempt: int) -> bool:
        """Say whether the error of this attempt is worth another one."""
        return attempt < self.max_attempts and isinstance(error, self.retry_on)

    def delay_before(self, attempt: int) -> float:
        """Return the seconds to wait before attempt number `attempt` (the first retry is 2)."""
        try:
            plain = min(self.initial_delay * self.backoff_multiplier ** (attempt - 2), self.max_delay)
        except OverflowError:  # beyond every number, so beyond the cap
            plain = self.max_delay if self.initial_delay else 0.0
        return plain * (1 + self.jitter * random.uniform(-1, 1))  # noqa: S311 - spreads load, guards nothing
