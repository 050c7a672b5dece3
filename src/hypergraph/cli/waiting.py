"""Where commands wait for what is awaited: stores and the async runner."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, or raise what it raises."""
    return asyncio.run(work)
