"""Text of the demo, chapter by chapter.

A line with a prompt is what a user would type, followed by exactly what they would see. A line that ends with
a colon introduces results that are data, printed in columns.
"""

import asyncio
import os
import shlex
import warnings
from collections import Counter

from hypergraph import AsyncRunner, MapResult, RunResult, SqliteCheckpointer, SyncRunner
from hypergraph.demo.corpus import ARTICLES, CORRECTIONS, TICKETS
from hypergraph.demo.desk import asked_refund, rank_or_contact, support_desk
from hypergraph.demo.page import Page
from hypergraph.demo.processes import Calls, calls_until_killed, printed_by

TAGS = {"made-by": "hypergraph demo"}
FIRST, BATCH, ASKED, KILLED, WRONG, FORK = "ticket-1", "monday", "refund-1", "killed-1", "card-1", "card-2"
FAILED = "failed-1"
DESK = support_desk()


def print_story(page: Page, store: SqliteCheckpointer, file: str) -> None:
    """Print all chapters, with runs in an empty store."""
    page.line("A support desk that runs offline: fixed rules stand in for the language model.")
    page.line("Its source, to read and to copy from, is hypergraph/demo/desk.py.")
    result = _one_ticket(page, store)
    _many_tickets(page, store)
    _inside(page, store, result)
    _approval(page, store, file)
    _crash(page, store, file)
    _past(page, store)
    _what_if(page, store)
    _your_turn(page, store, file)


def _one_ticket(page: Page, store: SqliteCheckpointer) -> RunResult:
    page.chapter("One ticket: functions wired by name, and a log without any setup")
    page.typed("print(desk.describe(show_types=False))")
    page.shown(DESK.describe(show_types=False))
    page.typed(
        "runner = SyncRunner(checkpointer=store)",
        f"result = runner.run(desk, ticket='T-01', workflow_id={FIRST!r},",
        f"                    message={TICKETS['T-01']!r})",
        "print(result.log)",
    )
    runner = SyncRunner(checkpointer=store)
    result = runner.run(DESK, ticket="T-01", message=TICKETS["T-01"], workflow_id=FIRST, tags=TAGS)
    page.shown(result.log)
    return result


