"""The server: `python server.py`. Kill it whenever you like, and start it again.

POST /chats/ID          {"said": "..."}: begin a turn; 409 while one is under way
POST /chats/ID          {}: continue a turn that was stopped
GET  /chats/ID          what became of it: status, question, messages, tools that were called, cost
GET  /chats/ID/reply    the reply as server-sent events; Last-Event-ID or ?offset= continue an earlier one
POST /chats/ID/answer   {"approved": true, "note": "..."}: decide; 422 if that is not an answer
"""

import argparse
import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from typing import Any

import uvicorn
from agent import support
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from world import Model, Shop

from hypergraph import AsyncRunner, SqliteCheckpointer
from hypergraph.checkpointers import Workflow
from hypergraph.exceptions import (
    InvalidAnswerError,
    WorkflowError,
    WorkflowLockedError,
    WorkflowNotFoundError,
)


class Desk:
    """The conversations, and what may be done with them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.graph = support(timedelta(seconds=given.deadline))
        self.store = SqliteCheckpointer("support.db", graphs=[self.graph])
        self.store.open()
        with closing(sqlite3.connect("support.db")) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS payments (order_number INTEGER, euros INTEGER)")
        self.budget = {"cost": given.budget}
        services = {"model": Model(given.stall), "shop": Shop(given.stall)}
        self.runner = AsyncRunner(checkpointer=self.store, services=services)

    async def run(self, chat: str, **how: Any) -> None:
        """Start a run in the background; return when it has begun. Raises WorkflowLockedError."""
        options = {"workflow_id": chat, "budget": self.budget, "error_handling": "continue", **how}
        await self.runner.start_run(self.graph, **options).started()

    async def resume(self) -> None:
        """Continue what an earlier process left, and from then on whatever is due: questions expire."""
        left: list[Workflow] = await self.store.list_workflows(status="active", graph="support", limit=None)
        while True:
            for workflow in left:
                with suppress(WorkflowLockedError):  # another process runs it
                    await self.run(workflow.id)
            await asyncio.sleep(0.2)
            left = await asyncio.to_thread(self.store.due_runs, "support")

    # -- requests --------------------------------------------------------------------------------------

    async def say(self, request: Request) -> JSONResponse:
        chat, document = request.path_params["chat"], await request.json()
        try:
            await self.run(chat, **document, new_turn="said" in document)
        except WorkflowLockedError:
            return JSONResponse({"error": "the last turn is not over"}, 409)
        return JSONResponse({}, 202)

    async def show(self, request: Request) -> JSONResponse:
        chat = request.path_params["chat"]
        return JSONResponse(await asyncio.to_thread(self.store.snapshot, lambda view: found(view, chat)))

    async def reply(self, request: Request) -> StreamingResponse:
        last = request.headers.get("Last-Event-ID")
        offset = int(request.query_params.get("offset", 0)) if last is None else int(last) + 1
        chunks = self.store.read_stream(request.path_params["chat"], "reply", offset=offset)

        async def events() -> AsyncIterator[str]:
            async for chunk in chunks:
                yield f"id: {chunk.offset}\nevent: {chunk.kind}\ndata: {json.dumps(chunk.value)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def answer(self, request: Request) -> JSONResponse:
        chat, document = request.path_params["chat"], await request.json()
        try:
            await asyncio.to_thread(self.store.answer, chat, "decision", document, by="the manager")
        except InvalidAnswerError as error:
            return JSONResponse({"error": str(error)}, 422)
        except WorkflowError as error:  # it has been answered, or has expired
            return JSONResponse({"error": str(error)}, 409)
        with suppress(WorkflowLockedError):  # a run is under way: when it ends, the answer makes the chat due
            await self.run(chat)
        return JSONResponse({}, 202)


def found(store: SqliteCheckpointer, chat: str) -> dict[str, Any]:
    """Return what is known of a conversation."""
    words = store.read_stream(chat, "reply", follow=False)
    return {
        "status": store.workflow(chat).status.value,
        "questions": [
            {"asks": str(asked.pause.value), "due": str(asked.pause.due)} for asked in store.questions(chat)
        ],
        "tools": [step.key for step in store.inner_steps(chat) if step.status == "completed"],
        "usage": store.usage(chat),
        "messages": store.state(chat).get("messages", []),
        "offset": max((word.offset + 1 for word in words), default=0),  # of the next word
    }


async def not_found(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 404)


def application(given: argparse.Namespace) -> Starlette:
    desk = Desk(given)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(desk.resume())
        yield
        task.cancel()

    routes = [
        Route("/chats/{chat}", desk.say, methods=["POST"]),
        Route("/chats/{chat}", desk.show),
        Route("/chats/{chat}/reply", desk.reply),
        Route("/chats/{chat}/answer", desk.answer, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={WorkflowNotFoundError: not_found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--deadline", type=float, default=2 * 24 * 3600, help="seconds for an answer")
    parser.add_argument("--budget", type=float, default=1.0, help="what a conversation may cost")
    parser.add_argument("--stall", default="", help="what hangs: a tool, or 'reply 6' for the sixth word")
    options = parser.parse_args()
    uvicorn.run(application(options), port=options.port, log_level="warning")
