"""Pipeline of the demo: a support desk that finds help pages and drafts replies until one is good enough.

Nodes are plain functions: `output_name` names the result, parameter names are the inputs, and edges follow
from these names. A good file to copy from.
"""

import math
import re
from collections import Counter

from hypergraph import END, FunctionNode, Graph, HyperNode, ifelse, interrupt, node, route
from hypergraph.demo import model
from hypergraph.demo.corpus import ARTICLES

# --- Retrieval: a graph of three nodes, used as one node of the desk. ---------------------------------

_COMMON = frozenset(
    [
        "a",
        "and",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "how",
        "i",
        "in",
        "is",
        "it",
        "my",
        "of",
        "on",
        "or",
        "please",
        "the",
        "to",
        "was",
        "we",
        "you",
    ]
)


def words_of(text: str) -> list[str]:
    """Return the words of a text without common ones, the plural s cut off."""
    return [word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower()) if word not in _COMMON]


_COUNTS = {slug: Counter(words_of(text)) for slug, text in ARTICLES.items()}
_SPREAD = Counter(word for counts in _COUNTS.values() for word in counts)  # in how many articles
_MEAN = sum(counts.total() for counts in _COUNTS.values()) / len(_COUNTS)


def bm25(words: list[str], slug: str, k: float = 1.5, b: float = 0.75) -> float:
    """Return the score of an article: rare words count more, repeated ones less and less (Okapi BM25)."""
    counts, score = _COUNTS[slug], 0.0
    for word in set(words).intersection(counts):
        rarity = math.log(1 + (len(_COUNTS) - _SPREAD[word] + 0.5) / (_SPREAD[word] + 0.5))
        weight = counts[word] + k * (1 - b + b * counts.total() / _MEAN)
        score += rarity * counts[word] * (k + 1) / weight
    return score


@node(output_name="words")
def tokenize(question: str) -> list[str]:
    return words_of(question)


def best(words: list[str], most: int = 2) -> list[str]:
    """Return the best articles, without those that have no word in common."""
    scores = {slug: bm25(words, slug) for slug in ARTICLES}
    return sorted(filter(scores.get, scores), key=lambda slug: -scores[slug])[:most]


@node(output_name="articles")
def rank(words: list[str]) -> list[str]:
    found = best(words)
    if not found:
        raise LookupError(f"no article mentions {', '.join(words) or 'any of it'}")
    return found


@node(output_name="articles")
def rank_or_contact(words: list[str]) -> list[str]:
    return best(words) or ["contact"]  # the fix of `rank`: without an article, refer to a person


@node(output_name="context")
def read(articles: list[str]) -> str:
    return " ".join(ARTICLES[slug] for slug in articles)


# --- Writing: a loop. The gate sends the run back to `draft` until the score is high enough. -----------


@node(output_name="reply")
def draft(question: str, context: str, advice: str = "") -> str:
    return model.write(question, context, advice)


@node(output_name=("score", "advice"))
def critique(reply: str) -> tuple[int, str]:
    return model.judge(reply)


@ifelse(when_true=END, when_false="draft")
def good_enough(score: int) -> bool:
    return score >= 90


writing = Graph([draft, critique, good_enough], name="writing").with_entrypoint("draft").select("reply")


# --- Refunds: set aside in a batch; in a single run, paused until a person has decided. ----------------


@node(output_name="reply")
def set_aside() -> str:
    return "A colleague decides about your refund today."


@node(output_name="proposal")
def propose(customer: str, question: str) -> str:
    amount = re.search(r"\d+ EUR", question)
    return f"pay {customer} {amount[0] if amount else 'what was paid'}"


@interrupt(output_name="approved")
def approve(proposal: str) -> bool | None:
    return None  # no answer yet: pause here


@node(output_name="reply")
def settle(proposal: str, approved: bool) -> str:
    return f"Done: {proposal}." if approved else "We cannot refund this order."


batch_refund = set_aside.with_name("refund")
asked_refund = Graph([propose, approve, settle], name="refund").select("reply").as_node()


# --- The desk: nodes and graphs wired by the names of outputs and parameters. --------------------------


@node(output_name=("customer", "question"))
def intake(message: str) -> tuple[str, str]:
    customer, colon, question = message.partition(": ")
    if not colon:
        raise ValueError("no sender, expected 'NAME: QUESTION'")
    return customer, question


@node(output_name="topic")
def classify(question: str) -> str:
    if "refund" in question.lower():
        return "refund"
    return "complaint" if "outrageous" in question.lower() else "question"


@route(targets=["writing", "refund", "call_back"])
def choose(topic: str) -> str:
    return {"question": "writing", "refund": "refund", "complaint": "call_back"}[topic]


@node(output_name="reply")
def call_back() -> str:
    return "We are sorry. A colleague calls you today."


@node(output_name="letter")
def address(ticket: str, customer: str, reply: str) -> str:
    return f"{ticket}, dear {customer}: {reply}"


def support_desk(search: FunctionNode = rank, refund: HyperNode = batch_refund) -> Graph:
    """Return the whole desk; the search and the handling of refunds can be replaced."""
    retrieval = Graph([tokenize, search.with_name("rank"), read], name="retrieval").select("context")
    return Graph(
        [
            *(intake, classify, retrieval.as_node(), choose),
            *(writing.as_node(), refund, call_back, address),
        ],
        name="support_desk",
    )
