"""The demo: a support desk at work, offline, in a file that can be looked at afterwards.

`desk` is the pipeline, `corpus` what it works on, `model` a stand-in for a language model, `story` what is
told; `worker` and `approve` are processes of their own.
"""

import asyncio
from typing import TextIO

from hypergraph import SqliteCheckpointer
from hypergraph.demo.page import Page
from hypergraph.demo.story import TAGS, tell
from hypergraph.views.address import file_of
from hypergraph.views.problems import REFUSED, Problem

__all__ = ["DEFAULT_FILE", "run_demo"]

DEFAULT_FILE = "hypergraph-demo.db"


def run_demo(db: str, out: TextIO) -> int:
    """Show what the package does, keep the runs in a file, and return the exit code.

    What an earlier demo left in the file is removed.

    Raises:
        Problem: the file holds workflows that no demo made, or is of no kind that can be used.
        CheckpointError: the file cannot be used.
    """
    file = file_of(db, must_exist=False)
    store = SqliteCheckpointer(file)
    try:
        asyncio.run(_empty(store, file))
        tell(Page(out), store, file)
    finally:
        store.close()
    return 0


async def _empty(store: SqliteCheckpointer, file: str) -> None:
    """Remove what an earlier demo left. Raises Problem if there is anything else."""
    found = await store.list_workflows(limit=None)
    foreign = [workflow.id for workflow in found if not TAGS.items() <= workflow.tags.items()]
    if foreign:
        raise Problem(
            REFUSED,
            f"{file} holds workflows that the demo did not make, like {foreign[0]!r}; nothing was changed",
            "Choose another file: hypergraph demo --db ANOTHER.db",
        )
    store.delete(*(workflow.id for workflow in found))
