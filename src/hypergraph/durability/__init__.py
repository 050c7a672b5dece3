"""Runs that are written down as they happen, and taken up again where they stopped.

Loaded when a runner is given a store, and with it what stores need.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("WorkflowRecorder", "structure_before"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module("hypergraph.durability.recorder"), name)
    return found
