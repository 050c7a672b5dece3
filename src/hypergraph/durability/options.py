"""History options of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypergraph.checkpointers.names import check_tags


class Wishes(NamedTuple):
    """The options of a call that concern its history, as given."""

    history: Any = None
    checkpoint: Any = None
    fork_from: Any = None
    code_change: str = "keep"
    new_turn: bool = False
    tags: Mapping[str, str] | None = None
    wait: bool = False
    force: bool = False
    key: Any = None

    @property
    def forks(self) -> bool:
        """Whether the workflow begins with the history of another one."""
        return self.history is not None or self.fork_from is not None


NO_WISHES = Wishes()


def checked_wishes(wishes: Wishes) -> Wishes:
    """Return the options if they are sound, a fork in its full form. Raises ValueError or TypeError."""
    if wishes.code_change not in ("keep", "rerun", "error"):
        raise ValueError(f'Invalid code_change: {wishes.code_change!r}. Use "keep", "rerun" or "error".')
    origins = [name for name in ("history", "checkpoint", "fork_from") if getattr(wishes, name) is not None]
    if len(origins) > 1:
        raise ValueError(f"A fork has one origin; pass either {' or '.join(origins)}.")
    if wishes.tags is not None:
        check_tags(wishes.tags)
    if wishes.history is not None:
        _check_steps("history", wishes.history)
    if wishes.checkpoint is not None:
        if not isinstance(getattr(wishes.checkpoint, "values", None), Mapping):
            raise TypeError(f"checkpoint must be a Checkpoint, got {type(wishes.checkpoint).__name__}")
        _check_steps("checkpoint", wishes.checkpoint.steps)
    if wishes.fork_from is not None:
        return wishes._replace(fork_from=_origin(wishes.fork_from))
    return wishes


def _check_steps(option: str, steps: Any) -> None:
    if not isinstance(steps, Sequence) or not all(hasattr(step, "input_versions") for step in steps):
        raise TypeError(
            f"{option} must hold StepRecords, as a checkpoint's steps do, got {type(steps).__name__}"
        )
    origins = {step.workflow_id for step in steps}
    if len(origins) > 1:
        raise ValueError(f"{option} must be of one workflow, got steps of {', '.join(sorted(origins))}")


def _origin(given: Any) -> tuple[str, int | None]:
    """Return id and superstep; None for the superstep means everything."""
    fits = isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str)
    if not fits or not (given[1] is None or (type(given[1]) is int and given[1] >= 0)):
        raise ValueError(f'fork_from must be an id and a superstep, as in ("order-456", 3), got {given!r}')
    return given[0], given[1]
