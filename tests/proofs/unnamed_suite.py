"""Values under every style of annotation, stored by one process and restored by another, or refused."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from support import stored, unnamed
from support.nasty import kept
from support.processes import started

from proofs.outcome import Outcome, scaled

NAME = "values that annotations do not name"
WAYS = [(store, serializer, "plain") for serializer in ("json", "msgpack") for store in ("sqlite", "memory")]
LEAST = 200  # values


def resumed(way: tuple[str, str, str], folder: Path, style: str, refused: list[str]) -> dict[str, str]:
    """Resume in a process of its own."""
    return unnamed.second_half(kept(way, folder), style, refused)


def prove(scale: float, seed: int) -> Outcome:
    """Try every style with every serializer; of a small scale, some."""
    ways = [way for way in WAYS if way[0] == "sqlite"] if stored.DSN in os.environ else WAYS  # on a server
    outcome, cases = Outcome(NAME), [(way, style) for way in ways for style in unnamed.STYLES]
    random.Random(seed).shuffle(cases)
    count = len(unnamed.values())
    assert count >= LEAST
    with outcome.timed(), started() as elsewhere:
        for way, style in cases[: scaled(len(cases), scale, least=2)]:
            with tempfile.TemporaryDirectory() as folder:
                store = kept(way, Path(folder))
                refused = unnamed.first_half(store, style)
                for label in refused:
                    if label.partition(" in a ")[0] not in unnamed.REFUSED:
                        outcome.count(f"{way}, annotated with {style}, {label}: refused")
                if way[0] == "memory":
                    wrong = unnamed.second_half(store, style, refused)
                else:
                    store.close()
                    wrong = elsewhere(resumed, way, Path(folder), style, refused)
            outcome.cases += count - len(wrong)
            for label, what in wrong.items():
                outcome.count(f"{way}, annotated with {style}, {label}: {what}")
    return outcome
