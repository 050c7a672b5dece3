"""How workflows print: the texts people read, compared letter by letter."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from hypergraph import Graph, PauseInfo, SyncRunner, node
from hypergraph.checkpointers import (
    MemoryCheckpointer,
    SqliteCheckpointer,
    StepRecord,
    Workflow,
    WorkflowList,
)

MORNING = datetime(2026, 5, 2, 8, 15, tzinfo=UTC)


def steps_of(*rows: tuple[object, ...], **shared: object) -> list[StepRecord]:
    """Make steps from (node, duration, status, further fields)."""
    return [
        StepRecord("w", number, node, number, status, {}, duration_ms=duration, **{**shared, **fields})
        for number, (node, duration, status, fields) in enumerate(rows)
    ]


def a_workflow(name: str, status: str, steps: list[StepRecord], ms: float | None, **more: object) -> Workflow:
    return Workflow(
        name, status, duration_ms=ms, **{"step_count": len(steps), "load_steps": lambda upto: steps, **more}
    )


def text(block: str) -> str:
    return dedent(block).strip("\n")


BROKEN = steps_of(
    ("read_pdf", 310, "completed", {}),
    ("book", 12, "failed", {"error": "ledger is locked", "error_type": "RuntimeError"}),
)


def test_a_failed_workflow_shows_its_steps_and_the_failure() -> None:
    assert str(a_workflow("invoice-77", "failed", BROKEN, 322)) == text("""
        Workflow: invoice-77 | FAILED | 2 steps | 0.3s

          Step  Node       Duration  Status
          ────  ─────────  ────────  ────────────────────────
             0  read_pdf     310ms   completed
             1  book             —   FAILED: ledger is locked
    """)


def test_decisions_have_a_column_if_there_are_any() -> None:
    steps = steps_of(
        ("embed", 180, "completed", {}),
        ("retrieve", 820, "completed", {}),
        ("classify", 120, "completed", {"decision": "detailed_answer"}),
        ("build_prompt", 12, "completed", {}),
        ("generate", 3100, "completed", {}),
    )
    assert str(a_workflow("batch-2024-01-15", "completed", steps, 272_000)) == text("""
        Workflow: batch-2024-01-15 | completed | 5 steps | 4m32s

          Step  Node           Duration  Status     Decision
          ────  ─────────────  ────────  ─────────  ─────────────────
             0  embed            180ms   completed
             1  retrieve         820ms   completed
             2  classify         120ms   completed  → detailed_answer
             3  build_prompt      12ms   completed
             4  generate        3100ms   completed
    """)


def test_every_step_has_its_row_when_nodes_ran_more_than_once() -> None:
    steps = steps_of(("draft", 1, "completed", {}), ("draft", 2, "completed", {}))
    assert str(a_workflow("loop", "active", steps, None)) == text("""
        Workflow: loop | active | 2 steps | —

          Step  Node    Duration  Status
          ────  ──────  ────────  ─────────
             0  draft       1ms   completed
             1  draft       2ms   completed
    """)


def test_cached_copied_paused_and_stopped_steps_say_so() -> None:
    steps = steps_of(
        ("a", 0, "completed", {"cached": True}),
        ("b", 5, "completed", {"replayed": True}),
        ("c", None, "paused", {}),
        ("d", 7, "stopped", {}),
    )
    rows = str(a_workflow("w", "paused", steps, 12)).splitlines()[4:]
    assert rows == [
        "     0  a          0ms   cached",
        "     1  b          5ms   skipped",
        "     2  c            —   paused",
        "     3  d          7ms   stopped",
    ]


def test_at_most_200_steps_are_printed() -> None:
    steps = steps_of(*[("n", 1, "completed", {})] * 203)
    lines = str(a_workflow("w", "active", steps, 1)).splitlines()
    assert lines[-2:] == ["   199  n          1ms   completed", "  ... and 3 more steps"]


def loader(steps: list[StepRecord], bounds: list[int | None]) -> Callable[[int | None], list[StepRecord]]:
    def load(upto: int | None) -> list[StepRecord]:
        bounds.append(upto)
        return [step for step in steps if upto is None or step.superstep <= upto]

    return load


def test_a_long_history_is_not_read_in_full_to_be_printed() -> None:
    steps = steps_of(*[("n", 1, "completed", {})] * 500)
    bounds: list[int | None] = []
    load = loader(steps, bounds)
    workflow = a_workflow("w", "active", steps, 1, load_steps=load)
    assert str(workflow).splitlines()[-1] == "  ... and 300 more steps"
    assert bounds == [200]


def test_a_history_with_gaps_still_prints_200_steps() -> None:
    steps = steps_of(*[("n", 1, "completed", {})] * 500)[1::2]
    lines = str(a_workflow("w", "active", steps, 1, load_steps=loader(steps, []))).splitlines()
    assert lines[-2:] == ["   399  n          1ms   completed", "  ... and 50 more steps"]


def test_one_step_left_out_is_singular() -> None:
    steps = steps_of(*[("n", 1, "completed", {})] * 201)
    assert str(a_workflow("w", "active", steps, 1)).splitlines()[-1] == "  ... and 1 more step"


def test_a_workflow_without_steps_is_a_header() -> None:
    assert str(a_workflow("w", "active", [], 0)) == "Workflow: w | active | 0 steps | 0ms"
    assert str(Workflow("w", "stopped")) == "Workflow: w | stopped | 0 steps | —"


def test_a_store_that_cannot_be_read_costs_the_table_only() -> None:
    def gone(upto: int | None) -> list[StepRecord]:
        raise OSError("the disk\nis gone")

    workflow = a_workflow("w", "active", BROKEN, 1, load_steps=gone)
    assert str(workflow) == text("""
        Workflow: w | active | 2 steps | 1ms

          steps cannot be read: OSError: the disk
    """)


def test_the_repr_of_a_workflow_is_one_line_and_reads_nothing() -> None:
    workflow = a_workflow("w", "failed", BROKEN, 322, load_steps=lambda upto: pytest.fail("read"))
    assert repr(workflow) == "<Workflow: w | FAILED | 2 steps | 0.3s>"


def two_workflows(**more: object) -> WorkflowList:
    return WorkflowList(
        [
            Workflow("invoice-78", "active", created_at=MORNING, duration_ms=1400, step_count=3),
            Workflow(
                "invoice-77", "failed", created_at=MORNING.replace(minute=11), duration_ms=322, step_count=2
            ),
        ],
        **more,
    )


def test_a_list_is_a_table_with_a_row_each() -> None:
    assert str(two_workflows()) == text("""
        Workflows (2 total)

          ID           Status  Steps  Duration  Created
          ───────────  ──────  ─────  ────────  ────────────────
          invoice-78   active      3     1.4s   2026-05-02 08:15
          invoice-77   FAILED      2     0.3s   2026-05-02 08:11
    """)
    assert repr(two_workflows()) == str(two_workflows())


def test_a_list_of_long_running_workflows_shows_minutes() -> None:
    listed = WorkflowList(
        [
            Workflow("batch-2024-01-15", "completed", created_at=MORNING, duration_ms=272_000, step_count=12),
            Workflow("batch-2024-01-16", "failed", created_at=MORNING, duration_ms=130_000, step_count=8),
            Workflow("chat-session-42", "active", created_at=MORNING, duration_ms=725_000, step_count=24),
        ]
    )
    assert str(listed) == text("""
        Workflows (3 total)

          ID                 Status     Steps  Duration  Created
          ─────────────────  ─────────  ─────  ────────  ────────────────
          batch-2024-01-15   completed     12    4m32s   2026-05-02 08:15
          batch-2024-01-16   FAILED         8    2m10s   2026-05-02 08:15
          chat-session-42    active        24   12m05s   2026-05-02 08:15
    """)


def test_a_page_of_a_list_says_how_many_it_leaves_out() -> None:
    lines = str(two_workflows(total=12)).splitlines()
    assert (lines[0], lines[-1]) == ("Workflows (12 total)", "  ... and 10 more workflows")


def test_an_empty_list_is_a_header() -> None:
    assert str(WorkflowList()) == "Workflows (0 total)"


EVIL = "<script>alert('x')</script>\x1b[31m"


@pytest.mark.parametrize(
    "shown",
    [
        a_workflow(EVIL, "failed", steps_of((EVIL, 1, "failed", {"error": EVIL})), 1),
        WorkflowList([Workflow(EVIL, "active")]),
    ],
)
def test_names_and_errors_cannot_become_markup_or_move_the_cursor(shown: Workflow | WorkflowList) -> None:
    assert "<script" not in shown._repr_html_()
    assert "\x1b" not in shown._repr_html_()
    assert "\x1b" not in str(shown)
    assert "\x1b" not in repr(shown)


def test_html_shows_what_the_text_shows() -> None:
    html = a_workflow("invoice-77", "failed", BROKEN, 322)._repr_html_()
    for part in ("invoice-77", "FAILED", "2 steps", "0.3s", "read_pdf", "310ms", "FAILED: ledger is locked"):
        assert part in html
    assert "2026-05-02 08:11" in two_workflows()._repr_html_()


def an_item(number: int, status: str = "completed", *steps: StepRecord) -> Workflow:
    return a_workflow(f"m/item-{number}", status, list(steps), 3, item=number)


def a_map(*items: Workflow) -> Workflow:
    return a_workflow("m", "partial", [], 9, load_items=lambda: items)


def test_a_map_shows_its_items_and_why_they_failed() -> None:
    assert str(a_map(an_item(0, "completed", BROKEN[0]), an_item(1, "failed", *BROKEN))) == text("""
        Workflow: m | partial | 2 items | 9ms

          Item  Steps  Duration  Status
          ────  ─────  ────────  ──────────────────────────────
             1      2        —   FAILED: book: ledger is locked
             0      1      3ms   completed
    """)


def test_a_completed_run_says_what_failed_inside() -> None:
    @node(output_name="y")
    def invert(x: int) -> float:
        return 1 / x

    each = Graph([invert], name="each").as_node().map_over("x", error_handling="continue")
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(Graph([each], name="g"), x=[1, 0, 0], workflow_id="w")
    found, listed = store.workflow("w"), store.workflows()
    assert "| completed (2 failed inside) |" in str(found).splitlines()[0]
    assert "completed (2 failed inside)" in str(listed)
    assert "completed (2 failed inside)" in found._repr_html_()
    assert "completed (2 failed inside)" in listed._repr_html_()


def test_items_that_failed_come_first_as_in_the_log_of_a_map() -> None:
    shown = str(a_map(*[an_item(number) for number in range(30)], an_item(30, "failed"))).splitlines()
    assert shown[4:6] == ["    30      0        —   FAILED", "     0      0      3ms   completed"]
    assert shown[-2:] == ["    18      0      3ms   completed", "  ... and 11 more items"]


def test_a_notebook_shows_how_long_failures_took() -> None:
    shown = a_map(an_item(0), an_item(1, "failed", *BROKEN))
    assert shown._repr_html_().count(">3ms</td>") == 2
    assert str(shown).count("3ms") == 1


def test_items_that_cannot_be_read_cost_the_table_only() -> None:
    workflow = a_workflow("m", "active", [], 9, load_items=lambda: 1 / 0)
    assert str(workflow).splitlines()[-1] == "  steps cannot be read: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_stored_map_prints_its_items(kind: str, tmp_path: Path) -> None:
    @node(output_name="inverse")
    def invert(number: int) -> float:
        return 1 / number

    store = MemoryCheckpointer() if kind == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    runner = SyncRunner(checkpointer=store)
    options = {"map_over": "number", "error_handling": "continue", "workflow_id": "m"}
    runner.map(Graph([invert]), number=[1, 0], **options)
    shown = str(store.workflow("m"))
    assert shown.startswith("Workflow: m | partial | 2 items | ")
    assert "FAILED: invert: division by zero" in shown


def test_steps_checkpoints_pauses_and_differences_print_names_and_never_values() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)

    @node(output_name="kept")
    def keep(secret: str) -> str:
        return secret

    graph = Graph([keep], name="g")
    for workflow_id, secret in (("a", "hush-1"), ("b", "hush-2")):
        runner.run(graph, secret=secret, workflow_id=workflow_id)
    (step,), checkpoint, difference = store.steps("a"), store.checkpoint("a"), store.diff("a", "b")
    pause = PauseInfo("review.ask", "ok", value="hush", path=("review",))
    assert repr(step).startswith("<Step 0 of a: keep | completed | ")
    assert repr(step).endswith(" | outputs: kept>")
    assert repr(checkpoint) == "<Checkpoint: 1 step, 2 values>"
    assert "values: kept, secret" in str(checkpoint)
    assert repr(difference) == "<Difference: a, b | values differ at position 0 in keep>"
    assert "changed: kept, secret" in str(difference)
    assert repr(pause) == "<PauseInfo: review.ask waits for review.ok (interrupt)>"
    for shown in (step, checkpoint, difference, pause):
        assert "hush" not in repr(shown) + str(shown)


def test_the_number_of_a_step_is_its_index_also_where_siblings_share_a_superstep() -> None:
    store = MemoryCheckpointer()
    nodes = [node(output_name=f"v{n}")(lambda x: x).with_name(f"n{n}") for n in range(3)]
    SyncRunner(checkpointer=store).run(Graph(nodes), x=1, workflow_id="w")
    numbers = [line.split()[:2] for line in str(store.workflow("w")).splitlines()[4:]]
    assert numbers == [["0", "n0"], ["1", "n1"], ["2", "n2"]]
    steps = str(store.checkpoint("w")).splitlines()[4:7]
    assert [line.split()[0] for line in steps] == ["0", "1", "2"]
