"""A program killed at every call that changes a file, or in its midst, or told that the disk is full or bad.

Killed or torn, the program is started again and gives what it gives without a crash. A call that fails comes
out as an error of ours, with nothing lost that was written before, and the next start finishes.
"""

from __future__ import annotations

import errno
import random
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import Elsewhere

from hypergraph.exceptions import CheckpointError
from proofs import kills, sample, shim
from proofs.outcome import Outcome, scaled
from proofs.sample import Manner

NAME = "faults of system calls"


class Fault(NamedTuple):
    """What happens to a call."""

    name: str
    action: int
    error: int = 0


FAULTS = (
    Fault("kill", shim.KILL),
    Fault("tear", shim.TEAR),
    Fault("ENOSPC", shim.REFUSE, errno.ENOSPC),
    Fault("EIO", shim.REFUSE, errno.EIO),
)


def counted(folder: Path, manner: Manner) -> list[shim.Call]:
    """Run the program undisturbed; return the calls it made that changed files."""
    sample.store_in(folder)
    shim.arm(folder / "store", log=folder / "log")
    sample.run(folder, manner)
    shim.disarm()
    return shim.calls_in(folder / "log")


def faulty(folder: Path, manner: Manner, fault: Fault, at: int) -> str | None:
    """Run the program with a fault; return what came out of it that must not."""
    sample.store_in(folder)
    shim.arm(folder / "store", fault.action, at, fault.error)
    try:
        sample.run(folder, manner)
    except CheckpointError:
        return None
    except BaseException as error:
        return f"{type(error).__module__}.{type(error).__name__} came out: {error}"
    finally:
        shim.disarm()
    return None


def _case(elsewhere: Elsewhere, whole: kills.Whole, manner: Manner, fault: Fault, at: int) -> str | None:
    with sample.scratch() as folder:
        _, came_out = elsewhere.ends(faulty, folder, manner, fault, at)
        dead, found = elsewhere.ends(kills.resumed, folder, manner)
    flaws = [repr(found)] if dead or isinstance(found, Exception) else kills.differences(whole, found)
    if came_out is not None:
        flaws.append(str(came_out))
    if not flaws:
        return None
    case = f"{manner}, {fault.name!r}, {at}"
    return f"{fault.name} at call {at} of {manner}: {'; '.join(flaws)}. Repeat: syscalls.once({case})"


def once(manner: Manner, name: str, at: int) -> str | None:
    """Repeat one case."""
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    with shim.shimmed() as elsewhere, sample.scratch() as folder:
        whole = elsewhere(kills.counted, folder, manner)
        return _case(elsewhere, whole, manner, fault, at)


def _cases(calls: list[shim.Call], scale: float, seed: int) -> list[tuple[Fault, int]]:
    """Return every fault of every call; what has no halves cannot be torn."""
    every = [
        (fault, at)
        for at, call in enumerate(calls, 1)
        for fault in FAULTS
        if fault.action != shim.TEAR or len(call.data) > 1
    ]
    return every if scale >= 1 else random.Random(seed).sample(every, scaled(len(every), scale))


def _some_of(part: int, parts: int, scale: float, seed: int) -> Outcome:
    """Try every so many of all cases."""
    outcome, manner = Outcome(NAME), Manner(brief=scale <= 1)
    with shim.shimmed() as elsewhere:
        with sample.scratch() as folder:
            whole: Any = elsewhere(kills.counted, folder, manner)
        with sample.scratch() as folder:
            calls = elsewhere(counted, folder, manner)
        for fault, at in _cases(calls, scale, seed)[part::parts]:
            outcome.count(_case(elsewhere, whole, manner, fault, at))
    return outcome


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Let every call fail in every way, or some of them."""
    outcome = Outcome(NAME)
    if shim.compiler() is None:
        outcome.skipped = shim.MISSING
        return outcome
    return kills.in_two(outcome, partial(_some_of, scale=scale, seed=seed))
