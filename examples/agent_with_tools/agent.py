"""The agent: a graph that asks the model, calls the tools the model wants, and asks again.

One conversation is one stored workflow, and each sentence of the customer a turn of it. Tools that cost money
wait until a person has answered.
"""

import asyncio
import inspect
import json
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any
from urllib.error import HTTPError

from hypergraph import END, Graph, NodeContext, RetryPolicy, chain, interrupt, node, route

Message = dict[str, Any]
Call = dict[str, Any]
Answers = dict[str, bool]


def ask(url: str, document: Message | None = None) -> Any:
    """Send a document, or nothing, and return the open response."""
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own
    try:
        return urllib.request.urlopen(request, timeout=30)  # noqa: S310
    except HTTPError as error:
        error.close()
        raise ConnectionError(f"{error.code} {error.reason}") from None


# --- the tools ----------------------------------------------------------------------------------------


class Shop:
    """What the model may do. An order that is sent again with the same key is the same order."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    def check_stock(self, part: str) -> str:
        with ask(f"{self._url}/stock/{part}") as response:
            return f"There are {json.load(response)['stock']} in stock."

    def get_price(self, part: str) -> str:
        with ask(f"{self._url}/price/{part}") as response:
            return f"One {part} costs {json.load(response)['price']:.2f} EUR."

    def place_order(self, part: str, quantity: int) -> str:
        order = {"part": part, "quantity": quantity, "key": self._key}
        with ask(f"{self._url}/order", order) as response:
            return f"Order {json.load(response)['number']} is on its way."


TOOLS: dict[str, Callable[..., str]] = {
    tool.__name__: tool for tool in (Shop.check_stock, Shop.get_price, Shop.place_order)
}
COSTLY = {"place_order"}  # a person is asked first


def schema_of(name: str) -> Message:
    """Return what the model is told about a tool, from its signature."""
    kinds = {str: "string", int: "integer"}
    parameters = list(inspect.signature(TOOLS[name]).parameters.values())[1:]
    properties = {each.name: {"type": kinds[each.annotation]} for each in parameters}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def described(call: Call) -> str:
    arguments = json.loads(call["function"]["arguments"])
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{call['function']['name']}({shown})"


# --- the graph ----------------------------------------------------------------------------------------


@node(output_name="messages")
def listen(said: str, messages: Sequence[Message] = ()) -> list[Message]:
    return [*messages, {"role": "user", "content": said}]


@node(output_name=("messages", "calls"), offload=True)  # in a thread: it waits for the network
def ask_model(
    model_url: str, messages: list[Message], context: NodeContext
) -> tuple[list[Message], list[Call]]:
    reply: Message = {"role": "assistant"}
    request = {"model": "any", "stream": True, "messages": messages, "tools": [*map(schema_of, TOOLS)]}
    with ask(f"{model_url}/v1/chat/completions", request) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            delta = json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]
            if text := delta.get("content"):
                context.stream(text)
                reply["content"] = reply.get("content", "") + text
            for piece in delta.get("tool_calls", []):
                join(reply.setdefault("tool_calls", []), piece)
    return [*messages, reply], reply.get("tool_calls", [])


def join(calls: list[Call], piece: Call) -> None:
    """Add a piece of a streamed call: the first one has its id and name, all have some of its arguments."""
    if piece["index"] == len(calls):
        function = {"name": piece["function"]["name"], "arguments": ""}
        calls.append({"id": piece["id"], "type": "function", "function": function})
    calls[piece["index"]]["function"]["arguments"] += piece["function"].get("arguments", "")


@route(targets=["approve", "tools", "give_up", END], default_open=False)
def decide(
    calls: list[Call], messages: list[Message], limit: int, approved: Answers | None = None
) -> str | type[END]:
    if not calls:
        return END
    asked = max(place for place, message in enumerate(messages) if message["role"] == "user")
    if sum(message["role"] == "assistant" for message in messages[asked:]) >= limit:
        return "give_up"
    costly = [call["id"] for call in calls if call["function"]["name"] in COSTLY]
    return "tools" if set(costly) <= set(approved or {}) else "approve"


@interrupt(output_name="approved")
def approve(calls: list[Call]) -> Answers | None:
    return None  # a person has to answer, yes or no for the id of each call


@node(output_name="outcome", retry=RetryPolicy(max_attempts=3, retry_on=OSError, initial_delay=0.05))
async def call_tool(
    shop_url: str, call: Call, context: NodeContext, approved: Answers | None = None
) -> Message:
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    content = "This was not allowed."
    if name not in COSTLY or (approved or {}).get(call["id"]):
        context.stream(f"  {described(call)}\n")
        shop = Shop(shop_url, context.idempotency_key)
        content = await asyncio.to_thread(TOOLS[name], shop, **arguments)
    return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": content}


@node(output_name="messages")
def note(outcome: list[Message], messages: Sequence[Message] = ()) -> list[Message]:
    return [*messages, *outcome]


@node(output_name="messages")
def give_up(
    calls: list[Call], limit: int, context: NodeContext, messages: Sequence[Message] = ()
) -> list[Message]:
    content = f"I stop here: the limit is {limit}."
    context.stream(content)
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "not called"} for call in calls]
    return [*messages, *results, {"role": "assistant", "content": content}]


def agent_at(model_url: str, shop_url: str, limit: int) -> Graph:
    """Return the agent. Where the servers are is bound to it, and no part of a stored conversation."""
    tools = Graph([call_tool], name="tools").bind(shop_url=shop_url).as_node().with_inputs(call="calls")
    return Graph(
        [listen, ask_model, decide, approve, tools.map_over("calls"), note, give_up],
        edges=[  # several nodes add to the messages: this says who follows whom
            *chain(listen, ask_model, decide),
            *chain(ask_model, "tools", note, ask_model),
            *chain(ask_model, approve, decide),
            ("approve", "tools"),
            ("ask_model", "give_up", "calls"),
        ],
        name="agent",
    ).bind(model_url=model_url, limit=limit)
