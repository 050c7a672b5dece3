"""Options of one call of a runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from hypergraph.engine.admission import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from hypergraph.checkpointers.records import Checkpoint, StepRecord


class RunOptions:
    """The options of one call, frozen: made by a runner, read by the engine and by the recorder.

    `vars(options)` holds what was given and differs from its default; the defaults are those of the class.
    `BaseRunner.run` and `BaseRunner.map` explain the options.
    """

    select: Any = UNSET
    on_missing: str = "ignore"
    on_internal_override: str = "warn"
    entrypoint: str | None = None
    max_iterations: int | None = None
    max_concurrency: int | None = None
    error_handling: str = "raise"
    event_processors: Any = None
    timeout: float | None = None
    executor: Executor | Mapping[str, Executor] | None = None
    run_id: str | None = None
    workflow_id: str | None = None
    services: Mapping[str, Any] | None = None
    budget: Mapping[str, float] | None = None
    # history
    history: Sequence[StepRecord] | None = None
    checkpoint: Checkpoint | None = None
    fork_from: tuple[str, int | None] | None = None
    code_change: str = "keep"
    new_turn: bool | str = False  # or "if-completed"
    keep_steps: bool = False
    restart: str | None = None  # None is "node" for a map; a run leaves the failed items in it alone
    tags: Mapping[str, str] | None = None
    wait: bool = False
    force: bool = False
    # maps
    map_over: str | Sequence[str] = ()
    map_mode: str = "zip"
    clone: bool | list[str] = False
    key: str | Sequence[str] | Callable[[dict[str, Any]], Any] | None = None

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def replace(self, **changes: Any) -> RunOptions:
        """Return the same options with some changed."""
        return RunOptions(**{**self.__dict__, **changes})

    @property
    def forks(self) -> bool:
        """Whether the workflow begins with the history of another one."""
        return self.history is not None or self.fork_from is not None

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"RunOptions are frozen: cannot set {name!r}; use replace()")

    def __repr__(self) -> str:
        return f"RunOptions({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


DEFAULTS = RunOptions()
