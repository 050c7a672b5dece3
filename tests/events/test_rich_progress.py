"""Progress is told in lines or bars on stderr: names and counts, never values."""

import re
import subprocess
import sys

import pytest

from hypergraph.events.rich_progress import RichProgressProcessor
from hypergraph.events.types import (
    CacheHitEvent,
    CheckpointSavedEvent,
    InterruptEvent,
    NodeEndEvent,
    NodeErrorEvent,
    NodeRetryEvent,
    NodeStartEvent,
    RouteDecisionEvent,
    RunEndEvent,
    RunStartEvent,
    StopRequestedEvent,
    StreamingChunkEvent,
    SuperstepStartEvent,
)
from hypergraph.records import RunStatus

STAMP = re.compile(r"\[\d\d:\d\d:\d\d\] ")


class Story:
    """Tells a processor about runs; spans are named after what they belong to."""

    def __init__(self, mode="non-tty", **options):
        self.processor = RichProgressProcessor(force_mode=mode, **options)

    def run(self, name, parent=None, **fields):
        self.tell(
            RunStartEvent(
                run_id=name, span_id=f"run:{name}", parent_span_id=parent, graph_name=name, **fields
            )
        )
        return f"run:{name}"

    def end(self, name, status="completed", **fields):
        self.tell(RunEndEvent(run_id=name, span_id=f"run:{name}", graph_name=name, status=status, **fields))

    def start(self, name, parent, **fields):
        self.tell(
            NodeStartEvent(
                run_id="r", span_id=f"node:{name}", parent_span_id=parent, node_name=name, **fields
            )
        )
        return f"node:{name}"

    def close(self, name, kind=NodeEndEvent, **fields):
        self.tell(kind(run_id="r", span_id=f"node:{name}", node_name=name, **fields))

    def node(self, name, parent, kind=NodeEndEvent, **fields):
        self.start(name, parent)
        self.close(name, kind, **fields)

    def item(self, index, parent, status="completed"):
        run = self.run(f"item{index}", parent)
        self.node("inside", run, NodeErrorEvent if status == "failed" else NodeEndEvent)
        self.end(f"item{index}", status)

    def tell(self, event):
        self.processor.on_event(event)


@pytest.fixture
def lines(capsys):
    def read():
        out, err = capsys.readouterr()
        assert out == ""
        found = err.splitlines()
        assert all(STAMP.match(line) for line in found)
        return [STAMP.sub("", line) for line in found]

    return read


@pytest.fixture
def screen(capsys):
    """What a terminal received, without the codes that move and colour."""
    return lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)


def test_nodes_and_runs_are_told_line_by_line(lines):
    story = Story()
    run = story.run("G")
    story.node("a", run)
    story.node("b", run, NodeErrorEvent, error="boom", error_type="builtins.ValueError")
    story.end("G", "failed", error="boom")
    assert lines() == ["▶ a started", "✓ a completed", "▶ b started", "✗ b FAILED", "✗ G failed: boom"]


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ("completed", "✓ G completed!"),
        ("failed", "✗ G failed"),
        ("paused", "⏸ G paused"),
        ("stopped", "■ G stopped"),
        ("partial", "✗ G partial"),
    ],
)
def test_every_way_to_end_has_a_line(status, line, lines):
    story = Story()
    story.run("G")
    story.end("G", status)
    assert lines() == [line]


def test_an_unnamed_graph_is_shown_as_unnamed(lines):
    story = Story()
    story.run("")
    story.end("")
    assert lines() == ["✓ unnamed completed!"]


def test_a_waiting_node_is_named(lines):
    story = Story()
    run = story.run("G")
    story.node("ask", run, InterruptEvent, value="secret")
    story.end("G", "paused")
    assert lines() == ["▶ ask started", "⏸ ask paused", "⏸ G paused"]


def test_nested_runs_show_their_nodes_and_end_with_the_line_of_their_node(lines):
    story = Story()
    node = story.start("inner", story.run("outer"))
    story.node("deep", story.run("inner", node))
    story.end("inner")
    story.close("inner")
    story.end("outer")
    assert lines() == [
        "▶ inner started",
        "▶ deep started",
        "✓ deep completed",
        "✓ inner completed",
        "✓ outer completed!",
    ]


def test_steps_restored_from_history_are_not_told_as_executed(lines):
    story = Story()
    run = story.run("G")
    story.start("a", run, replayed=True)
    story.close("a", replayed=True)
    story.node("b", run)
    story.end("G")
    assert lines() == ["▶ b started", "✓ b completed", "✓ G completed!"]


def test_a_map_tells_each_milestone_once(lines):
    story = Story()
    run = story.run("M", is_map=True, map_size=20)
    for index in range(20):
        story.item(index, run)
    story.end("M")
    assert lines() == [
        "▶ M 10% (2/20)",
        "▶ M 25% (5/20)",
        "▶ M 50% (10/20)",
        "▶ M 75% (15/20)",
        "▶ M 100% (20/20)",
        "✓ M completed!",
    ]


