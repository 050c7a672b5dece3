"""What one run gives back.

A result is made for every run and every map item, so making one costs next to nothing: what is
seldom asked for (run id, log, nested results) is worked out from its source on first access and
then stays the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hypergraph.display import Table, as_html, bounded, did_you_mean, escape, jsonable, plural, preview
from hypergraph.exceptions import NodeError, safe_text
from hypergraph.records import PauseInfo, RunStatus
from hypergraph.runs.log import RunLog

if TYPE_CHECKING:  # a map result is made of run results, and nested in them
    from hypergraph.runs.results import MapResult

_MAX_VALUES = 50
_id_lock = threading.Lock()
_repr_state = threading.local()


def fresh_run_id() -> str:
    """Return a new id; it comes from the system, so neither forks nor a seeded `random` repeat it."""
    return "run-" + os.urandom(6).hex()


def error_text(error: BaseException | None) -> str | None:
    """Return "Type: message"; None without an error."""
    return None if error is None else f"{type(error).__name__}: {safe_text(error)}"


class ResultSource(Protocol):
    """Where a result finds what nobody has asked for yet; each answer must stay the same."""

    def run_id(self) -> str: ...
    def log(self) -> RunLog: ...
    def nested(self) -> dict[str, RunResult | MapResult]: ...


class RunResult:
    """The outcome of one run: its values, how it ended, and its log."""

    # Set only where they differ, because a result is made for every run and every item of a map.
    workflow_id: str | None = None
    error: BaseException | None = None
    pause: PauseInfo | None = None
    failure: NodeError | None = None
    _run_id: str | None = None
    _log: RunLog | None = None
    _nested: dict[str, RunResult | MapResult] | None = None
    _source: ResultSource | None = None

    def __init__(  # noqa: PLR0917 - the fields are its signature
        self,
        values: Mapping[str, Any],
        status: RunStatus,
        run_id: str | None = None,
        workflow_id: str | None = None,
        error: BaseException | None = None,
        pause: PauseInfo | None = None,
        log: RunLog | None = None,
        failure: NodeError | None = None,
        nested: dict[str, RunResult | MapResult] | None = None,
        source: ResultSource | None = None,
    ) -> None:
        self.values = values
        self.status = status
        self.workflow_id = workflow_id
        self.error = error
        self.pause = pause
        self.failure = failure
        self._run_id = run_id
        self._log = log
        self._nested = nested
        self._source = source

    @property
    def run_id(self) -> str:
        """The id of this run."""
        if self._run_id is None:
            run_id = fresh_run_id() if self._source is None else self._source.run_id()
            with _id_lock:  # two threads that ask at once get one answer
                self._run_id = self._run_id or run_id
        return self._run_id

    @property
    def log(self) -> RunLog | None:
        """What the run did, node by node; None only for a result made by hand without one."""
        if self._log is None and self._source is not None:
            self._log = self._source.log()
        return self._log

    @property
    def nested(self) -> dict[str, RunResult | MapResult]:
        """The results of the nested graphs that ran, by node name."""
        if self._nested is None:
            self._nested = {} if self._source is None else self._source.nested()
        return self._nested

    @property
    def completed(self) -> bool:
        """Whether the run came to its end."""
        return self.status is RunStatus.COMPLETED

    @property
    def failed(self) -> bool:
        """Whether a node failed."""
        return self.status is RunStatus.FAILED

    @property
    def paused(self) -> bool:
        """Whether the run waits for an answer; `pause` says for which."""
        return self.status is RunStatus.PAUSED

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before its end."""
        return self.status is RunStatus.STOPPED

    def __getitem__(self, key: str) -> Any:
        """Return a value, or the nested result of the graph node of that name.

        Raises:
            KeyError: neither has that name.
        """
        if key in self.values:
            return self.values[key]
        nested = self.nested
        if key in nested:
            return nested[key]
        names = [*self.values, *(name for name in nested if name not in self.values)]
        available = f"Available: {', '.join(map(repr, names)) or 'nothing'}"
        hints = (f"This {self.status.value} run has no value {key!r}.", did_you_mean(key, names), available)
        raise KeyError(" ".join(hint for hint in hints if hint))

    def __contains__(self, key: object) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default when there is none of that name."""
        return self.values.get(key, default)

    def summary(self) -> str:
        """Return one line: the log's summary, or without a log the status and the error."""
        if self.log is not None:
            return self.log.summary()
        error = error_text(self.error)
        return self.status.value if error is None else f"{self.status.value}: {escape(error)}"

    def to_dict(self) -> dict[str, Any]:
        """Return status, ids, log and error as JSON primitives; never a value."""
        log, error = self.log, error_text(self.error)
        return {
            "status": self.status.value,
            "run_id": jsonable(self.run_id),
            "workflow_id": jsonable(self.workflow_id),
            **({} if log is None else {"log": log.to_dict()}),
            **({} if error is None else {"error": jsonable(error)}),
        }

    def __repr__(self) -> str:
        extras = {"workflow_id": self.workflow_id, "error": self.error, "pause": self.pause}
        shown = [f"{name}={preview(value)}" for name, value in extras.items() if value is not None]
        parts = (self.status.value, f"run_id={preview(self.run_id)}", *shown, self._values_text())
        return bounded(f"RunResult({', '.join(parts)})")

    def _values_text(self) -> str:
        # A result among the values of another is shown without its own: each would begin again
        # at full depth, and a result that contains itself would never end.
        if getattr(_repr_state, "busy", False):
            return "..."
        _repr_state.busy = True
        try:
            return f"values={preview(self.values, depth=3)}"
        finally:
            _repr_state.busy = False

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        names = list(self.values)
        rows = [(name, preview(self.values[name])) for name in names[:_MAX_VALUES]]
        left_out = len(names) - len(rows)
        more = f"... and {plural(left_out, 'more value')}" if left_out else ""
        error = error_text(self.error)
        header = ("RunResult", self.status.value, self.run_id, *([] if error is None else [bounded(error)]))
        own = as_html(header, Table(("Name", "Value"), rows, more))
        return own + ("" if self.log is None else self.log._repr_html_())

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # A copy takes the answers along instead of the source, which belongs to the engine.
        state = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}
        answers = {"_run_id": self.run_id, "_log": self.log, "_nested": self.nested, "_source": None}
        return None, {**state, **answers}
