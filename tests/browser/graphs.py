"""The graphs whose runs the page is looked at with, and which a server of a test may run."""

from __future__ import annotations

import asyncio
from typing import Any

from hypergraph import END, Graph, NodeContext, RetryPolicy, interrupt, node, route

MARKUP = '<img src="x" onerror="harmed=1">'
NASTY = [
    MARKUP,
    "</script><script>harmed=1</script>",
    "</pre></title></style></textarea><svg onload='harmed=1'>",
    "<a href='javascript:harmed=1'>press</a>",
    "javascript:harmed=1",
    "'\"`${harmed=1}{{constructor.constructor('harmed=1')()}}",
    "\x1b[31mred\x07\x00\x9b",
    "\u202egnp.exe \u2066hidden\u2069 zero\u200bwidth \ufeff",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "../../../etc/passwd?a=b#c%2e%2e",
]


@node(output_name="n")
def bump(n: int) -> int:
    return n + 1


@node(output_name="double")
def twice(n: int) -> int:
    return n * 2


@route(targets=["bump", END])
def enough(n: int, double: int, until: int) -> str:
    return END if n >= until else "bump"


loop = Graph([bump, twice, enough], name="loop")


@node(output_name="clean")
def tidy(ticket: dict[str, Any]) -> str:
    return str(ticket["text"]).strip()


@node(output_name="reply")
def reply_to(clean: str) -> str:
    if clean.endswith("13"):
        raise TimeoutError(f"nobody answered {clean}")
    return clean.upper()


triage = Graph([tidy, reply_to], name="triage")
desk = Graph([triage.as_node().map_over("ticket", error_handling="continue")], name="desk")


@node(output_name="leaf")
def plant(seed: int) -> dict[str, Any]:
    return {"seed": seed, "bytes": b"\x00\xff"}


def _nested() -> Graph:
    graph = Graph([plant], name="fourth")
    for name in ("third", "second", "first"):
        graph = Graph([graph.as_node()], name=name)
    return graph


nest = _nested()


@node(output_name="loaded")
def load(source: dict[str, Any]) -> list[int]:
    return list(range(int(source["rows"])))


@node(output_name="share")
def divide(loaded: list[int], by: int) -> float:
    if not by:
        raise ZeroDivisionError("by is 0")
    return len(loaded) / by


@node(output_name="report")
def write_report(share: float) -> str:
    return f"{share} each"


shares = Graph([load, divide, write_report], name="shares")
deep_shares = Graph([Graph([shares.as_node()], name="middle").as_node()], name="outer")


@node(output_name="draft")
def write(topic: str) -> str:
    return f"About {topic}"


@interrupt(output_name="approved")
def approve(draft: str) -> None:
    return None


@node(output_name="sent")
def send(draft: str, approved: bool) -> str:
    return f"{draft}: {approved}"


newsletter = Graph([write, approve, send], name="newsletter")


@node(output_name="documents")
def retrieve(question: str) -> list[str]:
    return [f"a page about {question}"]


@node(output_name="prompt")
def build(question: str, documents: list[str]) -> str:
    return f"{question}? {documents[0]}"


@node(output_name="answer")
def generate(prompt: str) -> str:
    return f"An answer to {prompt}"


answers = Graph([retrieve, build, generate], name="answers")


@node(output_name="shelf")
def collect(size: int) -> dict[str, Any]:
    rows = [{"number": number, "name": f"row {number}"} for number in range(size)]
    return {"rows": rows, "text": "lorem ipsum " * size, "empty": [], "nothing": None}


@node(output_name="count")
def count(shelf: dict[str, Any]) -> int:
    return len(shelf["rows"])


library = Graph([collect, count], name="library")


@node(output_name="page", retry=RetryPolicy(max_attempts=3, initial_delay=0))
def fetch(url: str) -> str:
    raise ConnectionError(f"{url} is busy")


fetching = Graph([fetch], name="fetching")


@node(output_name="spoils")
def harvest(bait: str) -> dict[str, Any]:
    return {text: [text, {text: text}] for text in NASTY}


@node(output_name="never")
def burst(spoils: dict[str, Any]) -> None:
    raise RuntimeError("\n".join(NASTY))


hostile = Graph([harvest, burst], name=MARKUP)


@node(output_name="messages", append=True)
def listen(said: str) -> dict[str, str]:
    return {"role": "user", "content": said}


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[dict[str, str]]) -> tuple[dict[str, str], list[str]]:
    last = messages[-1]
    calls = [last["content"]] if last["role"] == "user" else []
    return {"role": "assistant", "content": f"on {last['content']}"}, calls


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str]) -> list[dict[str, str]]:
    return [{"role": "tool", "content": f"a page on {call}"} for call in calls]


agent = Graph([listen, ask, decide, act], name="agent")


@route(targets=["brief", "lengthy", END])
def pick(kind: str) -> str:
    return {"short": "brief", "long": "lengthy"}.get(kind, END)


@node(output_name="said")
def brief(kind: str) -> str:
    return f"a {kind} text"


@node(output_name="said")
def lengthy(kind: str) -> str:
    return f"a {kind} text, at length"


gated = Graph([pick, brief, lengthy], name="gated")


@node(output_name=("text", "tries"))
def draft(topic: str, tries: int = 0) -> tuple[str, int]:
    return f"{topic} draft {tries + 1}", tries + 1


@route(targets=["draft", END])
def check(text: str, tries: int) -> str:
    return END if tries >= 3 else "draft"


@node(output_name="printed")
def publish(text: str) -> str:
    return text.upper()


rounds = Graph([Graph([draft, check], name="revise").as_node(), publish], name="rounds")


@node(output_name="fetched")
def pull(address: str) -> str:
    if "bad" in address:
        raise ConnectionError(f"{address} is down")
    return address.upper()


flaky = Graph([pull], name="flaky")


@node(output_name="plan")
def think(question: str, context: NodeContext) -> list[str]:
    parts: list[str] = context.step("split", question.split)
    context.record(tokens=120, cost=0.002)
    return context.step("order", sorted, parts)


_calls: list[str] = []


def unsteady(part: str) -> str:
    _calls.append(part)
    if len(_calls) % 3:
        raise ConnectionError(f"call {len(_calls)} for {part} was cut off")
    return part.upper()


@node(output_name="found", retry=RetryPolicy(max_attempts=3, initial_delay=0.001))
def look_up(plan: list[str], context: NodeContext) -> str:
    context.record(tokens=30)
    return unsteady(plan[0])


thinking = Graph([think, look_up], name="thinking")


@node(output_name="slept")
async def sleep_a_little(number: int) -> int:
    await asyncio.sleep(0.02)
    return number


sleepers = Graph(
    [sleep_a_little.with_name(f"sleeper_{n}").with_outputs(slept=f"slept_{n}") for n in range(3)],
    name="sleepers",
)


@node(output_name="scored")
def score(total: int, context: NodeContext) -> int:
    context.record(tokens=total)
    return total + 1


@node(output_name="total")
def grow(scored: int) -> int:
    return scored


@route(targets=["score", END])
def tall(total: int, until: int) -> str:
    return END if total >= until else "score"


climb = Graph([score, grow, tall], name="climb").with_entrypoint("score")
