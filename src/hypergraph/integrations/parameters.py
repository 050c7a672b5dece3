"""What the parameters of the runner of clusters, and of the server for agents, mean."""

from __future__ import annotations

from hypergraph.display import explained

MEANINGS = {
    "dsn": "the address of the database, as in postgresql://user@host/database",
    "store": "makes the store from that address",
    "queue": "the queue; by default that of the runner",
    "application": "a name that all who work together share",
    "polling": "seconds between looks into a queue",
    "graph": "the graph, or its name",
    "values": "the inputs, by name",
    "workflow_id": "the id of the stored run; made unless given",
    "priority": "what waits in one queue begins in this order, lower numbers first",
    "partition": "the part of the queue it belongs to, if the queue has partitions",
    "delay": "seconds before it may begin",
    "tags": "labels of the stored run",
    "map_over": "the inputs that hold one value per item: a name or a list of names",
    "map_mode": '"zip" takes items side by side, "product" in all combinations',
    "options": "options of `run`, as far as they can travel",
    "timeout": "seconds to wait, None for as long as it takes",
    "error_handling": '"raise" the error, or "continue" and return a failed result',
    "timezone": "the zone of the times, as in Europe/Paris",
    "executor_id": "the name of the worker; no other one may have it",
    "address": "a file, a Postgres address, or module:attribute of a store",
    "allow_writes": "whether an agent may tag and delete, and with graphs fork, resume and answer",
    "graphs": "the graphs that it may run",
}
explained_integration = explained(MEANINGS)
