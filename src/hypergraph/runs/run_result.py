"""What one run gives back.

A result is a plain bundle of facts. Whoever makes many of them may leave out what is seldom asked for (run
id, log, nested results) and work it out on first access; a copy takes the answers along.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hypergraph.display import Table, as_html, bounded, did_you_mean, escape, jsonable, plural, preview
from hypergraph.exceptions import NodeError, safe_text
from hypergraph.records import PauseInfo, RunStatus, fresh_run_id
from hypergraph.runs.log import RunLog

if TYPE_CHECKING:  # a map result is made of run results, and nested in them
    from hypergraph.runs.results import MapResult

_FIELDS = ("values", "status", "run_id", "workflow_id", "error", "pause", "log", "failure", "nested")
_MAX_VALUES = 50
_repr_state = threading.local()


def error_text(error: BaseException | None) -> str | None:
    """Return "Type: message"; None without an error."""
    return None if error is None else f"{type(error).__name__}: {safe_text(error)}"


class RunResult:
    """The outcome of one run: its values, how it ended, and its log."""

    workflow_id: str | None = None  # of the stored run, if there is one
    error: BaseException | None = None  # the exception that a node raised, if one did
    pause: PauseInfo | None = None  # what the run waits for, if it waits
    failure: NodeError | None = None  # the evidence about the error

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
    ) -> None:
        self.values = values  # the outputs by name; emit names and plain inputs are not among them
        self.status = status  # how it ended
        self.run_id = run_id if run_id is not None else fresh_run_id()  # made unless given
        self.workflow_id = workflow_id
        self.error = error
        self.pause = pause
        self.log = log  # what happened, without values
        self.failure = failure
        self.nested = nested if nested is not None else {}  # results of GraphNodes, by node

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
        values = [Table(("Name", "Value"), rows, more)] if rows else []
        own = as_html(header, *self._waits_for(), *values)
        return own + ("" if self.log is None else self.log._repr_html_())

    def _waits_for(self) -> list[str]:
        if self.pause is None:
            return []
        return [f"{self.pause.node_name} waits for {', '.join(self.pause.response_keys.values())}"]

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (), {name: getattr(self, name) for name in _FIELDS}


def _empty() -> RunResult:
    return RunResult.__new__(RunResult)
