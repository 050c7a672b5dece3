"""Nodes for tests about structure: what they take and give matters, what they compute does not."""

from typing import Any

from hypergraph import FunctionNode


def make(name: str, *inputs: str, out: Any = None, **options: Any) -> FunctionNode:
    """Return a node that takes these inputs ("x", "y=1"); `out` names its outputs, else it is NAME_out."""
    namespace: dict[str, Any] = {}
    exec(f"def {name}({', '.join(inputs)}): return None", namespace)
    return FunctionNode(namespace[name], output_name=f"{name}_out" if out is None else out, **options)
