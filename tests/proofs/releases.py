"""Releases of a program over unfinished runs: each completes as its new code says, or is refused, and why.

A program with a nested map, a loop, a list and a question comes out in six releases: with other names,
another class of stored values, other code and a new node, a node in between, and without a node. Runs of each
release are interrupted anywhere, and moved to the next one. What must come of them is computed by hand, in
plain Python, from what was recorded and the functions of the new release: the values, and the calls.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from hypergraph import FunctionNode, Graph, InterruptNode, RouteNode, SyncRunner
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, register
from hypergraph.checkpointers.status import StepStatus
from hypergraph.exceptions import GraphVersionError
from hypergraph.migration import Migrated, migrate
from proofs.outcome import Outcome, scaled

NAME = "releases over unfinished runs"
RUNS = 1000  # unfinished ones at each release
RELEASES = 5
TOGETHER = 50  # runs in one store: one in memory looks through all of them for children
GOAL = 8  # the score at which the loop ends
TODAY = {
    "plan": "outline",
    "topics": "headings",
    "desk": "office",
    "improve": "polish",
    "score": "grade",
    "publish": "print",
}
INSIDE = {"write": "compose", "draft": "text"}


def _topic(**fields: Any) -> Any:
    made = make_dataclass("Topic", fields.items())
    made.__module__ = __name__
    return made


Topic1, Topic2 = _topic(text=str), _topic(title=str, weight=int)


def number_of(subject: str) -> int:
    """Return how many topics a subject has."""
    return len(subject) % 3 + 1


def plan_1(subject: str) -> Any:
    return [Topic1(f"{subject} {n}") for n in range(number_of(subject))]


def plan_2(subject: str) -> Any:
    return [Topic2(f"{subject} {n}", n) for n in range(number_of(subject))]


def write_1(topic: Any, style: str) -> str:
    return f"{style}: {topic.text}"


def write_2(topic: Any, style: str) -> str:
    return f"{style}: {topic.title} ({topic.weight})"


def finish_1(draft: str) -> str:
    return draft.upper()


def finish_2(draft: str) -> str:
    return f"{draft.upper()}!"


def improve_1(page: list[str], score: int = 0) -> int:
    return score + len(page) + 1


def improve_2(page: list[str], score: int = 0) -> int:
    return score + len("".join(page)) % 3 + 1


def note_1(score: int) -> str:
    return f"score {score}"


def publish_1(approved: bool, page: list[str], score: int) -> str:
    return f"{approved} {score} {' | '.join(page)}"


def count_1(page: list[str]) -> int:
    return len("".join(page))


def trim_1(page: list[str]) -> list[str]:
    return [text.strip("!") for text in page]


@dataclass(frozen=True)
class Release:
    """One release of the program."""

    number: int

    @property
    def version(self) -> str:
        return f"2026-{self.number:02}"

    def name(self, role: str) -> str:
        """Return what this release calls a node or a value."""
        return {**TODAY, **INSIDE}.get(role, role) if self.number >= 2 else role

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions by their roles."""
        n = self.number
        found: dict[str, Callable[..., Any]] = {
            "plan": plan_2 if n >= 3 else plan_1,
            "write": write_2 if n >= 3 else write_1,
            "finish": finish_2 if n >= 4 else finish_1,
            "improve": improve_2 if n >= 4 else improve_1,
            "note": note_1,
            "publish": publish_1,
        }
        found |= {"count": count_1} if n in (4, 5) else {}
        return found | ({"trim": trim_1} if n >= 5 else {})

    def enter(self) -> None:
        """Register the class of stored values as this release has it."""
        if self.number < 3:
            register(Topic1)
        else:
            register(Topic2, version=2, upgrade=lambda fields: {"title": fields["text"], "weight": 0})


