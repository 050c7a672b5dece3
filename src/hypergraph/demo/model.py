"""Stand-in for a language model with fixed rules, so that the demo needs no network.

Replace `write` and `judge` with calls of your model; the pipeline stays the same.
"""

import time

_GREETING, _OFFER = "Hello! ", " Write again if that does not help."


def write(question: str, context: str, advice: str) -> str:
    """Return a reply to the question from the context, improved by the advice."""
    think()
    reply = context.partition(".")[0] + "."
    if question.startswith("Hello") or advice:
        reply = _GREETING + reply
    return reply + _OFFER if "offer" in advice else reply


def judge(reply: str) -> tuple[int, str]:
    """Return the score of a reply, at most 100, and advice to improve it."""
    think()
    if not reply.startswith(_GREETING):
        return 40, "greet the customer"
    return (100, "") if reply.endswith(_OFFER) else (70, "greet the customer and offer more help")


def think() -> None:
    """Take a moment, as a model does."""
    time.sleep(0.001)
