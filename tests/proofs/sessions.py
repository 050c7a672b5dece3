"""Random sessions: turns, questions, nested graphs, maps and loops on a few ids, killed and repeated.

A session is a list of calls that chance has chosen. What they return, and what is on record in the end, is
worked out here in plain Python: the oracle runs no graph. The session is played undisturbed, and once more by
processes that are killed: at a point of the store, or in a body. Each call that was cut off is made again, as
a program does that is started again. Both must give what the oracle says, in every mode of durability and on
both runners; and no call of a function that is on record is repeated.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from support import crashing
from support.processes import Elsewhere, started
from support.running import On, OnAsync, OnSync

from hypergraph import END, Graph, NodeContext, interrupt, node, route
from hypergraph.checkpointers import fault_points
from hypergraph.durability import journal, summaries
from proofs import sample
from proofs.kills import in_two
from proofs.outcome import Outcome, scaled
from proofs.promises import flaws_of, look
from proofs.sample import Manner, enter

NAME = "kills of random sessions"
CASES, CALLS, ROUNDS = 120, 5, 3
MANNERS = [
    Manner(runner, mode, early)
    for mode in ("sync", "async", "exit", "best-effort")
    for runner, early in (("sync", 60.0), ("async", 0.0))
]
SILENT = {"score", "review", "approve", "enough", "more"}  # nodes that leave no line when they are called
Call = tuple[str, Any]
_points = [0]  # of this process so far
_kill_at = [0]  # the number of the point at which to die, 0 for none


def reach(_name: str) -> None:
    """Come by a point; die if it is the one."""
    _points[0] += 1
    if _points[0] == _kill_at[0]:
        os.kill(os.getpid(), signal.SIGKILL)


@node(output_name="messages", append=True)
def listen(said: str, ctx: NodeContext) -> str:
    enter(ctx)
    return f"user: {said}"


@node(output_name="words")
def split(said: str, ctx: NodeContext) -> list[str]:
    enter(ctx)
    return said.split()


@node(output_name="size")
def measure(words: str, ctx: NodeContext) -> int:
    enter(ctx)
    return len(words)


@node(output_name="points")
def double(size: int, ctx: NodeContext) -> int:
    enter(ctx)
    return 2 * size


@node(output_name="draft")
def propose(points: list[int], messages: list[str], ctx: NodeContext) -> str:
    enter(ctx)
    return f"{sum(points)} points after {len(messages)}"


@interrupt(output_name="ok")
def approve(draft: str) -> str | None:
    return None


@node(output_name="verdict")
def settle(draft: str, ok: str, ctx: NodeContext) -> str:
    enter(ctx)
    return f"{draft}: {ok}"


@node(output_name="rounds")
def work(verdict: str, ctx: NodeContext, rounds: int = 0) -> int:
    enter(ctx)
    return rounds + 1


@route(targets=["work", "reply"])
def enough(rounds: int) -> str:
    return "reply" if rounds % ROUNDS == 0 else "work"


@node(output_name="replies", append=True)
def reply(verdict: str, rounds: int, ctx: NodeContext) -> str:
    enter(ctx)
    return f"agent: {verdict} in {rounds}"


@route(targets=["count", END])
def more(n: int, limit: int) -> Any:
    return END if n >= limit else "count"


@node(output_name="n")
def count(n: int, ctx: NodeContext) -> int:
    enter(ctx)
    return n + 1


_SCORE = Graph([measure, double], name="score").as_node().map_over("words")
_REVIEW = Graph([propose, approve, settle], name="review").as_node()
DESK = Graph([listen, split, _SCORE, _REVIEW, work, enough, reply], name="desk")
ITEM = Graph([measure, double], name="item")
LOOP = Graph([count, more], name="loop")


def session(seed: int) -> list[Call]:
    """Return calls by chance: what is said to the desk, answers, maps of longer lists, loops with limits.

    A loop starts over if its counter is given, and counts on if it is not.
    """
    chance = random.Random(seed)
    calls: list[Call] = []
    items, limit, is_known = 1, 2, False
    for number in range(CALLS):
        kind = chance.choice(["say", "say", "map", "loop"])
        if kind == "say":
            calls.append((kind, f"turn {number} {'word ' * chance.randint(0, 3)}"))
            if chance.random() < 0.8:  # else the question is given up by the next turn
                calls.append(("answer", f"yes {number}"))
        elif kind == "map":
            items += chance.randint(1, 2)
            calls.append((kind, [f"item {item}" for item in range(items)]))
        else:
            limit += chance.randint(1, 8)
            starts = {} if is_known and chance.random() < 0.5 else {"n": 0}
            calls.append((kind, {**starts, "limit": limit}))
            is_known = True
    return calls


class Desk:
    """What the desk has been told and has answered, worked out by hand."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note  # completed steps: workflow, node, visit, values, decision
        self._messages: list[str] = []
        self._replies: list[str] = []
        self._rounds = self._turns = 0
        self._draft = ""
        self._values: dict[str, Any] = {}
        self.is_open = False  # whether there is a question

    def say(self, said: str) -> Any:
        self._turns += 1
        self._messages.append(f"user: {said}")
        words = said.split()
        sizes = [len(word) for word in words]
        points = [2 * size for size in sizes]
        turn = self._turns
        self._note("desk", "listen", turn, {"messages": [*self._messages]})
        self._note("desk", "split", turn, {"words": words})
        self._note("desk", "score", turn, {"size": sizes, "points": points})
        for item, size in enumerate(sizes):
            _measured(self._note, f"{_visited('desk/score', turn)}/item-{item}", size)
        self._draft = f"{sum(points)} points after {len(self._messages)}"
        self._note(_visited("desk/review", turn), "propose", 1, {"draft": self._draft})
        self.is_open = True
        self._values = {"messages": [*self._messages], "words": words, "size": sizes, "points": points}
        kept = {"rounds": self._rounds, "replies": [*self._replies]} if self._rounds else {}
        return ["say", "paused", {**self._values, **kept}, [["review.ok", self._draft]]]

    def answer(self, ok: str) -> Any:
        if not self.is_open:
            return ["answer", "nothing to answer"]
        self.is_open = False
        turn, verdict = self._turns, f"{self._draft}: {ok}"
        inside = _visited("desk/review", turn)
        self._note(inside, "approve", 1, {"ok": ok})
        self._note(inside, "settle", 1, {"verdict": verdict})
        reviewed = {"draft": self._draft, "ok": ok, "verdict": verdict}
        self._note("desk", "review", turn, reviewed)
        for _ in range(ROUNDS):
            self._rounds += 1
            self._note("desk", "work", self._rounds, {"rounds": self._rounds})
            decided = "work" if self._rounds % ROUNDS else "reply"
            self._note("desk", "enough", self._rounds, None, decided)
        self._replies.append(f"agent: {verdict} in {self._rounds}")
        self._note("desk", "reply", len(self._replies), {"replies": [*self._replies]})
        done = {**self._values, **reviewed, "rounds": self._rounds, "replies": [*self._replies]}
        return ["answer", "completed", done, []]


