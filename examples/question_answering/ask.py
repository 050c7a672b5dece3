"""Answer one question, or all of questions.tsv, for which the documents that answer them are known."""

import argparse
import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pipeline import answering, reading

from hypergraph import DiskCache, Graph, MapResult, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

HERE = Path(__file__).parent
STORE = SqliteCheckpointer("runs.db")


def prepared() -> Graph:
    """Return the graph that answers, with the index of today's texts bound to it."""
    cache = DiskCache("index_cache")
    read = SyncRunner(cache=cache).run(reading, folder=HERE / "bicycles")
    cache.close()
    how = "found in the cache" if read.log.node_stats["build_index"].cached else "built"
    print(f"{len(read['passages'])} passages of {len(read['documents'])} documents, index {how}")
    return answering.bind(index=read["index"])


def ask_one(question: str, workflow_id: str) -> None:
    result = SyncRunner(checkpointer=STORE).run(prepared(), question=question, workflow_id=workflow_id)
    print(result["answer"].text)


def ask_all(workflow_id: str) -> None:
    with (HERE / "questions.tsv").open(encoding="utf-8") as file:
        questions, expected = zip(*csv.reader(file, delimiter="\t"), strict=True)
    results = SyncRunner(checkpointer=STORE).map(
        prepared(), question=questions, map_over="question", key="question", workflow_id=workflow_id
    )
    for question, answer in zip(questions, results["answer"], strict=True):
        print(f"{question}\n    {answer.text}")
    print(evaluation(results, expected))


def evaluation(results: MapResult, expected: Sequence[str]) -> str:
    """Say how often the right document was found, and how often rightly none."""
    pairs = list(zip(results, expected, strict=True))
    known = [(result, document) for result, document in pairs if document]
    first = sum(document in [best.document for best in result["ranked"][:1]] for result, document in known)
    cited = sum(document in result["answer"].sources for result, document in known)
    refused = sum(not result["answer"].sources for result, document in pairs if not document)
    return (
        f"the right document came first {first}/{len(known)}, was cited {cited}/{len(known)}; "
        f"rightly refused {refused}/{len(pairs) - len(known)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", help="all of questions.tsv unless given")
    parser.add_argument(
        "--id", default=f"{datetime.now():%d-%b-%H%M%S}", help="what the stored run is called"
    )
    options = parser.parse_args()
    if options.question:
        ask_one(options.question, options.id)
    else:
        ask_all(options.id)
    print(f"stored as {options.id}")


if __name__ == "__main__":
    main()
