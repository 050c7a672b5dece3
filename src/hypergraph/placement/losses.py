"""Workers that die: how each kind of executor says so, and what can be done about it."""

from __future__ import annotations

import sys
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from typing import Any

from hypergraph.exceptions import WorkerLostError, safe_text

# By name, so that none of these packages has to be there. A call is never cancelled by anybody but its own
# run, so a cancelled one was dropped by its executor.
_LOST = {
    *("KilledWorker", "CommClosedError", "WorkerCrashedError", "RayActorError", "NodeDiedError"),
    *("OwnerDiedError", "LocalRayletDiedError"),
}


def loss_of(error: Exception, executor: Executor, path: str) -> WorkerLostError | None:
    """Return what to raise for an executor's error if it means that a worker died, else None."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if not (isinstance(error, BrokenExecutor | CancelledError) or _LOST & names):
        return None
    why = f"{type(error).__name__}: {safe_text(error)}".rstrip(": ")
    stays_broken = isinstance(error, BrokenExecutor) and _loky(executor) is None
    if stays_broken:
        why += (
            f"\nHow to fix: a broken {type(executor).__name__} stays broken. Make a new one and run again "
            "(a store keeps finished steps), or use an executor that replaces workers: loky, Dask, Ray. "
            'If it broke at its first call, put what the script does below `if __name__ == "__main__":`.'
        )
    return loss(path, why, is_final=stays_broken or "KilledWorker" in names)  # Dask has tried that often


def loss(path: str, why: str, *, is_final: bool) -> WorkerLostError:
    """Return the error for a call whose worker is gone."""
    text = f"The worker that called node {path!r} died: {why}"
    return WorkerLostError(text, node_name=path, is_final=is_final)


def renewed(executor: Executor) -> Executor:
    """Return the executor to submit to; loky puts a new one in the place of one that broke."""
    loky = _loky(executor)
    if loky is not None and executor._flags.broken:  # type: ignore[attr-defined]  # loky's own
        fresh: Executor = loky.get_reusable_executor(reuse=True)
        return fresh
    return executor


def _loky(executor: Executor) -> Any:
    """Return loky if this is its reusable executor."""
    loky = sys.modules.get("loky")
    is_reusable = type(executor).__name__ == "_ReusablePoolExecutor"
    return loky if loky is not None and is_reusable else None
