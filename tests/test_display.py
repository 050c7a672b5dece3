"""Text, HTML and JSON of any value: aligned, escaped, bounded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.display import (
    Table,
    as_html,
    as_text,
    batch_time,
    columns,
    did_you_mean,
    escape,
    escape_html,
    execution_time,
    first_line,
    plural,
    run_time,
)

ANY_TEXT = st.text(st.characters() | st.sampled_from("\ud800\x1b\n\r\t\u202e\u2028<>&\"'—"), max_size=30)
HEADINGS = ["Step", "Item", "Runs", "Errors", "Duration", "Total", "Avg", "Node", "ID", "Status", "Name"]


class Mute:
    """A value that cannot show itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


# --- durations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ms", "execution", "run", "batch"),
    [
        (0, "0ms", "0ms", "0ms"),
        (0.001, "<1ms", "<1ms", "<1ms"),
        (0.4, "<1ms", "<1ms", "<1ms"),
        (0.6, "1ms", "1ms", "1ms"),
        (31, "31ms", "31ms", "31ms"),
        (99.4, "99ms", "99ms", "99ms"),
        (99.6, "100ms", "0.1s", "100ms"),
        (100, "100ms", "0.1s", "100ms"),
        (800, "800ms", "0.8s", "800ms"),
        (999.4, "999ms", "1.0s", "999ms"),
        (999.6, "1000ms", "1.0s", "1.0s"),
        (2600, "2600ms", "2.6s", "2.6s"),
        (9999, "9999ms", "10.0s", "10.0s"),
        (9999.6, "10.0s", "10.0s", "10.0s"),
        (10_000, "10.0s", "10.0s", "10.0s"),
        (59_940, "59.9s", "59.9s", "59.9s"),
        (59_960, "1m00s", "1m00s", "1m00s"),
        (272_000, "4m32s", "4m32s", "4m32s"),
        (725_000, "12m05s", "12m05s", "12m05s"),
        (3_599_700, "1h00m00s", "1h00m00s", "1h00m00s"),
        (3_725_000, "1h02m05s", "1h02m05s", "1h02m05s"),
        (90_000_000, "25h00m00s", "25h00m00s", "25h00m00s"),
        (-5, "0ms", "0ms", "0ms"),
        (float("nan"), "—", "—", "—"),
        (float("inf"), "—", "—", "—"),
    ],
)
def test_a_duration_is_shown_by_what_it_measures(ms: float, execution: str, run: str, batch: str) -> None:
    assert (execution_time(ms), run_time(ms), batch_time(ms)) == (execution, run, batch)


def test_an_execution_without_duration_is_a_dash() -> None:
    assert execution_time(None) == "—"


@given(st.floats(min_value=0, max_value=1e12), st.sampled_from([execution_time, run_time, batch_time]))
def test_only_no_time_at_all_is_shown_as_zero(ms: float, show: object) -> None:
    assert callable(show)
    assert (show(ms) == "0ms") == (ms == 0)


# --- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain – ünï 日本 👩‍🚀", "plain – ünï 日本 👩‍🚀"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("user\u202etxt.exe\u2066", "user\\u202etxt.exe\\u2066"),
        ("line\u2028end\x85", "line\\u2028end\\x85"),
        ("\ud800", "\\ud800"),
        ("\ufeffbom", "\\ufeffbom"),
        (7, "7"),
        (Mute(), "<Mute whose text raises RuntimeError>"),
    ],
)
def test_control_characters_are_spelled_out(raw: object, shown: str) -> None:
    assert escape(raw) == shown


@given(ANY_TEXT)
def test_escaped_text_is_one_line_that_can_be_encoded_and_escapes_to_itself(text: str) -> None:
    shown = escape(text)
    assert len(shown.splitlines()) <= 1
    assert escape(shown) == shown.encode().decode() == shown


def test_html_escapes_tags_quotes_and_controls() -> None:
    assert escape_html("<b a=\"1\" c='2'>&\n") == "&lt;b a=&quot;1&quot; c=&#x27;2&#x27;&gt;&amp;\\n"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("one\ntwo", "one"),
        ("\n  one\r\ntwo", "one"),
        ("", ""),
        ("x" * 121, "x" * 117 + "..."),
        ("bell\x07", "bell\\x07"),
    ],
)
def test_the_first_line_of_a_message_is_escaped_and_cut(message: str, line: str) -> None:
    assert first_line(message) == line


