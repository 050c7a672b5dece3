"""pipefunc, for the comparison."""

from __future__ import annotations

import tempfile
from typing import Any

from pipefunc import Pipeline, pipefunc

from benchmarks.facts import FAILURE, ITEMS, LOOPS, NAMES, SPELLING, TYPES, Facts, Shaky, raises


@pipefunc("b")
def add(a: int) -> int:
    return a + 1


@pipefunc("c")
def double(b: int) -> int:
    return b * 2


def joins_names() -> bool:
    return bool(Pipeline([double, add])("c", a=1) == 4)


def loops() -> bool:
    @pipefunc("a")
    def back(c: int) -> int:
        return c

    return not raises(lambda: Pipeline([add, double, back])("c", a=1))


def finds_misspelled_names() -> bool:
    return raises(lambda: Pipeline([add, double])("c", aa=1))


def finds_wrong_types() -> bool:
    @pipefunc("c")
    def shout(b: str) -> str:
        return b.upper()

    return raises(lambda: Pipeline([add, shout]))


def repeats_failed_items_only() -> bool:
    work = Shaky(2)

    @pipefunc("y", mapspec="x[i] -> y[i]")
    def item(x: int) -> Any:
        return work(x)

    kept = {"run_folder": tempfile.mkdtemp(), "parallel": False, "storage": "file_array"}
    failed = raises(lambda: Pipeline([item]).map({"x": [1, 2, 3]}, **kept))
    work.mend()
    again = Pipeline([item]).map({"x": [1, 2, 3]}, resume=True, **kept)
    return failed and list(again["y"].output) == [1, 2, 3] and 1 not in work.calls


FACTS: Facts = {
    NAMES: joins_names,
    LOOPS: loops,
    SPELLING: finds_misspelled_names,
    TYPES: finds_wrong_types,
    FAILURE: repeats_failed_items_only,
    ITEMS: repeats_failed_items_only,
}
