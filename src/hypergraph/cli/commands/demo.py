"""`hypergraph demo`: a pipeline that fails, pauses, is killed and resumes."""

from __future__ import annotations

import sys

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.demo import DEFAULT_FILE, run_demo

demo_options: tuple[Option, ...] = ()


def demo(call: Call) -> Reply:
    """Run the demo, and print commands to try next."""
    machine = call.options.json or call.options.jsonl
    file = call.options.db or DEFAULT_FILE
    code = run_demo(file, sys.stderr if machine else sys.stdout)
    return Reply({"schema": "hypergraph.demo/1", "file": file}, code=code)
