"""Two graphs: `reading` makes an index of a folder of texts, `answering` answers one question from it.

Answers are sentences of the texts, with the names of their files. Nothing is made up: where no passage fits
the question well enough, the answer is that the texts do not say.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import bm25s

from hypergraph import Graph, ifelse, node

ENDINGS = re.compile(r"(?<=\w{3})(ing|es|ed|e|s)$")  # "oiled", "oils" and "oil" are one word


@dataclass(frozen=True)
class Passage:
    document: str
    score: float
    title: str
    text: str


@dataclass(frozen=True)
class Index:
    passages: list[Passage]
    ranking: bm25s.BM25


@dataclass(frozen=True)
class Answer:
    text: str
    sources: list[str]


def words_of(text: str) -> list[str]:
    [words] = cast(
        list[list[str]],
        bm25s.tokenize([text], stopwords="en_plus", return_ids=False, show_progress=False),
    )
    return [ENDINGS.sub("", word) for word in words]


# --- reading: load, split, index ----------------------------------------------------------------------


@node(output_name="documents")
def load(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))}


@node(output_name="passages")
def split(documents: dict[str, str]) -> list[Passage]:
    passages = []
    for name, text in documents.items():
        title, *paragraphs = text.strip().split("\n\n")
        passages += [Passage(name, 0.0, title, paragraph) for paragraph in paragraphs]
    return passages


@node(output_name="index", cache=True)  # the same passages are indexed once, also by later processes
def build_index(passages: list[Passage]) -> Index:
    ranking = bm25s.BM25()
    ranking.index([words_of(f"{each.title} {each.text}") for each in passages], show_progress=False)
    return Index(passages, ranking)


reading = Graph([load, split, build_index], name="reading")


# --- answering: retrieve, rerank, then answer or admit that nothing is known --------------------------


@node(output_name="retrieved")
def retrieve(question: str, index: Index, candidates: int = 8) -> list[Passage]:
    scores = index.ranking.get_scores(words_of(question))
    best = sorted(zip(scores.tolist(), index.passages, strict=True), key=lambda pair: -pair[0])[:candidates]
    return [replace(passage, score=round(score, 2)) for score, passage in best if score > 0]


@node(output_name="ranked")
def rerank(question: str, retrieved: list[Passage], kept: int = 3) -> list[Passage]:
    """Prefer passages that have all words of the question to those that have one of them often."""
    wanted = set(words_of(question))

    def covered(passage: Passage) -> float:
        return len(wanted.intersection(words_of(f"{passage.title} {passage.text}"))) / len(wanted)

    scored = [replace(passage, score=round(passage.score * covered(passage), 2)) for passage in retrieved]
    return sorted(scored, key=lambda passage: -passage.score)[:kept]


@ifelse(when_true="quote", when_false="give_up")
def is_known(ranked: list[Passage], threshold: float = 1.0) -> bool:
    return bool(ranked) and ranked[0].score >= threshold


@node(output_name="answer")
def quote(question: str, ranked: list[Passage], sentences: int = 2) -> Answer:
    """Take the sentences of the best passages that share most with the question."""
    wanted = set(words_of(question))
    found = []
    for passage in ranked:
        for sentence in re.split(r"(?<=[.?!]) ", passage.text):
            shared = len(wanted.intersection(words_of(sentence))) / len(wanted)
            found.append((shared * passage.score, sentence, passage.document))
    best = sorted(found, key=lambda each: -each[0])[:sentences]
    best = [each for each in best if each[0] > best[0][0] / 2]
    text = " ".join(f"{sentence} [{document}]" for _, sentence, document in best)
    return Answer(text, list(dict.fromkeys(document for *_, document in best)))


@node(output_name="answer")
def give_up(question: str) -> Answer:
    return Answer("I do not know: the texts do not say.", [])


answering = Graph([retrieve, rerank, is_known, quote, give_up], name="answering")
