"""Named points in the stores at which a test may kill the process."""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None  # set by fault tests only


def point(name: str) -> None:
    """Call the hook, if a test has set one."""
    if hook is not None:
        hook(name)
