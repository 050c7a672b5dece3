"""Print the benchmark report: our own bars, then peers side by side. Exit code 1 when a bar does not hold.

python -m benchmarks.run [--json FILE] [--no-peers]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from benchmarks.durable import durable_bars
from benchmarks.engine import Bar, engine_bars, memory_bars
from benchmarks.executors import executor_bars
from benchmarks.growth import bytes_report, growth_bars
from benchmarks.peers import peer_report
from benchmarks.stores import store_bars
from benchmarks.values import value_bars

SECTIONS = {
    "Stores that fill, large against small": store_bars,
    "Values to bytes and back, against msgspec alone": value_bars,
    "Values that grow, and large ones": growth_bars,
    "Calls made elsewhere, against the same calls submitted by hand": executor_bars,
    "Stored runs, against the same rows and bytes committed by hand": durable_bars,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure hypergraph, as ratios of what runs side by side.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--no-peers", action="store_true", help="leave other libraries out")
    options = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}; ratios against a bare call of `def f(x): return x + 1`\n")
    bars = _shown([*engine_bars(), *memory_bars()])
    for title, measured in SECTIONS.items():
        print(f"\n{title}")
        bars += _shown(measured())
    report: dict[str, object] = {"bars": [vars(bar) | {"holds": bar.holds} for bar in bars]}
    if not options.no_peers:
        report["peers"], report["chat bytes"] = peers(), bytes_report()
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))
    return 0 if all(bar.holds for bar in bars) else 1


def _shown(bars: list[Bar]) -> list[Bar]:
    for bar in bars:
        print(line(bar))
    return bars


def line(bar: Bar) -> str:
    measured = f"{bar.nanoseconds:8.0f} ns" if bar.nanoseconds is not None else " " * 11
    verdict = "ok" if bar.holds else "OVER"
    return f"  {bar.name:<52} {bar.ratio:7.1f}   at most {bar.limit:<6g} {measured}  {verdict}"


def peers() -> dict[str, float]:
    """Print the comparison with other libraries and return the ratios."""
    overheads, missing = peer_report()
    ours = overheads["hypergraph"]
    print("\nOverhead per node on a chain of 100, above the bare call")
    for name, nanoseconds in overheads.items():
        print(f"  {name:<16} {nanoseconds / 1000:10.2f} µs   {nanoseconds / ours:8.1f}x ours")
    for name, why in missing.items():
        print(f"  {name:<16} {why}")
    return {name: nanoseconds / ours for name, nanoseconds in overheads.items()}


if __name__ == "__main__":
    sys.exit(main())
