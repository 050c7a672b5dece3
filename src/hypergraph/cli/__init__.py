"""The `hypergraph` command: look at stored workflows, run graphs, keep the store in order."""

from hypergraph.cli.main import main

__all__ = ["main"]
