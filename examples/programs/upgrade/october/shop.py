"""The shop as it was in October: prices are in euros."""

from __future__ import annotations

from dataclasses import dataclass

from hypergraph import Graph, interrupt, node

online = True


@dataclass
class Order:
    item: str
    price: float


@node(output_name="order")
def quote(item: str) -> Order:
    return Order(item, 2.5)


@interrupt("approved")
def approve(order: Order) -> bool | None:
    return True if order.item == "milk" else None


@node(output_name="receipt")
def charge(order: Order, approved: bool) -> str:
    if not online:
        raise ConnectionError("the till does not answer")
    return f"{order.item}: {order.price} euros" if approved else "nothing"


orders = Graph([quote, approve, charge], name="orders", version="october")
