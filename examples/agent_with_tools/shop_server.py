"""A local server: a model behind the chat API of OpenAI, and the shop that the tools of the agent ask.

The model is a few rules over the messages, so it always says the same. The shop has a price service that is
busy when somebody asks it for the first time, and takes no order twice.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]

STOCK = {"chain": 7, "saddle": 0, "tyre": 12}
PRICES = {"chain": 18.5, "saddle": 42.0, "tyre": 29.0}
NUMBERS = {"two": 2, "three": 3}


# --- the model: from messages to the next message -----------------------------------------------------


def reply(messages: list[Message]) -> Message:
    """Return what the model says: tool calls as long as it lacks something, then a sentence."""
    asked = max(place for place, message in enumerate(messages) if message["role"] == "user")
    said = [each["content"].lower() for each in messages[: asked + 1] if each["role"] == "user"]
    parts = re.findall("|".join(STOCK), " ".join(said))
    wishes = wishes_of(said[-1])
    if not (parts and wishes):
        return {"role": "assistant", "content": f"We sell {', '.join(STOCK)}. What do you need?"}
    rounds = sum("tool_calls" in message for message in messages[asked:])
    if rounds < len(wishes):
        return calling([(name, {"part": parts[-1], **more}) for name, more in wishes[rounds]], len(messages))
    results = [message["content"] for message in messages[asked:] if message["role"] == "tool"]
    return {"role": "assistant", "content": " ".join(results)}


def wishes_of(said: str) -> list[list[tuple[str, Message]]]:
    """Return which tools would help: what can be called at the same time together, in the order of need."""
    words = set(re.findall(r"\w+", said))
    looking: list[tuple[str, Message]] = [("check_stock", {})] if words & {"have", "stock"} else []
    looking += [("get_price", {})] if words & {"cost", "costs", "price", "order"} else []
    quantity = next((number for word, number in NUMBERS.items() if word in words), 1)
    ordering = [("place_order", {"quantity": quantity})] if "order" in words else []
    return [wishes for wishes in (looking, ordering) if wishes]


def calling(wishes: list[tuple[str, Message]], number: int) -> Message:
    calls = [
        {"id": f"round{number}_call{place}", "type": "function"}
        | {"function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(wishes)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def pieces_of(message: Message) -> Iterator[Message]:
    """Cut a message as a model makes it, word by word."""
    for word in re.findall(r"\S+\s*", message["content"] or ""):
        yield {"content": word}
    for index, call in enumerate(message.get("tool_calls", [])):
        begin = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [begin]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": call["function"]["arguments"]}}]}


# --- the server ---------------------------------------------------------------------------------------


asked_before: set[str] = set()  # parts whose price somebody has asked for
orders: dict[str, int] = {}  # their numbers, by key


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, part = self.path.strip("/").split("/")
        if kind == "price" and part not in asked_before:
            asked_before.add(part)
            self.answer({"error": "busy"}, 503)
        else:
            self.answer({"price": PRICES[part]} if kind == "price" else {"stock": STOCK[part]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/order":
            number = orders.setdefault(body["key"], len(orders) + 1)
            self.answer({"number": number})
        elif body.get("stream"):
            self.stream(reply(body["messages"]))
        else:
            self.answer({"choices": [{"message": reply(body["messages"])}]})

    def answer(self, document: Message, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def stream(self, message: Message) -> None:
        """Send a message as the API does, in pieces: an event per word, two per tool call."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in [{"role": "assistant"}, *pieces_of(message)]:
            self.wfile.write(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Serve in a thread, on any free port unless one is given; the address is what `with` gives."""
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    with serving(8000) as address:
        print(f"SHOP_URL={address}", flush=True)
        threading.Event().wait()
