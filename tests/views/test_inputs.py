"""Names and types of the values that people and agents give; more types are in `tests/cli/test_inputs.py`."""

from dataclasses import dataclass
from typing import Any

import pytest

from hypergraph import Graph, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.integrations.mcp.read_tools import Source
from hypergraph.integrations.mcp.write_tools import RunTools
from hypergraph.runners import SyncRunner
from hypergraph.views.inputs import typed_values
from hypergraph.views.problems import Problem


@dataclass
class Order:
    name: str


@node(output_name="sent")
def send(order: Order, copies: int = 1) -> str:
    return order.name * copies


SENDING = Graph([send], name="sending")
AROUND = Graph([SENDING.as_node(name="inside")], name="around")


def test_values_are_of_the_declared_types() -> None:
    assert typed_values(SENDING, {"order": {"name": "tea"}, "copies": 2}) == {
        "order": Order("tea"),
        "copies": 2,
    }
    assert typed_values(AROUND, {"inside.order": {"name": "tea"}}) == {"inside.order": Order("tea")}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ordr": {"name": "tea"}}, "'ordr' is not an input of graph 'sending'"),
        ({"inside.order": {"name": "tea"}}, "'inside.order' is not an input"),
        ({"order": "tea"}, "Invalid value for order"),
        ({"copies": "five"}, "Invalid value for copies: 'five' is not int"),
    ],
)
def test_other_names_and_types_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem, match=said):
        typed_values(SENDING, values)


def test_agents_give_values_as_commands_do(tmp_path: Any) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        SyncRunner(checkpointer=store).run(SENDING, order=Order("tea"), workflow_id="w")
    tools = RunTools(Source(str(tmp_path / "runs.db")), [SENDING])
    made = tools.fork_workflow("w", "fork", values={"order": {"name": "milk"}})
    assert made["status"] == "completed"
    with pytest.raises(Problem, match="is not int"):
        tools.resume_workflow("w", {"copies": "five"})
