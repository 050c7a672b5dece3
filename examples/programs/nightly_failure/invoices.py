"""A nightly job in production: invoices are fetched, priced and posted; the rates are a service."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypergraph import Graph, node


@node(output_name="invoice")
def fetch(number: int) -> dict[str, str]:
    return {"number": str(number), "net": "12,50" if number == 3 else "12.50"}


@node(output_name="rate")
def look_up_rate(country: str) -> float:
    rates: dict[str, float] = json.loads(Path(os.environ.get("RATES", "rates.json")).read_text())
    return rates[country]


@node(output_name="total")
def price(invoice: dict[str, str], rate: float) -> float:
    return round(float(invoice["net"]) * (1 + rate), 2)


@node(output_name="posted", repeatable=False)
def post(invoice: dict[str, str], total: float) -> str:
    with Path("posted.txt").open("a") as posted:
        posted.write(f"{invoice['number']} {total}\n")
    return f"posted {invoice['number']}"


invoices = Graph([fetch, look_up_rate, price, post], name="invoices")
