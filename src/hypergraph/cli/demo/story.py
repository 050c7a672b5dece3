"""What the demo tells, chapter by chapter: what a user would type, then exactly what they would see."""

import asyncio
from collections import Counter

from hypergraph import AsyncRunner, MapResult, SqliteCheckpointer, SyncRunner
from hypergraph.cli.demo.corpus import ARTICLES, CORRECTIONS, TICKETS
from hypergraph.cli.demo.desk import asked_refund, rank_or_contact, support_desk
from hypergraph.cli.demo.page import Page
from hypergraph.cli.demo.processes import calls_until_killed, printed_by
from hypergraph.cli.demo.watching import Calls
from hypergraph.cli.screens import quoted

TAGS = {"made-by": "hypergraph demo"}
BATCH, APPROVED, KILLED, WRONG, FORKED = "monday", "refund-1", "killed-1", "card-1", "card-2"
DESK = support_desk()


def tell(page: Page, store: SqliteCheckpointer, file: str) -> None:
    """Tell everything, with the runs in an empty store."""
    page.shown(
        "A support desk at work, offline: fixed rules stand in for the language model.\n"
        f"Its runs are kept in {file}; its source is hypergraph/cli/demo/desk.py."
    )
    _one_ticket(page, store)
    _many_tickets(page, store)
    _inside(page, store)
    _approval(page, store, file)
    _crash(page, store, file)
    _past(page, store)
    _what_if(page, store)
    _what_next(page, file)


