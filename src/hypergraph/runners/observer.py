"""Observer of a run: it turns notifications of the engine into events."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypergraph import events
from hypergraph.engine.nested import MapRun
from hypergraph.engine.plan import Step, inputs_of
from hypergraph.engine.run import CallContext, Run, StepOutcome
from hypergraph.engine.scheduler import results_of
from hypergraph.events.dispatcher import EventDispatcher
from hypergraph.exceptions import safe_text
from hypergraph.records import PauseInfo
from hypergraph.runs.build import decision_text, inner_log, status_of
from hypergraph.runs.log import RunLog

if TYPE_CHECKING:
    from hypergraph.events.types import Event
    from hypergraph.graph.formerly import Renaming


Deliver = Callable[["Event"], Awaitable[None]]


class EventObserver:
    """Build events from notifications of the engine and deliver them in order."""

    def __init__(self, deliver: Deliver, *, values: bool = False) -> None:
        self._deliver = deliver
        self.values = values  # whether a processor wants inputs and outputs
        self.renaming: Renaming | None = None  # of a run that is stored under former names
        self.backlog: deque[Event] = deque()

    async def _emit(self, event: Event) -> None:
        await self.drain()
        await self._deliver(self.shown(event))

    async def drain(self) -> None:
        """Deliver the backlog."""
        while self.backlog:
            await self._deliver(self.shown(self.backlog.popleft()))

    def shown(self, event: Event) -> Event:
        """Return an event under the names of today."""
        if self.renaming is None:
            return event
        fields: dict[str, Any] = {
            name: found
            for name in ("path", "node_name", "inputs", "outputs", "decision", "response_param")
            if (found := getattr(event, name, None))
        }
        around = self.renaming.inside(fields.get("path", ()))
        shown: dict[str, Callable[[Any], Any]] = {
            "path": self.renaming.path,
            "node_name": around.node,
            "inputs": around.named,
            "outputs": around.named,
            "decision": around.decision,
            "response_param": around.value,
        }
        changes = {name: shown[name](found) for name, found in fields.items()}
        return replace(event, **changes) if changes else event

    async def run_started(self, run: Run) -> None:
        """Open the span of a run."""
        run.span_id = events.fresh_span_id()
        await self._emit(events.RunStartEvent(**_own(run, run.graph_name), workflow_id=run.workflow_id))

    async def replayed(self, run: Run) -> None:
        """Emit start and end of the steps that were restored from history."""
        for _, step, *_ in run.resumed.rows:
            start = events.NodeStartEvent(**_inside(run), node_name=step.name, replayed=True)
            await self._emit(start)
            await self._emit(
                events.NodeEndEvent(**_inside(run), span_id=start.span_id, node_name=step.name, replayed=True)
            )

    async def checkpoint_saved(self, run: Run, indexes: tuple[int, ...]) -> None:
        """Emit which steps became durable."""
        await self._emit(
            events.CheckpointSavedEvent(
                run_id=run.run_id,
                parent_span_id=run.span_id or None,
                **_place(run),
                workflow_id=run.workflow_id,
                superstep=run.journal.superstep,  # type: ignore[union-attr]  # only journals save steps
                steps=indexes,
            )
        )

    async def run_ended(self, run: Run) -> None:
        """Close the span of a run, with any status."""
        await self._emit(
            events.RunEndEvent(
                **_own(run, run.graph_name),
                status=run.status,
                error=None if run.error is None else safe_text(run.error),
                duration_ms=(run.stopped_at - run.started) * 1000,
            )
        )

    async def map_started(self, map_run: MapRun) -> None:
        """Open the span of a map, the parent of its items."""
        map_run.span_id = events.fresh_span_id()
        await self._emit(
            events.RunStartEvent(
                **_own(map_run, map_run.admission.graph.name),
                workflow_id=map_run.workflow_id,
                is_map=True,
                map_size=len(map_run.items),
            )
        )

    async def map_ended(self, map_run: MapRun) -> None:
        """Close the span of a map."""
        bad = map_run.ended_badly
        await self._emit(
            events.RunEndEvent(
                **_own(map_run, map_run.admission.graph.name),
                status=status_of(map_run),
                error=None if bad is None else safe_text(bad.error),
                duration_ms=(map_run.stopped_at - map_run.started) * 1000,
            )
        )

    async def superstep_started(self, run: Run, superstep: int) -> None:
        """Emit the start of a superstep."""
        await self._emit(events.SuperstepStartEvent(**_inside(run), superstep=superstep))

    async def node_started(self, run: Run, step: Step) -> str:
        """Open the span of a node and return its id."""
        taken = _taken(run, step) if self.values else None
        event = events.NodeStartEvent(**_inside(run), node_name=step.name, inputs=taken)
        _spans(run)[step.name] = (event.span_id, 0)
        await self._emit(event)
        return event.span_id

    async def node_ended(
        self, run: Run, step: Step, outcome: StepOutcome, seconds: float, value: Any
    ) -> None:
        """Close the span of a node."""
        await self._emit(
            events.NodeEndEvent(
                **_inside(run),
                span_id=outcome.span_id,
                node_name=step.name,
                duration_ms=seconds * 1000,
                cached=outcome.cached,
                inner_logs=_logs(outcome.inner),
                **_done_inside(outcome),
                outputs=results_of(step, value) if self.values else None,
            )
        )

    async def node_failed(self, run: Run, step: Step, outcome: StepOutcome, error: BaseException) -> None:
        """Close the span of a node that failed."""
        await self._emit(
            events.NodeErrorEvent(
                **_inside(run),
                span_id=outcome.span_id,
                node_name=step.name,
                **_text(error),
                **_done_inside(outcome),
            )
        )

    async def node_retried(
        self, run: Run, step: Step, attempt: int, error: BaseException, delay: float
    ) -> None:
        """Emit that a failed attempt will be retried."""
        await self._emit(
            events.NodeRetryEvent(
                **_inside(run), node_name=step.name, attempt=attempt, delay_s=delay, **_text(error)
            )
        )

    async def cache_hit(self, run: Run, step: Step, key: str) -> None:
        """Emit a cache hit."""
        await self._emit(events.CacheHitEvent(**_inside(run), node_name=step.name, cache_key=key))

    async def decided(self, run: Run, step: Step, decision: Any) -> None:
        """Emit the decision of a gate."""
        await self._emit(
            events.RouteDecisionEvent(**_inside(run), node_name=step.name, decision=decision_text(decision))
        )

    async def interrupted(self, run: Run, step: Step, span_id: str, pause: PauseInfo) -> None:
        """Emit that the run waits for an answer, and close the span of the node."""
        await self._emit(
            events.InterruptEvent(
                **_inside(run),
                span_id=span_id,
                node_name=step.name,
                workflow_id=run.workflow_id,
                value=pause.value,
                response_param=".".join((*pause.path[len(run.trail) :], pause.response_param)),
            )
        )

    def chunk(self, run: Run, name: str, chunk: Any) -> None:
        """Emit a chunk, from inside a node."""
        span_id, count = _spans(run).get(name, ("", 0))
        _spans(run)[name] = (span_id, count + 1)
        self.backlog.append(
            events.StreamingChunkEvent(
                run_id=run.run_id,
                parent_span_id=span_id or None,
                **_place(run),
                graph_name=run.graph_name,
                node_name=name,
                chunk=chunk,
                chunk_index=count,
            )
        )
        self.flush()

    def progress(self, run: Run, name: str, done: float, total: float | None, text: str) -> None:
        """Emit how far a node is, from inside of it."""
        span_id, _ = _spans(run).get(name, ("", 0))
        self.backlog.append(
            events.NodeProgressEvent(
                run_id=run.run_id,
                parent_span_id=span_id or None,
                **_place(run),
                graph_name=run.graph_name,
                node_name=name,
                done=done,
                total=total,
                text=text,
            )
        )
        self.flush()

    def flush(self) -> None:
        """Deliver the backlog without waiting; subclasses that can do so override this."""

    def stop_requested(self, context: CallContext, info: Any) -> None:
        """Emit a stop request."""
        root = context.root
        if root is not None:
            self.backlog.append(  # the request may come from another thread: the run delivers it
                events.StopRequestedEvent(
                    run_id=root.run_id,
                    parent_span_id=root.span_id or None,
                    workflow_id=root.workflow_id,
                    info=info,
                )
            )


def _own(run: Run | MapRun, graph_name: str | None) -> dict[str, Any]:
    """Return the common fields of the first and the last event of a run."""
    return {
        "run_id": run.run_id,
        "span_id": run.span_id,
        "parent_span_id": run.outer_span_id or None,
        "graph_name": graph_name or "",
        **_place(run),
    }


def _done_inside(outcome: StepOutcome) -> dict[str, Any]:
    """Return what a function did with its context, if anything."""
    visit = outcome.visit
    return {} if visit is None else {"steps": visit.logged, "usage": visit.total}


def _place(run: Run | MapRun) -> dict[str, Any]:
    """Return the item and the path of a run; there is none for most."""
    if isinstance(run, Run):
        is_alone = run.parent is None and run.map_run is None
        return {} if is_alone else {"item_index": _item_of(run), "path": run.trail}
    around = run.parent
    return {} if around is None else {"item_index": _item_of(around), "path": (*around.trail, run.step_name)}


def _item_of(run: Any) -> int | None:
    """Return the index of the innermost item that a run is, or is inside of."""
    while run is not None:
        if getattr(run, "map_run", None) is not None:
            return int(run.item_index)
        run = run.parent
    return None


def _taken(run: Run, step: Step) -> dict[str, Any]:
    return run.graph_inputs(step) if step.kind == "graph" else inputs_of(step, run.values)


def _spans(run: Run) -> dict[str, tuple[str, int]]:
    if run.spans is None:
        run.spans = {}
    return run.spans


def _inside(run: Run) -> dict[str, Any]:
    inside = {"run_id": run.run_id, "parent_span_id": run.span_id, "graph_name": run.graph_name}
    return inside if run.parent is None and run.map_run is None else {**inside, **_place(run)}


def _text(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    return {"error": safe_text(error), "error_type": f"{kind.__module__}.{kind.__qualname__}"}


def _logs(inner: Any) -> tuple[RunLog, ...]:
    if inner is None:
        return ()
    log = inner_log(inner)
    return (log,) if isinstance(log, RunLog) else tuple(log.items)


class SyncObserver(EventObserver):
    """Deliver events by plain calls, chunks at once."""

    def __init__(self, dispatcher: EventDispatcher) -> None:
        async def deliver(event: Event) -> None:
            dispatcher.emit(event)

        super().__init__(deliver, values=dispatcher.values)
        self._dispatcher = dispatcher

    def flush(self) -> None:
        """Deliver the backlog at once."""
        while self.backlog:
            self._dispatcher.emit(self.shown(self.backlog.popleft()))
