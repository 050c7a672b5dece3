"""Runs become trees of spans in the real SDK: names, outcomes and times, never a value."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from support.running import map_, run, run_async

from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    InMemoryCache,
    NodeContext,
    RetryPolicy,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.events.otel import OpenTelemetryProcessor
from hypergraph.events.types import NodeEndEvent, NodeStartEvent, RunEndEvent, RunStartEvent

__all__ = ["map_", "run"]
Runs = Callable[..., Any]


class Traces:
    """What the application's SDK has exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    def processor(self, **options: Any) -> OpenTelemetryProcessor:
        return OpenTelemetryProcessor(tracer_provider=self.provider, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def trees(self) -> list[Any]:
        """Every root with what is below it: (name, [children]), siblings in order of their names."""

        def below(span: ReadableSpan | None) -> list[Any]:
            wanted = None if span is None else span.context.span_id
            children = [
                other for other in self.spans if (other.parent.span_id if other.parent else None) == wanted
            ]
            return sorted((child.name, below(child)) for child in children)

        return below(None)


@pytest.fixture
def traces() -> Iterator[Traces]:
    before = context.get_current()
    made = Traces()
    yield made
    assert context.get_current() == before, "a run left a span of its own current"


def facts(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("hypergraph."): value for name, value in span.attributes.items()}


def happenings(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, dict(event.attributes)) for event in span.events]


@node(output_name="double")
def twice(number: int) -> int:
    return 2 * number


@node(output_name="total")
def add(doubles: list[int]) -> int:
    return sum(doubles)


@node(output_name="double")
def refuse(number: int) -> int:
    raise ValueError(f"secret-{number}")


def pipeline(inner: Any = twice) -> Graph:
    each = Graph([inner], name="each").as_node().with_inputs(number="numbers")
    each = each.with_outputs(double="doubles").map_over("numbers")
    return Graph([each, add], name="pipeline")


ITEM = ("run:each", [("node:twice", [])])
TREE = ("run:pipeline", [("node:add", []), ("node:each", [("run:each", [ITEM, ITEM])])])


def test_nested_graphs_and_maps_form_one_tree(run: Runs, traces: Traces) -> None:
    run(pipeline(), numbers=[1, 2], event_processors=[traces.processor()])
    assert traces.trees() == [TREE]
    assert len({span.context.trace_id for span in traces.spans}) == 1


def test_a_map_is_the_parent_of_its_items(map_: Runs, traces: Traces) -> None:
    graph = Graph([twice], name="each")
    map_(graph, number=[1, 2], map_over="number", event_processors=[traces.processor()])
    assert traces.trees() == [("run:each", [ITEM, ITEM])]
    whole = next(span for span in traces.spans if span.parent is None)
    assert (facts(whole)["is_map"], facts(whole)["map_size"]) == (True, 2)


def test_a_run_is_a_child_of_the_applications_span(run: Runs, traces: Traces) -> None:
    with traces.tracer.start_as_current_span("request"):
        run(Graph([twice]), number=1, event_processors=[traces.processor()])
        assert trace.get_current_span().name == "request"
    assert traces.trees() == [("request", [("run:unnamed", [("node:twice", [])])])]


def test_spans_tell_names_outcome_and_times(run: Runs, traces: Traces) -> None:
    result = run(Graph([twice], name="g"), number=1, event_processors=[traces.processor()])
    whole, step = facts(traces.named("run:g")), facts(traces.named("node:twice"))
    assert whole.pop("duration_ms") >= step.pop("duration_ms") > 0
    common = {"graph_name": "g", "run_id": result.run_id, "status": "completed"}
    assert whole == {**common, "is_map": False}
    assert step == {**common, "node_name": "twice", "cached": False, "replayed": False}
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}


