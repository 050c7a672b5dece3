"""A support desk: find articles, choose a desk, write until the reply is good enough, over twelve tickets.

Runs offline in a moment: `make demo`. The two functions that stand for a language model are marked.
"""

import re
import time

from hypergraph import END, Graph, NodeError, SyncRunner, ifelse, node, route

ARTICLES = {
    "reset-password": "To reset your password, open Settings and choose Security.",
    "change-email": "To change your email address, open Settings and choose Profile.",
    "track-order": "To track an order, open Orders and choose Track.",
    "read-invoice": "To download an invoice, open Orders and choose Invoice.",
    "get-refund": "To ask for a refund, open Orders and choose Refund.",
}
TICKETS = [
    "Ann: How do I reset my password?",
    "Bob: Where is my order?",
    "Cem: Can I change my email address?",
    "Dee: I want a refund, this is outrageous!",
    "Eli: Where do I find my invoice?",
    "the colon is missing here",
    "Fay: How can I track an order?",
    "Gus: Please reset my password again.",
    "Hao: Zorblax frobnicates?",
    "Ida: A refund, please.",
    "Jon: My email has changed.",
    "Kim: This invoice is outrageous!",
]


# --- Nodes are plain functions; output_name says what they produce, parameters what they take. ---------


@node(output_name="words")
def split(question: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", question.lower()))


@node(output_name="articles")
def search(words: set[str], top_k: int = 2) -> list[str]:
    ranked = sorted(ARTICLES, key=lambda slug: len(words.intersection(slug.split("-"))), reverse=True)
    found = [slug for slug in ranked if words.intersection(slug.split("-"))]
    if not found:
        raise LookupError(f"no article about {', '.join(sorted(words))}")
    return found[:top_k]


@node(output_name="context")
def read(articles: list[str]) -> str:
    return " ".join(ARTICLES[slug] for slug in articles)


retrieval = Graph([split, search, read], name="retrieval")


@node(output_name="reply")
def draft(question: str, context: str, critique: str = "") -> str:
    time.sleep(0.004)  # a language model would write here
    reply = context.partition(".")[0] + "."
    if "greeting" in critique:
        reply = "Hello! " + reply
    if "offer" in critique:
        reply += " Write again if that does not help."
    return reply


@node(output_name="critique")
def review(reply: str) -> str:
    time.sleep(0.002)  # a language model would judge here
    wishes = {"a greeting": "Hello", "an offer of help": "Write again"}
    return ", ".join(wish for wish, phrase in wishes.items() if phrase not in reply)


@ifelse(when_true=END, when_false="draft")
def good_enough(critique: str) -> bool:
    return critique == ""


writing = Graph([draft, review, good_enough], name="writing").with_entrypoint("draft").select("reply")


@node(output_name=("customer", "question"))
def open_ticket(ticket: str) -> tuple[str, str]:
    customer, question = ticket.split(": ")
    return customer, question


@node(output_name="mood")
def feel(question: str) -> str:
    return "angry" if "outrageous" in question else "calm"


@route(targets=["writing", "call_back"])
def choose_desk(mood: str) -> str:
    return "call_back" if mood == "angry" else "writing"


@node(output_name="reply")
def call_back(context: str) -> str:
    return f"A colleague will call you today. {context}"


@node(output_name="letter")
def address(customer: str, reply: str) -> str:
    return f"Dear {customer}, {reply[0].lower()}{reply[1:]}"


desk = Graph(
    [open_ticket, feel, retrieval.as_node(), choose_desk, writing.as_node(), call_back, address],
    name="support_desk",
)


# --- What you see when you run it. --------------------------------------------------------------------


def heading(number: int, text: str) -> None:
    print(f"\n=== {number}. {text} ===\n")


def main() -> None:
    runner = SyncRunner()

    heading(1, "The graph: print(desk.describe())")
    print(desk.describe())

    heading(2, "One ticket: print(result.log)")
    result = runner.run(desk, ticket=TICKETS[0])
    print(result.log)
    print(f"\nresult['letter'] = {result['letter']!r}")

    heading(3, "Inside a nested graph, the writing loop: print(result['writing'].log)")
    print(result["writing"].log)

    heading(4, "Twelve tickets, two of which fail: print(results.log)")
    results = runner.map(desk, ticket=TICKETS, map_over="ticket", error_handling="continue")
    print(results.log)
    print(f"\nresults.summary() = {results.summary()!r}")

    heading(5, "What failed, and on what: result.failure")
    for failed in results.failures:
        show(failed.failure)

    heading(6, "The same failure as an exception: NodeError.of(error)")
    try:
        runner.run(desk, ticket=TICKETS[8])
    except LookupError as error:  # the node's own exception, not a wrapper
        print(f"except LookupError: {error}")
        print(f"evidence: {NodeError.of(error)}")

    heading(7, "What to try next")
    print("- Change `good_enough` in examples/demo.py to `return False`, and see how the loop is stopped.")
    print("- Misspell a target of `choose_desk`, and see what the graph says before anything runs.")
    print("- Draw it: print(desk.to_mermaid(depth=1)) and paste the text into any Mermaid viewer.")
    print("- Read docs/tutorial.md; the other examples are beside this one.")


def show(failure: NodeError | None) -> None:
    assert failure is not None
    print(f"item {failure.item_index}, node {failure.node_name!r}, superstep {failure.superstep}")
    print(f"  cause   {failure.cause!r}")
    print(f"  inputs  {dict(failure.inputs)}")
    print(f"  state   {sorted(failure.values)}\n")


if __name__ == "__main__":
    main()
