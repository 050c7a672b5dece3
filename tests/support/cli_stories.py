"""A database with one workflow of each kind: what people look at with the command line.

`python cli_stories.py FILE` writes it; the address of a Postgres database does as well. Time passes only
where a node says so, and all of it was two hundred days ago, so that every screen is the same each time: ages
have three digits, durations are exact.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hypergraph.durability.journal
from hypergraph import END, AsyncRunner, Graph, SyncRunner, clock, interrupt, node, route
from hypergraph.engine import concurrent, execute, nested, run
from hypergraph.views.stores import store_at
from support.cli import ENVIRONMENT, Cli

DAYS_AGO = 200
# A workflow of each kind.
STORIES = [
    "batch-1",
    "support-1",
    "nightly-1",
    "refine-1",
    "offer-1",
    "order-457",
    "order-456-retry",
    "hostile-1",
]


class Time:
    """The only clock of this process."""

    def __init__(self) -> None:
        today = datetime.now(UTC).replace(hour=8, minute=15, second=0, microsecond=0)
        self.begin = today - timedelta(days=DAYS_AGO)
        self.seconds = 0.0

    def wall(self) -> datetime:
        return self.begin + timedelta(seconds=self.seconds)

    def passes(self, ms: float) -> None:
        self.seconds += ms / 1000

    def rule(self) -> None:
        for module in (execute, concurrent, nested, execute, run, run):
            if hasattr(module, "clock"):
                module.clock = lambda: 1000 + self.seconds
        hypergraph.durability.journal._clock = lambda: 1000 + self.seconds
        clock.clock = self.wall


time = Time()


# --- a map with failures: slow items, failing items, wrong answers --------------------------------


@node(output_name="embedding")
def embed(query: str) -> list[float]:
    time.passes(180)
    return [float(len(query)), 0.5]


@node(output_name="documents")
def retrieve(embedding: list[float]) -> list[dict[str, Any]]:
    time.passes(220)
    return [{"title": "Password Reset Guide", "score": embedding[0]}, {"title": "Billing/FAQ", "score": 0.5}]


@node(output_name="prompt")
def build_prompt(query: str, documents: list[dict[str, Any]]) -> str:
    time.passes(12)
    titles = "\n".join(f"{number}. {document['title']}" for number, document in enumerate(documents, 1))
    return f"Based on the following documents:\n{titles}\nAnswer: {query}"


@node(output_name="answer")
def llm_call(query: str, prompt: str) -> str:
    time.passes(2800)
    if "tax" in query:
        raise TimeoutError("504 Gateway Timeout")
    return f"An answer to {query!r}"


rag = Graph([embed, retrieve, build_prompt, llm_call], name="rag_pipeline")
QUERIES = ["reset password", "change plan", "tax form", "close account", "tax rate", "export data"]


# --- routing -------------------------------------------------------------------------------------


@route(targets=["account_support", "billing_support"])
def classify(query: str) -> str:
    time.passes(120)
    return "account_support" if "password" in query else "billing_support"


@node(output_name="reply")
def account_support(query: str) -> str:
    time.passes(2400)
    return "Use the link in the mail."


@node(output_name="reply")
def billing_support(query: str) -> str:
    time.passes(900)
    return "See your invoice."


@node(output_name="response")
def format_response(reply: str) -> str:
    time.passes(45)
    return f"Dear customer: {reply}"


router = Graph([classify, account_support, billing_support, format_response], name="support_router")


# --- a nested graph, and one that is mapped -------------------------------------------------------


@node(output_name="pages")
def load(folder: str) -> list[str]:
    time.passes(900)
    return [f"{folder}/{number}" for number in range(3)]


@node(output_name="score")
def rate(pages: str) -> int:
    time.passes(400)
    return len(pages)


@node(output_name="report")
def report(score: list[int]) -> str:
    time.passes(30)
    return f"{len(score)} pages, {sum(score)} points"


nightly = Graph([load, Graph([rate], name="score_all").as_node().map_over("pages"), report], name="nightly")


# --- a loop --------------------------------------------------------------------------------------


@node(output_name="draft")
def write(topic: str, notes: list[str]) -> str:
    time.passes(1500)
    return f"{topic}, version {len(notes) + 1}"


@node(output_name="notes")
def critique(draft: str, notes: list[str]) -> list[str]:
    time.passes(300)
    return [*notes, f"more about {draft}"]


@route(targets=["write", END])
def enough(notes: list[str]) -> str:
    time.passes(3)
    return END if len(notes) >= 3 else "write"


refine = Graph([write, critique, enough], name="refine")


# --- a question to a person, and values of a class of this program ------------------------------


@dataclass
class Offer:
    customer: str
    amount: int


@node(output_name="offer")
def prepare(customer: str) -> Offer:
    time.passes(60)
    return Offer(customer, 1200)


@interrupt(output_name="approved")
def approve(offer: Offer) -> bool | None:
    return None


@node(output_name="sent")
def send(offer: Offer, approved: bool) -> str:
    time.passes(20)
    return "sent" if approved else "dropped"


offers = Graph([prepare, approve, send], name="offers")


# --- a failed run, one that was fixed and resumed, and a fork ------------------------------------

ledger = {"open": False}


@node(output_name="stock")
def check_stock(order: str) -> int:
    time.passes(310)
    return 7


@node(output_name="price")
def quote(order: str, stock: int) -> int:
    time.passes(95)
    return stock * 3


@node(output_name="booking")
def book(order: str, price: int) -> str:
    time.passes(580)
    if not ledger["open"]:
        raise RuntimeError("503 Service Unavailable")
    return f"{order} for {price}"


orders = Graph([check_stock, quote, book], name="orders")


# --- names, values and errors that try to move the cursor -----------------------------------------


@node(output_name="page")
def fetch(url: str) -> str:
    time.passes(1)
    return "\x1b[2J\x1b[31mred\r\nforged: line\u202e <script>alert(1)</script>"


@node(output_name="parsed")
def parse(page: str) -> str:
    time.passes(1)
    raise ValueError(f"cannot parse {page}\nnext: rm -rf ~")


hostile = Graph([fetch, parse], name="hostile\x1b[31m")


def tell(address: str) -> None:
    """Write all stories into a file or a database."""
    time.rule()
    store = store_at(address, create=True)
    runner = SyncRunner(checkpointer=store)

    def go(graph: Graph, values: dict[str, Any], name: str, **more: Any) -> None:
        runner.run(graph, values, workflow_id=name, error_handling="continue", **more)
        time.passes(60_000)

    runner.map(rag, {"query": QUERIES}, map_over="query", workflow_id="batch-1", error_handling="continue")
    time.passes(60_000)
    go(router, {"query": "How do I reset my password?"}, "support-1")
    go(nightly, {"folder": "docs"}, "nightly-1")
    go(refine, {"topic": "tea", "notes": []}, "refine-1")
    asyncio.run(AsyncRunner(checkpointer=store).run(offers, {"customer": "Ann"}, workflow_id="offer-1"))
    time.passes(60_000)
    go(orders, {"order": "A-456"}, "order-456")
    go(orders, {"order": "A-457"}, "order-457")
    ledger["open"] = True
    go(orders, {}, "order-457")
    go(orders, {"price": 20}, "order-456-retry", fork_from=("order-456", 1))
    go(hostile, {"url": "https://x"}, "hostile-1")
    store.close()


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The command, about a database that another process has written."""
    database = tmp_path_factory.mktemp("stories") / "stories.db"
    subprocess.run([sys.executable, __file__, str(database)], check=True, env=ENVIRONMENT)
    return Cli(database)


if __name__ == "__main__":
    tell(sys.argv[1])
