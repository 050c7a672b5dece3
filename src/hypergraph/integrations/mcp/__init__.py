"""Stored workflows as tools of an agent, over the Model Context Protocol: the extra `mcp`.

- `server`: the server, the registration of tools and their errors
- `read_tools`: tools that only read
- `write_tools`: tools that change a store or run a graph
- `bounds`: answers cut to a size

Every public method of a class of tools is a tool; its docstring and annotations are what an agent reads.
"""

from hypergraph.integrations.mcp.server import agent_server, serve_agents

__all__ = ["agent_server", "serve_agents"]
