"""Runs that wait for people and for time, and nodes that others listen to, while processes are killed.

Answers: a map with a question for each item is answered in random order by four processes at a time, which
are killed and started again, and then run by processes that are killed: no answer is lost, none is used
twice, and none of another type is written. Timers: each fires once, not early, and at full size within a
second. Streams: a reader that is cut off again and again gets every offset once, and is told when the node
is called again.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypergraph import Graph, NodeContext, SyncRunner, interrupt, node, pause_for
from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import InvalidAnswerError, WorkflowError, WorkflowLockedError
from proofs.outcome import Outcome
from proofs.rivals import MISSING

NAME = "answers, timers and streams under kills"
ITEMS, TIMERS, CHUNKS = 1000, 20, 400
PEOPLE = 4
LATEST = 1.0  # seconds


@interrupt("count")
def ask(topic: int) -> int | None:
    return None


@node(output_name="sent")
def send(topic: int, count: int) -> int:
    return count


asking = Graph([ask, send], name="asking")
waiting = Graph([pause_for("wait", lambda seconds: seconds, hold=0)], name="waiting")


@node(output_name="total", stream=True)
def speak(upto: int, context: NodeContext) -> int:
    for number in range(upto):
        context.stream(number)
        if number % 20 == 0:
            time.sleep(0.002)  # the stream is written meanwhile
    return upto


speaking = Graph([speak], name="speaking")


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Run all three; the scale is that of the number of items, timers and chunks."""
    outcome = Outcome(NAME)
    if MISSING:
        outcome.skipped = MISSING
        return outcome
    with outcome.timed(), tempfile.TemporaryDirectory() as folder:
        dice = random.Random(seed)
        prove_answers(outcome, Path(folder) / "answers.db", max(20, int(ITEMS * scale)), dice)
        prove_timers(outcome, Path(folder) / "timers.db", max(5, int(TIMERS * scale)), is_timed=scale >= 1)
        prove_streams(outcome, Path(folder) / "streams.db", max(100, int(CHUNKS * scale)), dice)
    return outcome


class Helper:
    """A function in a process of its own, which may be killed."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.code: int | None = None  # once it has ended
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)

    def ended(self, *, wait: bool = False) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def kill(self) -> None:
        """Kill it, unless it has ended: then its number may be that of another process."""
        if self.ended() is None:
            os.kill(self.pid, signal.SIGKILL)


def until_done(make: Callable[[], Helper], dice: random.Random, *, kills: int, longest: float) -> int:
    """Start a process again and again, killed a few times, until it ends by itself; return its code."""
    for _ in range(kills):
        helper = make()
        time.sleep(dice.uniform(0, longest))
        helper.kill()
        if (code := helper.ended(wait=True)) is not None and code >= 0:
            return code
    return make().ended(wait=True) or 0


# -- answers -------------------------------------------------------------------------------------------


def prove_answers(outcome: Outcome, file: Path, items: int, dice: random.Random) -> None:
    """Answer every item of a map in processes that are killed; then run the map in such processes."""
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).map(asking, topic=list(range(items)), map_over="topic", workflow_id="m")
    store.close()
    journal = file.with_suffix(".txt")
    journal.touch()
    seeds = [dice.random() for _ in range(PEOPLE)]

    def person(number: int) -> Callable[[], None]:
        return lambda: answer_all(file, journal, items, number, random.Random(seeds[number] + time.time()))

    people = {number: Helper(person(number)) for number in range(PEOPLE)}
    kills = PEOPLE * 3
    while people:
        for number, helper in list(people.items()):
            if helper.ended() is not None:
                del people[number]
            elif kills and dice.random() < 0.2:
                kills -= 1
                helper.kill()
                helper.ended(wait=True)
                people[number] = Helper(person(number))
        time.sleep(0.02)
    store = SqliteCheckpointer(file)
    questions = store.questions("m")
    outcome.count(None if len(questions) == items else f"{len(questions)} of {items} questions are there")
    given: dict[int, int] = {}
    for question in questions:
        number, answer = int(question.step.workflow_id.rpartition("-")[2]), question.step.answer
        given[number] = -1 if answer is None else answer["count"]
        by = question.step.answered_by
        is_right = answer is not None and by == f"p{given[number] % 10}" and given[number] // 10 == number
        outcome.count(None if is_right else f"item {number}: answer {answer!r} by {by}")
    accepted = Counter(line.split()[0] for line in journal.read_text().splitlines() if line.endswith("yes"))
    for number, count in accepted.items():
        outcome.count(None if count == 1 else f"item {number}: {count} people were told that they were first")
    for line in journal.read_text().splitlines():
        if line.endswith("wrong"):
            outcome.count(f"an answer of another type was taken: {line}")
    store.close()
    until_done(lambda: Helper(lambda: run_map(file, items)), dice, kills=6, longest=items / 500)
    store = SqliteCheckpointer(file)
    status = store.workflow("m").status
    outcome.count(None if status is WorkflowStatus.COMPLETED else f"the map is {status.value}")
    for number in range(items):
        steps = [(s.node_name, s.status.value, s.values) for s in store.steps(f"m/item-{number}")]
        wanted = [
            ("ask", "completed", {"count": given.get(number)}),
            ("send", "completed", {"sent": given.get(number)}),
        ]
        outcome.count(None if steps == wanted else f"item {number} has steps {steps}")
    store.close()


def answer_all(file: Path, journal: Path, items: int, who: int, dice: random.Random) -> None:
    """Answer every item in random order, each with an answer of one's own, and note who was first."""
    store = SqliteCheckpointer(file)
    order = list(range(items))
    dice.shuffle(order)
    with open(journal, "a", buffering=1) as out:
        for number in order:
            key = f"item-{number}.count"
            try:
                if dice.random() < 0.1:
                    store.answer("m", key, "many", by=f"p{who}")
                    out.write(f"{number} p{who} wrong\n")
            except InvalidAnswerError:
                pass
            except WorkflowError:
                continue
            before = store.steps(f"m/item-{number}", node="ask")[0].answer
            try:
                store.answer("m", key, number * 10 + who, by=f"p{who}")
            except WorkflowError:
                continue
            out.write(f"{number} p{who} {'yes' if before is None else 'again'}\n")


