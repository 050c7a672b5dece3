"""What the agent talks to: a model and a shop, both played by a few rules.

Each call of a tool leaves a line in calls.txt, so that one that is made twice can be seen. `stall` lets
something hang: a tool by its name, or the reply after so many words, as in "reply 6".
"""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

Message = dict[str, str]
Call = tuple[str, int]

PRICES = {7: 12, 8: 30}
CALLS = Path("calls.txt")


class Shop:
    """The tools."""

    def __init__(self, stall: str = "") -> None:
        self._stall = stall

    async def call(self, name: str, order: int) -> str | int:
        if name == self._stall:
            await asyncio.Event().wait()
        with CALLS.open("a") as file:
            file.write(f"{name} {order}\n")
        parcel, customer = "delivered on Monday", "has ordered 12 times"
        known: dict[str, str | int] = {"price": PRICES[order], "parcel": parcel, "customer": customer}
        return known[name]


class Model:
    """The language model."""

    def __init__(self, stall: str = "") -> None:
        self._words = int(stall.removeprefix("reply ")) if stall.startswith("reply ") else None

    async def choose(self, said: str) -> tuple[list[Call], dict[str, float]]:
        """Return the tools to call, and what that cost."""
        order = re.search(r"order (\d+)", said)
        calls = [(name, int(order[1])) for name in ("price", "parcel", "customer")] if order else []
        tokens = len(said.split())
        return calls, {"input_tokens": tokens, "cost": tokens * 0.0005}

    async def write(self, messages: list[Message], facts: list[str], outcome: str) -> AsyncIterator[str]:
        """Yield a reply, word by word."""
        text = f"I have looked it up ({', '.join(facts)}). {outcome}" if facts else "Which order is it?"
        for number, word in enumerate(text.split()):
            if number == self._words:
                await asyncio.Event().wait()
            await asyncio.sleep(0.01)
            yield word
