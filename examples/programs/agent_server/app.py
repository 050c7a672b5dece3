"""A tool-calling agent behind FastAPI: streamed replies, parallel tools, a refund that waits for a person."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any, cast

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from tools import DANGEROUS, SCHEMAS, TOOLS

from hypergraph import END, AsyncRunner, Graph, NodeContext, StreamingChunkEvent, interrupt, node, route
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import WorkflowLockedError

Message = dict[str, Any]

# --- the graph ---


@node(output_name="messages", append=True)
def listen(said: str) -> Message:
    return {"role": "user", "content": said}


@node(output_name=("messages", "calls"), append="messages")
async def ask(messages: list[Message], context: NodeContext) -> tuple[Message, list[Message]]:
    client = context.service("openai", AsyncOpenAI)
    sent = cast("list[Any]", messages)
    async with client.chat.completions.stream(model="small", messages=sent, tools=SCHEMAS) as stream:
        async for event in stream:
            if event.type == "content.delta":
                context.stream(event.delta)
        reply = (await stream.get_final_completion()).choices[0].message
    calls = [call.model_dump(include={"id", "type", "function"}) for call in reply.tool_calls or []]
    message = {"role": "assistant", "content": reply.content}
    return ({**message, "tool_calls": calls} if calls else message), calls


@route(targets=["tools", END])
def decide(calls: list[Message]) -> Any:
    return "tools" if calls else END


@interrupt("approved")
def approve(call: Message) -> bool | None:
    return None if call["function"]["name"] in DANGEROUS else True


@node(output_name="messages")
async def use(call: Message, approved: bool) -> Message:
    function = call["function"]
    content = await TOOLS[function["name"]](**json.loads(function["arguments"])) if approved else "refused"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


each = Graph([approve, use], name="tools").as_node(append="messages")
tools = each.with_inputs(call="calls").map_over("calls")
agent = Graph([listen, ask, decide, tools], name="agent")

# --- the server ---

app = FastAPI()
store = SqliteCheckpointer(os.environ.get("DATABASE", "chats.db"))
client = AsyncOpenAI(base_url=os.environ.get("MODEL_URL"), api_key="none", max_retries=0)
runner = AsyncRunner(checkpointer=store, services={"openai": client})


def sse(kind: str, value: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"


async def questions(chat: str) -> dict[str, Message]:
    return {found.id: found.pause.value for found in await store.list_questions(chat)}


async def stream(chat: str, **options: Any) -> StreamingResponse:
    events = runner.iter(agent, workflow_id=chat, error_handling="continue", **options)
    try:
        await anext(events)  # the run is ours from here on
    except WorkflowLockedError as error:
        raise HTTPException(409, str(error)) from error

    async def body() -> AsyncIterator[str]:
        async for event in events:
            if isinstance(event, StreamingChunkEvent):
                yield sse("token", event.chunk)
        for question, call in (await questions(chat)).items():
            yield sse("question", {"question": question, "call": call})
        yield sse("end", {"status": events.result.status.value, "error": str(events.result.error or "")})

    return StreamingResponse(body(), media_type="text/event-stream")


@app.post("/chats/{chat}")
async def say(chat: str, said: str) -> StreamingResponse:
    known = await store.get_workflow(chat)
    if known is not None and known.status is not WorkflowStatus.COMPLETED:
        raise HTTPException(409, f"the last turn is {known.status.value}: answer it, or resume it")
    return await stream(chat, said=said, new_turn=True)


@app.post("/chats/{chat}/resume")
async def resume(chat: str) -> StreamingResponse:
    return await stream(chat)


@app.post("/chats/{chat}/answers")
async def answer(chat: str, question: str, approved: bool) -> StreamingResponse:
    for found in await store.list_questions(chat):
        if found.id == question:  # and not another one under the same key
            store.answer(chat, found.pause.response_key, approved, question=question)
            return await stream(chat)
    raise HTTPException(409, "this question is not open")


@app.get("/chats/{chat}")
async def show(chat: str) -> dict[str, Any]:
    known = await store.get_workflow(chat)
    if known is None:
        raise HTTPException(404, f"there is no chat {chat!r}")
    messages = (await store.get_state(chat)).get("messages", [])
    return {"status": known.status.value, "messages": messages, "questions": await questions(chat)}