def run_map(file: Path, items: int) -> None:
    """Run the map to its end; an owner that was killed a moment ago may still look alive."""
    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    while True:
        try:
            runner.map(asking, topic=list(range(items)), map_over="topic", workflow_id="m")
            return
        except WorkflowLockedError:
            time.sleep(0.05)


# -- timers --------------------------------------------------------------------------------------------


def prove_timers(outcome: Outcome, file: Path, count: int, *, is_timed: bool) -> None:
    """Let a process watch timers that are due one after another."""
    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    due: dict[str, Any] = {}
    for number in range(count):
        asked = runner.run(waiting, seconds=0.3 + number * 0.1, workflow_id=f"t{number}")
        due[f"t{number}"] = asked.pause and asked.pause.due
    store.close()
    watcher = Helper(lambda: watch(file, count))
    code = watcher.ended(wait=True)
    outcome.count(None if code == 0 else f"the watcher ended with {code}")
    store = SqliteCheckpointer(file)
    for workflow_id, moment in due.items():
        steps = store.steps(workflow_id)
        late = (steps[0].completed_at - moment).total_seconds() if moment and steps[0].completed_at else -1.0
        is_once = [step.status.value for step in steps] == ["completed"]
        in_time = late >= 0 and (late <= LATEST or not is_timed)
        outcome.count(None if is_once and in_time else f"{workflow_id}: {steps}, {late:.3f} s late")
    store.close()


def watch(file: Path, count: int) -> None:
    """Run what is due, as `hypergraph resume --due --watch` does, until nothing waits any more."""
    store: Checkpointer = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    done = 0
    while done < count:
        for found in store.due_runs("waiting"):
            runner.run(waiting, workflow_id=found.id)
            done += 1
        time.sleep(0.1)


# -- streams -------------------------------------------------------------------------------------------


def prove_streams(outcome: Outcome, file: Path, chunks: int, dice: random.Random) -> None:
    """Read a stream in pieces, while its writer is killed and started again."""
    store = SqliteCheckpointer(file)
    runs = [Helper(lambda: speak_on(file, chunks))]
    while store.backend.read_workflow("s") is None:
        time.sleep(0.005)
    found: list[Any] = []
    connections, kills = 0, 4
    while True:
        offset = found[-1].offset + 1 if found else 0
        connections += 1
        piece, size = 0, dice.randint(1, max(2, chunks // 8))
        for chunk in store.read_stream("s", "speak", offset=offset, timeout=0.3):
            found.append(chunk)
            piece += 1
            if piece >= size:
                break
        if kills and piece:
            kills -= 1
            runs[-1].kill()
        if runs[-1].ended() is not None and store.workflow("s").status is WorkflowStatus.ACTIVE:
            runs.append(Helper(lambda: speak_on(file, chunks)))
        if not piece and store.workflow("s").status is not WorkflowStatus.ACTIVE:
            break
    offsets = [chunk.offset for chunk in found]
    outcome.count(None if offsets == list(range(len(found))) else f"offsets {offsets}")
    streams: list[list[int]] = [[]]
    for chunk in found:
        if chunk.kind == "restart":
            streams.append([])
        else:
            streams[-1].append(chunk.value)
    for values in streams:
        outcome.count(None if values == list(range(len(values))) else f"a stream holds {values}")
    outcome.count(None if len(streams[-1]) == chunks else f"the last stream has {len(streams[-1])} chunks")
    outcome.count(None if connections >= 8 else f"only {connections} connections")
    store.close()


def speak_on(file: Path, chunks: int) -> None:
    """Run the workflow that streams."""
    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    while True:
        try:
            runner.run(speaking, upto=chunks, workflow_id="s", force=True)
            return
        except WorkflowLockedError:
            time.sleep(0.02)