def test_one_of_a_kind_is_singular() -> None:
    assert [plural(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_a_hint_names_the_closest_known_name() -> None:
    assert did_you_mean("anwser", ["question", "answer"]) == "Did you mean 'answer'?"
    assert did_you_mean("zzz", ["answer"]) is did_you_mean(7, ["answer"]) is None


# --- tables -------------------------------------------------------------------------------------


def test_a_list_of_workflows_is_laid_out_by_its_headings() -> None:
    rows = [
        ("invoice-78", "active", 3, run_time(1400), "2026-05-02 08:15"),
        ("invoice-77", "FAILED", 2, run_time(300), "2026-05-02 08:11"),
    ]
    table = Table(("ID", "Status", "Steps", "Duration", "Created"), rows)
    assert as_text(["Workflows (2 total)"], table) == (
        "Workflows (2 total)\n"
        "\n"
        "  ID           Status  Steps  Duration  Created\n"
        "  ───────────  ──────  ─────  ────────  ────────────────\n"
        "  invoice-78   active      3     1.4s   2026-05-02 08:15\n"
        "  invoice-77   FAILED      2     0.3s   2026-05-02 08:11"
    )


def test_headings_of_wide_number_columns_are_right_aligned_and_of_durations_left_aligned() -> None:
    text = as_text(["x"], Table(("Step", "Duration", "Node"), [(1234567, "1234567890ms", "a")]))
    assert text.splitlines()[2:] == [
        "     Step  Duration       Node",
        "  ───────  ─────────────  ─────",
        "  1234567  1234567890ms   a",
    ]


def test_blocks_are_separated_by_empty_lines_and_remarks_follow_their_table() -> None:
    table = Table(("Name",), [("a",)], more="... and 3 more items")
    assert as_text(["one", "two\n"], table, "last") == (
        "one | two\\n\n\n  Name\n  ────\n  a\n  ... and 3 more items\n\n  last"
    )


def test_a_table_without_rows_keeps_its_headings() -> None:
    assert as_text(["x"], Table(("Step", "Node"), [])) == "x\n\n  Step  Node\n  ────  ─────"


def on_a_grid(text: str) -> str:
    """Return a text that has one character for every column the given one takes."""
    return "".join(character.ljust(columns(character), "_") for character in text if columns(character))


@pytest.mark.slow
@given(st.data())
def test_column_widths_fit_their_contents(data: st.DataObject) -> None:
    headings = data.draw(st.lists(st.sampled_from(HEADINGS), min_size=1, max_size=6, unique=True))
    rows = data.draw(st.lists(st.tuples(*[ANY_TEXT] * len(headings)), max_size=5))
    _, _, head, rule, *lines = on_a_grid(as_text(["x"], Table(headings, rows)).replace("\n", "\0")).split(
        "\0"
    )
    assert len(lines) == len(rows)
    assert all(line == line.rstrip(" ") for line in (head, *lines))
    start = 2
    for index, (heading, bar) in enumerate(zip(headings, rule.split(), strict=True)):
        spare = " " if heading in ("Duration", "Total", "Avg") else ""
        cells = [on_a_grid(escape(row[index])) + spare for row in rows]
        assert len(bar) == max(map(len, [heading, *cells])) + (heading in ("Node", "ID"))
        column = slice(start, start + len(bar))
        assert head.ljust(column.stop)[column].strip() == heading
        for line, cell in zip(lines, cells, strict=True):
            assert line.ljust(column.stop)[column] in (cell.ljust(len(bar)), cell.rjust(len(bar)))
        start = column.stop + 2
    assert len(rule) == start - 2


@given(ANY_TEXT, ANY_TEXT)
def test_html_holds_no_markup_from_outside(header: str, cell: str) -> None:
    page = as_html([header], Table(("Node",), [(cell,)], more="x" + cell), cell)
    plain = as_html(["x"], Table(("Node",), [("x",)], more="x"), "x")
    for mark in "<>\"'":
        assert page.count(mark) == plain.count(mark)
    assert page.encode()


def test_html_shows_the_rows_the_text_shows() -> None:
    page = as_html(["a", "b"], Table(("Step", "Node"), [(0, "<script>")], more="more"), "foot")
    assert "<b>a | b</b>" in page
    assert re.findall(r'<td style="text-align:(\w+);[^>]*>([^<]*)</td>', page) == [
        ("right", "0"),
        ("left", "&lt;script&gt;"),
    ]
    assert page.endswith("<p>more</p><p>foot</p></div>")
    assert "<script" not in page


def test_html_marks_failures_by_their_status_only() -> None:
    page = as_html(["a"], Table(("Node", "Status"), [("FAILED", "completed"), ("b", "FAILED: boom")]))
    assert re.findall(r"color:[^>]*>([^<]*)</td>", page) == ["FAILED: boom"]


def test_wide_characters_take_two_columns_and_combining_marks_none() -> None:
    assert [columns(text) for text in ("ab", "é", "e\u0301", "读取", "ﾃｽﾄ", "🙂", "→—─")] == [
        2,
        1,
        1,
        4,
        3,
        2,
        3,
    ]
    assert as_text(["x"], Table(("Node", "Status"), [("读取", "ok"), ("read", "ok")])).split("\n")[2:] == [
        "  Node   Status",
        "  ─────  ──────",
        "  读取   ok",
        "  read   ok",
    ]
