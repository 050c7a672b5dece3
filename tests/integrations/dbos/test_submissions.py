"""What a worker's run is read back as: the values that the same run returns in one process."""

from __future__ import annotations

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.integrations.dbos.submissions import _values


def test_another_value_of_an_output_is_the_one_of_the_result() -> None:
    @node(output_name="price")
    def look_up(item: str) -> int:
        return 35

    @node(output_name="total")
    def add_up(price: int, amount: int) -> int:
        return price * amount

    store, graph = MemoryCheckpointer(), Graph([look_up, add_up])
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, item="kettle", amount=2, workflow_id="first")
    result = runner.run(graph, {"price": 20}, workflow_id="first")
    assert _values(store, "first", {"price": "price", "total": "total"}) == {"price": 20, "total": 40}
    assert result.values == {"price": 20, "total": 40}
    runner.run(graph, item="pot", workflow_id="first")
    assert _values(store, "first", {"price": "price"}) == {"price": 35}