def test_an_item_that_passes_several_milestones_tells_the_highest(lines):
    story = Story()
    run = story.run("M", is_map=True, map_size=2)
    story.item(0, run)
    story.item(1, run, "failed")
    story.end("M", "partial")
    assert lines() == ["▶ M 50% (1/2)", "▶ M 100% (2/2, 1 failed)", "✗ M partial (2/2, 1 failed)"]


def test_a_milestone_tells_how_much_is_done(lines):
    story = Story()
    run = story.run("M", is_map=True, map_size=3)
    for index in range(2):
        story.item(index, run)
    assert lines() == ["▶ M 33% (1/3)", "▶ M 66% (2/3)"]


@pytest.mark.parametrize("size", [0, None])
def test_a_map_without_a_size_has_no_milestones(size, lines):
    story = Story()
    run = story.run("M", is_map=True, map_size=size)
    if size is None:
        story.item(0, run, "failed")
    story.end("M", "failed" if size is None else "completed")
    assert lines() == (["✓ M completed!"] if size == 0 else ["✗ M failed (1, 1 failed)"])


def test_whatever_happens_inside_a_map_item_is_counted_and_not_told(lines):
    story = Story()
    item = story.run("item", story.run("M", is_map=True, map_size=1))
    inner_map = story.run("inner", story.start("nested", item), is_map=True, map_size=1)
    story.item(0, inner_map)
    story.end("inner")
    story.close("nested")
    story.end("item")
    assert lines() == ["▶ M 100% (1/1)"]


def test_a_map_inside_a_graph_tells_its_milestones(lines):
    story = Story()
    node = story.start("each", story.run("G"))
    story.item(0, story.run("each", node, is_map=True, map_size=1))
    story.end("each")
    assert lines() == ["▶ each started", "▶ each 100% (1/1)"]


def test_events_of_runs_that_began_unseen_are_told(lines):
    story = Story()
    story.node("a", "unknown")
    story.end("G")
    assert lines() == ["▶ a started", "✓ a completed", "✓ G completed!"]


def test_names_and_reasons_cannot_command_the_terminal(lines):
    story = Story()
    run = story.run("g\x1b[2J")
    story.node("a\nb", run)
    story.end("g\x1b[2J", "failed", error="first\x07\nsecond")
    assert lines() == [
        r"▶ a\nb started",
        r"✓ a\nb completed",
        r"✗ g\x1b[2J failed: first\x07",
    ]


@pytest.mark.parametrize("mode", ["tty", "non-tty"])
def test_values_are_never_shown(mode, capsys):
    story = Story(mode, transient=False)
    run = story.run("G", workflow_id="w")
    at = {"run_id": "r", "parent_span_id": run}
    story.start("a", run)
    for event in (
        SuperstepStartEvent(**at),
        CacheHitEvent(**at, node_name="a", cache_key="secret"),
        NodeRetryEvent(**at, node_name="a", error="secret"),
        RouteDecisionEvent(**at, node_name="a", decision="b"),
        StreamingChunkEvent(**at, node_name="a", chunk="secret"),
        StopRequestedEvent(**at, info="secret"),
        CheckpointSavedEvent(**at, workflow_id="w"),
    ):
        story.tell(event)
    story.close("a", NodeErrorEvent, error="secret")
    story.start("b", run)
    story.close("b", InterruptEvent, value="secret")
    story.end("G", "paused")
    story.processor.shutdown()
    out, err = capsys.readouterr()
    assert "G" in err
    assert "secret" not in out + err


def test_a_terminal_shows_a_bar_per_run_with_the_nested_one_indented(screen):
    story = Story("tty", transient=False)
    node = story.start("inner", story.run("outer"))
    story.node("deep", story.run("inner graph", node))
    story.processor.shutdown()  # the last frame shows where things stand
    frame = [line.split("━")[0].rstrip() for line in screen().splitlines()[-2:]]
    assert frame == ["outer", "  inner graph"]


def test_a_map_bar_counts_items_and_failures(screen):
    story = Story("tty", transient=False)
    run = story.run("M", is_map=True, map_size=4)
    story.item(0, run)
    story.item(1, run, "failed")
    story.end("M", "partial")
    last = screen().splitlines()[-1]
    assert last.startswith("M ")
    assert "2/4, 1 failed" in last
    assert last.rstrip().endswith("✗ M partial")
    assert "item0" not in last


def test_bars_name_the_node_at_work(screen):
    story = Story("tty", transient=False)
    story.start("embed", story.run("G"))
    story.processor.shutdown()
    assert screen().splitlines()[-1].rstrip().endswith("embed")


@pytest.mark.parametrize("name", ["[bold]x[/nothing]", ":smile:", "{task}"])
def test_names_are_not_markup(name, screen):
    story = Story("tty", transient=False)
    story.run(name)
    story.end(name)
    assert f"✓ {name} completed!" in screen()


