"""A reply that is shown while it is written, and the values that are there at the end.

`runner.iter` hands out the events of a run as they happen. What a generator yields is a chunk, and all chunks
together are its output.
"""

import asyncio
from collections.abc import AsyncIterator

from hypergraph import AsyncRunner, Graph, StreamingChunkEvent, node


@node(output_name="pieces")
async def write(question: str) -> AsyncIterator[str]:
    for word in f"You asked: {question} The answer is 42.".split():
        await asyncio.sleep(0)  # a language model would take its time here
        yield word


@node(output_name="reply")
def join(pieces: list[str]) -> str:
    return " ".join(pieces)


chat = Graph([write, join], name="chat")


async def main() -> None:
    print("--- while it is written")
    events = AsyncRunner().iter(chat, question="What is the answer?")
    async for event in events:
        if isinstance(event, StreamingChunkEvent):
            print(event.chunk, end=" ", flush=True)

    print("\n--- when it is done")
    print(repr(events.result["reply"]))
    print(events.result.log)


if __name__ == "__main__":
    asyncio.run(main())
