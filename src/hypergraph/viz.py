"""Pictures of graphs, as functions that take the graph first."""

from hypergraph.graph.mermaid import MermaidDiagram, to_mermaid

__all__ = ["MermaidDiagram", "to_mermaid"]
