"""`hypergraph submit`: a run or a map, put into a queue of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypergraph import Graph
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.worker import runner_at, seconds
from hypergraph.cli.inputs import PAIRS, VALUES, given_values, pair_of, values_and_texts
from hypergraph.cli.output import suggested
from hypergraph.cli.targets import graph_at
from hypergraph.display import jsonable
from hypergraph.views.inputs import literal
from hypergraph.views.writes import Enqueued

if TYPE_CHECKING:
    from hypergraph.integrations.dbos import Submitted

APPLICATION = Option(
    "--application", "the application of the run, default hypergraph", "NAME", default="hypergraph"
)

submit_options = (
    Option("GRAPH", "the name of a graph that workers have, or module:attribute", needed=True),
    PAIRS,
    VALUES,
    Option("--id", "the id of the workflow, default a new one", "ID"),
    Option("--queue", "the queue, default hypergraph", "Q"),
    Option("--priority", "the order in the queue, lower numbers first, from 1", "N", number),
    Option("--partition", "the partition of the queue, if it has partitions", "KEY"),
    Option("--delay", "how long the run must wait at least", "SECONDS", seconds),
    Option("--retries", "how often a failed run is run again, default 0", "N", number, 0),
    Option(
        "--retry-delay",
        "the time before the first retry, doubled each time, default 1",
        "SECONDS",
        seconds,
        1.0,
    ),
    Option("--map-over", "run once for each item of this input", "KEY", many=True),
    Option("--tag", "a tag of the workflow", "K=V", many=True),
    APPLICATION,
)


def submit(call: Call) -> Reply:
    """Submit a run to a cluster on Postgres."""
    given = call.options
    graph: Graph | str = graph_at(given.graph) if ":" in given.graph else given.graph
    options: dict[str, Any] = {
        "workflow_id": given.id,
        "queue": given.queue,
        "tags": dict(map(pair_of, given.tag)) or None,
        "retries": given.retries,
        "retry_delay": given.retry_delay,
    }
    with runner_at(call) as runner:
        values = _values(call, graph)
        if given.map_over:
            found = runner.submit_map(graph, values, map_over=given.map_over, **options)
        else:
            more = {name: getattr(given, name) for name in ("priority", "partition", "delay")}
            found = runner.submit(graph, values, **options, **more)
        return enqueued(found)


def enqueued(found: Submitted) -> Reply:
    """Return the reply about a run that was submitted; its status is read from the cluster."""
    document: Enqueued = {
        "schema": "hypergraph.enqueued/1",
        "id": jsonable(found.workflow_id),
        "status": found.status,
    }
    header = [f"Submitted {found.workflow_id}", document["status"]]
    return Reply(document, tuple, header, [suggested("watch", found.workflow_id)])


def _values(call: Call, graph: Graph | str) -> dict[str, Any]:
    """Return the inputs, checked against the graph if it is there."""
    given = call.options
    pairs = getattr(given, "key=value")
    if isinstance(graph, Graph):
        return given_values(graph, given.values, pairs, given.map_over)
    found, texts = values_and_texts(given.values, pairs)
    return found | {name: literal(text) for name, text in texts.items()}
