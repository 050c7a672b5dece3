"""A chat agent with two tools, killed anywhere and started again: no message is lost or doubled.

The agent appends to `messages`; one of its tools must not be repeated. A program talks to it for some turns
and is killed at a random point of the store, or in a body. Started again, it says what is left: the messages
are those of an undisturbed chat, no call on record is made again, and each payment is made once.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support import crashing
from support.processes import Elsewhere, started
from support.stored import store_at

from hypergraph import END, Graph, NodeContext, node, route
from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability import journal
from hypergraph.exceptions import WorkflowNotFoundError
from proofs import sample
from proofs.kills import in_two
from proofs.outcome import Outcome, scaled
from proofs.sample import Manner

NAME = "kills of a chat agent"
KILLS, TURNS = 100, 4
MANNERS = [
    Manner("sync", "sync"),
    Manner("async", "sync", early=0.0),
    Manner("sync", "async"),
    Manner("async", "async", early=0.0),
    Manner("async", "exit"),
]
Message = dict[str, str]
_folder: list[Path] = []
_points = [0]  # of this process so far
_kill_at = [0]  # the number of the point at which to die, 0 for none


def reach(_name: str) -> None:
    """Come by a point; die if it is the one."""
    _points[0] += 1
    if _points[0] == _kill_at[0]:
        os.kill(os.getpid(), signal.SIGKILL)


def enter(context: NodeContext) -> str:
    """Leave a line for a call, between two points; return its key."""
    key = context.idempotency_key
    reach("before a body")
    crashing.note(key)
    reach("in a body")
    return key


def paid(where: str, key: str, inputs: dict[str, Any]) -> Any:
    """Return what a payment returned whose outcome is not known, if it was made."""
    return receipt(inputs["calls"]) if key in noted(_folder[0]) else NotImplemented


def receipt(calls: Sequence[str]) -> Message:
    return {"role": "tool", "text": f"paid for {calls[-1]}"}


@node(output_name="messages", append=True)
def listen(said: str, context: NodeContext) -> Message:
    enter(context)
    return {"role": "user", "text": said}


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[Message], context: NodeContext) -> tuple[Message, list[str]]:
    enter(context)
    last = messages[-1]
    wanted = [last["text"]] if last["role"] == "user" else []
    return {"role": "agent", "text": f"reply {len(messages)} to {last['text']}"}, wanted


@route(targets=["look", "pay", END], multi_target=True)
def decide(calls: list[str]) -> list[Any]:
    if not calls:
        return [END]
    number = int(calls[0].split()[-1])
    return [["look"], ["pay"], ["look", "pay"]][number % 3]


@node(output_name="messages", append=True)
def look(calls: list[str], context: NodeContext) -> list[Message]:
    enter(context)
    return [{"role": "tool", "text": f"{place} of {calls[0]}"} for place in ("top", "end")]


@node(output_name="messages", append=True, repeatable=False, on_ambiguous=paid)
def pay(calls: list[str], context: NodeContext) -> Message:
    enter(context)
    return receipt(calls)


AGENT = Graph([listen, ask, decide, look, pay], name="agent")


def expected() -> list[Message]:
    """Return the messages of an undisturbed chat: a plain list."""
    found: list[Message] = []
    for number in range(TURNS):
        said = f"turn {number}"
        found.append({"role": "user", "text": said})
        found.append({"role": "agent", "text": f"reply {len(found)} to {said}"})
        if number % 3 != 1:
            found += [{"role": "tool", "text": f"{place} of {said}"} for place in ("top", "end")]
        if number % 3 != 0:
            found.append(receipt([said]))
        found.append({"role": "agent", "text": f"reply {len(found)} to {found[-1]['text']}"})
    return found


def noted(folder: Path) -> list[str]:
    """Return the keys of all calls so far."""
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def talk(folder: Path, manner: Manner, at: int = 0) -> int:
    """Say what is left to be said, and be killed at a point; return how many points there were."""
    _folder[:], _points[0], _kill_at[0] = [folder], 0, at
    journal._EARLY = manner.early
    on = crashing.opened(folder, manner.runner, durability=manner.mode)
    store = store_at(folder / "w.db")
    fault_points.hook = reach
    try:
        while True:
            try:
                workflow = store.workflow("chat")
            except WorkflowNotFoundError:
                workflow = None
            if workflow is not None and workflow.status is not WorkflowStatus.COMPLETED:
                on.run(AGENT, workflow_id="chat")
                continue
            said = store.state("chat")["messages"] if workflow is not None else []
            number = sum(message["role"] == "user" for message in said)
            if number == TURNS:
                return _points[0]
            on.run(AGENT, said=f"turn {number}", workflow_id="chat", new_turn=True)
    finally:
        fault_points.hook = None


class Seen(NamedTuple):
    """What is on record: the messages, and the keys of completed calls."""

    messages: list[Message]
    keys: set[str]


def look_at(folder: Path) -> Seen:
    store = store_at(folder / "w.db")
    if store.backend.read_workflow("chat") is None:  # killed before it was there
        return Seen([], set())
    done = [step for step in store.steps("chat") if step.status is StepStatus.COMPLETED]
    keys = {f"chat:{step.node_name}:{step.visit}" for step in done}
    return Seen(store.state("chat").get("messages", []), keys)


def resumed(folder: Path, manner: Manner) -> list[str]:
    """Look at what a crash left, talk on, and say what is wrong."""
    before, calls_before = look_at(folder), noted(folder)
    flaws = []
    if before.messages != expected()[: len(before.messages)]:
        flaws.append(f"the crash left {before.messages}")
    talk(folder, manner)
    calls, found = noted(folder), look_at(folder).messages
    again = [key for key in calls[len(calls_before) :] if key in before.keys]
    flaws += [f"{key} was on record and called again" for key in again]
    if found != expected():
        texts = Counter(message["text"] for message in found)
        doubled = [text for text, times in texts.items() if times > 1]
        lost = [message["text"] for message in expected() if message["text"] not in texts]
        flaws.append(f"lost {lost}, doubled {doubled}, in all {found}")
    times = Counter(calls)
    flaws += [f"{key} was called {n} times" for key, n in times.items() if ":pay:" in key and n > 1]
    return flaws


def _case(elsewhere: Elsewhere, manner: Manner, kills: Sequence[int]) -> str | None:
    with sample.scratch() as folder:
        for at in kills:
            elsewhere.ends(talk, folder, manner, at)
        is_dead, flaws = elsewhere.ends(resumed, folder, manner)
    if is_dead or isinstance(flaws, Exception):
        flaws = [repr(flaws)]
    return f"{'; '.join(flaws)}. Repeat: chats.once({manner}, {kills})" if flaws else None


def once(manner: Manner, kills: Sequence[int]) -> str | None:
    """Repeat one case."""
    with started() as elsewhere:
        return _case(elsewhere, manner, kills)


def _some_of(part: int, parts: int, scale: float, seed: int) -> Outcome:
    outcome, chance = Outcome(NAME), random.Random(seed)
    with started() as elsewhere:
        points = []
        for manner in MANNERS:
            with sample.scratch() as folder:
                points.append(elsewhere(talk, folder, manner))
        for number in range(scaled(KILLS, scale, least=5)):
            manner, most = MANNERS[number % len(MANNERS)], points[number % len(MANNERS)]
            kills = [chance.randint(1, most) for _ in range(2 if number % 10 == 9 else 1)]
            if number % parts == part:
                outcome.count(_case(elsewhere, manner, kills))
    return outcome


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Kill the agent at random points."""
    return in_two(Outcome(NAME), partial(_some_of, scale=scale, seed=seed))