@pytest.mark.parametrize("status", RunStatus)
def test_transient_bars_leave_only_bad_news(status, screen):
    story = Story("tty")
    story.run("G")
    story.end("G", status)
    said = [line for line in screen().splitlines() if line.strip() and "━" not in line]
    expected = {"paused": ["⏸ G paused"], "stopped": ["■ G stopped"], "completed": []}
    assert said == expected.get(status.value, [f"✗ G {status.value}"])


def test_a_run_that_began_unseen_is_shown_when_it_ends(screen):
    story = Story("tty", transient=False)
    story.node("a", "unknown")
    story.end("G", "failed", error="boom")
    assert screen().rstrip().endswith("✗ G failed: boom")


def test_only_a_map_has_a_share_done_while_it_runs():
    story = Story("tty")
    run = story.run("G")
    story.item(0, story.run("M", story.start("each", run), is_map=True, map_size=4))
    shares = {
        task.description: (task.completed, task.total) for task in story.processor._view._progress.tasks
    }
    story.processor.shutdown()
    assert shares == {"G": (0, None), "  M": (1, 4)}


@pytest.mark.parametrize("transient", [True, False])
def test_a_processor_shows_one_run_after_another(transient, screen):
    story = Story("tty", transient=transient)
    for name in ("first", "second"):
        story.run(name)
        story.end(name)
        story.processor.shutdown()
        assert name in screen()


def test_a_run_goes_on_after_another_one_shut_the_display_down(screen):
    story = Story("tty", transient=False)
    run = story.run("long")
    story.run("short")
    story.end("short")
    story.processor.shutdown()
    screen()
    story.node("late", run)
    story.end("long")
    assert "✓ long completed!" in screen()


@pytest.mark.parametrize("mode", ["tty", "non-tty"])
def test_nothing_is_kept_once_the_outermost_run_is_over(mode, capsys):
    story = Story(mode)
    node = story.start("cut short", story.run("G"))
    story.start("also cut short", story.run("inner", node))
    story.end("inner", "stopped")
    story.end("G", "stopped")
    assert story.processor._spans == {}
    shown = capsys.readouterr().err
    assert ("\x1b[?25l" in shown) is (mode == "tty")  # the cursor was hidden
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # and is back


def test_lines_are_chosen_where_there_is_no_terminal(lines):
    story = Story("auto")
    story.run("G")
    story.end("G")
    assert lines() == ["✓ G completed!"]


def test_bars_are_chosen_in_a_terminal(monkeypatch, screen):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    story = Story("auto", transient=False)
    story.run("G")
    story.end("G")
    assert "━" in screen()


@pytest.mark.parametrize("mode", ["bars", "", None, "TTY"])
def test_an_unknown_mode_is_refused(mode):
    with pytest.raises(ValueError, match="force_mode must be one of 'auto', 'tty', 'non-tty'"):
        RichProgressProcessor(force_mode=mode)


@pytest.mark.parametrize("mode", ["auto", "tty"])
def test_without_rich_the_error_names_the_extra(mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match=r"hypergraph\[progress\]"):
        RichProgressProcessor(force_mode=mode)


def test_lines_need_no_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    progress = RichProgressProcessor(force_mode="non-tty")
    progress.on_event(RunStartEvent(run_id="r", span_id="s", graph_name="shop"))
    progress.on_event(RunEndEvent(run_id="r", span_id="s", graph_name="shop"))
    assert "shop" in capsys.readouterr().err


def test_what_is_printed_to_a_file_still_gets_there_while_bars_are_shown(tmp_path):
    code = (
        "import sys; from hypergraph.events.rich_progress import RichProgressProcessor as P\n"
        "from hypergraph.events.types import RunStartEvent as S, RunEndEvent as E\n"
        "p = P(force_mode='tty'); p.on_event(S(run_id='r', span_id='s')); print('payload')\n"
        "p.on_event(E(run_id='r', span_id='s'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "payload\n"


def test_a_narrow_terminal_shows_how_far_it_got_and_beside_it_why_it_failed(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    story = Story("tty", transient=False)
    run = story.run("a_name_that_is_much_too_long_for_it", is_map=True, map_size=2)
    story.item(0, run, "failed")
    story.end("a_name_that_is_much_too_long_for_it", "failed", error="boom")
    shown = screen()
    assert "✗ a_name_that_is_much_too_long_for_it failed: boom\n" in shown
    assert "a_name_that_is_… ━" in shown
    assert shown.rstrip().endswith("1/2, 1 failed")


def test_bars_that_vanish_leave_the_counts_of_a_failed_map(screen):
    story = Story("tty")
    run = story.run("M", is_map=True, map_size=2)
    story.item(0, run)
    story.item(1, run, "failed")
    story.end("M", "partial", error="boom")
    assert "✗ M partial: boom (2/2, 1 failed)" in screen()
