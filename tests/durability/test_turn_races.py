"""Turns of two runners on one chat: what the other one did between the look and the claim."""

from __future__ import annotations

from typing import Any

import pytest
from support.running import run_async, run_sync

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer


@pytest.mark.parametrize("call", [run_sync, run_async], ids=["sync", "async"])
def test_a_resume_without_values_does_not_repeat_an_older_message(call: Any) -> None:
    said_to: list[str] = []
    down = [True]

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        if said == "two" and down:
            down.clear()
            raise ConnectionError
        said_to.append(said)
        return said

    chat, store = Graph([listen], name="chat"), MemoryCheckpointer()
    other = SyncRunner(checkpointer=store)
    other.run(chat, said="one", workflow_id="c")
    other.run(chat, said="two", workflow_id="c", error_handling="continue")
    backend, claim = store.backend, store.backend.claim

    def late(*args: Any, **options: Any) -> Any:
        backend.claim = claim  # type: ignore[method-assign]  # of this test
        other.run(chat, workflow_id="c")
        other.run(chat, said="three", workflow_id="c")
        return claim(*args, **options)

    backend.claim = late  # type: ignore[method-assign]  # as above
    result = call(chat, workflow_id="c", store=store)
    assert result.completed
    assert said_to == result["messages"] == ["one", "two", "three"]
