"""One meter reading becomes one invoice: parse, ask the tariff service, write. Any of them may fail."""

import time
from dataclasses import dataclass

from hypergraph import Graph, RetryPolicy, node

OUTAGES: set[str] = set()  # zones for which the tariff service does not answer at all
SLOW = {"M0250": 0.2, "M0500": 0.4}  # seconds that the service takes for large customers
_busy = {f"M{n:04}" for n in range(0, 1000, 7)}  # where it answers when asked a second time


@dataclass(frozen=True)
class Reading:
    meter: str
    zone: str
    kwh: int


def ask_tariff_service(reading: Reading) -> float:
    """Return the price of a kilowatt hour. Stands for a service that is slow, flaky, and sometimes down."""
    time.sleep(SLOW.get(reading.meter, 0.0))
    if reading.zone in OUTAGES:
        raise ConnectionError(f"no answer for zone {reading.zone}")
    if reading.meter in _busy:
        _busy.remove(reading.meter)
        raise ConnectionError("busy, ask again")
    return {"north": 0.31, "south": 0.28}[reading.zone]


@node(output_name="reading")
def parse(meter: str, row: str) -> Reading:
    zone, before, after = row.split(";")
    if int(after) < int(before):
        raise ValueError("the meter runs backwards")
    return Reading(meter, zone, int(after) - int(before))


once_more = RetryPolicy(max_attempts=2, retry_on=ConnectionError, initial_delay=0.001)


@node(output_name="price", retry=once_more)
def look_up_price(reading: Reading) -> float:
    return ask_tariff_service(reading)


@node(output_name="invoice")
def write(reading: Reading, price: float) -> str:
    return f"{reading.meter}: {reading.kwh} kWh, {reading.kwh * price:.2f} euros"


graph = Graph([parse, look_up_price, write], name="invoice")
