"""The same agent and the same server with LangGraph, for comparison."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from openai import AsyncOpenAI
from tools import DANGEROUS, SCHEMAS, TOOLS

Message = dict[str, Any]

# --- the graph ---


class Talk(TypedDict):
    messages: Annotated[list[Message], operator.add]


client = AsyncOpenAI(base_url=os.environ.get("MODEL_URL"), api_key="none", max_retries=0)


async def ask(state: Talk) -> Talk:
    write = get_stream_writer()
    async with client.chat.completions.stream(
        model="small", messages=state["messages"], tools=SCHEMAS
    ) as stream:
        async for event in stream:
            if event.type == "content.delta":
                write(event.delta)
        reply = (await stream.get_final_completion()).choices[0].message
    calls = [call.model_dump(include={"id", "type", "function"}) for call in reply.tool_calls or []]
    message = {"role": "assistant", "content": reply.content}
    return {"messages": [{**message, "tool_calls": calls} if calls else message]}


def decide(state: Talk) -> Any:
    return [Send("use", call) for call in state["messages"][-1].get("tool_calls", [])] or END


async def use(call: Message) -> Talk:
    function = call["function"]
    approved = interrupt(call) if function["name"] in DANGEROUS else True
    content = await TOOLS[function["name"]](**json.loads(function["arguments"])) if approved else "refused"
    return {"messages": [{"role": "tool", "tool_call_id": call["id"], "content": content}]}


builder = StateGraph(Talk)
builder.add_node("ask", ask)
builder.add_node("use", use)
builder.add_edge(START, "ask")
builder.add_conditional_edges("ask", decide, ["use", END])
builder.add_edge("use", "ask")

# --- the server ---

running: set[str] = set()  # of this process: another one is not kept out


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncSqliteSaver.from_conn_string(os.environ.get("DATABASE", "chats.db")) as saver:
        app.state.agent = builder.compile(checkpointer=saver)
        yield


app = FastAPI(lifespan=lifespan)


def sse(kind: str, value: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"


def thread(chat: str) -> Any:
    return {"configurable": {"thread_id": chat}}


async def status(chat: str) -> tuple[str, dict[str, Message]]:
    state = await app.state.agent.aget_state(thread(chat))
    questions = {found.id: found.value for found in state.interrupts}
    return "paused" if questions else "failed" if state.next else "completed", questions


async def stream(chat: str, given: Any) -> StreamingResponse:
    if chat in running:
        raise HTTPException(409, f"chat {chat!r} is running")
    running.add(chat)

    async def body() -> AsyncIterator[str]:
        failure = ""
        try:
            async for token in app.state.agent.astream(given, thread(chat), stream_mode="custom"):
                yield sse("token", token)
        except Exception as error:
            failure = str(error)
        finally:
            running.discard(chat)
        ended, questions = await status(chat)
        for question, call in questions.items():
            yield sse("question", {"question": question, "call": call})
        yield sse("end", {"status": ended, "error": failure})

    return StreamingResponse(body(), media_type="text/event-stream")


@app.post("/chats/{chat}")
async def say(chat: str, said: str) -> StreamingResponse:
    ended, _ = await status(chat)
    if ended != "completed":
        raise HTTPException(409, f"the last turn is {ended}: answer it, or resume it")
    return await stream(chat, {"messages": [{"role": "user", "content": said}]})


@app.post("/chats/{chat}/resume")
async def resume(chat: str) -> StreamingResponse:
    return await stream(chat, None)


@app.post("/chats/{chat}/answers")
async def answer(chat: str, question: str, approved: bool) -> StreamingResponse:
    if question not in (await status(chat))[1]:
        raise HTTPException(409, "this question is not open")
    return await stream(chat, Command(resume={question: approved}))


@app.get("/chats/{chat}")
async def show(chat: str) -> dict[str, Any]:
    state = await app.state.agent.aget_state(thread(chat))
    if not state.values:
        raise HTTPException(404, f"there is no chat {chat!r}")
    ended, questions = await status(chat)
    return {"status": ended, "messages": state.values["messages"], "questions": questions}
