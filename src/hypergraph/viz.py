"""Pictures of graphs, as functions that take the graph, or its stored structure, first."""

from hypergraph.graph.mermaid import MermaidDiagram, to_mermaid

__all__ = ["MermaidDiagram", "to_mermaid"]
