"""CheckpointPolicy: when steps are written, how long they are kept, and which of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from hypergraph.display import did_you_mean

Durability = Literal["sync", "async", "exit", "best-effort"]
Retention = Literal["full", "latest", "windowed"]
Granularity = Literal["step", "top-level", "none"]
_NAMES: dict[str, Any] = {"durability": Durability, "retention": Retention, "granularity": Granularity}


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """When steps are written, how long they are kept, and how fine they are.

    >>> policy = CheckpointPolicy(durability="async", retention="latest")
    >>> MemoryCheckpointer(policy=policy).policy.retention
    'latest'

    Raises:
        ValueError: a name is unknown, or window and ttl do not fit the rest.
    """

    # "best-effort" writes at once too, and a run continues when the store fails.
    durability: Durability = "sync"  # write each step at once, in the background, or all at the end ("exit")
    retention: Retention = "full"  # keep the values of all supersteps, the latest, or a window
    window: int | None = None  # how many supersteps a window has
    ttl: timedelta | float | None = None  # a number counts seconds
    granularity: Granularity = "step"  # store every step, nested graphs as one each, or none
    stream_ttl: timedelta | float = 60.0  # how long chunks of a stream are kept after their step has ended
    stream_limit: int = 64 * 1024 * 1024  # bytes of one stream that are kept; the oldest chunks go first

    def __post_init__(self) -> None:
        for name, kind in _NAMES.items():
            _one_of(name, getattr(self, name), get_args(kind))
        if self.retention == "windowed" and self.window is None:
            raise ValueError('retention="windowed" requires window parameter: how many supersteps to keep')
        if self.retention != "windowed" and self.window is not None:
            raise ValueError('window parameter only valid with retention="windowed"')
        if self.window is not None and (type(self.window) is not int or self.window < 1):
            raise ValueError(f"window must be a positive int, not {self.window!r}")
        if self.ttl is not None and not _is_positive(self.ttl):
            raise ValueError(f"ttl must be a positive timedelta or number of seconds, not {self.ttl!r}")

        if not _is_positive(self.stream_ttl):
            raise ValueError(f"stream_ttl must be a positive timedelta or seconds, not {self.stream_ttl!r}")
        if type(self.stream_limit) is not int or self.stream_limit < 1:
            raise ValueError(f"stream_limit must be a positive number of bytes, not {self.stream_limit!r}")

    @property
    def stream_seconds(self) -> float:
        """The time for which chunks are kept after the end of their step, in seconds."""
        ttl = self.stream_ttl
        return ttl.total_seconds() if isinstance(ttl, timedelta) else ttl

    @property
    def ttl_seconds(self) -> float | None:
        """The time to live in seconds."""
        return self.ttl.total_seconds() if isinstance(self.ttl, timedelta) else self.ttl


def _is_positive(ttl: object) -> bool:
    if isinstance(ttl, timedelta):
        return ttl > timedelta(0)
    return isinstance(ttl, (int, float)) and not isinstance(ttl, bool) and ttl > 0


def _one_of(what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        hint = did_you_mean(given, known) or ""
        choices = ", ".join(repr(name) for name in known)
        raise ValueError(f"Unknown {what} {given!r}; it is one of {choices}. {hint}".rstrip())


def policy_of(
    policy: CheckpointPolicy | None, durability: Durability | None, retention: Retention | None
) -> CheckpointPolicy:
    """Return the policy of a store, from itself or from shortcuts for its parts.

    Raises:
        ValueError: both are given.
    """
    shortcuts = {"durability": durability, "retention": retention}
    given: dict[str, Any] = {name: value for name, value in shortcuts.items() if value is not None}
    if policy is not None and given:
        raise ValueError(f"Cannot pass both policy and {' and '.join(given)}; put it into the policy")
    return CheckpointPolicy(**given) if policy is None else policy
