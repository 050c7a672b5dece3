"""The reference of the tools that agents get, written from what `hypergraph mcp` tells them.

`HYPERGRAPH_REGOLD=1 pytest tests/docs/test_mcp_reference.py` writes it anew.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from hypergraph import FunctionNode, Graph
from hypergraph.integrations import agent_server

INTRODUCTION = """\
# Tools for agents

What `hypergraph mcp` offers over the Model Context Protocol. How to use it:
[let a coding agent inspect runs](../how-to/let-an-agent-look.md). Answers are [JSON documents](json.md) of at
most about 20,000 characters; `cut` says what was shortened. What cannot be answered is
`{"error": {"code", "message", "hint", "matches"}}`; the code is `not_found`, `ambiguous`, `usage`, `store`,
`refused` or `internal`, a defect.

Tools that write need `--allow-writes`; those that run a graph need `--app` as well. In
Python it is `agent_server(address, allow_writes=True, graphs=[...])`.
"""


def tools() -> list[Any]:
    """Return all tools there can be."""
    graph = Graph([FunctionNode(lambda text: text, "same", "copy")], name="any")
    server = agent_server("nowhere.db", allow_writes=True, graphs=[graph])
    return asyncio.run(server.list_tools())


def reference() -> str:
    """Return the whole page."""
    offered = tools()
    reading = [tool for tool in offered if tool.annotations.read_only_hint]
    writing = [tool for tool in offered if tool not in reading]
    parts = [
        INTRODUCTION,
        "## Tools that read",
        *map(section, reading),
        "\n## Tools that write",
        *map(section, writing),
    ]
    return "\n".join(parts).rstrip() + "\n"


def section(tool: Any) -> str:
    rows = list(arguments(tool.input_schema))
    table = ["", "| Argument | Type | Default | Meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([f"\n### {tool.name}\n", tool.description, *table])


def arguments(schema: dict[str, Any]) -> Iterator[str]:
    for name, about in schema.get("properties", {}).items():
        default = "required" if name in schema.get("required", []) else f"`{about.get('default')}`"
        meaning = about.get("description", "").replace("|", "\\|")
        yield f"| `{name}` | {kind(about)} | {default} | {meaning} |"


def kind(about: dict[str, Any]) -> str:
    """Return the type of an argument in words; null stands for not given and is left out."""
    if "anyOf" in about:
        return " or ".join(kind(each) for each in about["anyOf"] if each.get("type") != "null")
    if about.get("type") == "array":
        return f"list of {kind(about['items'])}"
    return str(about.get("type", "any"))
