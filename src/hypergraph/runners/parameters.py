"""What the options of runners and of their calls mean."""

from __future__ import annotations

from hypergraph.display import explained

RUNNER_MEANINGS = {
    "cache": "where nodes with cache=True find results",
    "checkpointer": "the store that every run is written to",
    "max_iterations": "supersteps a graph with cycles may take; 1000 by default",
    "logger": "what nodes get as NodeContext.logger",
    "executor": "what calls the nodes: an Executor, or a dict from names of nodes to executors",
    "offload_sync": "whether every sync function is called in a worker thread",
}
CALL_MEANINGS = {
    "graph": "the graph to run",
    "values": "inputs by name; keywords are inputs too, unless they are called like an option",
    "map_over": "the inputs that hold one value per item: a name or a list of names",
    "map_mode": '"zip" takes items side by side, "product" in all combinations',
    "clone": "deep-copy the other values for each item: True, or a list of names",
    "select": 'the outputs to return: a name, a list, "**" for all; by default what the graph selects',
    "on_missing": 'what to do about a selected output that was not made: "ignore", "warn", "error"',
    "on_internal_override": 'the same about values for what nodes make, or for unknown names; "warn"',
    "entrypoint": "the node at which a cycle begins, where several could",
    "max_iterations": "supersteps a graph with cycles may take, then InfiniteLoopError",
    "max_concurrency": "how many node functions run at a time, nested graphs and items included",
    "error_handling": '"raise" the exception, or "continue" and return a failed result',
    "event_processors": "who is told of the events of this call",
    "timeout": "seconds for the whole call, then RunTimeoutError",
    "executor": "what calls the nodes of this call, instead of that of the runner; {}: nobody else",
    "run_id": 'the id of the run; by default "run-" and 12 hex characters',
    "workflow_id": "the id of the stored run; if it is there already, the run goes on",
    "history": "recorded steps to begin with, as in Checkpoint.steps",
    "checkpoint": "recorded values and steps to begin with",
    "fork_from": "a workflow id and a superstep (or None, the last) to begin with",
    "code_change": 'what to do if the code differs from the recorded one: "keep", "rerun", "error"',
    "new_turn": "whether given values count as new even if they are equal to the stored ones",
    "key": "by what a stored item is known: an input, or a function of the item's inputs; by position if not",
    "tags": "labels of the stored run",
    "wait": "whether to wait for somebody else who is at work on the workflow, and take over the outcome",
    "force": "whether to take a workflow from a living owner, or to go on after a crash loop",
}
explained_runner = explained(RUNNER_MEANINGS)
explained_call = explained(CALL_MEANINGS)
