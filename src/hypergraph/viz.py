"""Functions that draw a graph or a stored structure."""

from hypergraph.graph.drawing import overlay_of
from hypergraph.graph.mermaid import MermaidDiagram, to_mermaid
from hypergraph.graph.picture import GraphPicture, picture, visualize

__all__ = ["GraphPicture", "MermaidDiagram", "overlay_of", "picture", "to_mermaid", "visualize"]
