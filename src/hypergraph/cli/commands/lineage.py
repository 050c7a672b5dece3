"""`hypergraph lineage`: forks and nested runs as a tree."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, status, suggested, tree_of
from hypergraph.cli.stores import WF, answer
from hypergraph.display import Block, plural
from hypergraph.views.lineage import LineageView, Relative
from hypergraph.views.lineage import lineage as family

lineage_options = (WF,)


def lineage(call: Call) -> Reply:
    """Show forks and nested runs as a tree."""
    view = answer(call, family)
    header = [
        f"Workflow: {view['workflow']}",
        plural(sum(item["count"] for item in view["items"]), "workflow"),
    ]
    return Reply(view, lambda: _tree(view), header, _next(view))


def _next(view: LineageView) -> list[str]:
    forks = [item for item in view["items"] if item["relation"] == "fork"]
    found = [suggested("diff", forks[0]["of"], forks[0]["id"])] if forks else []
    return [suggested("show", view["workflow"]), *found]


def _tree(view: LineageView) -> Iterator[Block]:
    yield tree_of([(item["depth"], _relative(item)) for item in view["items"]])
    if view["left_out"]:
        yield f"... and {plural(view['left_out'], 'more workflow')}"


def _relative(item: Relative) -> str:
    if item["relation"] == "children":
        counts = ", ".join(f"{count} {status(name)}" for name, count in item["statuses"].items())
        return f"{plural(item['count'], 'run')} of {item['node'] or item['graph'] or 'its graph'}: {counts}"
    how = f"  forked at superstep {item['forked_at']}" if item["forked_at"] is not None else ""
    mark = "  ← this workflow" if item["current"] else ""
    took = duration(item["duration_ms"])
    steps = plural(item["steps"], "step")
    return f"{item['id']}  {status(item['status'])}  {steps}  {took}{how}{mark}"
