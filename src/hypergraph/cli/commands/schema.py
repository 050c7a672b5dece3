"""`hypergraph schema`: the JSON schemas of --json output."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import as_json
from hypergraph.display import Table, plural
from hypergraph.views.schemas import SCHEMAS, full_name, json_schema

schema_options = (Option("NAME", "the document; default: list all names"),)


def schema(call: Call) -> Reply:
    """Print the JSON schema of a document of --json output."""
    name = call.options.name
    if name is None:
        rows = [
            (known, full_name(known), (kind.__doc__ or "").split("\n")[0]) for known, kind in SCHEMAS.items()
        ]
        document = {"schema": "hypergraph.schemas/1", "items": [full_name(known) for known in SCHEMAS]}
        header = [plural(len(rows), "document")]
        return Reply(
            document,
            lambda: [Table(("Name", "Schema", "Content"), rows)],
            header,
            ["hypergraph schema steps"],
        )
    found = json_schema(name)
    if not (call.options.json or call.options.jsonl):
        print(as_json(found, indent=2))
    return Reply(found)
