"""A local stand-in for the chat completions API, which streams, calls tools and checks the messages."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

Message = dict[str, Any]


def problem(messages: list[Message]) -> str | None:
    """Return what the real API refuses in this list: calls without an answer, and answers without a call."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{number}] answers a call that was not made"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"messages[{number}] comes before the answers to {open_calls}"
        open_calls += [call["id"] for call in message.get("tool_calls") or []]
    return f"no answers to {open_calls}" if open_calls else None


def reply(messages: list[Message], tools: list[str]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Return the text and the tool calls with which this model answers."""
    if messages[-1]["role"] == "tool":
        answers = [
            m["content"] for m in messages[max(i for i, m in enumerate(messages) if m["role"] == "user") :]
        ]
        return "So: " + "; ".join(text for text in answers[1:] if text) + ".", []
    said = messages[-1]["content"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("weather", {"city": city}) for city in re.findall(r"weather in (\w+)", said)
    ]
    calls += [("refund", {"order": order}) for order in re.findall(r"refund (\w+)", said)]
    calls = [call for call in calls if call[0] in tools]
    return ("" if calls else f"You said: {said}"), calls


def chunks(text: str, calls: list[tuple[str, dict[str, Any]]], number: int) -> Iterator[dict[str, Any]]:
    """Yield the deltas of one reply, texts word by word and arguments in two pieces."""
    yield {"role": "assistant", "content": "" if text else None}
    for word in re.findall(r"\S+\s*", text):
        yield {"content": word}
    for index, (name, arguments) in enumerate(calls):
        written = json.dumps(arguments)
        opening = {"index": index, "id": f"call-{number}-{index}", "type": "function"}
        yield {"tool_calls": [{**opening, "function": {"name": name, "arguments": written[:5]}}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": written[5:]}}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(body)
        server.asked.set()
        server.hold.wait()
        wrong = problem(body["messages"])
        if wrong:
            self.answer(400, {"error": {"message": wrong, "type": "invalid_request_error"}})
            return
        if server.failures:
            server.failures -= 1
            self.answer(503, {"error": {"message": "overloaded", "type": "server_error"}})
            return
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        text, calls = reply(body["messages"], tools)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for delta in chunks(text, calls, len(server.requests)):
            self.send(body, delta, None)
        self.send(body, {}, "tool_calls" if calls else "stop")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def send(self, body: dict[str, Any], delta: dict[str, Any], reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode())
        self.wfile.flush()

    def answer(self, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class ModelServer:
    """The server on a free port of this machine, for a `with` block; `requests` has what it was asked."""

    def __init__(self) -> None:
        self.http = cast(Any, ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        self.http.daemon_threads = True
        self.http.requests, self.http.failures = [], 0
        self.http.asked, self.http.hold = threading.Event(), threading.Event()
        self.http.hold.set()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    @contextmanager
    def holding(self) -> Iterator[threading.Event]:
        """Hold replies back until `http.hold` is set; the event says that a request is there."""
        self.http.asked.clear()
        self.http.hold.clear()
        try:
            yield self.http.asked
        finally:
            self.http.hold.set()

    @property
    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.requests
        return found

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
