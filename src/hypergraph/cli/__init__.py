"""The `hypergraph` command: look at stored workflows, run graphs, keep the store in order."""

from hypergraph.cli.frame import main

__all__ = ["main"]
