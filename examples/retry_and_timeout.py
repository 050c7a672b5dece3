"""A service that fails twice, a service that hangs, and what the log says about them."""

import asyncio

from hypergraph import (
    AsyncRunner,
    Graph,
    NodeContext,
    NodeRetryEvent,
    NodeTimeoutError,
    RetryPolicy,
    TypedEventProcessor,
    node,
)

PATIENT = RetryPolicy(max_attempts=3, retry_on=ConnectionError, initial_delay=0.01)


@node(output_name="rate", retry=PATIENT)
def fetch_rate(currency: str, context: NodeContext) -> float:
    if context.attempt < 3:
        raise ConnectionError(f"the line is busy (attempt {context.attempt})")
    return 1.25


@node(output_name="price")
def convert(amount: float, rate: float) -> float:
    return amount * rate


@node(output_name="stock", timeout=0.05)
async def ask_warehouse(item: str) -> int:
    await asyncio.sleep(3600)  # never answers
    return 0


class ShowRetries(TypedEventProcessor):
    def on_node_retry(self, event: NodeRetryEvent) -> None:
        print(f"{event.node_name}: {event.error}; trying again")


async def main() -> None:
    runner = AsyncRunner()

    print("--- a node that succeeds at its third attempt")
    shop = Graph([fetch_rate, convert], name="shop")
    result = await runner.run(shop, currency="CHF", amount=10.0, event_processors=[ShowRetries()])
    print(f"price {result['price']}, attempts {result.log.steps[0].attempt}")

    print("--- a node that is given up after its timeout")
    store = Graph([ask_warehouse], name="store")
    result = await runner.run(store, item="tea", error_handling="continue")
    assert isinstance(result.error, NodeTimeoutError)
    print(f"{result.status.value}: {result.error}")


if __name__ == "__main__":
    asyncio.run(main())
