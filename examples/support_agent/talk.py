"""A client: `python talk.py ID "SENTENCE"` says something, `python talk.py ID` shows how things are."""

import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError

ADDRESS = os.environ.get("SUPPORT_URL", "http://127.0.0.1:8000")


class Word(NamedTuple):
    """One event of a reply; `kind` is "restart" where the reply begins again."""

    offset: int
    kind: str
    text: str


def send(path: str, document: Any = None) -> tuple[int, Any]:
    """Send a document, or nothing, and return status and answer."""
    body = None if document is None else json.dumps(document).encode()
    try:
        with urllib.request.urlopen(f"{ADDRESS}/chats/{path}", body, timeout=60) as response:  # noqa: S310 - ours
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def listen(chat: str, offset: int) -> Iterator[Word]:
    """Yield the words of a reply from an offset on, to its end or until the connection breaks."""
    address = f"{ADDRESS}/chats/{chat}/reply?offset={offset}"
    with urllib.request.urlopen(address, timeout=60) as response:  # noqa: S310 - ours
        fields: dict[str, str] = {}
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            else:
                yield Word(int(fields["id"]), fields["event"], json.loads(fields["data"]))


def follow(chat: str, offset: int = 0) -> Iterator[Word]:
    """Yield the words of a reply to its end, over as many connections as that takes: each offset once."""
    while True:
        try:
            for word in listen(chat, offset):
                offset = word.offset + 1
                yield word
            return
        except OSError:  # the server is gone, and will be back
            time.sleep(0.1)


def main(chat: str, *said: str) -> None:
    status, found = send(chat)
    offset = found["offset"] if status == 200 else 0
    if said:
        send(chat, {"said": " ".join(said)})
        print(*(word.text if word.kind == "chunk" else "..." for word in follow(chat, offset)))
    _, found = send(chat)
    print(json.dumps({name: found[name] for name in ("status", "questions", "usage")}, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
