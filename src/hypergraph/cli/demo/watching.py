"""Count the calls of functions from outside: a listener that is told whenever a node starts."""

from collections.abc import Callable

from hypergraph import Graph, NodeStartEvent, TypedEventProcessor


class Calls(TypedEventProcessor):
    """Tell the name of each node whose function is called; what comes from the store is not told."""

    def __init__(self, graph: Graph, tell: Callable[[str], object]) -> None:
        self._nested = {name for name, node in graph.nodes.items() if node.nested_graph is not None}
        self._tell = tell

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Tell the name, with that of the nested graph before it."""
        if not event.replayed and event.node_name not in self._nested:
            inside = f"{event.graph_name}/" if event.graph_name in self._nested else ""
            self._tell(inside + event.node_name)
