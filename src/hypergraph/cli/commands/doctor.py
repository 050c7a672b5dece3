"""`hypergraph db info`, `db check`, `db migrate`, `db copy`, `doctor`, `version` and `schema`."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.display import Table, plural
from hypergraph.views.doctor import health

doctor_options: tuple[Option, ...] = ()


def doctor(call: Call) -> Reply:
    """Look whether everything is there that runs need."""
    found = health(call.address)
    rows = [(item["check"], item["status"], item["detail"]) for item in found["items"]]
    header = ["All is well" if not found["trouble"] else plural(found["trouble"], "trouble")]
    return Reply(
        found, lambda: [Table(("Check", "Status", "Detail"), rows)], header, (), 3 if found["trouble"] else 0
    )
