"""`hypergraph tag`, `rm`, `prune`, `gc` and `backup`: what keeps a store in order."""

from __future__ import annotations

from hypergraph.cli.arguments import Option, pair_of
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import WF, asked
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.changes import Tags
from hypergraph.views.problems import USAGE, Problem

tag_options = (
    WF,
    Option("KEY=VALUE", "a tag to set", many=True),
    Option("--remove", "a tag to take off", "KEY", many=True),
)


def tag(call: Call) -> Reply:
    """Set tags of a workflow, and take others off."""
    store, workflow_id = asked(call)
    pairs = dict(map(pair_of, getattr(call.options, "key=value")))
    if not pairs and not call.options.remove:
        raise Problem(USAGE, "Give tags as KEY=VALUE, or --remove KEY")
    tags = store.tag(workflow_id, pairs, remove=call.options.remove)
    document: Tags = {"schema": "hypergraph.tags/1", "id": jsonable(workflow_id), "tags": jsonable(tags)}
    table = Table(("Tag", "Value"), sorted(tags.items()))
    header = [f"Workflow: {workflow_id}", plural(len(tags), "tag")]
    first = next(iter(sorted(tags.items())), None)
    found = [quoted("hypergraph", "ls", "--tag", "=".join(first))] if first else []
    return Reply(document, lambda: [table] if tags else [], header, found)
