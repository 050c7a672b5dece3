"""Measure everything beside other libraries, and write it down. Exit code 1 when a bar of our own breaks.

python -m benchmarks.run [--quick] [--no-bars]

The report goes to docs/benchmarks.md, its figures to docs/benchmarks.json, pictures to docs/images, its sum
to README, below "## Speed" where there is such a heading. The quick one is only printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks import report, summary
from benchmarks.durable import durable_bars
from benchmarks.engine import Bar, engine_bars, memory_bars
from benchmarks.environments import OURS, ROOT
from benchmarks.executors import executor_bars
from benchmarks.growth import growth_bars
from benchmarks.inner import inner_bars
from benchmarks.side_by_side import compared, machine
from benchmarks.stores import store_bars
from benchmarks.values import value_bars

DOCS = ROOT / "docs"
SECTIONS = {
    "The engine, against bare calls": lambda: [*engine_bars(), *memory_bars()],
    "Stored runs, against the same rows and bytes committed by hand": durable_bars,
    "Inside of nodes, against stored nodes and commits of their own": inner_bars,
}
LONGER = {
    "Stores that fill, large against small": store_bars,
    "Values to bytes and back, against msgspec alone": value_bars,
    "Values that grow, and large ones": growth_bars,
    "Calls made elsewhere, against the same calls submitted by hand": executor_bars,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure hypergraph beside other libraries.")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes and rounds; nothing is installed or written"
    )
    parser.add_argument(
        "--no-bars", action="store_true", help="leave out what hypergraph is held to by itself"
    )
    options = parser.parse_args(arguments)
    about = machine()  # before its load is our own
    bars = [] if options.no_bars else own_bars(SECTIONS if options.quick else SECTIONS | LONGER)
    found = compared(about, options.quick)
    bars += peer_bars(found)
    found["bars"] = [vars(bar) | {"holds": bar.holds} for bar in bars]
    found["readme"] = summary.lines(found)
    if options.quick:
        print(report.page(found, found["bars"], {}))
    else:
        write(found)
    print("\nFor README, below ## Speed:\n\n" + "\n".join(found["readme"]))
    return 0 if all(bar.holds for bar in bars) else 1


def own_bars(sections: dict[str, Any]) -> list[Bar]:
    """Measure what hypergraph is held to, and print it."""
    bars = []
    for title, measured in sections.items():
        print(f"==> {title}", flush=True)
        for bar in measured():
            print(bar, flush=True)
            bars.append(bar)
    return bars


def peer_bars(found: dict[str, Any]) -> list[Bar]:
    """Return what hypergraph is held to beside another library, where that one was measured."""
    rows = found["groups"]["durable"]["rows"]
    peer, ours = rows.get("LangGraph, async", {}).get("100", {}), rows[f"{OURS}, sync"]["100"]
    if "us" not in peer or "us" not in ours:
        return []
    name = "stored chain of 100, in tenths of LangGraph with SqliteSaver"
    bars = [Bar(name, 10 * ours["us"] / peer["us"], 1, ours["us"] * 1e3)]
    chats = found["chat"]["rows"]
    peer, ours = chats.get("LangGraph", {}).get("1000", {}), chats.get(OURS, {}).get("1000", {})
    if "us" in peer and "us" in ours:
        bars.append(Bar("turn 1,000 of a chat, in LangGraph's", ours["us"] / peer["us"], 1, ours["us"] * 1e3))
    return bars


def write(found: dict[str, Any]) -> None:
    """Write the page, its pictures, the figures and the sum of it."""
    drawn, names = report.pictures(found), {}
    for name, picture in drawn.items():
        names[name] = f"bench-{name}.svg".replace("_", "-")
        (DOCS / "images" / names[name]).write_text(picture, encoding="utf-8")
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (DOCS / "benchmarks.json").write_text(text, encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(report.page(found, found["bars"], names), encoding="utf-8")
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    if (after := summary.put(before, found["readme"])) != before:
        readme.write_text(after, encoding="utf-8")
    print("==> written: docs/benchmarks.md, docs/benchmarks.json, docs/images/bench-*.svg")


if __name__ == "__main__":
    sys.exit(main())
