"""pydantic-graph, for the comparison."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_graph import GraphBuilder, StepContext

from benchmarks.facts import LOOPS, Facts


def loops() -> bool:
    builder: Any = GraphBuilder(input_type=int, output_type=int)

    @builder.step
    async def grow(context: StepContext[None, None, int]) -> int:
        return context.inputs + 1

    again = builder.decision().branch(builder.match(int, matches=lambda n: n < 3).to(grow))
    again = again.branch(builder.match(int).to(builder.end_node))
    builder.add(builder.edge_from(builder.start_node).to(grow), builder.edge_from(grow).to(again))
    return bool(asyncio.run(builder.build().run(inputs=0)) == 3)


FACTS: Facts = {LOOPS: loops}
