"""An agent: the client of the official SDK, talking to the real command in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client

LIMIT = 20_000  # characters of an answer
TESTS = Path(__file__).parents[1]


class Reply(NamedTuple):
    """What a tool answered."""

    document: dict[str, Any]
    text: str
    is_error: bool


class Agent:
    """A session with one server."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self.client = portal, client

    def reply(self, tool: str, /, **arguments: Any) -> Reply:
        """Call a tool; what comes back is one document, twice, and short enough."""
        return self.soon(tool, **arguments).result()

    def soon(self, tool: str, /, **arguments: Any) -> Future[Reply]:
        """Call a tool without waiting for what it answers."""

        async def call() -> Reply:
            result = await self.client.call_tool(tool, arguments)
            [content] = result.content
            assert json.loads(content.text) == result.structured_content
            assert len(content.text) <= LIMIT, (tool, arguments, len(content.text))
            return Reply(result.structured_content, content.text, bool(result.is_error))

        return self._portal.start_task_soon(call)

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that answers."""
        found = self.reply(tool, **arguments)
        assert not found.is_error, found.document
        return found.document

    def fail(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that cannot answer, and return why."""
        found = self.reply(tool, **arguments)
        assert found.is_error, found.document
        assert set(found.document) == {"error"}
        error: dict[str, Any] = found.document["error"]
        return error

    def pages(self, tool: str, /, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Call a tool for one page after another."""
        cursor = None
        while True:
            page = self.ask(tool, **arguments, **({} if cursor is None else {"cursor": cursor}))
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def tools(self) -> dict[str, Any]:
        """Return the tools there are, by name."""
        return {tool.name: tool for tool in self._portal.call(self.client.list_tools).tools}


def environment() -> dict[str, str]:
    """Return an environment in which the package and the graphs of the tests are found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}


def command(db: Path | str, *options: str) -> list[str]:
    """Return the command that serves a database."""
    return [sys.executable, "-m", "hypergraph", "--db", str(db), "mcp", *options]


@contextmanager
def agent(db: Path | str, *options: str) -> Iterator[Agent]:
    """Start a server and talk to it."""
    program, *arguments = command(db, *options)
    server = StdioServerParameters(command=program, args=arguments, env=environment())
    with (
        open(os.devnull, "w") as log,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(server, errlog=log))) as client,
    ):
        yield Agent(portal, client)
