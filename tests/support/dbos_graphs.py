"""Graphs for workers in processes of their own; every body that ran leaves a row in the table `bodies`.

`trace(run, node)` adds a row before it returns, in a connection of its own: it counts bodies, whatever
becomes of the steps.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any
from uuid import UUID, uuid4

import psycopg

from hypergraph import END, FunctionNode, Graph, NodeContext, interrupt, node, pause_for, receive, route

NODES = int(os.environ.get("NODES", "10"))
PAUSE = float(os.environ.get("NODE_SECONDS", "0.02"))
_connections: dict[int, Any] = {}


# A connection may be lost when the row is there already, so each call has its own key.
_BEGAN = "INSERT INTO bodies VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_ENDED = "UPDATE bodies SET ended = clock_timestamp() WHERE call = %s"


def trace(run: str, number: int) -> UUID:
    """Tell that a body ran; return the key of the call."""
    call = uuid4()
    _told(_BEGAN, run, number, os.getpid(), call)
    return call


def _told(statement: str, *values: Any) -> None:
    while True:
        try:
            _connection().execute(statement, values)
            return
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):
            # The server is restarted now and then, or refuses to write.
            _connections.clear()
            time.sleep(0.1)


def _connection() -> Any:
    if os.getpid() not in _connections:
        _connections[os.getpid()] = psycopg.connect(os.environ["TRACE_DSN"], autocommit=True)
    return _connections[os.getpid()]


def _work(run: str, before: int) -> int:
    """Tell that the body of a node ran, and take a while."""
    call = trace(run, before) if os.environ.get("TRACE_DSN") else None
    if PAUSE:
        time.sleep(PAUSE)
    if os.environ.get("TRACE_ENDS"):
        _told(_ENDED, call)
    return before + 1


@node(output_name="after")
def link(run: str, before: int) -> int:
    """A node of a chain."""
    return _work(run, before)


@node(output_name="after")
async def link_awaited(run: str, before: int) -> int:
    """The same, on an event loop."""
    return await asyncio.to_thread(_work, run, before)


@node(output_name="doubled")
def double(x: int) -> int:
    """A node of one line."""
    return x * 2


@node(output_name="translated")
def translate(word: str, context: NodeContext) -> str:
    """A node that asks for a service."""
    return str(context.service("words", dict)[word])


services = {"words": {"tea": "Tee"}}


@node(output_name="quotient")
def divide(x: int) -> float:
    """A node that may fail."""
    return 10 / x


@node(output_name="left")
def leave(x: int) -> int:
    """A node that would end its process."""
    raise SystemExit(x)


@node(output_name="said")
def complain(x: int) -> int:
    """A node that fails with a text which cannot be written as it is."""
    raise ValueError("\ud800 and \0")


@node(output_name="lock")
def lock(x: int) -> object:
    """A node whose output cannot be stored."""
    return threading.Lock()


@interrupt(output_name="answer")
def ask(doubled: int) -> None:
    """A question."""


@node(output_name="decided")
async def decide(answer: str) -> str:
    """An async node."""
    return answer.upper()


def hold_at(run: str, gate: int) -> str:
    """Tell when the body began and ended; between the two, wait while the gate is closed."""
    with psycopg.connect(os.environ["TRACE_DSN"], autocommit=True) as connection:
        connection.execute("INSERT INTO held (run, gate, pid) VALUES (%s, %s, %s)", [run, gate, os.getpid()])
        connection.execute("SELECT pg_advisory_lock_shared(%s)", [gate])
        connection.execute("UPDATE held SET ended = clock_timestamp() WHERE run = %s", [run])
    return run


@node(output_name="held")
def hold(run: str, gate: int) -> str:
    """A node that comes to a gate."""
    return hold_at(run, gate)


@node(output_name="killed")
def kill(gate: int, others: int) -> int:
    """Kill the process, once all others have begun; those that began in a process before count too."""
    with psycopg.connect(os.environ["TRACE_DSN"], autocommit=True) as connection:
        began = "SELECT count(DISTINCT run) FROM held"
        while connection.execute(began).fetchone() != (others,):
            time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
    return gate


def _link(number: int, link: FunctionNode = link) -> Any:
    return link.with_name(f"n{number}").with_inputs(before=f"v{number}").with_outputs(after=f"v{number + 1}")


chain = Graph([_link(number) for number in range(NODES)], name="chain")
awaited = Graph([_link(number, link_awaited) for number in range(NODES)], name="awaited")
doubling = Graph([double], name="doubling")
dividing = Graph([divide], name="dividing")
translating = Graph([translate], name="translating")
asking = Graph([double, ask, decide], name="asking")
leaving = Graph([leave], name="leaving")
holding = Graph([hold], name="holding")
complaining = Graph([complain], name="complaining")
locking = Graph([lock, double], name="locking")
receiving = Graph([receive("x", int), double], name="receiving")
timed = Graph([pause_for("wait", 0.3, hold=0), double], name="timed")
killing = Graph([kill], name="killing")
asking_1 = Graph([double, ask], name="pinned", version="1")
asking_2 = Graph(
    [double.with_name("twice").with_outputs(doubled="twofold"), ask.with_inputs(doubled="twofold")],
    name="pinned",
    version="2",
    formerly={"double": "twice", "doubled": "twofold"},
)


@node(output_name="total")
def add(quotient: float, doubled: int) -> float:
    """A node after two nested graphs."""
    return quotient + doubled


@node(output_name="sums")
def add_all(v2: list[int]) -> int:
    """A node after a mapped graph."""
    return sum(v2)


@node(output_name="n")
def grow(n: int) -> int:
    """A node of a loop."""
    return n + 1


@route(targets=["growing", END])
def again(n: int) -> Any:
    """A gate that ends a loop."""
    return "growing" if n < 2 else END


@node(output_name="y")
def use(lock: object) -> int:
    """A node that takes what cannot be stored."""
    return 1


@node(output_name="tried")
def attempt(run: str) -> str:
    """The first node of an item that may fail."""
    trace(run, 1)
    return run


@node(output_name="worked")
def work_if_fixed(tried: str) -> str:
    """A node that fails for "bad", until the table `fixed` exists."""
    trace(tried, 2)
    if tried == "bad" and _connection().execute("SELECT to_regclass('fixed')").fetchone()[0] is None:
        raise ValueError(tried)
    return tried


@node(output_name="count")
def count_worked(worked: list[Any]) -> int:
    """A node that takes the list of a map whose items may fail."""
    return sum(each is not None for each in worked)


@node(output_name="sent", repeatable=False)
def send_once(x: int) -> float:
    """A node that must not be repeated."""
    return 1 / x


@node(output_name="sent")
def send_inside(x: int, ctx: NodeContext) -> float:
    """A node with an inner step that must not be repeated."""
    return 1 / ctx.step("send", int, x, repeatable=False)


looping_apart = Graph([Graph([grow], name="growing").as_node(remote=True), again], name="looping_apart")
locks_apart = Graph([lock, Graph([use], name="using").as_node(remote=True)], name="locks_apart")
short = Graph([_link(0), _link(1)], name="short")
apart = Graph([dividing.as_node(remote=True), doubling.as_node(remote=True), add], name="apart")
asking_apart = Graph([asking.as_node(name="inner", remote=True)], name="asking_apart")
mapped_apart = Graph([short.as_node(remote=True).map_over("run"), add_all], name="mapped_apart")
deep_apart = Graph([mapped_apart.as_node(remote=True)], name="deep_apart")
chain_apart = Graph([chain.as_node(remote=True)], name="chain_apart")
held_apart = Graph([holding.as_node(remote=True)], name="held_apart")
trying = Graph([attempt, work_if_fixed], name="trying")
trying_inside = Graph(
    [trying.as_node().map_over("run", error_handling="continue"), count_worked], name="trying_inside"
)
trying_apart = Graph(
    [trying.as_node(remote=True).map_over("run", error_handling="continue"), count_worked],
    name="trying_apart",
)
sending = Graph([send_once], name="sending")
sending_inside = Graph([send_inside], name="sending_inside")
graphs = [
    trying,
    trying_inside,
    trying_apart,
    sending,
    sending_inside,
    awaited,
    apart,
    asking_apart,
    mapped_apart,
    deep_apart,
    chain_apart,
    held_apart,
    looping_apart,
    locks_apart,
    killing,
    chain,
    doubling,
    dividing,
    translating,
    asking,
    leaving,
    holding,
    complaining,
    locking,
    asking_1,
    asking_2,
]
