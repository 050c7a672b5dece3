"""Checks of the options that concern stored history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypergraph.checkpointers.names import check_tags
from hypergraph.engine.options import RunOptions
from hypergraph.records import fresh_run_id

HISTORY_OPTIONS = frozenset((
    *("history", "checkpoint", "fork_from", "code_change", "new_turn", "tags", "wait", "force", "key"),
    *("restart", "keep_steps"),
))  # fmt: skip


def checked_history(options: RunOptions) -> RunOptions:
    """Return the options, those of a fork with a workflow id. Raises ValueError or TypeError."""
    if options.code_change not in ("keep", "rerun", "error"):
        raise ValueError(f'Invalid code_change: {options.code_change!r}. Use "keep", "rerun" or "error".')
    if options.restart not in (None, "node", "item"):
        raise ValueError(f'Invalid restart: {options.restart!r}. Use "node" or "item".')
    if not isinstance(options.new_turn, bool) and options.new_turn != "if-completed":
        raise ValueError(f'Invalid new_turn: {options.new_turn!r}. Use True, False or "if-completed".')
    origins = [name for name in ("history", "checkpoint", "fork_from") if getattr(options, name) is not None]
    if len(origins) > 1:
        raise ValueError(f"A fork has one origin; pass either {' or '.join(origins)}.")
    if options.keep_steps and options.fork_from is None:
        raise ValueError("keep_steps=True keeps the inner steps of what is forked; pass fork_from with it.")
    if options.tags is not None:
        check_tags(options.tags)
    if options.history is not None:
        _check_steps("history", options.history)
    if options.checkpoint is not None:
        if not isinstance(getattr(options.checkpoint, "values", None), Mapping):
            raise TypeError(f"checkpoint must be a Checkpoint, got {type(options.checkpoint).__name__}")
        _check_steps("checkpoint", options.checkpoint.steps)
    if options.fork_from is not None:
        options = options.replace(fork_from=_origin(options.fork_from))
    if origins and options.workflow_id is None:
        made = options.run_id or fresh_run_id()  # like every stored run without an id
        options = options.replace(run_id=made, workflow_id=made)
    return options


def _check_steps(option: str, steps: Any) -> None:
    if not isinstance(steps, Sequence) or not all(hasattr(step, "input_versions") for step in steps):
        raise TypeError(
            f"{option} must hold StepRecords, as a checkpoint's steps do, got {type(steps).__name__}"
        )
    origins = {step.workflow_id for step in steps}
    if len(origins) > 1:
        raise ValueError(
            f"{option} must contain the steps of one workflow, got those of {', '.join(sorted(origins))}"
        )


def _origin(given: Any) -> tuple[str, int | None]:
    """Return id and superstep; None for the superstep means the whole history."""
    fits = isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str)
    if not fits or not (given[1] is None or (type(given[1]) is int and given[1] >= 0)):
        raise ValueError(
            'fork_from must be a workflow id and a superstep, as in ("order-456", 3), or ("order-456", None) '
            f"for the whole history, got {given!r}"
        )
    return given[0], given[1]