class Bodies:
    """The functions that were called, by role; one call fails."""

    def __init__(self) -> None:
        self.begin()

    def begin(self, failing: int = 0) -> None:
        """Forget all calls; let another one fail, or none."""
        self.failing, self.number, self.done = failing, 0, Counter[str]()

    def noting(self, role: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the parameters of another one that notes its calls."""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            self.number += 1
            if self.number == self.failing:
                raise OSError(role)
            self.done[role] += 1
            return function(*args, **kwargs)

        return called


@functools.cache
def program(number: int) -> tuple[Graph, Bodies]:
    """Return the program of a release, built once, and its functions."""
    bodies = Bodies()
    return graph_of(Release(number), bodies), bodies


def graph_of(release: Release, bodies: Bodies) -> Graph:
    """Return the program of a release."""
    name, functions = release.name, release.functions

    def step(role: str, output: str, **options: Any) -> FunctionNode:
        made = FunctionNode(bodies.noting(role, functions[role]), name(role), name(output), **options)
        other = {taken: name(taken) for taken in made.inputs if name(taken) != taken}
        return made.with_inputs(other) if other else made

    score = {} if name("score") == "score" else {"score": name("score")}

    def judge(score: int, log: list[str]) -> str:
        return name("improve") if score < GOAL else "ask"

    def ask(score: int) -> bool | None:
        return None

    inner = Graph(
        [step("write", "draft"), step("finish", "page")],
        name="desk",
        formerly=INSIDE if release.number >= 2 else None,
    )
    desk = inner.as_node(name=name("desk")).with_inputs(topic=name("topics")).map_over(name("topics"))
    improve = step("improve", "score")
    more = [step("count", "letters")] if "count" in functions else []
    if "trim" in functions:
        more.append(step("trim", "trimmed"))
        improve = improve.with_inputs(page="trimmed")
    nodes = [
        step("plan", "topics"),
        desk.lift("page"),
        improve,
        RouteNode(judge, [name("improve"), "ask"], name="judge").with_inputs(score),
        step("note", "log", append=True),
        InterruptNode(ask, "ask", "approved").with_inputs(score),
        step("publish", "book"),
        *more,
    ]
    former = TODAY if release.number >= 2 else None
    return Graph(nodes, name="press", version=release.version, formerly=former).bind(style="plain")


@dataclass
class Recorded:
    """What a store has of a run, by roles."""

    topics: list[Any] | None
    drafts: Mapping[int, str]
    pages: Mapping[int, str]
    page: bool  # whether the whole map is done
    scores: list[int]
    notes: int
    letters: bool  # whether they were counted
    trimmed: bool


def recorded(store: Checkpointer, release: Release, workflow_id: str) -> Recorded:
    """Read what was recorded, in the plain way: step by step."""
    done = [s for s in store.steps(workflow_id) if s.status is StepStatus.COMPLETED]

    def made(role: str, output: str) -> list[Any]:
        node, value = release.name(role), release.name(output)
        return [(s.values or {}).get(value) for s in done if s.node_name == node]

    inside: dict[str, dict[int, str]] = {"draft": {}, "page": {}}
    for desk in store.backend.children(workflow_id):
        for item in store.backend.children(desk.id):
            for found in store.steps(item.id):
                for role in ("draft", "page"):
                    value = release.name(role)
                    if found.status is StepStatus.COMPLETED and value in (found.values or {}):
                        inside[role][item.item or 0] = (found.values or {})[value]
    topics = made("plan", "topics")
    return Recorded(
        topics[0] if topics else None,
        inside["draft"],
        inside["page"],
        bool(made("desk", "page")),
        made("improve", "score"),
        len(made("note", "log")),
        bool(made("count", "letters")),
        bool(made("trim", "trimmed")),
    )


def by_hand(release: Release, subject: str, found: Recorded) -> tuple[dict[str, Any], Counter[str]]:
    """Return the values in the end, and the calls that lead there, from what was recorded."""
    do, calls = release.functions, Counter[str]()

    def call(role: str, *args: Any) -> Any:
        calls[role] += 1
        return do[role](*args)

    topics = found.topics if found.topics is not None else call("plan", subject)
    if release.number >= 3:
        topics = [Topic2(t.text, 0) if type(t) is Topic1 else t for t in topics]
    page = []
    for index, topic in enumerate(topics):
        if index in found.pages:
            page.append(found.pages[index])
            continue
        draft = found.drafts[index] if index in found.drafts else call("write", topic, "plain")
        page.append(call("finish", draft))
    values: dict[str, Any] = {"topics": topics, "page": page}
    taken = page
    if "count" in do:
        values["letters"] = do["count"](page) if found.letters else call("count", page)
    if "trim" in do:
        taken = values["trimmed"] = do["trim"](page) if found.trimmed else call("trim", page)
    scores = list(found.scores) or [call("improve", taken, 0)]
    while scores[-1] < GOAL:
        scores.append(call("improve", taken, scores[-1]))
    calls["note"] += len(scores) - found.notes
    values |= {"score": scores[-1], "log": [do["note"](score) for score in scores], "approved": True}
    values["book"] = call("publish", True, page, scores[-1])
    return {release.name(name): value for name, value in values.items()}, +calls


def finished(runner: SyncRunner, graph: Graph, workflow_id: str, **inputs: Any) -> Any:
    """Run to the end, with the answer where it asks."""
    result = runner.run(graph, inputs, workflow_id=workflow_id)
    while result.paused:
        result = runner.run(graph, {"approved": True}, workflow_id=workflow_id)
    return result


def case(store: Checkpointer, release: Release, seed: int) -> str | None:
    """Interrupt a run of one release, move it to the next, and resume it; return what was wrong."""
    chance = random.Random(seed)
    subject, name = "".join(chance.choices("abcdef", k=chance.randint(1, 6))), f"run-{release.number}-{seed}"
    runner, before = SyncRunner(checkpointer=store), Release(release.number - 1)
    before.enter()
    old, bodies = program(before.number)
    bodies.begin(chance.choice([0, *range(1, 18)]))
    first = runner.run(old, {"subject": subject}, workflow_id=name, error_handling="continue")
    if first.completed:
        return f"{name} completed, and was to be interrupted"
    found = recorded(store, before, name)
    release.enter()
    new, bodies = program(release.number)
    bodies.begin()
    try:
        runner.run(new, workflow_id=name)
    except GraphVersionError:
        pass
    else:
        return f"{name} was resumed by code of another version"
    planned = migrate(store, new, [name], dry_run=True).runs[0]
    moved = migrate(store, new, [name]).runs[0]
    if planned != moved:
        return f"{name}: the dry run said {planned}, then {moved}"
    if bodies.done:
        return f"{name}: moving it called {bodies.done}"
    must_refuse = {5: bool(found.scores), 6: found.letters}.get(release.number, False)
    if must_refuse != (moved.outcome == "refused"):
        return f"{name}: {moved.outcome} ({moved.reason}) with {found}"
    if must_refuse:
        return _refused(store, before, (name, subject), found, moved)
    values, calls = by_hand(release, subject, found)
    done = finished(runner, new, name)
    if dict(done.values) != values:
        return f"{name}: made {dict(done.values)}, by hand {values}; recorded {found}"
    if bodies.done != calls:
        return f"{name}: called {bodies.done}, by hand {calls}; recorded {found}"
    return None


def _refused(
    store: Checkpointer, before: Release, run: tuple[str, str], found: Recorded, moved: Migrated
) -> str | None:
    """Check that a refused run has a reason, and ends as it would have with the code that recorded it."""
    name, subject = run
    if not moved.reason or moved.node not in ("polish", "count"):
        return f"{name} was refused without its reason: {moved}"
    before.enter()
    graph, bodies = program(before.number)
    bodies.begin()
    values, calls = by_hand(before, subject, found)
    done = finished(SyncRunner(checkpointer=store), graph, name)
    if (dict(done.values), bodies.done) != (values, calls):
        return f"{name}, refused: made {dict(done.values)} by {bodies.done}, by hand {values} by {calls}"
    return None


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Move the runs of five releases."""
    outcome = Outcome(NAME)
    with outcome.timed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(2, 2 + RELEASES):
            for index in range(scaled(RUNS, scale)):
                if index % TOGETHER == 0:
                    store = MemoryCheckpointer()
                failure = case(store, Release(number), seed * RUNS + index)
                outcome.count(failure and f"releases.case(store, Release({number}), {index}): {failure}")
    return outcome