def _visited(place: str, visit: int) -> str:
    return place if visit == 1 else f"{place}#{visit}"


def _measured(note: Callable[..., None], place: str, size: int) -> None:
    note(place, "measure", 1, {"size": size})
    note(place, "double", 1, {"points": 2 * size})


def expected(calls: Sequence[Call]) -> tuple[list[Any], list[Any]]:
    """Return what the calls of a session give, and the history that they leave, by hand."""
    history: list[Any] = []

    def note(place: str, name: str, visit: int, values: Any, decision: str | None = None) -> None:
        history.append((place, name, visit, repr(decision), repr(values)))

    desk, results, items, n, counts, looks = Desk(note), [], 0, 0, 0, 0
    for kind, value in calls:
        if kind == "map":
            for item, word in enumerate(value[items:], items):
                _measured(note, f"map/item-{item}", len(word))
            items = len(value)
            shown = [["completed", {"size": len(word), "points": 2 * len(word)}] for word in value]
            results.append([kind, shown])
        elif kind == "loop":
            n = value.get("n", n)
            while n < value["limit"]:
                looks, counts, n = looks + 1, counts + 1, n + 1
                note("loop", "more", looks, None, "count")
                note("loop", "count", counts, {"n": n})
            looks += 1
            note("loop", "more", looks, None, "END")
            results.append([kind, "completed", {"n": n}, []])
        else:
            results.append(desk.say(value) if kind == "say" else desk.answer(value))
    return results, sorted(history)


def made(on: On, call: Call, is_open: bool) -> Any:
    """Make a call; return what it gives as plain data."""
    kind, value = call
    if kind == "map":
        found = on.map(ITEM, {"words": value}, map_over="words", workflow_id="map")
        return [kind, [[item.status.value, item.values] for item in found]]
    if kind == "answer":
        if not is_open:
            return [kind, "nothing to answer"]
        result = on.run(DESK, {"review.ok": value}, workflow_id="desk")
    elif kind == "say":
        result = on.run(DESK, {"said": value}, workflow_id="desk")
    else:
        result = on.run(LOOP, value, workflow_id="loop")
    shown = [[pause.response_key, pause.value] for pause in result.pauses]
    return [kind, result.status.value, result.values, shown]


