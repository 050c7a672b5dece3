"""What the parameters of nodes and of the decorators that make them mean."""

from __future__ import annotations

from hypergraph.display import explained

MEANINGS = {
    "source": "the function, or a node whose function is taken",
    "func": "the function that decides; neither async nor a generator",
    "graph": "the graph inside",
    "name": "what the node is called; by default what its function, or its graph, is called",
    "output_name": "what the result is called; several names take it apart, None drops it",
    "targets": "names of nodes, and END; a dict maps them to descriptions",
    "when_true": "the target for True",
    "when_false": "the target for False",
    "fallback": "the target for None",
    "multi_target": "whether the function returns a list of targets; not together with fallback",
    "default_open": "whether its targets may begin a cycle before the gate first ran",
    "durability": '"nested" stores inner steps as a workflow of their own, "atomic" all as one step',
    "lift": "the outputs that the parent gets, in this order; by default all",
    "rename_inputs": "from names of parameters to names of inputs",
    "cache": "whether results are remembered, by a runner that has a cache",
    "hide": "whether drawings leave the node out",
    "emit": "outputs without a value, for others to wait for",
    "wait_for": "outputs of others that must be there before the node runs; they are no inputs",
    "retry": "whether, how often and how soon a failed attempt is repeated",
    "timeout": "seconds for one attempt, then it fails with NodeTimeoutError",
    "offload": "whether AsyncRunner calls a sync function in a worker thread",
    "persist": "False stores the step without its outputs; a resumed run that needs them makes them again",
    "repeatable": "False: a function that began must not run again, even if a crash left open what it did",
    "on_ambiguous": 'for such a step: "fail" (the default), "rerun", or a callable that finds out',
    "artifact": "True stores outputs outside of the row, False in it, None decides by size",
    "on_worker_loss": '"rerun", or "fail" (the default if not repeatable), when an executor loses its worker',
    "params": "names of the inputs that hold one value per item",
    "mode": '"zip" takes items side by side, "product" in all combinations',
    "error_handling": '"raise" ends the map at a failing item, "continue" gives None for its outputs',
    "clone": "deep-copy the other values for each item: True, or a list of names",
}
explained_node = explained(MEANINGS)
