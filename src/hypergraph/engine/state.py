"""When a value counts as changed (rules S2 and S3), and the state of a run as a plain public type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_TRUTH = ("bool", "bool_")  # numpy calls its truth value bool_ or, since version 2, bool


def differs(old: Any, new: Any) -> bool:
    """Say whether a new value counts as different from the old one.

    Where comparison fails or gives no truth value, and for values unlike themselves, identity decides.
    """
    if new is old:
        return False
    try:
        unequal = old != new
        return bool(unequal) if type(unequal).__name__ in _TRUTH else True
    except Exception:  # an __eq__ of the user's own may do anything
        return True


@dataclass
class NodeExecution:
    """One execution of a node: what it consumed and what came out."""

    node_name: str  # which node
    input_versions: dict[str, int]  # the version of each input it took
    outputs: dict[str, Any]  # what it made
    wait_for_versions: dict[str, int] = field(default_factory=dict)  # the version of each name it waited for
    duration_ms: float = 0.0  # how long it took
    cached: bool = False  # whether its outputs came from the cache


@dataclass
class GraphState:
    """Values with versions, executions and decisions: the state of a run, standing alone."""

    values: dict[str, Any] = field(default_factory=dict)  # by name
    versions: dict[str, int] = field(default_factory=dict)  # how often each value was set to something new
    node_executions: dict[str, NodeExecution] = field(default_factory=dict)  # the last one of each node
    routing_decisions: dict[str, Any] = field(default_factory=dict)  # the last one of each gate

    def update_value(self, name: str, value: Any) -> None:
        """Set a value; its version rises only if the name is new or the value differs."""
        if name not in self.values or differs(self.values[name], value):
            self.values[name] = value
            self.versions[name] = self.get_version(name) + 1

    def get_version(self, name: str) -> int:
        """Return the version of a name, 0 if it is unset."""
        return self.versions.get(name, 0)

    def copy(self) -> GraphState:
        """Return a state that shares values but neither names, versions nor executions."""
        executions = {
            name: NodeExecution(
                e.node_name,
                dict(e.input_versions),
                dict(e.outputs),
                dict(e.wait_for_versions),
                e.duration_ms,
                e.cached,
            )
            for name, e in self.node_executions.items()
        }
        return GraphState(dict(self.values), dict(self.versions), executions, dict(self.routing_decisions))
