"""Whether a call is made for the first time, where an executor repeats calls by itself.

Dask starts the tasks of a dead worker again on another one, and asks nobody. The calls of a node that must
not be repeated carry a ticket, which is torn on the scheduler before the function is called.
"""

from __future__ import annotations

import sys
from typing import Any


def is_first(ticket: str) -> bool:
    """Tear a ticket; say whether it was whole. Elsewhere than on Dask every ticket is."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:
        return True
    try:
        distributed.get_worker()
    except ValueError:  # distributed is loaded, and this is none of its tasks
        return True
    torn = distributed.Event(ticket)
    if torn.is_set():
        return False
    torn.set()
    return True