def _one_ticket(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("One ticket: functions joined by name, and a log nobody had to set up")
    page.typed("print(desk.describe(show_types=False))")
    page.shown(DESK.describe(show_types=False))
    page.typed(
        "store = SqliteCheckpointer(file)",
        "runner = SyncRunner(checkpointer=store)",
        f"result = runner.run(desk, ticket='T-01', message={TICKETS['T-01']!r},",
        "                    workflow_id='ticket-1')",
        "print(result.log)",
    )
    runner = SyncRunner(checkpointer=store)
    result = runner.run(DESK, ticket="T-01", message=TICKETS["T-01"], workflow_id="ticket-1", tags=TAGS)
    page.shown(result.log)


def _many_tickets(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("Fifty tickets, five fail: the rest is kept, a resume runs just those")
    page.typed(
        "results = runner.map(desk, ticket=numbers, message=messages, key='ticket',",
        "                     map_over=['ticket', 'message'], workflow_id='monday',",
        "                     error_handling='continue')",
        "results.summary()",
    )
    results, calls = _answer_all(store, TICKETS)
    page.rows((results.summary(),))
    page.typed(
        "for item in results.failures:",
        "    print(item.workflow_id, item.failure.node_name, item.error)",
    )
    page.rows(
        *((item.workflow_id, item.failure.node_name, item.error) for item in results.failures if item.failure)
    )
    page.typed("# Two messages are corrected, `rank` is mended. The same call, the same id:")
    page.typed("results.summary()")
    again, more = _answer_all(store, TICKETS | CORRECTIONS, mended=True)
    page.rows((again.summary(),))
    page.rows(
        ("first call", f"{_items_run(results)} items ran", f"{calls} function calls"),
        ("second call", f"{_items_run(again)} items ran", f"{more} function calls"),
    )


def _answer_all(
    store: SqliteCheckpointer, tickets: dict[str, str], *, mended: bool = False
) -> tuple[MapResult, int]:
    """Answer all tickets; return the results and how often a function was called for them."""
    calls: list[str] = []
    results = SyncRunner(checkpointer=store).map(
        support_desk(search=rank_or_contact) if mended else DESK,
        ticket=list(tickets),
        message=list(tickets.values()),
        map_over=["ticket", "message"],
        key="ticket",  # an item is known by its number: its message may be corrected
        workflow_id=BATCH,
        error_handling="continue",
        tags=TAGS,
        event_processors=[Calls(calls.append)],
    )
    return results, len(calls)


def _items_run(results: MapResult) -> int:
    return sum(any(step.status != "skipped" for step in log.steps) for log in results.log)


def _inside(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("Inside: a nested graph has its own log, a loop shows every round")
    page.typed("result['writing'].log  # of item 16", "print(results[16]['writing'].log)")
    log = SyncRunner(checkpointer=store).run(DESK, workflow_id="ticket-1")
    page.shown(log)
    rounds = asyncio.run(store.iterations("ticket-1/writing", "critique"))
    page.typed("await store.iterations('ticket-1/writing', 'critique')")
    page.rows(
        ("round", "score", "the draft"),
        *((visit.number, visit.outputs["score"], visit.inputs["reply"]) for visit in rounds),
    )


def _approval(page: Page, store: SqliteCheckpointer, file: str) -> None:
    page.chapter("A refund waits for a person: the answer comes from another process")
    desk, runner = support_desk(refund=asked_refund), AsyncRunner(checkpointer=store)
    page.typed("result = await AsyncRunner(checkpointer=store).run(desk, ...)", "result.status, result.pause")
    message = TICKETS["T-09"]
    result = asyncio.run(runner.run(desk, ticket="T-09", message=message, workflow_id=APPROVED, tags=TAGS))
    page.rows((result.status, result.pause and f"{result.pause.response_key}: {result.pause.value}?"))
    command = ("hypergraph.cli.demo.approve", file, APPROVED, "yes")
    page.typed(quoted("python", "-m", *command), prompt="$")
    page.shown(printed_by(*command))
    page.typed(f"store.workflow({APPROVED!r}).status")
    workflow = store.workflow(APPROVED)
    page.rows((workflow and workflow.status,))


def _crash(page: Page, store: SqliteCheckpointer, file: str) -> None:
    page.chapter("kill -9 in the middle of a run: only the call in flight is repeated")
    command = ("hypergraph.cli.demo.worker", file, KILLED, "T-06")
    page.typed(f"{quoted('python', '-m', *command)} &", prompt="$")
    page.typed("kill -9 $!", prompt="$")
    before = calls_until_killed(*command)
    page.typed(f"runner.run(desk, workflow_id={KILLED!r}).status")
    after: list[str] = []
    runner = SyncRunner(checkpointer=store)
    result = runner.run(DESK, workflow_id=KILLED, event_processors=[Calls(after.append)])
    page.rows((result.status,))
    was, now = Counter(before), Counter(after)
    rows = [(name, was[name], now[name], "" if now[name] else "kept") for name in dict.fromkeys(before + after)]
    page.rows(("function", "calls before", "calls after", ""), *rows)


def _past(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("Time travel: what ran, what was known when, where a value comes from")
    runner = SyncRunner(checkpointer=store)
    runner.run(DESK, ticket="T-17", message=TICKETS["T-17"], workflow_id=WRONG, tags=TAGS)
    page.typed("print(store.workflows())")
    page.shown(store.workflows())
    page.typed(f"store.state({WRONG!r}, superstep=1)")
    page.rows(*store.state(WRONG, superstep=1).items())
    page.typed(f"await store.get_provenance({WRONG!r}, 'letter')")
    origins = asyncio.run(store.get_provenance(WRONG, "letter"))
    page.rows(*((o.name, f"by {o.step.node_name}" if o.step else "given", o.value) for o in origins))


def _what_if(page: Page, store: SqliteCheckpointer) -> None:
    page.chapter("What if? A fork with the right article; the original stays as it is")
    page.typed(
        "runner.run(desk, {'context': ARTICLES['two-payments']},",
        f"           fork_from=({WRONG!r}, 1), workflow_id={FORKED!r}).log",
    )
    right = {"context": ARTICLES["two-payments"]}
    fork = SyncRunner(checkpointer=store).run(
        DESK, right, fork_from=(WRONG, 1), workflow_id=FORKED, tags=TAGS
    )
    page.shown(fork.log)
    page.typed(f"await store.diff({WRONG!r}, {FORKED!r})")
    difference = asyncio.run(store.diff(WRONG, FORKED))
    assert difference is not None
    for name, (a, b) in difference.changed.items():
        page.rows(("-", name, a), ("+", name, b))


def _what_next(page: Page, file: str) -> None:
    page.chapter("Your turn")
    for words in (
        ("ls",),
        ("show", f"{BATCH}/item-18"),
        ("why", WRONG, "letter"),
        ("diff", WRONG, FORKED),
        ("timeline", KILLED),
        ("ui",),
    ):
        page.typed(quoted("hypergraph", "--db", file, *words), prompt="$")
