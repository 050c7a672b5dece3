"""A day at the desk: the server is killed at the worst moments, and started again."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from urllib.error import URLError

import talk
from talk import Word, follow, send


@contextmanager
def serving(*options: str) -> Iterator[Callable[[], None]]:
    """Start the server; `with` gives a function that kills it as `kill -9` does."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    talk.ADDRESS = f"http://127.0.0.1:{port}"
    command = [sys.executable, "server.py", "--port", str(port), *options]
    process = subprocess.Popen(command)  # noqa: S603 - our own

    def kill() -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        print("  (the server is killed)")

    try:
        until(is_up)
        yield kill
    finally:
        process.kill()
        process.wait()


def is_up() -> bool:
    try:
        send("none")
    except URLError:
        return False
    return True


def until(is_so: Callable[[], Any]) -> Any:
    while not (found := is_so()):
        time.sleep(0.02)
    return found


def say(chat: str, said: str) -> None:
    print(f"{chat}: {said}")
    status, answer = send(chat, {"said": said})
    assert status == 202, answer


def show(words: list[Word]) -> None:
    print(" ", *(word.text if word.kind == "chunk" else f"({word.kind})" for word in words))


def question_of(chat: str) -> str:
    return str(until(lambda: [each["asks"] for each in send(chat)[1]["questions"]])[0])


def refunds() -> None:
    with serving("--stall", "parcel") as kill:
        say("ann", "My order 7 came broken")
        until(lambda: {"price 7", "customer 7"} <= {*send("ann")[1]["tools"]})
        kill()  # two tools of three have answered
    with serving("--stall", "reply 6") as kill:
        print(f"  approve {question_of('ann')}?")
        for answer in ({"approved": "maybe"}, {"approved": True}, {"approved": False}):
            status, reply = send("ann/answer", answer)
            print(f"  {json.dumps(answer)}: {status} {reply.get('error', '')}")
        words = [*islice(follow("ann"), 6)]
        show(words)
        kill()  # in the middle of a sentence
    with serving("--deadline", "0.5"):
        rest = [*follow("ann", words[-1].offset + 1)]
        show(rest)
        offsets = [word.offset for word in [*words, *rest]]
        assert offsets == list(range(len(offsets)))  # none is missing, and none came twice
        say("bob", "My order 8 came broken")
        until(lambda: send("bob")[1]["status"] == "completed")
        show([*follow("bob")])


def a_budget() -> None:
    with serving("--budget", "0.001"):
        say("cara", "Where is my order 7?")
        until(lambda: send("cara")[1]["status"] == "stopped")
        print(f"  stopped: {send('cara')[1]['usage']['cost']:.3f} of 0.001 are used")
    with serving("--budget", "1"):
        send("cara", {})
        show([*follow("cara")])


if __name__ == "__main__":
    refunds()
    a_budget()
