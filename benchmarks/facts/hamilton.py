"""Hamilton, for the comparison."""

from __future__ import annotations

import tempfile
from itertools import count
from typing import Any

from hamilton.ad_hoc_utils import create_temporary_module
from hamilton.driver import Builder

from benchmarks.facts import FAILURE, LOOPS, NAMES, SPELLING, TYPES, Facts, Shaky, raises

NUMBERS = count()


def b(a: int) -> int:
    return a + 1


def c(b: int) -> int:
    return b * 2


def builder(*functions: Any) -> Builder:
    return Builder().with_modules(create_temporary_module(*functions, module_name=f"module_{next(NUMBERS)}"))


def joins_names() -> bool:
    return bool(builder(b, c).build().execute(["c"], inputs={"a": 1})["c"] == 4)


def loops() -> bool:
    def a(c: int) -> int:
        return c

    return not raises(lambda: builder(a, b, c).build().execute(["c"]))


def finds_misspelled_names() -> bool:
    return raises(lambda: builder(b, c).build().execute(["c"], inputs={"aa": 1}))


def finds_wrong_types() -> bool:
    def shout(b: str) -> str:
        return b.upper()

    return raises(lambda: builder(b, shout).build())


def goes_on_after_a_failure() -> bool:
    work = Shaky("end")

    def begin(a: int) -> int:
        return len(work("begin")) + a

    def end(begin: int) -> int:
        return len(work("end")) + begin

    driver = builder(begin, end).with_cache(path=tempfile.mkdtemp()).build()
    failed = raises(lambda: driver.execute(["end"], inputs={"a": 1}))
    work.mend()
    return failed and driver.execute(["end"], inputs={"a": 1})["end"] == 9 and work.calls == ["end"]


FACTS: Facts = {
    NAMES: joins_names,
    LOOPS: loops,
    SPELLING: finds_misspelled_names,
    TYPES: finds_wrong_types,
    FAILURE: goes_on_after_a_failure,
}
