"""A graph of one's own: an invoice is written, paid or reminded of after two weeks, then closed."""

from __future__ import annotations

from datetime import timedelta

from hypergraph import Graph, NodeContext, RetryPolicy, ifelse, node, pause_for


class Bank:
    """Stands for the client of a bank."""

    def paid(self, number: str) -> bool:
        raise ConnectionError("no network in tests")


@node(output_name="invoice")
def write(customer: str, amount: float) -> str:
    return f"{customer} owes {amount:.2f}"


@node(
    output_name="paid", wait_for="rest", retry=RetryPolicy(max_attempts=3, initial_delay=3600, max_delay=7200)
)
def look(invoice: str, context: NodeContext) -> bool:
    return context.service("bank", Bank).paid(invoice)


@ifelse(when_true="close", when_false="remind")
def is_paid(paid: bool) -> bool:
    return paid


@node(output_name="outcome")
def close(invoice: str) -> str:
    return f"closed: {invoice}"


@node(output_name="outcome")
def remind(invoice: str) -> str:
    return f"a friendly reminder: {invoice}"


reminders = Graph(
    [write, pause_for("rest", timedelta(days=14), wait_for="invoice"), look, is_paid, close, remind],
    name="reminders",
)
