"""Graphs for workers whose maps have groups of the size, and with the times, that the environment says."""

from __future__ import annotations

import os
import signal

from hypergraph import Graph, node
from hypergraph.integrations.dbos import execution, groups
from support.dbos_graphs import double, hold, hold_at, trace
from support.dbos_graphs import graphs as _graphs

groups._SHARE = 1
groups._MOST = int(os.environ.get("GROUP_SIZE", "5"))
groups.Group.seconds = float(os.environ.get("GROUP_SECONDS", "1000"))
execution._SWEEP = float(os.environ.get("SWEEP_SECONDS", "1000"))


@node(output_name="survived")
def survive(x: int) -> int:
    """Kill the process, if the number is the bad one."""
    if x == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


@node(output_name="followed")
def follow(held: str) -> str:
    """A node after one that comes to a gate."""
    trace(held, 1)
    return held


@node(output_name="paid", repeatable=False)
def pay(run: str, gate: int) -> str:
    """A node that comes to a gate, and must not be called twice."""
    return hold_at(run, gate)


pinned = [
    *(graph for graph in _graphs if graph.name != "doubling"),
    Graph([double], name="doubling", version="2"),
]
graphs = [
    *_graphs,
    Graph([survive], name="surviving"),
    Graph([hold, follow], name="followed"),
    Graph([pay], name="paying"),
]
