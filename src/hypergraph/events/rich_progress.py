"""Progress display on stderr: bars in a terminal, timestamped lines elsewhere.

Shows names, counts and the reason of a failure; never inputs, outputs, chunks or answers. Nodes inside map
items are counted, not shown. `rich` is imported when a processor is created, so importing this module is
cheap.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hypergraph.display import escape, first_line
from hypergraph.events.processor import TypedEventProcessor
from hypergraph.events.types import (
    Event,
    InterruptEvent,
    NodeEndEvent,
    NodeErrorEvent,
    NodeProgressEvent,
    NodeStartEvent,
    RunEndEvent,
    RunStartEvent,
)
from hypergraph.records import RunStatus

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_MODES = ("auto", "tty", "non-tty")
_MILESTONES = (100, 75, 50, 25, 10)


@dataclass(slots=True, eq=False)
class _Run:
    """An open run: its parent and its progress. Ticks are items for a map, nodes otherwise."""

    name: str
    parent: _Run | None = None
    is_map: bool = False
    total: int | None = None
    done: int = 0
    failed: int = 0
    milestone: int = 0
    nodes: dict[str, str] = field(default_factory=dict)  # open node spans and their names, oldest first

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def hidden(self) -> bool:
        """Whether this run is an item of a map or inside one."""
        return self.parent is not None and (self.parent.is_map or self.parent.hidden)

    @property
    def count(self) -> str:
        """The progress as text."""
        done = f"{self.done}/{self.total}" if self.is_map and self.total is not None else str(self.done)
        return f"{done}, {self.failed} failed" if self.failed else done

    def tick(self, failed: bool) -> None:
        self.done += 1
        self.failed += failed

    def new_percentage(self) -> int | None:
        """What is done, in percent, if that passes a milestone."""
        percent = self.done * 100 // self.total if self.total else 0
        reached = next((milestone for milestone in _MILESTONES if percent >= milestone), 0)
        if reached <= self.milestone:
            return None
        self.milestone = reached
        return percent


class _Lines:
    """One line per event. The end of a nested run has no line: its node has one."""

    def note(self, when: float, text: str) -> None:
        # stderr is looked up late (it may be replaced) and can encode any character.
        print(time.strftime("[%H:%M:%S]", time.localtime(when)), text, file=sys.stderr, flush=True)

    def draw(self, run: _Run) -> None:
        pass

    def finish(self, run: _Run, when: float, text: str, completed: bool) -> None:
        if run.parent is None:
            self.note(when, text if completed else _counted(run, text))

    def close(self) -> None:
        pass


class _Bars:
    """A bar per run, nested ones indented; transient bars disappear at the end, failures stay."""

    def __init__(self, console: Console, transient: bool) -> None:
        self._console = console
        self._transient = transient
        self._progress: Progress | None = None
        self._rows: dict[_Run, TaskID] = {}

    def note(self, when: float, text: str) -> None:
        pass

    def draw(self, run: _Run) -> None:
        progress, row = self._row(run)
        node = next(reversed(run.nodes.values()), "")
        progress.update(row, completed=run.done, count=run.count, note=node)

    def finish(self, run: _Run, when: float, text: str, completed: bool) -> None:
        progress, row = self._row(run)
        del self._rows[run]
        outermost, told = run.parent is None, False
        if outermost and not self._transient:
            whole = run.total or run.done + (not completed) or 1
            told = _is_roomy(self._console) and len(text) <= self._console.width * 2 // 5
            done, note = whole if completed else run.done, text if told else text[0]
            progress.update(row, total=whole, completed=done, count=run.count, note=note)
            progress.stop_task(row)
        else:
            progress.remove_task(row)
            text = _counted(run, text)
        if outermost and not completed and not told:
            self._console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._rows.clear()

    def _row(self, run: _Run) -> tuple[Progress, TaskID]:
        """Return the display and the row of the run; create them if necessary."""
        if self._progress is None:
            self._progress = _new_progress(self._console, self._transient)
            self._progress.start()
        if run not in self._rows:
            title = "  " * run.depth + run.name
            self._rows[run] = self._progress.add_task(title, total=run.total, count="", note="")
        return self._progress, self._rows[run]


class RichProgressProcessor(TypedEventProcessor):
    """Show the progress of runs on stderr: bars in a terminal, lines otherwise or on request.

    `transient` bars disappear when the outermost run has ended. `force_mode` is "auto", "tty" or
    "non-tty", which does without rich. Raises ValueError for another mode and ImportError without rich.
    """

    def __init__(
        self, *, transient: bool = True, force_mode: Literal["auto", "tty", "non-tty"] = "auto"
    ) -> None:
        if force_mode not in _MODES:
            raise ValueError(f"force_mode must be one of {', '.join(map(repr, _MODES))}, not {force_mode!r}")
        self._view: _Lines | _Bars = _Lines()
        if force_mode != "non-tty":
            console = _new_console(forced=force_mode == "tty")
            if force_mode == "tty" or console.is_interactive:
                self._view = _Bars(console, transient)
        self._spans: dict[str, _Run] = {}  # an open run's span -> the run; an open node's span -> its run
        self._quarters: dict[str, int] = {}  # of the progress of open nodes, as shown in lines
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Show one event; runs in several threads may share this processor."""
        with self._lock:
            super().on_event(event)

    def shutdown(self) -> None:
        """Release the terminal. Other open runs take it again with their next event."""
        with self._lock:
            self._view.close()

    def on_run_start(self, event: RunStartEvent) -> None:
        """Open a bar, unless the run is inside a map item."""
        parent = self._spans.get(event.parent_span_id or "")
        run = _Run(_shown(event.graph_name), parent, event.is_map, event.map_size if event.is_map else None)
        self._spans[event.span_id] = run
        self._draw(run)

    def on_run_end(self, event: RunEndEvent) -> None:
        """Close the bar or print the status; count the run if it was a map item."""
        run = self._spans.pop(event.span_id, None) or _Run(_shown(event.graph_name))
        for span in run.nodes:  # nodes that were cut off never close their spans
            self._spans.pop(span, None)
        if run.parent is not None and run.parent.is_map:
            run.parent.tick(failed=event.status is RunStatus.FAILED)
            self._show_milestone(run.parent, event.timestamp)
        if not run.hidden:
            completed = event.status is RunStatus.COMPLETED
            self._view.finish(run, event.timestamp, _ending(run, event), completed)
        if not self._spans:
            self._view.close()

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Show the node that starts, unless it is restored from history."""
        run = self._spans.get(event.parent_span_id or "")
        name = _shown(event.node_name)
        if run is not None:
            run.nodes[event.span_id] = name
            self._spans[event.span_id] = run
            self._draw(run)
        if not event.replayed and not (run and run.hidden):
            self._view.note(event.timestamp, f"▶ {name} started")

    def on_node_end(self, event: NodeEndEvent) -> None:
        """Count the node; one restored from history has no line."""
        self._close_node(event, None if event.replayed else "✓ {} completed")

    def on_node_error(self, event: NodeErrorEvent) -> None:
        """Count the node as failed."""
        self._close_node(event, "✗ {} FAILED", failed=True)

    def on_interrupt(self, event: InterruptEvent) -> None:
        """Show which node waits for an answer."""
        self._close_node(event, "⏸ {} paused", counted=False)

    def on_node_progress(self, event: NodeProgressEvent) -> None:
        """Show how far a node is: beside the bar of its run, or a line at each quarter."""
        span = event.parent_span_id or ""
        run = self._spans.get(span)
        if run is None or run.hidden:
            return
        share = None if event.total is None else min(event.done / event.total, 1.0) if event.total else 1.0
        of = f"{event.done:g}" if event.total is None else f"{event.done:g}/{event.total:g}"
        name = _shown(event.node_name)
        run.nodes[span] = " ".join(filter(None, (name, of, _line(event.text))))
        self._draw(run)
        percent = 0 if share is None else int(share * 100)
        if percent // 25 > self._quarters.get(span, 0):
            self._quarters[span] = percent // 25
            self._view.note(event.timestamp, f"▶ {name} {percent}% ({of})")

    def _close_node(
        self,
        event: NodeEndEvent | NodeErrorEvent | InterruptEvent,
        line: str | None,
        *,
        failed: bool = False,
        counted: bool = True,
    ) -> None:
        run = self._spans.pop(event.span_id, None)
        self._quarters.pop(event.span_id, None)
        if run is not None:
            run.nodes.pop(event.span_id, None)
            if counted:
                run.tick(failed)
            self._draw(run)
        if line is not None and not (run and run.hidden):
            self._view.note(event.timestamp, line.format(_shown(event.node_name)))

    def _draw(self, run: _Run) -> None:
        if not run.hidden:
            self._view.draw(run)

    def _show_milestone(self, run: _Run, when: float) -> None:
        if run.hidden:
            return
        self._view.draw(run)
        percent = run.new_percentage()
        if percent is not None:
            self._view.note(when, f"▶ {run.name} {percent}% ({run.count})")


def _ending(run: _Run, event: RunEndEvent) -> str:
    """Return the last line about a run."""
    if event.status is RunStatus.COMPLETED:
        return f"✓ {run.name} completed!"
    if event.status is RunStatus.PAUSED:
        return f"⏸ {run.name} paused"
    if event.status is RunStatus.STOPPED:
        return f"■ {run.name} stopped"
    reason = first_line(event.error or "")
    outcome = "partial" if event.status is RunStatus.PARTIAL else "failed"
    return f"✗ {run.name} {outcome}: {reason}" if reason else f"✗ {run.name} {outcome}"


def _counted(run: _Run, text: str) -> str:
    """Return the last line about a run; of a map, with how many items have ended and failed."""
    return f"{text} ({run.count})" if run.is_map else text


def _line(text: str) -> str:
    return escape(first_line(text)) if text else ""


def _shown(name: str) -> str:
    return escape(name) or "unnamed"


def _new_console(forced: bool) -> Console:
    try:
        # Import from the package: a missing rich raises even if its submodules are loaded.
        from rich import console
    except ImportError as error:
        raise ImportError(
            "RichProgressProcessor needs rich: install it with pip install 'hypergraph[progress]'"
        ) from error
    return console.Console(stderr=True, force_terminal=forced or None)


def _is_roomy(console: Console) -> bool:
    return console.width >= 60


def _new_progress(console: Console, transient: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    def text(field: str, widest: int | None = None) -> TextColumn:
        column = Column(no_wrap=True, overflow="ellipsis", max_width=widest)
        return TextColumn("{task." + field + "}", markup=False, table_column=column)

    columns = [text("description", max(10, console.width * 2 // 5)), BarColumn(), text("fields[count]")]
    if _is_roomy(console):  # else only the progress
        columns += [TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)), text("fields[note]")]
    return Progress(
        *columns,
        console=console,
        transient=transient,
        # Output of nodes goes above the bars; redirected output must still reach its file.
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=sys.stderr.isatty(),
    )