def _many_tickets(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("Fifty tickets, five fail: a resume runs only those five")
    page.typed(
        "results = runner.map(desk, ticket=numbers, message=messages, key='ticket',",
        f"                     map_over=['ticket', 'message'], workflow_id={BATCH!r},",
        "                     error_handling='continue')",
        "print(results.summary())",
    )
    results, calls = _answer_all(store, TICKETS)
    page.shown(results.summary())
    page.line("Failed items, nodes and errors (results.failures):")
    failures = [
        (item.workflow_id, item.failure.node_name, item.error) for item in results.failures if item.failure
    ]
    page.rows(*failures)
    page.line("Two messages are corrected, `rank` is fixed, and the same call is made again:")
    again, more = _answer_all(store, TICKETS | CORRECTIONS, fixed=True)
    page.rows(
        ("first call", f"{_items_run(results)} items ran", f"{calls} function calls", _ended(results)),
        ("second call", f"{_items_run(again)} items ran", f"{more} function calls", _ended(again)),
    )


def _answer_all(
    store: SqliteCheckpointer, tickets: dict[str, str], *, fixed: bool = False
) -> tuple[MapResult, int]:
    """Answer all tickets; return the results and the number of function calls."""
    desk, calls = support_desk(search=rank_or_contact) if fixed else DESK, list[str]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*recorded result is kept")  # of items that have completed
        results = SyncRunner(checkpointer=store).map(
            desk,
            ticket=list(tickets),
            message=list(tickets.values()),
            map_over=["ticket", "message"],
            key="ticket",  # identifies items by their number, so that a message can be corrected
            workflow_id=BATCH,
            error_handling="continue",
            tags=TAGS,
            event_processors=[Calls(desk, calls.append)],
        )
    return results, len(calls)


def _items_run(results: MapResult) -> int:
    return sum(any(step.status != "skipped" for step in item.steps) for item in results.log)


def _ended(results: MapResult) -> str:
    failed = len(results.failures)
    return f"{len(results) - failed} completed, {failed} failed"


def _inside(page: Page, store: SqliteCheckpointer, result: RunResult) -> None:
    page.chapter("Inside: a nested graph has its own log, a loop shows every round")
    page.typed("print(result['writing'].log)")
    page.shown(result["writing"].log)
    page.line("The score of each draft, and the advice for the next (store.iterations):")
    rounds = store.iterations(f"{FIRST}/writing", "critique")
    page.rows(*((f"draft {visit.number}", *visit.outputs.values()) for visit in rounds))


def _approval(page: Page, store: SqliteCheckpointer, file: str) -> None:
    page.chapter("A refund waits for approval: the answer comes from another process")
    page.typed(
        "runner = AsyncRunner(checkpointer=store)",
        f"result = await runner.run(desk_with_approval, ..., workflow_id={ASKED!r})",
        "print(result.status, result.pause.response_key, result.pause.value)",
    )
    desk, runner = support_desk(refund=asked_refund), AsyncRunner(checkpointer=store)
    message = TICKETS["T-09"]
    result = asyncio.run(runner.run(desk, ticket="T-09", message=message, workflow_id=ASKED, tags=TAGS))
    pause = result.pause
    page.shown(f"{result.status} {pause and pause.response_key} {pause and pause.value}")
    command = ("hypergraph.demo.approve", file, ASKED, "yes")
    page.typed(shlex.join(("python", "-m", *command)), prompt="$")
    page.shown(printed_by(*command))


def _crash(page: Page, store: SqliteCheckpointer, file: str) -> None:
    page.chapter("kill -9 in the middle of a run: only the interrupted call is repeated")
    command = ("hypergraph.demo.worker", file, KILLED, "T-06")
    page.typed(shlex.join(("python", "-m", *command)) + " &", prompt="$")
    page.typed("kill -9 $!  # while it waits for the model to write its second draft", prompt="$")
    before = calls_until_killed(*command)
    page.typed(f"print(runner.run(desk, workflow_id={KILLED!r}).status)")
    after: list[str] = []
    runner = SyncRunner(checkpointer=store)
    page.shown(runner.run(DESK, workflow_id=KILLED, event_processors=[Calls(DESK, after.append)]).status)
    page.line("Function calls before and after the kill:")
    was, now = Counter(before), Counter(after)
    page.rows(*(
        (name, f"{was[name]} before", f"{now[name]} after" if now[name] else "skipped")
        for name in dict.fromkeys(before + after)
    ))  # fmt: skip
    page.shown(
        f"{len(before) + len(after)} calls made {_results(store, KILLED)} results: "
        "only the interrupted draft was written again."
    )


def _results(store: SqliteCheckpointer, workflow_id: str) -> int:
    """Return the number of function calls with a stored result, nested graphs included."""
    workflows = (workflow_id, *(child.id for child in store.workflows(parent=workflow_id)))
    steps = (step for workflow in workflows for step in store.steps(workflow))
    return sum(step.durable and not step.child_workflow_id for step in steps)


def _past(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("Time travel: state at any superstep, provenance of a value, what-if forks")
    runner = SyncRunner(checkpointer=store)
    runner.run(DESK, ticket="T-17", message=TICKETS["T-17"], workflow_id=WRONG, tags=TAGS)
    page.typed("print(store.workflows())")
    page.shown(store.workflows())
    page.line(f"{WRONG} got a wrong answer. Its state after superstep 1 (store.state):")
    page.rows(*store.state(WRONG, superstep=1).items())
    page.line("The provenance of its letter (store.provenance) points to the search:")
    origins = store.provenance(WRONG, "letter")
    page.rows(*((o.name, f"by {o.step.node_name}" if o.step else "given", o.value) for o in origins))


def _what_if(page: Page, store: SqliteCheckpointer) -> None:
    page.typed(
        "fork = runner.run(desk, context=ARTICLES['two-payments'],",
        f"                  fork_from=({WRONG!r}, 1), workflow_id={FORK!r})",
        "print(fork.log)",
    )
    fork = SyncRunner(checkpointer=store).run(
        *(DESK, {"context": ARTICLES["two-payments"]}), fork_from=(WRONG, 1), workflow_id=FORK, tags=TAGS
    )
    page.shown(fork.log)
    difference = store.diff(WRONG, FORK)
    page.line(f"The difference (store.diff({WRONG!r}, {FORK!r})); the original is unchanged:")
    page.rows(*(
        row
        for name, (was, now) in (difference.changed if difference else {}).items()
        for row in (("-", name, was), ("+", name, now))
    ))  # fmt: skip


def _your_turn(page: Page, store: SqliteCheckpointer, file: str) -> None:
    page.chapter("Your turn: inspect the runs, without any of this code")
    runner = SyncRunner(checkpointer=store)
    failed = runner.run(
        DESK,
        ticket="T-12",
        message=TICKETS["T-12"],
        workflow_id=FAILED,
        error_handling="continue",
        tags=TAGS,
    )
    page.line(f"{FAILED} is left {failed.status.value}: the web page resumes it, with a corrected message.")
    page.line(f"The database: {os.path.abspath(file)}")
    for words in (
        ("ls",),
        ("show", FAILED),
        ("why", WRONG, "letter"),
        ("diff", WRONG, FORK),
        ("timeline", FIRST),
        ("ui", "--app", "hypergraph.demo.story:DESK"),
    ):
        page.typed(shlex.join(("hypergraph", "--db", file, *words)), prompt="$")
