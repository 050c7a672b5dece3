"""An order: reserve, charge, ship; and if it cannot be shipped, refund and release.

Each step has an effect elsewhere that must happen once. The process may be killed at any moment: run on the
same id, and what has happened does not happen again. There are two ways to that, and both are used here.
"""

from typing import Any

import services
from services import Effect

from hypergraph import Graph, NodeContext, ifelse, node


def ask_the_warehouse(node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> object:
    """Find out what became of a step that began and left no result."""
    return services.find(idempotency_key) or NotImplemented  # nothing has happened: the step may run


@node(output_name="reservation", repeatable=False, on_ambiguous=ask_the_warehouse)
def reserve(order_id: str, context: NodeContext) -> str:
    return services.do(Effect(order_id, "reserve", context.idempotency_key))


@node(output_name="payment")
def charge(order_id: str, reservation: str, context: NodeContext) -> str:
    return services.do_once(Effect(order_id, "charge", context.idempotency_key))


@node(output_name="shipment")
def ship(order_id: str, address: str, payment: str, context: NodeContext) -> str | None:
    if address == "the moon":
        return None  # no carrier goes there: not a failure to repeat, but a case to handle
    return services.do_once(Effect(order_id, "ship", context.idempotency_key))


@ifelse(when_true="confirm", when_false="refund")
def is_on_its_way(shipment: str | None) -> bool:
    return shipment is not None


@node(output_name="outcome")
def confirm(order_id: str, shipment: str | None) -> str:
    return f"{order_id} is on its way"


@node(output_name="repayment")
def refund(order_id: str, payment: str, context: NodeContext) -> str:
    return services.do_once(Effect(order_id, "refund", context.idempotency_key))


@node(output_name="freed", repeatable=False, on_ambiguous=ask_the_warehouse)
def release(order_id: str, repayment: str, reservation: str, context: NodeContext) -> str:
    return services.do(Effect(order_id, "release", context.idempotency_key))


@node(output_name="outcome")
def apologise(order_id: str, address: str, repayment: str, freed: str) -> str:
    return f"{order_id} cannot be sent to {address}; the money is back"


graph = Graph([reserve, charge, ship, is_on_its_way, confirm, refund, release, apologise], name="order")
