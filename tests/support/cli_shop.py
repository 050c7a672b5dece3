"""Graphs for commands that run something, in a module of the current folder, and screens without times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cli import Cli

SHOP = """
import asyncio
import os
import signal
import time
from hypergraph import Graph, interrupt, node


@node(output_name="double")
def twice(n: int) -> int:
    return 2 * n


@node(output_name="root")
def root(double: int) -> float:
    if double < 0 and not os.path.exists("fixed"):
        raise ValueError("negative: cannot take the root")
    return float(abs(double))


math = Graph([twice, root], name="math")


@interrupt(output_name="approved")
def approve(double: int) -> bool:
    return None


@node(output_name="sent")
async def send(double: int, approved: bool) -> str:
    await asyncio.sleep(0)
    return f"{double}: {approved}"


asks = Graph([twice, approve, send], name="asks")


@node(output_name="said")
def talk(text: str) -> str:
    print("a node prints")
    return text


talks = Graph([talk], name="talks")


@node(output_name="never")
def hang(double: int) -> int:
    print("hanging", flush=True)
    signal.pause()


hangs = Graph([twice, hang], name="hangs")


@node(output_name="waited")
def wait(double: int) -> int:
    print("waiting", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    return double


waits = Graph([twice, wait], name="waits")
number = 3
"""


class RunCli(Cli):
    """The command, in a folder that has a module `shop`."""

    def settled(self, text: str) -> str:
        """Return a text without times, each replaced by one of the same width."""
        text = re.sub(r"\| (<?\d+ms|\d+\.\ds)", "| TIME", super().settled(text))
        return re.sub(r" {2,}<?\d+ms", lambda found: "TIME".rjust(len(found[0])), text)


@pytest.fixture
def shop(tmp_path: Path) -> RunCli:
    """The command, in a folder with graphs and without a database."""
    (tmp_path / "shop.py").write_text(SHOP)
    return RunCli(tmp_path / "runs.db")
