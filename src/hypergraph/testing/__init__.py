"""Tools for tests: the conformance suite of stores, a clock to set, a processor that records events.

Only the conformance suite needs pytest, and only when it is asked for.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.testing.clock import FakeClock
    from hypergraph.testing.conformance import CheckpointerConformance
    from hypergraph.testing.recording import RecordingProcessor

_LAZY = {
    "CheckpointerConformance": "hypergraph.testing.conformance",
    "FakeClock": "hypergraph.testing.clock",
    "RecordingProcessor": "hypergraph.testing.recording",
}
_MODULES = ("stores", "ownership", "upkeep", "outlines", "crashes", "races")
_TESTS = [f"hypergraph.testing.conformance.{name}" for name in _MODULES]

__all__ = ["CheckpointerConformance", "FakeClock", "RecordingProcessor"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if name == "CheckpointerConformance":
        import pytest

        late = [name for name in _TESTS if name not in sys.modules]
        pytest.register_assert_rewrite(*late)  # so that failures show what was compared
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
