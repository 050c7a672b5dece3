"""A book of chapters, each of which is written, checked and polished: a graph in a graph in a graph.

`chapters` is a nested boundary: each chapter is a run of its own in the store, and is resumed inside. `check`
is an atomic one: a single step of its chapter, done as a whole or not at all.
`python book.py ID` writes a book, or goes on with it; `--ill polish` lets that node fail for one chapter.
"""

import argparse

from hypergraph import Graph, MapLog, NodeError, SqliteCheckpointer, SyncRunner, node

STORE = SqliteCheckpointer("books.db")
ILL: set[str] = set()  # nodes that nobody is there for today


def work(name: str, title: str) -> None:
    """Stand for an hour of work that nobody wants to do twice."""
    print(f"  {name} {title}")
    if name in ILL and title == "milk":
        raise RuntimeError(f"nobody is here to {name}")


@node(output_name="spelled")
def spell(text: str) -> str:
    work("spell", text.split(maxsplit=1)[0])
    return text.replace("teh", "the")


@node(output_name="checked")
def verify(spelled: str) -> str:
    work("verify", spelled.split(maxsplit=1)[0])
    return spelled + " (true)"


check = Graph([spell, verify], name="check").as_node(durability="atomic", lift=["checked"])


@node(output_name="text")
def write(title: str) -> str:
    work("write", title)
    return f"{title} and teh weather"


@node(output_name="page")
def polish(checked: str) -> str:
    work("polish", checked.split(maxsplit=1)[0])
    return checked.capitalize()


chapter = Graph([write, check, polish], name="chapter")
chapters = (
    chapter.as_node(name="chapters", lift=["page"]).with_inputs(title="titles").with_outputs(page="pages")
)


@node(output_name="titles")
def outline(topics: str) -> list[str]:
    work("outline", topics)
    return topics.split(",")


@node(output_name="book")
def bind(pages: list[str]) -> str:
    work("bind", f"{len(pages)} pages")
    return "\n".join(pages)


book = Graph([outline, chapters.map_over("titles"), bind], name="book")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("id")
    parser.add_argument("--ill", default="")
    given = parser.parse_args()
    ILL.add(given.ill)
    try:
        result = SyncRunner(checkpointer=STORE).run(book, topics="tea,milk", workflow_id=given.id)
    except RuntimeError as error:
        evidence = NodeError.of(error)
        raise SystemExit(f"failed at {evidence and evidence.node_name}: {error}") from None
    chapter_logs = result.log.steps[1].log if result.log else None
    assert isinstance(chapter_logs, MapLog)
    print(result.log, chapter_logs[1], sep="\n\n")


if __name__ == "__main__":
    main()
