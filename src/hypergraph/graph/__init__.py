"""Graphs: nodes connected by names, checked at construction."""

from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import InputSpec, compute_input_spec
from hypergraph.graph.validation import validate_graph
from hypergraph.graph.wiring import chain

__all__ = ["Graph", "GraphConfigError", "InputSpec", "chain", "compute_input_spec", "validate_graph"]
