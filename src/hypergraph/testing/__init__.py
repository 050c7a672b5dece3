"""Tools for tests: replay and simulation of runs, a clock, a recorder of events, the conformance suite.

Only the conformance suite needs pytest, and only when it is asked for.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.testing.clock import FakeClock
    from hypergraph.testing.conformance import CheckpointerConformance
    from hypergraph.testing.fixtures import NotRecordedError, recorded
    from hypergraph.testing.recording import RecordingProcessor
    from hypergraph.testing.replaying import Deviation, Replayed, ReplayReport, replay
    from hypergraph.testing.simulation import SimulatedRun, SimulationError, SimulationReport, simulate
    from hypergraph.testing.variants import VariantComparison, VariantRun, compare_variants

_LAZY = {
    "CheckpointerConformance": "hypergraph.testing.conformance",
    "FakeClock": "hypergraph.testing.clock",
    "Deviation": "hypergraph.testing.replaying",
    "NotRecordedError": "hypergraph.testing.fixtures",
    "RecordingProcessor": "hypergraph.testing.recording",
    "ReplayReport": "hypergraph.testing.replaying",
    "Replayed": "hypergraph.testing.replaying",
    "SimulatedRun": "hypergraph.testing.simulation",
    "SimulationError": "hypergraph.testing.simulation",
    "SimulationReport": "hypergraph.testing.simulation",
    "VariantComparison": "hypergraph.testing.variants",
    "VariantRun": "hypergraph.testing.variants",
    "compare_variants": "hypergraph.testing.variants",
    "recorded": "hypergraph.testing.fixtures",
    "replay": "hypergraph.testing.replaying",
    "simulate": "hypergraph.testing.simulation",
}
_MODULES = ("stores", "ownership", "upkeep", "outlines", "crashes", "races", "signals")
_TESTS = [f"hypergraph.testing.conformance.{name}" for name in _MODULES]

__all__ = [
    "replay",
    "ReplayReport",
    "Replayed",
    "Deviation",
    "simulate",
    "SimulationReport",
    "SimulatedRun",
    "SimulationError",
    "compare_variants",
    "VariantComparison",
    "VariantRun",
    "recorded",
    "NotRecordedError",
    "FakeClock",
    "RecordingProcessor",
    "CheckpointerConformance",
]


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
