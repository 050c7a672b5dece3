"""Demo of the package: a support desk that runs offline and stores its runs in a file.

`desk` is the pipeline, `corpus` its data, `model` a stand-in for a language model, `story` the text; `worker`
and `approve` run as processes of their own.
"""

from typing import TextIO

from hypergraph import SqliteCheckpointer
from hypergraph.demo.page import Page
from hypergraph.demo.story import TAGS, print_story
from hypergraph.views.address import file_of
from hypergraph.views.problems import REFUSED, Problem

__all__ = ["DEFAULT_FILE", "run_demo"]

DEFAULT_FILE = "hypergraph-demo.db"


def run_demo(db: str, out: TextIO) -> int:
    """Run the demo, store its runs in a file, and return the exit code.

    Runs of an earlier demo in the file are removed.

    Raises:
        Problem: the file has workflows of other programs, or is not a SQLite file.
        CheckpointError: the file cannot be used.
    """
    file = file_of(db, must_exist=False)
    store = SqliteCheckpointer(file)
    try:
        _empty(store, file)
        print_story(Page(out), store, file)
    finally:
        store.close()
    return 0


def _empty(store: SqliteCheckpointer, file: str) -> None:
    """Remove the runs of an earlier demo. Raises Problem if there are others."""
    found = store.workflows(limit=None)
    foreign = [workflow.id for workflow in found if not TAGS.items() <= workflow.tags.items()]
    if foreign:
        raise Problem(
            REFUSED,
            f"{file} has workflows of other programs, like {foreign[0]!r}; nothing was changed",
            "Choose another file: hypergraph demo --db ANOTHER.db",
        )
    store.delete(*(workflow.id for workflow in found))
