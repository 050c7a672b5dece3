"""`hypergraph tag`: tags of a workflow."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.inputs import pair_of
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import WF, asked
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.writes import Tags

tag_options = (
    WF,
    Option("KEY=VALUE", "a tag to set", many=True),
    Option("--remove", "a tag to remove", "KEY", many=True),
)


def tag(call: Call) -> Reply:
    """Set or remove tags of a workflow."""
    store, workflow_id = asked(call)
    pairs = dict(map(pair_of, getattr(call.options, "key=value")))
    if not pairs and not call.options.remove:
        raise Problem(USAGE, "Missing argument: KEY=VALUE or --remove KEY")
    tags = store.tag(workflow_id, pairs, remove=call.options.remove)
    document: Tags = {"schema": "hypergraph.tags/1", "id": jsonable(workflow_id), "tags": jsonable(tags)}
    table = Table(("Tag", "Value"), sorted(tags.items()))
    header = [f"Workflow: {workflow_id}", plural(len(tags), "tag")]
    first = next(iter(sorted(tags.items())), None)
    found = [suggested("ls", options=["--tag", "=".join(first)])] if first else []
    return Reply(document, lambda: [table] if tags else [], header, found)
