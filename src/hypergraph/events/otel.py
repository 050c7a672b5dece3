"""OpenTelemetry spans for runs: one tree per outermost run, with names, statuses and times, never a value.

The root of a tree is a child of the span that is current when the run starts. The span of a node is current
while the node runs, so spans that the node creates (a query, a request) are its children. Exception messages
may quote values and are left out by default. `opentelemetry` is imported when a processor is created: only
its API, which does nothing until the application sets up an SDK.

The events of one outermost run arrive one at a time, and concurrent runs share only a dict of open spans:
no lock is held while a span is exported. A span is dropped as soon as it has ended.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypergraph.display import bounded, jsonable
from hypergraph.events.processor import TypedEventProcessor
from hypergraph.events.types import (
    BaseEvent,
    CacheHitEvent,
    InterruptEvent,
    NodeEndEvent,
    NodeErrorEvent,
    NodeRetryEvent,
    NodeStartEvent,
    RouteDecisionEvent,
    RunEndEvent,
    RunStartEvent,
    StopRequestedEvent,
)
from hypergraph.records import RunStatus

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

_GEN_AI = frozenset(("input_tokens", "output_tokens"))
_OWN = "hypergraph.open-span"  # the key of our span in a context


@dataclass(slots=True, eq=False)
class _Open:
    """An open span. `inside` is the context in which it is current, `before` the one it started in."""

    owner: OpenTelemetryProcessor
    event: RunStartEvent | NodeStartEvent
    span: Span
    before: Context
    inside: Context
    parent: _Open | None
    children: dict[str, _Open] = field(default_factory=dict)  # nodes by name, runs by the id of their span
    error_type: str | None = None  # of the first failure inside
    ended: bool = False

    @property
    def key(self) -> str:
        """The key among the children of the parent; a run has each node open only once."""
        return self.event.node_name if isinstance(self.event, NodeStartEvent) else self.event.span_id


class OpenTelemetryProcessor(TypedEventProcessor):
    """Export runs as spans "run:GRAPH" and "node:NODE"; share one processor between any number of runs.

    The tracer is the given one, or the one named `tracer_name` of the given `tracer_provider` or the global
    one. With `record_errors` the texts of exceptions are exported, which may quote values.

    Raises:
        ImportError: opentelemetry is not installed.
        TypeError: the tracer has no `start_span`.
        ValueError: both a tracer and a provider are given.
    """

    def __init__(
        self,
        tracer_name: str = "hypergraph",
        *,
        tracer: Tracer | None = None,
        tracer_provider: TracerProvider | None = None,
        record_errors: bool = False,
    ) -> None:
        try:
            from opentelemetry import context, trace
        except ImportError as error:
            raise ImportError(
                "OpenTelemetryProcessor needs opentelemetry-api: "
                "install it with pip install 'hypergraph[otel]'"
            ) from error
        if tracer is not None and tracer_provider is not None:
            raise ValueError("Cannot pass both tracer and tracer_provider: a tracer has its provider")
        if tracer is not None and not callable(getattr(tracer, "start_span", None)):
            raise TypeError(f"tracer must have a start_span method; {type(tracer).__name__} has none")
        self._context, self._trace = context, trace
        self._tracer = tracer or trace.get_tracer(tracer_name, tracer_provider=tracer_provider)
        self._record_errors = record_errors
        self._spans: dict[str, _Open] = {}  # by the id of the events
        self._over: deque[str] = deque(maxlen=1000)  # outermost runs that ended, before their shutdown

    def shutdown(self) -> None:
        """End the spans of a run that never reported its end; spans of other runs stay open."""
        try:
            self._over.popleft()
        except IndexError:
            left = self._context.get_value(_OWN)
            if isinstance(left, _Open) and left.owner is self and not left.ended:
                while left.parent is not None:
                    left = left.parent
                self._end(left, time.time(), "stopped")

    def on_run_start(self, event: RunStartEvent) -> None:
        """Start the span of a run or map."""
        attributes: dict[str, Any] = {"is_map": event.is_map}
        if event.is_map and event.map_size is not None:
            attributes["map_size"] = event.map_size
        if event.workflow_id is not None:
            attributes["workflow_id"] = event.workflow_id
        self._begin(event, f"run:{event.graph_name or 'unnamed'}", attributes)

    def on_run_end(self, event: RunEndEvent) -> None:
        """End the span of a run or map, and the open spans of its nodes."""
        if event.parent_span_id is None:
            self._over.append(event.run_id)
        run = self._spans.get(event.span_id)
        if run is None:
            return
        if event.status in (RunStatus.FAILED, RunStatus.PARTIAL):
            self._mark_failed(run, run.error_type, event.error)
        self._end(run, event.timestamp, event.status.value, duration_ms=event.duration_ms)

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Start the span of a node."""
        if event.parent_span_id in self._spans:  # else its run is unknown, or has ended
            attributes = {"node_name": event.node_name, "replayed": event.replayed}
            self._begin(event, f"node:{event.node_name}", attributes)

    def on_node_end(self, event: NodeEndEvent) -> None:
        """End the span of a node that completed."""
        node = self._spans.get(event.span_id)
        if node is not None:
            self._tell_inside(node, event)
            self._end(node, event.timestamp, "completed", duration_ms=event.duration_ms, cached=event.cached)

    def on_node_error(self, event: NodeErrorEvent) -> None:
        """End the span of a node that failed."""
        node = self._spans.get(event.span_id)
        if node is not None:
            self._tell_inside(node, event)
            self._mark_failed(node, event.error_type, event.error)
            self._end(node, event.timestamp, "failed")

    def on_interrupt(self, event: InterruptEvent) -> None:
        """End the span of a node that waits for an answer; record the name of the answer only."""
        node = self._spans.get(event.span_id)
        if node is not None:
            self._note(node, "interrupt", event, response_param=event.response_param)
            self._end(node, event.timestamp, "paused")

    def on_node_retry(self, event: NodeRetryEvent) -> None:
        """Add a retry event to the span of the node."""
        facts = {"attempt": event.attempt, "delay_s": event.delay_s, "error_type": event.error_type}
        if self._record_errors:
            facts["error"] = bounded(event.error)
        self._note(self._node_of(event), "retry", event, **facts)

    def on_cache_hit(self, event: CacheHitEvent) -> None:
        """Add a cache hit to the span of the node, without the key: it is derived from values."""
        self._note(self._node_of(event), "cache_hit", event)

    def on_route_decision(self, event: RouteDecisionEvent) -> None:
        """Add the decision to the span of the gate."""
        decision = [] if event.decision is None else event.decision
        targets = [decision] if isinstance(decision, str) else decision
        self._note(self._node_of(event), "route_decision", event, decision=targets)

    def on_stop_requested(self, event: StopRequestedEvent) -> None:
        """Add the stop request to the span of the run, without its info."""
        self._note(self._spans.get(event.parent_span_id or ""), "stop_requested", event)

    # -- spans -----------------------------------------------------------------------------------------

    def _begin(self, event: RunStartEvent | NodeStartEvent, name: str, attributes: dict[str, Any]) -> None:
        parent, before = self._spans.get(event.parent_span_id or ""), self._context.get_current()
        outside = self._application_context(before, event) if parent is None else parent.inside
        common = {"graph_name": event.graph_name, "run_id": event.run_id}
        span = self._tracer.start_span(
            _sendable(name),
            context=outside,
            start_time=_nanoseconds(event.timestamp),
            attributes=_named({**common, **attributes}),
        )
        opened = _Open(self, event, span, before, outside, parent)
        inside = self._trace.set_span_in_context(span, outside)
        opened.inside = self._context.set_value(_OWN, opened, inside)
        self._spans[event.span_id] = opened
        if parent is not None:
            parent.children[opened.key] = opened
        self._context.attach(opened.inside)

    def _application_context(self, context: Context, event: BaseEvent) -> Context:
        """Return the context without the span that another processor just started for the same run."""
        other = self._context.get_value(_OWN, context)
        while isinstance(other, _Open) and other.owner is not self and other.event.run_id == event.run_id:
            context = other.before
            other = self._context.get_value(_OWN, context)
        return context

    def _end(self, opened: _Open, timestamp: float, status: str, **attributes: Any) -> None:
        for child in list(opened.children.values()):
            self._end(child, timestamp, "stopped")
        self._spans.pop(opened.event.span_id, None)
        if opened.parent is not None:
            opened.parent.children.pop(opened.key, None)
        opened.ended = True
        self._leave(opened)
        opened.span.set_attributes(_named({"status": status, **attributes}))
        # The wall clock may have been set back meanwhile; the duration attribute is exact.
        opened.span.end(end_time=_nanoseconds(max(timestamp, opened.event.timestamp)))

    def _leave(self, opened: _Open) -> None:
        """Restore the previous context, unless another one has become current meanwhile."""
        if self._context.get_current() is not opened.inside:
            return
        context = opened.before
        outer = self._context.get_value(_OWN, context)
        while isinstance(outer, _Open) and outer.ended:
            context = outer.before
            outer = self._context.get_value(_OWN, context)
        self._context.attach(context)

    def _tell_inside(self, node: _Open, event: NodeEndEvent | NodeErrorEvent) -> None:
        """Add what a node has used to its span, and a span "step:KEY" for each call of `ctx.step`."""
        if event.usage:
            node.span.set_attributes(_usage(event.usage))
        for step in event.steps:
            if step.replayed or step.started_at is None:
                continue
            span = self._tracer.start_span(
                _sendable(f"step:{step.key}"),
                context=node.inside,
                start_time=_nanoseconds(step.started_at),
                attributes={
                    **_named({"step": step.key, "status": step.status, "attempt": step.attempt}),
                    **_usage(step.usage or {}),
                },
            )
            if step.status == "failed":
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, step.error_type))
            span.end(end_time=_nanoseconds(step.started_at + (step.duration_ms or 0.0) / 1000))

    def _mark_failed(self, opened: _Open, error_type: str | None, error: str | None) -> None:
        if opened.parent is not None and opened.parent.error_type is None:
            opened.parent.error_type = error_type
        description = error_type
        if error_type:
            opened.span.set_attributes(_named({"error_type": error_type}))
        if self._record_errors and error:
            message = _sendable(bounded(error))
            description = f"{error_type}: {message}" if error_type else message
        opened.span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, description))

    def _node_of(self, event: NodeRetryEvent | CacheHitEvent | RouteDecisionEvent) -> _Open | None:
        run = self._spans.get(event.parent_span_id or "")
        return None if run is None else run.children.get(event.node_name)

    def _note(self, opened: _Open | None, name: str, event: BaseEvent, **facts: Any) -> None:
        if opened is not None:
            when = _nanoseconds(event.timestamp)
            opened.span.add_event(f"hypergraph.{name}", _named(facts), timestamp=when)


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"hypergraph.{name}": _sendable(value) for name, value in attributes.items()}


def _usage(amounts: Mapping[str, float]) -> dict[str, Any]:
    """Return amounts as attributes, tokens under the names of the conventions for generative AI."""
    return {
        f"gen_ai.usage.{name}" if name in _GEN_AI else f"hypergraph.usage.{_sendable(name)}": amount
        for name, amount in amounts.items()
    }


def _sendable(value: Any) -> Any:
    """Return the value with valid UTF-8 text: an exporter drops a whole batch for one invalid string."""
    return jsonable(value)


def _nanoseconds(timestamp: float) -> int:
    return int(timestamp * 1_000_000_000)
