"""A stand-in for a language model: it writes and judges by fixed rules, so the demo needs no network.

Replace `write` and `judge` by calls of the model you use; the pipeline stays as it is.
"""

import time

_GREETING, _OFFER = "Hello! ", " Write again if that does not help."


def write(question: str, context: str, advice: str) -> str:
    """Return a reply to the question from what is known, better where there is advice."""
    think()
    reply = context.partition(".")[0] + "."
    if question.startswith("Hello") or advice:
        reply = _GREETING + reply
    return reply + _OFFER if "offer" in advice else reply


def judge(reply: str) -> tuple[int, str]:
    """Return how good a reply is, at most 100, and how to make it better."""
    think()
    if not reply.startswith(_GREETING):
        return 40, "greet the customer"
    return (100, "") if reply.endswith(_OFFER) else (70, "greet the customer and offer more help")


def think() -> None:
    """Take time, as a model does; far less of it."""
    time.sleep(0.001)