def test_what_a_node_traces_stands_below_its_span(traces: Traces) -> None:
    def query() -> str:
        with traces.tracer.start_as_current_span("query"):
            return "x"

    @node(output_name="a")
    def plain() -> str:
        return query()

    @node(output_name="b", offload=True)
    def in_thread() -> str:
        return query()

    @node(output_name="c")
    async def awaited() -> str:
        await asyncio.sleep(0)
        return query()

    graph = Graph([plain, in_thread, awaited], name="g")
    asyncio.run(AsyncRunner().run(graph, event_processors=[traces.processor()]))
    nodes = [(f"node:{name}", [("query", [])]) for name in ("awaited", "in_thread", "plain")]
    assert traces.trees() == [("run:g", nodes)]


def test_runs_side_by_side_have_a_tree_each(traces: Traces) -> None:
    async def main() -> None:
        runner, processor = AsyncRunner(), traces.processor()
        runs = [runner.run(pipeline(), numbers=[1, 2], event_processors=[processor]) for _ in range(5)]
        await asyncio.gather(*runs)

    asyncio.run(main())
    assert traces.trees() == [TREE] * 5
    assert len({span.context.trace_id for span in traces.spans}) == 5


def test_threads_share_a_processor(traces: Traces) -> None:
    processor = traces.processor()

    def work() -> None:
        SyncRunner().run(pipeline(), numbers=[1, 2], event_processors=[processor])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traces.trees() == [TREE] * 4
    assert not processor._spans


def test_a_run_in_the_background_belongs_to_the_span_it_was_started_in(traces: Traces) -> None:
    with traces.tracer.start_as_current_span("request"):
        handle = SyncRunner().start_run(Graph([twice]), number=1, event_processors=[traces.processor()])
    handle.result()
    assert traces.trees() == [("request", [("run:unnamed", [("node:twice", [])])])]


def test_a_run_inside_a_node_stands_below_the_node(traces: Traces) -> None:
    processor = traces.processor()

    @node(output_name="result")
    def call() -> int:
        return SyncRunner().run(Graph([twice], name="own"), number=1, event_processors=[processor])["double"]

    SyncRunner().run(Graph([call], name="g"), event_processors=[processor])
    assert traces.trees() == [("run:g", [("node:call", [("run:own", [("node:twice", [])])])])]
    assert {facts(span)["status"] for span in traces.spans} == {"completed"}


@pytest.mark.parametrize("items", [[], [1]])
def test_a_map_inside_a_node_ends_nothing_but_itself(items: list[int], traces: Traces) -> None:
    processor = traces.processor()

    @node(output_name="number")
    def call() -> int:
        graph, options = Graph([twice], name="each"), {"event_processors": [processor]}
        return len(SyncRunner().map(graph, number=items, map_over="number", **options))

    SyncRunner().run(Graph([call, twice], name="g"), event_processors=[processor])
    maps = [("run:each", [ITEM])] if items else []
    assert traces.trees() == [("run:g", [("node:call", maps), ("node:twice", [])])]


def test_two_processors_draw_two_trees() -> None:
    first, second = Traces(), Traces()
    processors = [first.processor(), second.processor()]
    SyncRunner().run(pipeline(), numbers=[1, 2], event_processors=processors)
    assert first.trees() == second.trees() == [TREE]
    assert context.get_current() == {}


def test_events_between_the_steps_of_two_iterators_leave_nothing_current(traces: Traces) -> None:
    processor = traces.processor()
    runs = [
        SyncRunner().iter(Graph([twice], name=name), number=1, event_processors=[processor]) for name in "ab"
    ]
    for _ in zip(*runs, strict=True):
        pass
    assert {span.name for span in traces.spans} == {"run:a", "run:b", "node:twice"}
    assert not processor._spans


# -- how it ends ---------------------------------------------------------------------------------------


