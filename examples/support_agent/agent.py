"""The agent: it looks things up, asks a person before money goes back, and replies word by word.

One conversation is one stored workflow, and each sentence of the customer a turn of it. Every call of the
model and of a tool is a step of its own inside of a node, so a process that dies repeats none that is done.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from world import Call, Message, Model, Shop

from hypergraph import Graph, NodeContext, ifelse, interrupt, node


@dataclass(frozen=True)
class Refund:
    """Money that a customer wants back."""

    order: int
    euros: int


@dataclass(frozen=True)
class Decision:
    """What a person answers."""

    approved: bool
    note: str = ""


@node(output_name="messages", append=True)
def listen(said: str) -> Message:
    return {"role": "user", "text": said}


@node(output_name=("facts", "refund"))
async def investigate(said: str, context: NodeContext) -> tuple[list[str], Refund | None]:
    """Let the model choose tools, and call them at the same time."""
    model, shop = context.service("model", Model), context.service("shop", Shop)

    async def choose(said: str) -> list[Call]:
        calls, usage = await model.choose(said)
        context.record(**usage)
        return calls

    calls = await context.step("choose", choose, said)
    steps = [context.step(f"{name} {order}", shop.call, name, order) for name, order in calls]
    found = dict(zip((name for name, _ in calls), await asyncio.gather(*steps), strict=True))
    facts = [f"{name}: {result}" for name, result in found.items()]
    wants_refund = "price" in found and "broken" in said
    return facts, Refund(calls[0][1], int(found["price"])) if wants_refund else None


@ifelse(when_true="approve", when_false="skip")
def costs_money(refund: Refund | None) -> bool:
    return refund is not None


def approval(deadline: timedelta) -> Any:
    """Return the question, which is open for so long."""

    @interrupt(
        output_name="decision", timeout=deadline, default=Decision(False, "there was no answer in time")
    )
    def approve(refund: Refund) -> Decision | None:
        return None  # a person has to answer

    return approve


@ifelse(when_true="pay", when_false="decline")
def is_approved(decision: Decision) -> bool:
    return decision.approved


@node(output_name="outcome", transaction=True)
def pay(refund: Refund, context: NodeContext) -> str:
    """Write the payment into the table of the shop: in the commit that stores this step, so exactly once."""
    context.connection.execute("INSERT INTO payments VALUES (?, ?)", (refund.order, refund.euros))
    return f"{refund.euros} euros go back to your card."


@node(output_name="outcome")
def decline(decision: Decision) -> str:
    return f"We cannot pay it back: {decision.note}."


@node(output_name="outcome")
def skip(refund: None) -> str:
    return ""


@node(output_name="messages", append=True, stream=True)
async def reply(messages: list[Message], facts: list[str], outcome: str, context: NodeContext) -> Message:
    """Write the reply; other processes can read each word while it comes."""
    model, words = context.service("model", Model), []
    async for word in model.write(messages, facts, outcome):
        context.stream(word)
        context.record(output_tokens=1, cost=0.001)
        words.append(word)
    return {"role": "assistant", "text": " ".join(words)}


def support(deadline: timedelta = timedelta(days=2)) -> Graph:
    """Return the agent."""
    nodes = [listen, investigate, costs_money, approval(deadline), is_approved, pay, decline, skip, reply]
    return Graph(nodes, name="support")
