"""`hypergraph mcp`: a server for agents on stdin and stdout."""

from __future__ import annotations

import sys

from hypergraph import integrations
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import say
from hypergraph.cli.targets import SERVICES, graph_at, services_at
from hypergraph.display import escape
from hypergraph.views.problems import STORE, USAGE, Problem
from hypergraph.views.stores import store_at

mcp_options = (
    Option("--allow-writes", "allow agents to tag and delete workflows, and with --app to run them"),
    Option("--app", "a graph that agents may resume, answer and fork: module:attribute", "TARGET", many=True),
    SERVICES,
)


def mcp(call: Call) -> Reply:
    """Serve stored workflows to an agent on stdin and stdout until stdin is closed."""
    given = call.options
    if given.app and not given.allow_writes:
        raise Problem(USAGE, "--app needs --allow-writes, because it lets agents run code")
    try:
        serve = integrations.serve_agents
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "hypergraph":
            raise
        raise Problem(
            USAGE, f'hypergraph mcp needs the package {error.name}: pip install "hypergraph[mcp]"'
        ) from error
    if sys.stdin is None or sys.stdout is None:
        raise Problem(USAGE, "hypergraph mcp needs stdin and stdout, and one of them is closed")
    try:
        store_at(call.address)
    except Problem as problem:
        if problem.code != STORE:
            raise
        say(f"hypergraph: {escape(problem.message)}; tools return this error until it exists")
    serve(
        call.address,
        allow_writes=given.allow_writes,
        graphs=[graph_at(target) for target in given.app],
        services=services_at(given.services) if given.services else None,
    )
    return Reply(None)