def test_a_failure_marks_every_span_it_ends(run: Runs, traces: Traces) -> None:
    with pytest.raises(ValueError, match="secret"):
        run(pipeline(refuse), numbers=[7], event_processors=[traces.processor()])
    assert [span.status.status_code for span in traces.spans] == [StatusCode.ERROR] * 5
    assert {facts(span)["error_type"] for span in traces.spans} == {"builtins.ValueError"}
    assert {facts(span)["status"] for span in traces.spans} == {"failed"}


def test_the_text_of_an_exception_is_exported_only_on_request(run: Runs, traces: Traces) -> None:
    quiet, telling = Traces(), Traces()
    options = {"number": 7, "error_handling": "continue"}
    processors = [quiet.processor(), telling.processor(record_errors=True)]
    run(Graph([refuse]), **options, event_processors=processors)
    assert "secret" not in everything(quiet)
    assert telling.named("node:refuse").status.description == "builtins.ValueError: secret-7"
    assert telling.named("run:unnamed").status.description == "builtins.ValueError: secret-7"


def test_a_long_or_broken_message_is_made_fit_to_be_sent(traces: Traces) -> None:
    @node(output_name="x")
    def fail() -> int:
        raise ValueError("\ud800" + "x" * 100_000)

    processor = traces.processor(record_errors=True)
    SyncRunner().run(Graph([fail]), error_handling="continue", event_processors=[processor])
    description = traces.named("node:fail").status.description
    assert len(description.encode()) < 5000


def test_a_map_with_failures_is_partial(map_: Runs, traces: Traces) -> None:
    @node(output_name="half")
    def halve(number: int) -> int:
        if number % 2:
            raise ArithmeticError
        return number // 2

    options = {"map_over": "number", "error_handling": "continue"}
    map_(Graph([halve], name="g"), number=[1, 2], **options, event_processors=[traces.processor()])
    whole = next(span for span in traces.spans if span.parent is None)
    assert facts(whole)["status"] == "partial"
    assert (whole.status.status_code, whole.status.description) == (
        StatusCode.ERROR,
        "builtins.ArithmeticError",
    )


def test_retries_are_noted_on_the_node(run: Runs, traces: Traces) -> None:
    calls = []

    @node(output_name="x", retry=RetryPolicy(max_attempts=3, initial_delay=0))
    def flaky() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("secret")
        return 1

    run(Graph([flaky]), event_processors=[traces.processor()])
    noted = happenings(traces.named("node:flaky"))
    assert [(name, told["hypergraph.attempt"]) for name, told in noted] == [
        ("hypergraph.retry", 1),
        ("hypergraph.retry", 2),
    ]
    assert noted[0][1]["hypergraph.error_type"] == "builtins.OSError"
    assert "secret" not in everything(traces)


def test_a_cache_hit_is_noted_without_its_key(run: Runs, traces: Traces) -> None:
    @node(output_name="y", cache=True)
    def increase(x: int) -> int:
        return x + 1

    cache = InMemoryCache()
    run(Graph([increase]), x=1, cache=cache)
    run(Graph([increase]), x=1, cache=cache, event_processors=[traces.processor()])
    step = traces.named("node:increase")
    assert facts(step)["cached"] is True
    assert happenings(step) == [("hypergraph.cache_hit", {})]


@route(targets=["twice", END])
def choose(number: int) -> Any:
    return END


@ifelse(when_true="twice", when_false=END)
def small(number: int) -> bool:
    return number < 5


@pytest.mark.parametrize(("gate", "target"), [(choose, "END"), (small, "twice")])
def test_decisions_are_noted_on_the_gate(run: Runs, traces: Traces, gate: Any, target: str) -> None:
    run(Graph([gate, twice]), number=1, event_processors=[traces.processor()])
    noted = happenings(traces.named(f"node:{gate.name}"))
    assert noted == [("hypergraph.route_decision", {"hypergraph.decision": (target,)})]


@interrupt(output_name="answer")
def ask(question: str) -> None:
    return None


