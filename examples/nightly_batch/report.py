"""`python report.py DAY` tells how a batch went. It asks the store, and needs neither graph nor rows."""

import sys
from collections import Counter, defaultdict

from hypergraph import SqliteCheckpointer
from hypergraph.checkpointers import Workflow

STORE = SqliteCheckpointer("batch.db")


def report(day: str) -> str:
    items = STORE.workflows(parent=day, limit=None)
    counts = Counter(item.status.value for item in items)
    slowest = sorted(items, key=lambda item: item.duration_ms or 0.0, reverse=True)[:3]
    return "\n".join(
        [
            f"{day}: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items())),
            "slowest: " + ", ".join(f"{item.fingerprint} {item.duration_ms:.0f}ms" for item in slowest),
            *failures([item for item in items if item.status.value == "failed"]),
        ]
    )


def failures(items: list[Workflow]) -> list[str]:
    """Return a table of what failed, alike ones together."""
    alike = defaultdict(list)
    for item in items:
        step = item.steps[-1]
        alike[step.node_name, str(step.error_type).removeprefix("builtins.")].append((item.fingerprint, step))
    rows = [("Items", "Node", "Error", "For example")]
    for (node, error), failed in sorted(alike.items(), key=lambda group: -len(group[1])):
        meter, step = min(failed, key=lambda example: str(example[0]))
        rows.append((str(len(failed)), node, error, f"{meter}: {step.error}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    return [line.rstrip() for line in lines] if items else []


if __name__ == "__main__":
    print(report(sys.argv[1]))
