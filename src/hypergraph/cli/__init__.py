"""The `hypergraph` command: inspect stored workflows, run graphs, maintain the store."""

from hypergraph.cli.main import main

__all__ = ["main"]
