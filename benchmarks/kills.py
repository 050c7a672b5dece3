"""What a killed process costs: nodes that run again when a chain is resumed, here and with a peer.

A process is killed with SIGKILL inside node 20 of 30, another one resumes. One repeated node is the least.
The peer runs in the environment that `make bench` has made for it.

python -m benchmarks.kills [--trials N]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

from benchmarks.environments import BY_NAME, ROOT

LENGTH, VICTIM = 30, 20


def body(folder: Path, number: int, dies: bool) -> None:
    """Write down that a node began; be killed in the one that is meant."""
    with (folder / "calls").open("a") as calls:
        calls.write(f"{number}\n")
    if dies and number == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)


def ours(folder: Path, dies: bool) -> None:
    """Run the chain here."""
    from hypergraph import FunctionNode, Graph, SyncRunner
    from hypergraph.checkpointers import SqliteCheckpointer

    def step(number: int) -> Any:
        def work(x: int) -> int:
            body(folder, number, dies)
            return x + 1

        return FunctionNode(work, f"n{number}", f"v{number}", rename_inputs={"x": f"v{number - 1}"})

    runner = SyncRunner(checkpointer=SqliteCheckpointer(folder / "ours.db"))
    runner.run(Graph([step(number) for number in range(1, LENGTH + 1)]), {"v0": 0}, workflow_id="w")


def langgraph(folder: Path, dies: bool) -> None:
    """Run the same chain with LangGraph and its saver for SQLite, in its default mode."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        x: int

    def step(number: int) -> Any:
        def work(state: State) -> State:
            body(folder, number, dies)
            return {"x": state["x"] + 1}

        return work

    builder = StateGraph(State)
    names = [f"n{number}" for number in range(1, LENGTH + 1)]
    for number, name in enumerate(names, 1):
        builder.add_node(name, step(number))
    for source, target in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(source, target)
    options: Any = {"recursion_limit": 2 * LENGTH, "configurable": {"thread_id": "w"}}
    with SqliteSaver.from_conn_string(str(folder / "peer.db")) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"x": 0} if dies or not saver.get_tuple(options) else None, options)


LIBRARIES = {"hypergraph": ours, "LangGraph": langgraph}


def repeated(library: str) -> int | None:
    """Kill a chain, resume it, and return how many nodes ran again; None where the library is missing."""
    if not BY_NAME[library].is_installed:
        return None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    with TemporaryDirectory() as name:
        command = [BY_NAME[library].python, "-m", "benchmarks.kills", "--one", library, name]
        options: Any = {"capture_output": True, "env": environment}
        killed = subprocess.run([*command, "dies"], check=False, **options)  # noqa: S603 - ourselves
        if killed.returncode != -signal.SIGKILL:
            return None
        subprocess.run([*command, "resumes"], check=True, **options)  # noqa: S603 - ourselves
        calls = Counter((Path(name) / "calls").read_text().split())
    if len(calls) != LENGTH:
        raise AssertionError(f"{library}: {LENGTH - len(calls)} nodes never ran")
    return sum(calls.values()) - LENGTH


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Count the nodes that run again after kill -9.")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        library, folder, deed = options.one
        return LIBRARIES[library](Path(folder), deed == "dies")
    print(f"kill -9 inside node {VICTIM} of {LENGTH}, then resume: nodes that ran again, in each trial")
    for library in LIBRARIES:
        found = [repeated(library) for _ in range(options.trials)]
        print(f"  {library:<12}", "not installed" if None in found else " ".join(map(str, found)))
    return None


if __name__ == "__main__":
    main()
