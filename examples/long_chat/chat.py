"""`python chat.py talk 300` has a conversation of so many turns, `python chat.py back 100` goes back to one.

One workflow id for the whole conversation. The bot gets all messages in each turn, and returns them with two
more; the store keeps what was added.
"""

import asyncio
import json
import sys
from pathlib import Path

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node

Messages = list[dict[str, str]]

FILE = Path("chat.db")
SUBJECTS = ("tea", "rain", "trains", "chess", "bread", "owls", "maps", "salt", "kites", "moss")


def question(turn: int) -> str:
    """Return what the user says in a turn: a script, in place of somebody who types."""
    return f"What do you think about {SUBJECTS[turn * 7 % len(SUBJECTS)]}, on day {turn}?"


@node(output_name="messages")
def reply(said: str, messages: Messages | None = None) -> Messages:
    """Answer, with a look at all that was said before. A language model would be asked here."""
    earlier = messages or []
    subject = next((subject for subject in SUBJECTS if subject in said), "that")
    times = sum(subject in message["text"] for message in earlier if message["role"] == "user")
    answer = f"I like {subject} as much as ever. You have asked {times} times before."
    return [*earlier, {"role": "user", "text": said}, {"role": "bot", "text": answer}]


chat = Graph([reply], name="chat")


def talk(turns: int) -> None:
    """Take the turns, and compare: what was said, the file, and all the lists that the bot has returned."""
    print(f"{'turns':>5} {'said':>8} {'file':>8} {'file per turn':>14} {'lists':>10}")
    said = lists = 0
    for until in range(100, turns + 1, 100):
        store = SqliteCheckpointer(FILE)  # as by a process that is started anew
        runner = SyncRunner(checkpointer=store)
        for turn in range(until - 99, until + 1):
            result = runner.run(chat, said=question(turn), workflow_id="chat", new_turn=True)
            said = len(json.dumps(result["messages"]))
            lists += said
        store.close()
        file = FILE.stat().st_size
        print(f"{until:5} {said:8,} {file:8,} {file // until:14,} {lists:10,}")


async def back(turn: int) -> None:
    """Show the conversation as it was after a turn, say something else from there on, and compare."""
    store = SqliteCheckpointer(FILE)
    there = (store.iterations("chat", "reply"))[turn - 1].step.superstep
    print(f"turn {turn}: {store.state('chat', superstep=there)['messages'][-1]['text']}")

    values = {"said": "Let us talk about owls."}
    result = SyncRunner(checkpointer=store).run(chat, values, fork_from=("chat", there), workflow_id="chat-b")
    print(f"instead: {result['messages'][-1]['text']}")
    difference = store.diff("chat", "chat-b")
    assert difference is not None
    assert difference.first is not None
    longer, shorter = difference.changed["messages"]
    print(f"they part at step {difference.first.position}: {len(longer)} and {len(shorter)} messages")


if __name__ == "__main__":
    command, number = sys.argv[1], int(sys.argv[2])
    if command == "talk":
        talk(number)
    else:
        asyncio.run(back(number))
