"""How often and how patiently a failing node is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass


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
