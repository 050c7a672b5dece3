"""Maps: one call for the map, which submits one for each item, waits for them, and writes down how it ended.

Items that have completed are not submitted again. Whoever goes on with a map finds what was submitted before
under the same ids, so nothing is submitted twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.durability.code_changes import node_hashes
from hypergraph.durability.history import Stored
from hypergraph.engine.nested import expand
from hypergraph.exceptions import ItemChangedError
from hypergraph.graph.structure import structure_of
from hypergraph.integrations.dbos.calls import IN_FLIGHT, RUN, Call, attempt_id, item_id, packed, unpacked
from hypergraph.integrations.dbos.cluster import Cluster

_CHUNK = 500  # items that are asked about at once
_LONGEST = 2.0  # seconds between two looks


class DrainedError(Exception):
    """The worker takes no more work; somebody else goes on."""


async def run_map(
    cluster: Cluster, store: Checkpointer, graph: Graph, call: Call, left: Callable[[], bool]
) -> str:
    """Run a map to its end and return how it ended.

    Raises:
        DrainedError: `left` says that this worker is about to leave.
    """
    submitted = await asyncio.to_thread(_submit, cluster, store, graph, call)
    waiting, pause = [attempt_id(item_id(call.workflow_id, item), call.attempt) for item in submitted], 0.02
    while waiting:
        if left():
            raise DrainedError
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST)
        asked = waiting[:_CHUNK]
        found = await asyncio.to_thread(cluster.found, asked, status=list(IN_FLIGHT))
        if len(found) < len(asked):
            pause = 0.02
        waiting = [dbos_id for dbos_id in asked if dbos_id in found] + waiting[_CHUNK:]
    return await asyncio.to_thread(_conclude, cluster, store, call)


def _submit(cluster: Cluster, store: Checkpointer, graph: Graph, call: Call) -> list[int]:
    """Write down and submit the items that have not completed; return their numbers."""
    batch = call.workflow_id
    rows = expand(unpacked(store, graph, call), call.map_over, call.map_mode, False)
    tags = call.options.get("tags") or {}
    code = NewWorkflow(
        graph_name=graph.name,
        graph_hash=graph.definition_hash,
        graph=structure_of(graph),
        node_hashes=node_hashes(graph),
    )
    if store.backend.read_workflow(batch) is None:
        store.backend.create(batch, replace(code, tags=tags), store.encoding)
    else:
        store.update_workflow_status(batch, WorkflowStatus.ACTIVE)
    stored = {child.item: child for child in store.backend.children(batch)}
    for item, values in enumerate(rows):
        if item in stored:
            _refuse_change(store, stored[item], values)
    submitted = []
    for item, values in enumerate(rows):
        if item not in stored:
            new = replace(code, parent_id=batch, item=item, inputs=values)
            store.backend.create(item_id(batch, item), new, store.encoding)
        elif stored[item].status is WorkflowStatus.COMPLETED:
            continue
        _enqueue(cluster, store, call, item, values)
        submitted.append(item)
    return submitted


def _refuse_change(store: Checkpointer, item: Any, values: dict[str, Any]) -> None:
    inputs = store.encoding.versioned(item.id, store.backend.read_inputs(item.id))
    changed = Stored(item, [], inputs).news(values)
    if changed:
        raise ItemChangedError(
            f"Item {item.item} was recorded with other values of {', '.join(map(repr, changed))}. Map the "
            "same list again, or use another workflow_id.",
            workflow_id=item.id,
        )


def _enqueue(cluster: Cluster, store: Checkpointer, call: Call, item: int, values: dict[str, Any]) -> None:
    workflow_id = item_id(call.workflow_id, item)
    options = {name: value for name, value in call.options.items() if name != "tags"}
    own = Call(call.graph, workflow_id, packed(store, workflow_id, values), options, attempt=call.attempt)
    cluster.client.enqueue(
        {
            "workflow_name": RUN,
            "queue_name": call.queue,
            "workflow_id": attempt_id(workflow_id, call.attempt),
            "workflow_id_reuse_policy": "return-existing",
        },
        own.text(),
    )


def _conclude(cluster: Cluster, store: Checkpointer, call: Call) -> str:
    """Write down how a map ended."""
    items = {
        child.id: child.status for child in store.backend.children(call.workflow_id) if child.item is not None
    }
    unbegun = {
        attempt_id(name, call.attempt): name for name, s in items.items() if s is WorkflowStatus.ACTIVE
    }
    for dbos_id in cluster.found(unbegun, status="ERROR"):  # refused before its first node
        store.update_workflow_status(unbegun[dbos_id], WorkflowStatus.FAILED)
        items[unbegun[dbos_id]] = WorkflowStatus.FAILED
    found = set(items.values())
    bad = found - {WorkflowStatus.COMPLETED}
    if not bad:
        status = WorkflowStatus.COMPLETED
    elif bad <= {WorkflowStatus.STOPPED, WorkflowStatus.ACTIVE}:
        status = WorkflowStatus.STOPPED
    elif WorkflowStatus.COMPLETED in found:
        status = WorkflowStatus.PARTIAL
    else:
        status = WorkflowStatus.FAILED
    store.update_workflow_status(call.workflow_id, status)
    return json.dumps({"status": status.value})
