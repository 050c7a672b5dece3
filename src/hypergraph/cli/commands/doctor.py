"""`hypergraph doctor`: checks of the installation and the store."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import located
from hypergraph.display import Table, plural
from hypergraph.views.doctor import health

doctor_options: tuple[Option, ...] = ()


def doctor(call: Call) -> Reply:
    """Check the installation and the store."""
    found = health(call.address)
    rows = [
        (item["check"], item["status"], located(item["detail"], call.database)) for item in found["items"]
    ]
    header = ["No problems" if not found["trouble"] else plural(found["trouble"], "problem")]
    return Reply(
        found, lambda: [Table(("Check", "Status", "Detail"), rows)], header, (), 3 if found["trouble"] else 0
    )
