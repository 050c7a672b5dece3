"""`main.py ORDER ADDRESS` places an order, `main.py ORDER` takes it up again, `main.py` checks all of them.

`--kill "after charge"` lets the process die at that moment.
"""

import argparse
from collections import Counter

import services
from orders import graph

from hypergraph import SqliteCheckpointer, SyncRunner

STORE = SqliteCheckpointer("orders.db")
SENT = ["reserve", "charge", "ship"]
UNDONE = ["reserve", "charge", "refund", "release"]


def go_on(order_id: str, address: str | None) -> None:
    """Run on the id of the order. What was given before is stored, and need not be given again."""
    new = {} if address is None else {"order_id": order_id, "address": address}
    print(SyncRunner(checkpointer=STORE).run(graph, new, workflow_id=order_id)["outcome"])


def check() -> None:
    """Compare what happened in the world with what the store says, and see that nothing happened twice."""
    happened = services.effects()
    for order_id in dict.fromkeys(effect.order_id for effect in happened):
        deeds = [effect.deed for effect in happened if effect.order_id == order_id]
        print(f"{order_id}: {', '.join(deeds)}")
        assert deeds == (SENT if STORE.state(order_id).get("shipment") else UNDONE)
    assert all(times == 1 for times in Counter(effect.key for effect in happened).values())
    print(f"{len(happened)} effects, each of them once")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("order", nargs="?")
    parser.add_argument("address", nargs="?")
    parser.add_argument("--kill", default="", metavar="MOMENT")
    given = parser.parse_args()
    services.KILL = given.kill
    if given.order:
        go_on(given.order, given.address)
    else:
        check()


if __name__ == "__main__":
    main()
