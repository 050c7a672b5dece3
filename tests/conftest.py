"""Settings every test shares.

Properties are tried on the same examples each time, so that a fresh clone is as green as the last one;
`HYPOTHESIS_PROFILE=explore make test` looks for new ones. No deadline: a busy machine is not a bug.
"""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# The secret of caches is not the user's own.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="state")

# Programs that tests start find the package of this checkout, and the modules that tests share.
_TESTS = Path(__file__).parent
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(_TESTS.parent / "src"), str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
)


def _only_sqlite_opens_databases(event: str, args: tuple[Any, ...]) -> None:
    """Fail where the library itself opens a database file: closing it frees SQLite's locks on the file."""
    if event != "open" or not isinstance(args[0], str) or args[2] & os.O_EXCL:
        return
    module = sys.modules.get("hypergraph.checkpointers.sqlite.database")
    if args[0] in getattr(module, "_BY_PATH", ()):  # a module that is being imported has none yet
        caller = sys._getframe(1).f_globals["__name__"]
        assert not caller.startswith("hypergraph."), f"{caller} opens {args[0]}"


sys.addaudithook(_only_sqlite_opens_databases)

gc.disable()  # until all tests are found: hardly anything of it is garbage


def pytest_collection_finish() -> None:
    """Leave what was found out of every later search for garbage: most of a million objects, to the end."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Remove the secret."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)
