"""The dispatcher delivers in order and keeps the failures of processors away from the run."""

import asyncio
import logging

import pytest

from hypergraph.events import (
    AsyncEventProcessor,
    EventDispatcher,
    EventProcessor,
    NodeStartEvent,
    TypedEventProcessor,
)

EVENT = NodeStartEvent(run_id="r", node_name="n")


class Recorder(EventProcessor):
    def __init__(self, name="p", calls=None):
        self.name, self.calls = name, [] if calls is None else calls

    def on_event(self, event):
        self.calls.append((self.name, event))

    def shutdown(self):
        self.calls.append((self.name, "shutdown"))


class AsyncRecorder(Recorder, AsyncEventProcessor):
    async def on_event_async(self, event):
        await asyncio.sleep(0)
        self.calls.append((self.name, "async", event))

    async def shutdown_async(self):
        await asyncio.sleep(0)
        self.calls.append((self.name, "async shutdown"))


class Broken(AsyncEventProcessor):
    def __init__(self, error=None):
        self.error = ValueError("broken") if error is None else error

    def on_event(self, event):
        raise self.error

    def shutdown(self):
        raise self.error


def emit(dispatcher, mode, event=EVENT):
    if mode == "sync":
        dispatcher.emit(event)
    else:
        asyncio.run(dispatcher.emit_async(event))


def shutdown(dispatcher, mode):
    if mode == "sync":
        dispatcher.shutdown()
    else:
        asyncio.run(dispatcher.shutdown_async())


both_modes = pytest.mark.parametrize("mode", ["sync", "async"])


@pytest.mark.parametrize(("processors", "active"), [(None, False), ([], False), ([Recorder()], True)])
def test_a_dispatcher_is_active_when_it_has_processors(processors, active):
    assert EventDispatcher(processors).active is active


@both_modes
def test_an_inactive_dispatcher_accepts_events_and_shutdown(mode):
    dispatcher = EventDispatcher()
    emit(dispatcher, mode)
    shutdown(dispatcher, mode)


@both_modes
def test_events_reach_all_processors_in_order(mode):
    calls = []
    dispatcher = EventDispatcher([Recorder("a", calls), Recorder("b", calls)])
    other = NodeStartEvent(run_id="r", node_name="other")
    emit(dispatcher, mode)
    emit(dispatcher, mode, other)
    assert calls == [("a", EVENT), ("b", EVENT), ("a", other), ("b", other)]


def test_async_delivery_awaits_async_processors_in_their_turn():
    calls = []
    dispatcher = EventDispatcher([AsyncRecorder("a", calls), Recorder("b", calls), AsyncRecorder("c", calls)])
    emit(dispatcher, "async")
    shutdown(dispatcher, "async")
    delivered = [("a", "async", EVENT), ("b", EVENT), ("c", "async", EVENT)]
    assert calls == [*delivered, ("a", "async shutdown"), ("b", "shutdown"), ("c", "async shutdown")]


def test_sync_delivery_uses_the_plain_methods_of_async_processors():
    processor = AsyncRecorder("a")
    dispatcher = EventDispatcher([processor])
    dispatcher.emit(EVENT)
    dispatcher.shutdown()
    assert processor.calls == [("a", EVENT), ("a", "shutdown")]


@both_modes
def test_a_failing_processor_is_logged_once_and_the_others_are_served(mode, caplog):
    recorder = Recorder()
    dispatcher = EventDispatcher([Broken(), recorder])
    with caplog.at_level(logging.DEBUG, logger="hypergraph"):
        emit(dispatcher, mode)
        emit(dispatcher, mode)
        shutdown(dispatcher, mode)
    assert recorder.calls == [("p", EVENT), ("p", EVENT), ("p", "shutdown")]
    assert [(r.name, r.levelname) for r in caplog.records] == [("hypergraph", "WARNING")]
    assert "Broken" in caplog.records[0].getMessage()
    assert str(caplog.records[0].exc_info[1]) == "broken"


def test_every_failing_processor_and_every_dispatcher_logs_for_itself(caplog):
    processors = [Broken(), Broken()]
    for _ in range(2):
        EventDispatcher(processors).emit(EVENT)
    assert len(caplog.records) == 4


@both_modes
def test_a_strict_dispatcher_raises_what_a_processor_raises(mode, caplog):
    dispatcher = EventDispatcher([Broken()], strict=True)
    with pytest.raises(ValueError, match="broken"):
        emit(dispatcher, mode)
    assert not caplog.records


@both_modes
@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
def test_interrupts_and_cancellation_always_propagate(mode, error, caplog):
    dispatcher = EventDispatcher([Broken(error)])
    with pytest.raises(type(error)):
        emit(dispatcher, mode)
    with pytest.raises(type(error)):
        shutdown(dispatcher, mode)
    assert not caplog.records


@both_modes
def test_shutdown_happens_once(mode):
    recorder = Recorder()
    dispatcher = EventDispatcher([recorder])
    shutdown(dispatcher, mode)
    shutdown(dispatcher, "sync")
    shutdown(dispatcher, "async")
    assert recorder.calls == [("p", "shutdown")]


@both_modes
@pytest.mark.parametrize(("error", "strict"), [(ValueError("broken"), True), (KeyboardInterrupt(), False)])
def test_shutdown_reaches_everybody_before_it_raises(mode, error, strict):
    recorder = Recorder()
    dispatcher = EventDispatcher([Broken(error), recorder, Broken()], strict=strict)
    with pytest.raises(type(error)):
        shutdown(dispatcher, mode)
    assert recorder.calls == [("p", "shutdown")]


@both_modes
def test_anything_with_on_event_is_a_processor(mode):
    class Duck:
        def __init__(self):
            self.seen = []

        def on_event(self, event):
            self.seen.append(event)

    duck = Duck()
    dispatcher = EventDispatcher(iter([duck]))
    emit(dispatcher, mode)
    shutdown(dispatcher, mode)
    assert duck.seen == [EVENT]


@pytest.mark.parametrize(
    ("processors", "message"),
    [
        (Recorder(), "must be given as a list, not as a single Recorder"),
        (42, "must be given as a list, not as a single int"),
        ([Recorder(), print], "builtin_function_or_method is not an event processor"),
        ([None], "NoneType is not an event processor"),
        ([Recorder], "Recorder is a class"),
        ("text", "str is not an event processor"),
    ],
)
def test_what_is_no_list_of_processors_is_refused(processors, message):
    with pytest.raises(TypeError, match=message):
        EventDispatcher(processors)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (EventProcessor, "on_event"),
        (AsyncEventProcessor, "on_event"),
        (object, "on_event"),
        (EventProcessor, "shutdown"),
        (TypedEventProcessor, "on_node_end"),
    ],
)
def test_a_method_that_would_never_be_awaited_is_refused(base, name):
    async def later(self, *args):
        raise AssertionError

    kind = type("Late", (base,), {"on_event": lambda self, event: None, name: later})
    with pytest.raises(TypeError, match=rf"Late\.{name} is async, and would never be awaited"):
        EventDispatcher([kind()])
