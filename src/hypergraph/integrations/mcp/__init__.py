"""Stored workflows as tools of an agent, over the Model Context Protocol: the extra `mcp`."""

from hypergraph.integrations.mcp.server import agent_server, serve_agents

__all__ = ["agent_server", "serve_agents"]
