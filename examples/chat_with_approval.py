"""A chat reply that streams while it is written and waits for a human before it is sent.

`runner.iter` hands out the events of a run as they happen. The interrupt has no answer at first, so the
run pauses; running again with the answer takes it from there.
"""

import asyncio
from collections.abc import AsyncIterator

from hypergraph import AsyncRunner, Graph, StreamingChunkEvent, interrupt, node


@node(output_name="pieces")
async def write(question: str) -> AsyncIterator[str]:
    for word in f"You asked: {question} The answer is 42.".split():
        await asyncio.sleep(0)  # a language model would take its time here
        yield word


@node(output_name="reply")
def join(pieces: list[str]) -> str:
    return " ".join(pieces)


@interrupt(output_name="approved")
def approve(reply: str) -> bool | None:
    return None  # nobody is here to ask: pause


@node(output_name="sent")
def send(reply: str, approved: bool) -> str:
    return f"sent: {reply}" if approved else "thrown away"


chat = Graph([write, join, approve, send], name="chat")


async def main() -> None:
    runner, question = AsyncRunner(), "What is the answer?"

    print("--- first run: stream, then pause")
    events = runner.iter(chat, question=question, run_id="chat-1")
    async for event in events:
        if isinstance(event, StreamingChunkEvent):
            print(event.chunk, end=" ", flush=True)
    pause = events.result.pause
    assert pause is not None
    print(f"\n{events.result.status.value}: {pause.node_name} shows {pause.value!r}")
    print(f"and waits for {pause.response_key!r}")

    print("--- second run: the same inputs, and the answer")
    result = await runner.run(chat, {"question": question, pause.response_key: True})
    print(result["sent"])


if __name__ == "__main__":
    asyncio.run(main())
