"""Settings every test shares.

Properties are tried on the same examples each time, so that a fresh clone is as green as the last one;
`HYPOTHESIS_PROFILE=explore make test` looks for new ones. No deadline: a busy machine is not a bug.
"""

import gc
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=50)
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

_EVERY = os.environ.get("HYPERGRAPH_EVERY_RUNNER_AND_STORE")
_RUNNERS = ("durable", "call")  # the fixtures that come with either runner; "store" comes with either store


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take two of the four pairs of a runner and a store for each case; which two, changes from case to case.

    `make prove` takes all four, and so does a test that is named.
    """
    if _EVERY or any("::" in argument for argument in config.args):
        return
    left = [item for item in items if _is_spared(item)]
    if left:
        spared = set(map(id, left))
        items[:] = [item for item in items if id(item) not in spared]
        config.hook.pytest_deselected(items=left)


def _is_spared(item: pytest.Item) -> bool:
    spec = getattr(item, "callspec", None)
    pairs: dict[str, int] = getattr(spec, "indices", {})
    runner = next((name for name in _RUNNERS if name in pairs), None)
    if spec is None or runner is None or "store" not in pairs:
        return False
    case = [item.nodeid.partition("[")[0], *spec.id.split("-")]
    for name in (("sync", "async")[pairs[runner]], ("memory", "sqlite")[pairs["store"]]):
        if name not in case:  # these are other runners, or other stores
            return False
        case.remove(name)
    return bool((pairs[runner] + pairs["store"] + zlib.crc32("-".join(case).encode())) % 2)


gc.disable()  # until all tests are found: hardly anything of it is garbage


def pytest_collection_finish() -> None:
    """Leave what was found out of every later search for garbage: most of a million objects, to the end."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Remove the secret."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)