def test_a_pause_is_no_error_and_does_not_tell_the_question(traces: Traces) -> None:
    run_async(Graph([ask], name="g"), question="secret", event_processors=[traces.processor()])
    step = traces.named("node:ask")
    assert happenings(step) == [("hypergraph.interrupt", {"hypergraph.response_param": "answer"})]
    assert [facts(span)["status"] for span in traces.spans] == ["paused", "paused"]
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}
    assert "secret" not in everything(traces)


def test_a_stop_is_noted_without_what_was_said(traces: Traces) -> None:
    runner = SyncRunner()

    @node(output_name="number")
    def first(context: NodeContext) -> int:
        runner.stop(context.run_id, "secret")
        return 1

    options = {"error_handling": "continue", "event_processors": [traces.processor()]}
    runner.run(Graph([first, twice], name="g"), **options)
    whole = traces.named("run:g")
    assert happenings(whole) == [("hypergraph.stop_requested", {})]
    assert facts(whole)["status"] == "stopped"
    assert "secret" not in everything(traces)


def test_cancelled_siblings_have_ended_spans(traces: Traces) -> None:
    processor = traces.processor()

    async def main() -> None:
        begun = asyncio.Barrier(3)

        async def wait() -> None:
            await begun.wait()
            await asyncio.Event().wait()

        graph = Graph([node(output_name=name)(wait).with_name(f"n{name}") for name in "ab"], name="g")
        task = asyncio.create_task(AsyncRunner().run(graph, event_processors=[processor]))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert traces.trees() == [("run:g", [("node:na", []), ("node:nb", [])])]
    assert facts(traces.named("run:g"))["status"] == "stopped"
    assert not processor._spans


def test_a_resumed_run_marks_what_it_takes_from_history(traces: Traces) -> None:
    broken = [True]

    @node(output_name="total")
    def fragile(double: int) -> int:
        if broken:
            raise OSError
        return double

    graph, runner = Graph([twice, fragile], name="g"), SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(graph, number=1, workflow_id="w", error_handling="continue")
    broken.clear()
    runner.run(graph, workflow_id="w", event_processors=[traces.processor()])
    assert facts(traces.named("run:g"))["workflow_id"] == "w"
    replayed = {span.name: facts(span).get("replayed") for span in traces.spans}
    assert replayed == {"run:g": None, "node:twice": True, "node:fragile": False}


def test_nothing_exported_contains_a_value(traces: Traces) -> None:
    @node(output_name="answer")
    def talk(secret_in: str, context: NodeContext) -> str:
        context.stream("secret chunk")
        return "secret out"

    SyncRunner().run(Graph([talk]), secret_in="secret in", event_processors=[traces.processor()])
    assert "secret" not in everything(traces)


def everything(traces: Traces) -> str:
    assert traces.spans
    return "".join(span.to_json() for span in traces.spans)


# -- spans from events alone ---------------------------------------------------------------------------


def test_times_come_from_the_events(traces: Traces) -> None:
    processor = traces.processor()
    processor.on_event(RunStartEvent(run_id="r", span_id="s", graph_name="g", timestamp=10.0))
    processor.on_event(RunEndEvent(run_id="r", span_id="s", graph_name="g", timestamp=12.5))
    (span,) = traces.spans
    assert (span.start_time, span.end_time) == (10_000_000_000, 12_500_000_000)


def test_a_clock_that_was_set_back_makes_no_negative_span(traces: Traces) -> None:
    processor = traces.processor()
    processor.on_event(RunStartEvent(run_id="r", span_id="s", timestamp=10.0))
    processor.on_event(RunEndEvent(run_id="r", span_id="s", timestamp=5.0))
    (span,) = traces.spans
    assert span.start_time == span.end_time


def test_shutdown_ends_what_was_left_open(traces: Traces) -> None:
    processor = traces.processor()
    processor.on_event(RunStartEvent(run_id="r", span_id="s", graph_name="g"))
    processor.on_event(NodeStartEvent(run_id="r", span_id="n", parent_span_id="s", node_name="a"))
    processor.shutdown()
    assert traces.trees() == [("run:g", [("node:a", [])])]
    assert {facts(span)["status"] for span in traces.spans} == {"stopped"}
    assert not processor._spans