def play(folder: Path, manner: Manner, seed: int, at: int = 0) -> tuple[int, list[Any]]:
    """Make the calls that are left, and be killed at a point; return how many there were, and the results."""
    crashing.told(folder)
    sample.heard[:] = [reach]
    journal._EARLY, summaries.EVERY, summaries._LEAST = manner.early, 4, 2
    _points[0] = 0
    file = folder / "results"
    results = json.loads(file.read_text()) if file.exists() else []
    store = sample.store_in(folder, durability=manner.mode)
    on: On = (OnSync if manner.runner == "sync" else OnAsync)(checkpointer=store)
    fault_points.hook = reach
    for call in session(seed)[len(results) :]:
        desk = next((found for found in reversed(results) if found[0] in ("say", "answer") and found[2:]), [])
        _kill_at[0] = at
        result = made(on, call, bool(desk) and desk[1] == "paused")
        _kill_at[0] = 0  # what was returned is known to the program
        results = [*results, json.loads(json.dumps(result))]
        file.write_text(json.dumps(results))
    store.close()
    fault_points.hook = None
    return _points[0], results


def looked(folder: Path, seed: int) -> list[str]:
    """Say what is wrong with the store in a folder, and with the calls, after a whole session."""
    store = sample.store_in(folder)
    seen = look(store)
    _, history = expected(session(seed))
    flaws, found = flaws_of(store, seen), seen.history
    if found != history:
        flaws.append(
            f"the history lacks {[entry for entry in history if entry not in found]} and has "
            f"{[entry for entry in found if entry not in history]}"
        )
    wanted = {f"{place}:{name}:{visit}" for place, name, visit, *_ in history if name not in SILENT}
    called = sample.visits(sample.calls(folder)).keys()
    flaws += [f"{visit} was never called" for visit in sorted(wanted - called)]
    return flaws + [f"{visit} should not have been called" for visit in sorted(called - wanted)]


def replayed(folder: Path, manner: Manner, seed: int, kills: int) -> tuple[list[Any], list[str]]:
    """Play on after kills; return the results, and the calls that must not have been made."""
    before, entered = look(sample.store_in(folder)), sample.calls(folder)
    _, results = play(folder, manner, seed)
    lines = sample.calls(folder)
    flaws = [
        f"{visit} was on record and was called again"
        for visit in sample.visits(lines[len(entered) :])
        if visit in before.completed
    ]
    flaws += [
        f"{v} was called {times} times" for v, times in sample.visits(lines).items() if times > 1 + kills
    ]
    return results, flaws


def _case(elsewhere: Elsewhere, manner: Manner, seed: int, chance: random.Random) -> str | None:
    with sample.scratch() as folder, sample.scratch() as other:
        is_dead, undisturbed = elsewhere.ends(play, other, manner, seed)
        repeat = f"Repeat: sessions.once({manner}, {seed}, [])"
        if is_dead or isinstance(undisturbed, Exception):
            return f"undisturbed: {undisturbed!r}. {repeat}"
        points, results = undisturbed
        flaws = [*_other_results(results, seed), *elsewhere(looked, other, seed)]
        if flaws:
            return f"undisturbed: {'; '.join(flaws)}. {repeat}"
        kills = sorted(chance.randint(1, points) for _ in range(chance.choice([1, 2, 3])))
        return _told(elsewhere, folder, manner, seed, kills)


def _other_results(results: list[Any], seed: int) -> list[str]:
    wanted, _ = expected(session(seed))
    pairs = enumerate(zip(results, wanted, strict=True))
    return [f"call {n} gave {given}, not {right}" for n, (given, right) in pairs if given != right]


def _told(elsewhere: Elsewhere, folder: Path, manner: Manner, seed: int, kills: Sequence[int]) -> str | None:
    for at in kills:
        elsewhere.ends(play, folder, manner, seed, at)
    is_dead, found = elsewhere.ends(replayed, folder, manner, seed, len(kills))
    repeat = f"Repeat: sessions.once({manner}, {seed}, {list(kills)})"
    if is_dead or isinstance(found, Exception):
        return f"{found!r}. {repeat}"
    results, flaws = found
    flaws = [*flaws, *_other_results(results, seed), *elsewhere(looked, folder, seed)]
    return f"{'; '.join(flaws)}. {repeat}" if flaws else None


def once(manner: Manner, seed: int, kills: Sequence[int]) -> str | None:
    """Repeat one case."""
    with started() as elsewhere, sample.scratch() as folder:
        return _told(elsewhere, folder, manner, seed, kills)


def _some_of(part: int, parts: int, scale: float, seed: int) -> Outcome:
    outcome = Outcome(NAME)
    with started() as elsewhere:
        for number in range(part, scaled(CASES, scale, least=len(MANNERS)), parts):
            case = 10_000 * seed + number
            manner = MANNERS[number % len(MANNERS)]
            outcome.count(_case(elsewhere, manner, case, random.Random(case)))
    return outcome


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Kill sessions at random points."""
    return in_two(Outcome(NAME), partial(_some_of, scale=scale, seed=seed))
