"""Values that a store must not see: what `redact=` makes of them is stored in their place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypergraph.checkpointers.types import StepRecord
from hypergraph.records import PauseInfo

Redact = Callable[[str | None, str, Any], Any]  # node (None for inputs), name and value -> what is stored


def redacted_pause(redact: Redact, record: StepRecord, pause: PauseInfo) -> PauseInfo:
    """Return a pause whose values are redacted by their names; what cannot be redacted is left out.

    That is also what a nested graph shows: only its own workflow knows the name of that.
    """
    node, names = record.node_name, tuple(record.input_versions) if _asks_itself(record, pause) else ()
    try:
        if pause.values:
            shown = {name: redact(node, name, value) for name, value in pause.values.items()}
            return replace(pause, value=next(iter(shown.values())), values=shown)
        value = redact(node, names[0], pause.value) if len(names) == 1 else None
        return replace(pause, value=value)
    except Exception as error:
        warnings.warn(f"What node {node!r} shows cannot be redacted: {type(error).__name__}", stacklevel=2)
        return replace(pause, value=None, values=None)


def _asks_itself(record: StepRecord, pause: PauseInfo) -> bool:
    """Say whether the question is one of the step, and not of the graph inside of it."""
    asking = pause.node_name.rpartition("/")[2]
    return asking == record.node_name and record.workflow_id.count("/") >= len(pause.path)