def test_shutdown_leaves_the_runs_of_others_alone(traces: Traces) -> None:
    processor, runner = traces.processor(), SyncRunner()
    going = runner.iter(Graph([twice], name="going"), number=1, event_processors=[processor])
    next(going)
    thread = threading.Thread(
        target=lambda: runner.run(Graph([twice], name="other"), number=1, event_processors=[processor])
    )
    thread.start()
    thread.join()
    assert [span.name for span in traces.spans if span.name.startswith("run:")] == ["run:other"]
    list(going)
    assert facts(traces.named("run:going"))["status"] == "completed"


def test_events_of_unknown_runs_are_ignored(traces: Traces) -> None:
    processor = traces.processor()
    processor.on_event(NodeStartEvent(run_id="r", span_id="n", parent_span_id="s", node_name="a"))
    processor.on_event(NodeEndEvent(run_id="r", span_id="n", parent_span_id="s", node_name="a"))
    processor.on_event(RunEndEvent(run_id="r", span_id="s"))
    processor.shutdown()
    assert traces.spans == []


# -- construction --------------------------------------------------------------------------------------


def test_a_tracer_may_be_given(traces: Traces) -> None:
    processor = OpenTelemetryProcessor(tracer=traces.tracer)
    SyncRunner().run(Graph([twice]), number=1, event_processors=[processor])
    assert traces.named("node:twice").instrumentation_scope.name == "application"


def test_the_tracer_is_named_after_the_package(traces: Traces) -> None:
    SyncRunner().run(Graph([twice]), number=1, event_processors=[traces.processor()])
    assert traces.named("node:twice").instrumentation_scope.name == "hypergraph"


def test_a_tracer_and_a_provider_exclude_each_other(traces: Traces) -> None:
    with pytest.raises(ValueError, match="both tracer and tracer_provider"):
        OpenTelemetryProcessor(tracer=traces.tracer, tracer_provider=traces.provider)


def test_something_that_is_no_tracer_is_refused() -> None:
    with pytest.raises(TypeError, match="start_span"):
        OpenTelemetryProcessor(tracer="jaeger")


def test_without_an_sdk_nothing_happens(run: Runs) -> None:
    assert run(Graph([twice]), number=1, event_processors=[OpenTelemetryProcessor()])["double"] == 2


def test_a_broken_exporter_does_not_break_the_run(run: Runs) -> None:
    class Broken:
        def start_span(self, *args: Any, **options: Any) -> None:
            raise ConnectionError("no collector")

    assert run(Graph([twice]), number=1, event_processors=[OpenTelemetryProcessor(tracer=Broken())])["double"]


def test_without_opentelemetry_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"hypergraph\[otel\]"):
        OpenTelemetryProcessor()


@pytest.mark.slow
def test_importing_the_module_loads_no_opentelemetry() -> None:
    code = "import sys, hypergraph.events.otel; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_inner_steps_are_spans_and_amounts_attributes(run: Runs, traces: Traces) -> None:
    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> int:
        def tool(n: int) -> int:
            ctx.record(input_tokens=n, cost=0.5)
            return n

        return ctx.step("first", tool, 2) + ctx.step("second", tool, 3)

    run(Graph([agent]), x=1, event_processors=[traces.processor()])
    around, inside = traces.named("node:agent"), traces.named("step:second")
    assert around.attributes is not None
    assert inside.attributes is not None
    assert (around.attributes["gen_ai.usage.input_tokens"], around.attributes["hypergraph.usage.cost"]) == (
        5,
        1.0,
    )
    assert inside.attributes["gen_ai.usage.input_tokens"] == 3
    assert inside.parent is not None
    assert inside.parent.span_id == around.context.span_id
