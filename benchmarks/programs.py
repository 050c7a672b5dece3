"""The programs of examples/programs beside their twins in LangGraph: lines, seconds and bytes.

Both take turns in one process and do the same work with the same stand-ins for services: a chat of 40 turns
with two tools each, behind a server; 40 questions of a corrective RAG; 2,000 files, of which 60 are repaired
and loaded again; 20 questions to a supervisor, each with one to a person. Bytes are those of the database
with its artifacts and caches.

python -m benchmarks.programs
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.environments import ROOT
from benchmarks.measure import bytes_of_file
from hypergraph import AsyncRunner

PROGRAMS = ROOT / "examples" / "programs"
TURNS, QUESTIONS, FILES, TASKS = 40, 40, 2_000, 20
ROUNDS = 3


class Program(NamedTuple):
    """A program, its twin, and what does the work of each in an empty folder."""

    folder: str
    files: tuple[str, str]
    ours: Callable[[Path], None]
    twin: Callable[[Path], None]


def lines_of(folder: str, file: str) -> int:
    """Return the lines of a program that are not empty."""
    return sum(bool(line.strip()) for line in (PROGRAMS / folder / file).read_text().splitlines())


def bytes_in(folder: Path) -> int:
    """Return what the databases and other files of a folder take up."""
    for database in folder.glob("*.db"):
        bytes_of_file(database)  # moves what is in the log into it
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def chat(name: str) -> Callable[[Path], None]:
    """Return what holds a chat with a server."""

    def work(folder: Path) -> None:
        tests, models = import_module("test_agent_server"), import_module("model_server")
        os.environ["LEDGER"], os.environ["DATABASE"] = str(folder / "ledger"), str(folder / "chats.db")
        with models.ModelServer() as model:
            os.environ["MODEL_URL"] = model.url
            with tests.serve(name) as client:
                for _ in range(TURNS):
                    found = tests.events(client, "/chats/a", said="weather in Rome and weather in Oslo")
                    assert tests.text(found) == "So: 18 degrees in Rome; 18 degrees in Oslo."

    return work


def research(ask: str) -> Callable[[Path], None]:
    """Return what asks a corrective RAG, each question on a run of its own."""

    def work(folder: Path) -> None:
        asked: Callable[[Path, str, Any], Awaitable[str]] = getattr(import_module("test_rag"), ask)
        service = import_module("service").Service

        async def all_of_them() -> None:
            for number in range(QUESTIONS):
                question = f"How is verdant cha prepared, no. {number}?"
                assert "70 degrees" in await asked(folder, question, service())

        asyncio.run(all_of_them())

    return work


def load(module: str) -> Callable[[Path], None]:
    """Return what loads files on a pool of one process, repairs the broken ones and loads them again."""

    def work(folder: Path) -> None:
        program, files = import_module(module), import_module("files")
        with TemporaryDirectory() as inputs:
            paths, database = files.write_files(Path(inputs), FILES), str(folder / "etl.db")
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                for wanted in (FILES * 3 // 100, 0):
                    found = program.run(paths, database, pool)
                    report, broken = asyncio.run(found) if asyncio.iscoroutine(found) else found
                    assert len(broken) == wanted
                    for path in broken:
                        files.repair(path)
                assert report is not None

    return work


def _question() -> str:
    question: str = import_module("test_supervisor").QUESTION
    return question


async def _supervise(folder: Path) -> None:
    supervisor = import_module("supervisor").supervisor
    runner = AsyncRunner(checkpointer=folder / "runs.db")
    for number in range(TASKS):
        paused = await runner.run(supervisor, question=_question(), workflow_id=str(number))
        answers = {paused.pauses[0].response_key: "mercury (metal)"}
        assert "gallium" in (await runner.run(supervisor, answers, workflow_id=str(number)))["answer"]
    assert runner.checkpointer is not None
    runner.checkpointer.close()


async def _supervise_twin(folder: Path) -> None:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.types import Command

    supervisor = import_module("langgraph_supervisor").supervisor
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        graph = supervisor.compile(checkpointer=saver)
        for number in range(TASKS):
            thread: Any = {"configurable": {"thread_id": str(number)}}
            await graph.ainvoke({"question": _question()}, thread)
            state = await graph.ainvoke(Command(resume="mercury (metal)"), thread)
            assert "gallium" in state["answer"]


ALL = [
    Program("agent_server", ("app.py", "langgraph_app.py"), chat("app"), chat("langgraph_app")),
    Program("corrective_rag", ("rag.py", "langgraph_rag.py"), research("ours"), research("twin")),
    Program("etl", ("etl.py", "langgraph_etl.py"), load("etl"), load("langgraph_etl")),
    Program(
        "supervisor",
        ("supervisor.py", "langgraph_supervisor.py"),
        lambda folder: asyncio.run(_supervise(folder)),
        lambda folder: asyncio.run(_supervise_twin(folder)),
    ),
]


def measured(program: Program, rounds: int = ROUNDS) -> tuple[list[float], list[int]]:
    """Return the best time and the bytes of a program and of its twin."""
    seconds, sizes = [float("inf")] * 2, [0, 0]
    for _ in range(rounds):
        for place, work in enumerate((program.ours, program.twin)):
            with TemporaryDirectory() as folder:
                began = time.perf_counter()
                work(Path(folder))
                seconds[place] = min(seconds[place], time.perf_counter() - began)
                sizes[place] = bytes_in(Path(folder))
    return seconds, sizes


def main() -> None:
    """Print the table."""
    print("| Program | lines | LangGraph | seconds | LangGraph | MB | LangGraph |")
    print("|---|---|---|---|---|---|---|")
    for program in ALL:
        here = str(PROGRAMS / program.folder)
        sys.path.insert(0, here)
        os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        seconds, sizes = measured(program)
        sys.path.remove(here)
        lines = [lines_of(program.folder, file) for file in program.files]
        cells = [f"{a} | {b}" for a, b in (lines, [f"{s:.2f}" for s in seconds])]
        cells.append(" | ".join(f"{size / 1e6:.2f}" for size in sizes))
        print(f"| `{program.folder}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
