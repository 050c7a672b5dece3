"""What the agent can do: look at the weather, and give money back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

DANGEROUS = {"refund"}

SCHEMAS: list[Any] = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {key: {"type": "string"}}}},
    }
    for name, key in (("weather", "city"), ("refund", "order"))
]


async def weather(city: str) -> str:
    await asyncio.sleep(float(os.environ.get("TOOL_SECONDS", "0.05")))
    return f"18 degrees in {city}"


async def refund(order: str) -> str:
    with Path(os.environ.get("LEDGER", "ledger.txt")).open("a") as ledger:
        ledger.write(order + "\n")
    return f"order {order} is refunded"


TOOLS: dict[str, Any] = {"weather": weather, "refund": refund}
