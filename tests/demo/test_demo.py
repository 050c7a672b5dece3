"""The demo, run as a user would: what it says is what its database holds."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node
from hypergraph.checkpointers import StepStatus, WorkflowStatus
from hypergraph.demo.corpus import ARTICLES, CORRECTIONS, TICKETS
from hypergraph.demo.desk import best, bm25, support_desk, words_of
from hypergraph.demo.page import Page
from hypergraph.demo.processes import Calls, calls_until_killed

SOURCE = Path(__file__).parents[2] / "src"
FILE = "hypergraph-demo.db"
WATCH = """
import os
import sys

def note(variable, text):
    with open(os.environ[variable], "a") as file:
        print(text, file=file)

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        note("CONNECTIONS", f"{event} {arguments}")
        raise ConnectionError("the demo is offline")

sys.addaudithook(refuse)
note("PROCESSES", os.getpid())
"""


class Told(NamedTuple):
    """One demo: what it printed, where, and the store that it left."""

    text: str
    folder: Path
    store: SqliteCheckpointer


def demo(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **more}
    command = [sys.executable, "-X", "utf8", "-W", "error", "-m", "hypergraph.demo", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder, watch = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("watch")
    (watch / "sitecustomize.py").write_text(WATCH)
    done = demo(
        folder,
        PYTHONPATH=os.pathsep.join((str(watch), str(SOURCE))),
        PROCESSES=str(folder / "processes"),
        CONNECTIONS=str(folder / "connections"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    store = SqliteCheckpointer(folder / FILE)
    yield Told(done.stdout, folder, store)
    store.close()


# --- what it prints -----------------------------------------------------------------------------


@pytest.mark.slow
def test_it_tells_seven_chapters_in_order(told: Told) -> None:
    headings = [line for line in told.text.splitlines() if line.startswith("── ")]
    assert [heading.split(".")[0] for heading in headings] == [f"── {number}" for number in range(1, 8)]


@pytest.mark.slow
def test_it_is_short_and_narrow_and_has_no_escape_codes(told: Told) -> None:
    lines = told.text.splitlines()
    assert len(lines) <= 160
    path = next(line for line in lines if line.startswith("The database: "))  # as long as it is
    assert [line for line in lines if len(line) > 80 and line != path] == []
    assert "\x1b" not in told.text
    assert "\n\n\n" not in told.text


@pytest.mark.slow
def test_it_asks_no_network_in_any_of_its_processes(told: Told) -> None:
    assert len((told.folder / "processes").read_text().splitlines()) == 3
    assert not (told.folder / "connections").exists()


@pytest.mark.slow
def test_it_leaves_nothing_but_its_database(told: Told) -> None:
    left = {path.name for path in told.folder.iterdir()} - {"processes"}
    assert left <= {FILE, f"{FILE}-lock", f"{FILE}-wal", f"{FILE}-shm"}


@pytest.mark.slow
def test_every_id_it_suggests_is_there(told: Told) -> None:
    words = [
        shlex.split(line)[3:]
        for line in told.text.splitlines()
        if line.startswith(f"$ hypergraph --db {FILE}")
    ]
    commands = {command[1]: command[2:] for command in words}
    assert list(commands) == ["ls", "show", "why", "diff", "timeline", "ui"]
    ids = [*commands["show"], commands["why"][0], *commands["diff"], *commands["timeline"]]
    assert [workflow_id for workflow_id in ids if told.store.backend.read_workflow(workflow_id) is None] == []
    assert commands["why"][1] in told.store.state(commands["why"][0])


# --- what its database holds ----------------------------------------------------------------------


@pytest.mark.slow
def test_five_of_fifty_tickets_failed_and_all_are_answered(told: Told) -> None:
    items = told.store.workflows(parent="monday", limit=None)
    assert len(items) == 50
    assert {item.status for item in items} == {WorkflowStatus.COMPLETED}
    failed = {
        item.id: step.error for item in items for step in item.steps if step.status is StepStatus.FAILED
    }
    assert sorted(failed) == [f"monday/item-{number}" for number in (11, 18, 27, 36, 43)]
    assert [line for line in failed if line not in told.text] == []
    assert "45 completed, 5 failed" in told.text


@pytest.mark.slow
def test_the_resume_ran_only_what_had_failed(told: Told) -> None:
    items = told.store.workflows(parent="monday", limit=None)
    failed = {item.id: step for item in items for step in item.steps if step.status is StepStatus.FAILED}
    mended = [item for item in items if item.id in failed]
    after = [step for item in mended for step in item.steps if step.index > failed[item.id].index]
    resumed_at = min(step.created_at for step in after)
    late = {item.id for item in items for step in item.steps if step.created_at >= resumed_at}
    assert late == set(failed)
    for item in mended:  # and in these, no result was made twice
        completed = [step.node_name for step in item.steps if step.status is StepStatus.COMPLETED]
        assert len(completed) == len(set(completed)) == 6


@pytest.mark.slow
def test_the_calls_it_counts_are_the_steps_that_are_stored(told: Told) -> None:
    found = (int(calls) for calls in re.findall(r"(\d+) function calls", told.text))
    items = told.store.workflows(parent="monday", limit=None)
    inner = [child for item in items for child in told.store.workflows(parent=item.id, limit=None)]
    steps = [step for workflow in (*items, *inner) for step in workflow.steps]
    assert sum(found) == sum(step.child_workflow_id is None for step in steps)


@pytest.mark.slow
def test_corrected_messages_are_what_was_answered(told: Told) -> None:
    letters = [told.store.state(f"monday/item-{int(ticket[2:]) - 1}")["letter"] for ticket in CORRECTIONS]
    assert [letter.split(":")[0] for letter in letters] == ["T-12, dear Wes", "T-37, dear Xen"]


@pytest.mark.slow
def test_the_loop_ends_with_the_first_draft_that_is_good_enough(told: Told) -> None:
    rounds = told.store.iterations("ticket-1/writing", "critique")
    scores = [visit.outputs["score"] for visit in rounds]
    assert scores == sorted(scores)
    assert [score >= 90 for score in scores] == [False, False, True]


@pytest.mark.slow
def test_the_refund_was_paid_after_an_answer_from_another_process(told: Told) -> None:
    assert "RunStatus.PAUSED refund.approved pay Ida 25 EUR" in told.text
    assert told.store.workflow("refund-1").status is WorkflowStatus.COMPLETED
    assert told.store.state("refund-1/refund")["approved"] is True
    assert told.store.state("refund-1")["letter"] == "T-09, dear Ida: Done: pay Ida 25 EUR."


@pytest.mark.slow
def test_the_killed_run_is_complete_and_every_result_was_stored_once(told: Told) -> None:
    assert told.store.workflow("killed-1").status is WorkflowStatus.COMPLETED
    assert {step.status for step in told.store.steps("killed-1/writing")} == {StepStatus.COMPLETED}
    visits = [(step.node_name, step.visit) for step in told.store.steps("killed-1/writing")]
    assert len(visits) == len(set(visits)) == 9
    assert "17 calls made 16 results" in told.text


@pytest.mark.slow
def test_the_fork_has_the_right_answer_and_the_original_the_wrong_one(told: Told) -> None:
    difference = told.store.diff("card-1", "card-2")
    assert set(difference.changed) == {"context", "reply", "letter"}
    wrong, right = difference.changed["letter"]
    assert "gift card" in wrong
    assert "Two payments" in right
    fork = told.store.workflow("card-2")
    assert (fork.forked_from, fork.forked_at) == ("card-1", 1)
    assert [step.node_name for step in fork.steps if step.replayed] == ["intake", "classify", "retrieval"]


@pytest.mark.slow
def test_a_failed_run_is_left_that_the_printed_command_can_resume(told: Told) -> None:
    failed = told.store.workflow("failed-1")
    assert (failed.status, failed.steps[-1].node_name) == (WorkflowStatus.FAILED, "intake")
    printed = [line for line in told.text.splitlines() if line.startswith(f"$ hypergraph --db {FILE} ui ")]
    assert printed == [f"$ hypergraph --db {FILE} ui --app hypergraph.demo.story:DESK"]
    runner = SyncRunner(checkpointer=told.store)
    fork = runner.run(support_desk(), message=CORRECTIONS["T-12"], workflow_id="failed-1")
    assert fork["letter"].startswith("T-12, dear Wes")


# --- around it --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_demo_on_the_same_file_replaces_the_first(told: Told) -> None:
    before = {workflow.id: workflow.created_at for workflow in told.store.workflows()}
    done = demo(told.folder)
    assert (done.returncode, done.stderr) == (0, "")
    after = {workflow.id: workflow.created_at for workflow in told.store.workflows()}
    assert list(after) == list(before)
    assert all(after[workflow_id] > before[workflow_id] for workflow_id in before)


@pytest.mark.slow
def test_a_file_with_other_workflows_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "mine.db")

    @node(output_name="y")
    def double(x: int) -> int:
        return 2 * x

    SyncRunner(checkpointer=store).run(Graph([double]), x=1, workflow_id="precious")
    done = demo(tmp_path, "--db", "mine.db")
    assert (done.returncode, done.stdout) == (4, "")
    assert "has workflows of other programs, like 'precious'" in done.stderr
    assert "hypergraph demo --db" in done.stderr
    assert store.state("precious") == {"y": 2}
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("db", "code", "fact"),
    [
        ("postgres://host/db", 4, "postgres://"),
        (os.path.join("missing", "x.db"), 3, "check that the folder exists"),
    ],
)
def test_a_place_without_a_file_is_a_clear_error(tmp_path: Path, db: str, code: int, fact: str) -> None:
    done = demo(tmp_path, "--db", db)
    assert (done.returncode, done.stdout) == (code, "")
    assert fact in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_pipe_that_is_closed_early_prints_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "utf8", "-m", "hypergraph.demo"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        assert process.stdout.readline()
        process.stdout.close()
        complaints = process.stderr.read()
    assert (process.returncode, complaints) == (141, b"")


@pytest.mark.slow
def test_a_killed_worker_costs_one_call(tmp_path: Path) -> None:
    file = str(tmp_path / "x.db")
    before = calls_until_killed("hypergraph.demo.worker", file, "w", "T-06")
    store, desk, after = SqliteCheckpointer(file), support_desk(), []
    assert store.workflow("w").status is WorkflowStatus.ACTIVE
    killed = SyncRunner(checkpointer=store).run(
        desk, workflow_id="w", event_processors=[Calls(desk, after.append)]
    )
    alone: list[str] = []
    whole = SyncRunner().run(
        desk, ticket="T-06", message=TICKETS["T-06"], event_processors=[Calls(desk, alone.append)]
    )
    assert killed.values == whole.values
    assert sorted(before + after) == sorted([*alone, "writing/draft"])
    store.close()


@pytest.mark.slow
def test_a_worker_that_nobody_can_kill_any_more_ends_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hypergraph.demo.worker", str(tmp_path / "x.db"), "w", "T-06"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the parent process ended" in done.stderr


# --- its parts --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_it_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed() -> str:
        page = Page(out := Terminal())
        page.chapter("One")
        page.typed("two")
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert printed().count("\x1b[0m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in printed()


def test_hostile_values_are_escaped_and_cut() -> None:
    Page(out := io.StringIO()).rows(("name", "\x1b[31mred" + "!" * 100))
    assert out.getvalue().startswith("  name  \\x1b[31mred!!!")
    assert max(map(len, out.getvalue().splitlines())) == 80


def test_an_output_of_few_characters_gets_question_marks() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Page(out).line("→ writing")
    assert out.buffer.getvalue() == b"? writing\n"


def test_the_ranking_prefers_rare_words_and_finds_nothing_in_nonsense() -> None:
    assert best(words_of("How do I reset my password?"))[0] == "reset-password"
    assert best(words_of("Zorblax frobnicates?")) == []
    assert bm25(["subscription"], "subscription") > bm25(["open"], "subscription") > 0
    assert set(best(words_of("tea"))) <= set(ARTICLES)
