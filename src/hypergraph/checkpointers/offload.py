"""Reading in a worker thread, for those who wait on an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the call returns, without holding up the event loop meanwhile."""
    import asyncio  # only who awaits has an event loop; stores are used without one as well

    return await asyncio.to_thread(call, *args, **kwargs)
