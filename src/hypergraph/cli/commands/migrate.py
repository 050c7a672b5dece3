"""`hypergraph migrate`: unfinished runs moved to new code, or what would happen to them."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.cli.remembered import known_graphs
from hypergraph.cli.stores import opened
from hypergraph.cli.targets import TARGET, graph_at
from hypergraph.display import Block
from hypergraph.views.migration import migrated
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.stores import resolve

migrate_options = (
    TARGET._replace(
        name="APP",
        needed=False,
        help="the new code: module:attribute or a name; default: all of [tool.hypergraph.graphs]",
    ),
    Option("ID", "a workflow; default: all unfinished ones of the name of the graph", many=True),
    Option("--dry-run", "only say what would happen; nothing is written"),
    Option("--accept", "also move runs whose recorded course or types differ; what is recorded is kept"),
    Option(
        "--code-change",
        "for steps whose code has changed: keep their results (default), or refuse such runs (error)",
        "C",
        choices=("keep", "error"),
    ),
)


def migrate(call: Call) -> Reply:
    """Move unfinished runs to new code; exit code 1 if any is refused."""
    given, store = call.options, opened(call)
    targets = [given.app] if given.app is not None else sorted(known_graphs())
    if not targets:
        hint = "Give module:attribute, or list graphs in [tool.hypergraph.graphs]"
        raise Problem(USAGE, "Missing argument: APP", hint)
    graphs = [graph_at(target) for target in targets]
    ids = [resolve(store, text) for text in given.id] or None
    document, reports = migrated(
        store,
        graphs,
        ids,
        dry_run=given.dry_run,
        code_change=given.code_change or "keep",
        accept=given.accept,
    )

    def blocks() -> Iterator[Block]:
        for graph, report in zip(graphs, reports, strict=True):
            if len(graphs) > 1 and report.runs:
                yield f"{graph.name or 'unnamed'}:"
            yield from report.blocks()

    whole = type(reports[0])(
        tuple(run for report in reports for run in report.runs),
        reports[0].version if len(reports) == 1 else None,
        given.dry_run,
    )
    hints = []
    if given.dry_run and document["moves"]:
        chosen = ["--accept"] if given.accept else []
        chosen += ["--code-change", given.code_change] if given.code_change else []
        hints.append(suggested("migrate", *([given.app] if given.app else []), *(ids or []), options=chosen))
    return Reply(document, blocks, whole.header, hints, code=int(not whole.ok))
