"""The shop of November: prices are in cents, a node has another name, a receipt is mailed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import register


@dataclass
class Order:
    item: str
    price: int


def in_cents(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "price": round(100 * fields["price"])}


register(Order, version=2, upgrade={1: in_cents})


@node(output_name="order")
def offer(item: str) -> Order:
    return Order(item, 250)


@interrupt("approved")
def approve(order: Order) -> bool | None:
    return True if order.item == "milk" else None


@node(output_name="receipt")
def charge(order: Order, approved: bool) -> str:
    return f"{order.item}: {order.price} cents" if approved else "nothing"


@node(output_name="mail")
def send(receipt: str) -> str:
    return f"Dear customer, {receipt}"


orders = Graph([offer, approve, charge, send], name="orders", version="november", formerly={"quote": "offer"})
