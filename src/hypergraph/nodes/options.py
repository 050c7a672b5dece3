"""RetryPolicy, Replace, and the checks of options about lists and stored runs."""

from __future__ import annotations

import inspect
import math
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from hypergraph.nodes.names import Names, as_names, got
from hypergraph.nodes.signature import callable_name, read_signature

# Called with (node_name, idempotency_key, inputs) for a step that started and has no result. Returns the
# result of that step, or NotImplemented if the function had no effect and should run.
FindOut = Callable[[str, str, dict[str, Any]], Any]
OnAmbiguous = Literal["fail", "rerun"] | FindOut
OnWorkerLoss = Literal["fail", "rerun"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry a failing node, with a growing delay between attempts.

    >>> policy = RetryPolicy(max_attempts=4, initial_delay=1.0, jitter=0)
    >>> [policy.delay_before(attempt) for attempt in (2, 3, 4)]
    [1.0, 2.0, 4.0]

    Raises ValueError for numbers out of range, TypeError if `retry_on` contains anything but exception
    classes.
    """

    max_attempts: int = 3  # including the first one
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)  # others fail at once
    initial_delay: float = 0.5  # seconds before the second attempt
    backoff_multiplier: float = 2.0  # growth of the delay from attempt to attempt
    max_delay: float = 30.0  # upper limit of the delay in seconds
    jitter: float = 0.1  # random variation of the delay, as a fraction

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise ValueError(f"max_attempts must be 1 (no retry) or more, got {self.max_attempts!r}")
        for field in ("initial_delay", "backoff_multiplier", "max_delay"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field} must not be negative, got {getattr(self, field)!r}")
        if self.initial_delay > self.max_delay:
            raise ValueError(
                f"initial_delay={self.initial_delay} is longer than max_delay={self.max_delay}, which would "
                f"cut it. Pass max_delay={self.initial_delay} or more."
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must lie between 0 and 1, got {self.jitter!r}")
        kinds = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise TypeError(f"retry_on must be an exception class or a tuple of them, got {self.retry_on!r}")

    def wants(self, error: BaseException, attempt: int) -> bool:
        """Return whether this attempt, which failed with this error, should be followed by another."""
        return attempt < self.max_attempts and isinstance(error, self.retry_on)

    def delay_before(self, attempt: int) -> float:
        """Return the seconds to wait before attempt number `attempt` (the first retry is 2)."""
        try:
            plain = min(self.initial_delay * self.backoff_multiplier ** (attempt - 2), self.max_delay)
        except OverflowError:  # larger than any float, so larger than the cap
            plain = self.max_delay if self.initial_delay else 0.0
        return plain * (1 + self.jitter * random.uniform(-1, 1))  # noqa: S311 - spreads load, guards nothing


class Replace:
    """Replace an appended list by these items; the value that an appending node returns.

    >>> Replace(["a summary"]).items
    ['a summary']

    Raises TypeError if the items cannot be iterated, or are a text.
    """

    __slots__ = ("items",)
    items: list[Any]  # what the list then consists of

    def __init__(self, items: Iterable[Any]) -> None:
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise TypeError(f"Replace takes a list of items, got {got(items)}")
        self.items = list(items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replace) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # it holds a list

    def __repr__(self) -> str:
        return f"Replace({self.items!r})"


def checked_append(append: bool | Names, outputs: tuple[str, ...], persist: Any) -> tuple[str, ...]:
    """Return the outputs that are appended, for the option `append`. Raises TypeError or ValueError."""
    if append is False or append is None:
        return ()
    names = outputs if append is True else as_names(append, "append")
    unknown = [name for name in names if name not in outputs]
    if unknown or not outputs:
        listed = ", ".join(map(repr, unknown)) or "True"
        raise ValueError(f"append={listed}: only outputs can be appended. Outputs: {outputs}")
    if persist is False:
        raise ValueError(
            "append and persist=False exclude each other: a list that lacks items cannot be restored. "
            "Remove one of them."
        )
    return names


def checked_retry(retry: Any) -> RetryPolicy | None:
    """Return the option `retry`. Raises TypeError."""
    if retry is None or isinstance(retry, RetryPolicy):
        return retry
    count = retry if type(retry) is int and retry > 0 else 3
    raise TypeError(
        f"retry must be a RetryPolicy, got {got(retry)}; write retry=RetryPolicy(max_attempts={count})."
    )


def checked_timeout(timeout: Any) -> float | None:
    """Return the option `timeout`. Raises TypeError or ValueError."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, got {got(timeout)}")
    if not timeout > 0:
        raise ValueError(f"timeout must be greater than 0 seconds, or None for no limit, got {timeout!r}")
    if sys.float_info.max < timeout < math.inf:  # an int that no clock can be added to
        raise ValueError("timeout is too large; use None for no limit")
    return timeout


def check_transaction(node: Any, transaction: Any) -> None:
    """Check the option `transaction` of a function node. Raises TypeError or ValueError."""
    _check_bool("transaction", transaction)
    if node.is_async or node.is_generator:
        raise TypeError(
            f"transaction=True needs a plain function; {node.name!r} is async or a generator. Nothing else "
            "can be written while a transaction is open: keep it short, and await before or after it."
        )
    if not any(param.is_context for param in node.signature.parameters):
        raise TypeError(
            f"transaction=True needs a parameter annotated NodeContext, for its connection; {node.name!r} "
            "has none."
        )
    for option, value in (("cache", node.cache), ("persist", not node.persist), ("append", node.append)):
        if value:
            raise ValueError(f"transaction=True and {option} exclude each other: remove one of them.")
    if not node.repeatable:
        raise ValueError(
            "transaction=True and repeatable=False exclude each other: what a crash interrupts is rolled "
            "back, so it can always run again. Remove one of them."
        )


def persistence(
    persist: Any, repeatable: Any, on_ambiguous: Any, artifact: Any, on_worker_loss: Any
) -> dict[str, Any]:
    """Return the attributes for these options of a function node; none if all have their defaults.

    Raises TypeError or ValueError for invalid values, ValueError for options that exclude each other.
    """
    if persist is repeatable is True and on_ambiguous is artifact is on_worker_loss is None:
        return {}  # almost every node: nothing to check, nothing to set
    _check_bool("persist", persist)
    _check_bool("repeatable", repeatable)
    if artifact is not None:
        _check_bool("artifact", artifact)
    _check_choice("on_worker_loss", on_worker_loss)
    if callable(on_ambiguous):
        _check_find_out(on_ambiguous)
    else:
        _check_choice("on_ambiguous", on_ambiguous, " or a callable")
    if repeatable and on_ambiguous is not None:
        raise ValueError(
            "on_ambiguous needs repeatable=False: a repeatable node runs again after a crash, so its outcome "
            "is never in question. Add repeatable=False or remove on_ambiguous."
        )
    if not (repeatable or persist):
        raise ValueError(
            "persist=False and repeatable=False exclude each other: a step without stored outputs runs again "
            "on resume, and repeatable=False forbids that. Remove one of them."
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


def _check_find_out(find_out: FindOut) -> None:
    """Check the callable at construction: it is called after a crash only, when an error comes too late."""
    name = callable_name(find_out)
    found = read_signature(find_out)
    if found.is_async or found.is_generator:
        raise TypeError(f"on_ambiguous must be a plain function; {name!r} is async or a generator.")
    try:
        inspect.signature(find_out).bind("node_name", "idempotency_key", {})
    except TypeError as error:
        raise TypeError(
            f"on_ambiguous is called with (node_name, idempotency_key, inputs), which {name!r} does not "
            f"accept: {error}."
        ) from None
