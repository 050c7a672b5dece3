"""Caching without a runner: keys from content, the two backends, and what an attacker may put on disk."""

import enum
import linecache
import logging
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import diskcache
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph import cache
from hypergraph.cache import CacheBackend, DiskCache, InMemoryCache, compute_cache_key
from hypergraph.nodes.signature import plain_globals
from hypergraph.values import JsonSerializer, MsgpackSerializer, register

SOURCES = Path(__file__).parent.parent / "src"


def key_of(value: Any) -> str:
    return compute_cache_key("hash", {"value": value})


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate("\n")
    assert process.returncode == 0
    return out.strip()


def rebuilt(value: Any, shuffle: Callable[[list[Any]], None]) -> Any:
    """Return an equal value that shares no part with the first and whose sets are filled in another order."""
    if isinstance(value, str):
        return "".join(list(value))
    if isinstance(value, dict):
        return {rebuilt(k, shuffle): rebuilt(v, shuffle) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [rebuilt(part, shuffle) for part in value]
        if isinstance(value, (set, frozenset)):
            shuffle(parts)
        return type(value)(parts)
    return value


class Reference:
    """An object that may refer to itself."""

    other: Any = None


class Exploding:
    """A value whose loading leaves a trace."""

    loaded: list[str] = []  # noqa: RUF012 - shared on purpose

    def __reduce__(self) -> Any:
        return self.loaded.append, ("boom",)


# --- keys ---------------------------------------------------------------------------------------


def test_a_key_is_a_sha256_that_depends_on_hash_names_and_values() -> None:
    inputs = [{"a": 1, "b": 2}, {"a": 1}, {"a": 2, "b": 1}, {"a": 1, "c": 2}, {}]
    keys = {compute_cache_key(text, values) for text in ("hash", "other") for values in inputs}
    assert len(keys) == 10
    assert {len(key) for key in keys} == {64}


def test_the_order_of_inputs_does_not_matter() -> None:
    assert compute_cache_key("hash", {"a": 1, "b": 2}) == compute_cache_key("hash", {"b": 2, "a": 1})


@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: (v,), lambda v: {v}, lambda v: {0: v}]
)
def test_equal_values_of_different_types_never_share_a_key(wrap: Callable[[Any], Any]) -> None:
    values = [1, True, 1.0, 1 + 0j, "1", b"1", 0, False, 0.0, -0.0, None, "", "None", (1,), frozenset({1})]
    assert len({key_of(wrap(value)) for value in values}) == len(values)


def test_containers_of_equal_content_never_share_a_key() -> None:
    values = [[1, 2], (1, 2), {1, 2}, frozenset({1, 2}), {1: 2}, {2: 1}, [[1], 2], [1, [2]], {1: 1, 2: 2}]
    assert len({key_of(value) for value in values}) == len(values)


def test_the_order_of_a_dict_is_content() -> None:
    assert key_of({"a": 1, "b": 2}) != key_of({"b": 2, "a": 1})


texts = st.text(max_size=3)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=3)
hashables = st.recursive(scalars, lambda c: st.tuples(c, c) | st.frozensets(c, max_size=3), max_leaves=4)
plain = st.recursive(
    hashables | st.sets(hashables, max_size=3),
    lambda c: st.lists(c, max_size=3) | st.dictionaries(texts, c, max_size=3),
    max_leaves=4,
)


@pytest.mark.slow
@given(plain, st.randoms(use_true_random=False))
def test_equal_plain_values_share_a_key_whatever_they_are_made_of(value: Any, rnd: random.Random) -> None:
    assert key_of(value) == key_of(rebuilt(value, rnd.shuffle)) != ""


def test_sharing_of_parts_leaves_no_trace() -> None:
    text = "".join(["sha", "red"])
    assert key_of([text, text]) == key_of([text, "".join(["sha", "red"])])


@pytest.mark.slow
def test_keys_are_equal_in_processes_with_other_hash_seeds() -> None:
    code = """if True:
        from hypergraph.cache import compute_cache_key
        print(compute_cache_key("h", {"v": [{"a", "b", ("d", frozenset("ef"))}, {"k": [2.5, None]}]}))"""
    keys = {output_of(python(code, PYTHONHASHSEED=seed)) for seed in ("1", "2", "3")}
    assert len(keys) == 1


@pytest.mark.parametrize("value", [lambda: 1, threading.Lock(), (n for n in ()), {lambda: 1}])
def test_inputs_that_cannot_be_pickled_have_no_key(value: Any) -> None:
    assert key_of(value) == ""
    assert key_of([1, {"deep": value}]) == ""


def test_cyclic_values_have_a_key() -> None:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    reference = Reference()
    reference.other = {reference}
    assert key_of(cycle)
    assert key_of(cycle) != key_of([1, [1]])
    assert key_of(reference)


@pytest.mark.slow
def test_values_that_share_parts_many_times_over_have_a_key_in_time() -> None:
    value: Any = "leaf"
    for _ in range(60):
        value = [value, value]
    assert key_of(value)


def test_arrays_and_objects_count_by_content() -> None:
    assert key_of(np.arange(3)) == key_of(np.arange(3)) != key_of(np.arange(3.0))
    one, two = Reference(), Reference()
    assert key_of(one) == key_of(two)
    two.other = 1
    assert key_of(one) != key_of(two)


def frames() -> dict[str, pd.DataFrame]:
    """Tables of each kind of column, some with what is hidden under missing values."""
    days = pd.date_range("2024-01-01", periods=3, freq="D")
    by_tens = pd.Index([10, 20, 30], name="tens")
    columns: dict[str, Any] = {
        "int": [1, 2, 3],
        "float": [1.5, float("nan"), -0.0],
        "bool": [True, False, True],
        "Int64": pd.array([1, None, 3], dtype="Int64"),
        "Float64": pd.array([1.5, None, 3], dtype="Float64"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "str": ["a", None, "ä"],
        "string": pd.array(["a", None, "b"], dtype="string"),
        "object": pd.Series(["a", 1, None], dtype=object),
        "time": days,
        "tz": days.tz_localize("Europe/Berlin"),
        "span": days - days[0],
        "period": days.to_period("D"),
        "interval": pd.interval_range(0, 3),
        "category": pd.Categorical(["b", "a", "b"]),
        "ordered": pd.Categorical(["b", None, "b"], categories=["b", "a"], ordered=True),
        "arrow": pd.array([[1], None, [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
        "decimal": pd.array([1, None, 2], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        "sparse": pd.arrays.SparseArray([0, 0, 1]),
    }
    found = {name: pd.DataFrame({"c": values, "n": [1.0, 2.0, 3.0]}) for name, values in columns.items()}
    found["dates as rows"] = pd.DataFrame({"c": [1, 2, 3]}, index=days)
    found["named rows"] = pd.DataFrame({"c": [1, 2, 3]}, index=by_tens)
    found["two levels"] = pd.DataFrame({"c": [1, 2, 3]}, index=pd.MultiIndex.from_product([[1], [*"abc"]]))
    found["the same twice"] = pd.DataFrame([[1, "a"], [2, "b"], [3, "c"]], columns=["c", "c"])
    found["no rows"] = pd.DataFrame({"c": pd.array([], dtype="Int64")})
    return found


@pytest.mark.parametrize("kind", frames())
def test_equal_tables_share_a_key_however_they_lie_in_memory(kind: str) -> None:
    frame = frames()[kind]
    wider = pd.concat([frame, frame.iloc[:0]]) if kind == "int" else frame
    copies = [frames()[kind], frame.copy(), frame.loc[:], frame[:], wider, pickle.loads(pickle.dumps(frame))]
    copies.append(pd.concat([frame.iloc[:, :1], frame.iloc[:, 1:]], axis=1))
    if kind not in ("object", "sparse", "interval", "arrow", "decimal", "the same twice"):  # not stored
        for serializer in (JsonSerializer(), MsgpackSerializer()):
            copies.append(serializer.deserialize(serializer.serialize(frame)))
    assert {key_of(each) for each in copies} == {key_of(frame)} != {""}
    assert {key_of([each, {"c": each}]) for each in copies} == {key_of([frame, {"c": frame}])}
    assert key_of(frame["c"]) == key_of(frame.copy()["c"])
    assert key_of(frame.index) == key_of(frame.copy().index) != key_of(frame)


@pytest.mark.parametrize("order", [["b", "a"], ["b", None, "a"], ["b", "c", "a"]], ids=str)
def test_the_order_of_a_level_counts(order: list[Any]) -> None:
    rows = pd.DataFrame({"k": [*"yyxx"], "j": [*"baba"], "v": range(4)})
    rows = pd.concat([pd.DataFrame({"k": "y", "j": order, "v": 9}), rows])
    frame = rows.groupby(["k", "j"], sort=False, dropna=False).sum()
    frame = frame[[label != "c" for label in frame.index.get_level_values("j")]]  # its place is empty
    by_name = frame.reset_index().set_index(["k", "j"])
    pd.testing.assert_frame_equal(frame, by_name)
    assert [*frame.unstack().columns] != [*by_name.unstack().columns]
    assert key_of(frame) != key_of(by_name)
    assert key_of(frame.index) != key_of(by_name.index)
    assert key_of(frame.T) != key_of(by_name.T)
    for serializer in (JsonSerializer(), MsgpackSerializer()):
        assert key_of(serializer.deserialize(serializer.serialize(frame))) == key_of(frame)


def test_what_stands_under_a_missing_value_does_not_count() -> None:
    mask = np.array([False, True])
    one, two = (pd.arrays.IntegerArray(np.array([1, hidden]), mask) for hidden in (5, 6))
    assert key_of(pd.DataFrame({"c": one})) == key_of(pd.DataFrame({"c": two}))
    assert key_of(one) == key_of(two)
    three, four = (
        pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\1"), pa.py_buffer(np.array([1, hidden]))])
        for hidden in (5, 6)
    )
    assert key_of(pa.table({"c": three})) == key_of(pa.table({"c": four}))
    assert key_of(pl.DataFrame({"c": three})) == key_of(pl.DataFrame({"c": four}))


def test_tables_that_differ_never_share_a_key() -> None:
    values = [*frames().values()]
    frame = frames()["int"]
    for change in ("attrs", "flags", "columns", "index", "value", "dtype", "order", "name"):
        other = frame.copy()
        if change == "attrs":
            other.attrs["unit"] = "m"
        elif change == "flags":
            other.flags.allows_duplicate_labels = False
        elif change == "columns":
            other.columns = ["d", "n"]
        elif change == "index":
            other.index = [0, 1, 2]
        elif change == "value":
            other.loc[0, "c"] = 9
        elif change == "dtype":
            other["c"] = other["c"].astype("int32")
        elif change == "order":
            other = other[["n", "c"]]
        else:
            other.index.name = "row"
        values.append(other)
    objects = [["a", 1], ["a", True], ["a", 1.0], ["a", b"1"], ["a", None], ["a", float("nan")], ["a", pd.NA]]
    values += [pd.DataFrame({"c": pd.Series(each, dtype=object)}) for each in objects]
    texts = [["a", "b"], ["ab", ""], ["", "ab"], ["ab"], ["a", "b", ""], ["a,", "b"]]
    values += [pd.DataFrame({"c": pd.Series(each, dtype=dtype)}) for each in texts for dtype in (object, str)]
    zones = [ZoneInfo("UTC"), UTC, ZoneInfo("Europe/Berlin"), None]
    values += [pd.DataFrame({"c": pd.DatetimeIndex(["2024-01-01"], tz=zone)}) for zone in zones]
    orders = [("ab", True), ("ba", True), ("ab", False), ("abc", False)]
    values += [pd.DataFrame({"c": pd.Categorical(["a"], [*names], how)}) for names, how in orders]
    values += [frame["c"], frame.index, frame["c"].array, frame["c"].to_numpy(), frame.to_dict()]
    assert len({key_of(value) for value in values}) == len(values)


def test_arrays_share_a_key_by_content() -> None:
    array = np.arange(6).reshape(2, 3)
    fixed = array.copy()
    fixed.flags.writeable = False
    assert {key_of(each) for each in (array.copy(), np.asfortranarray(array), fixed, array[::-1][::-1])} == {
        key_of(array)
    }
    others = [
        array.T,
        array.reshape(3, 2),
        array.astype("i4"),
        array.astype(">i8"),
        array + 1,
        array.tolist(),
    ]
    others += [array.astype(float), array.astype(object), array.astype(str), array.view("m8[s]")]
    assert len({key_of(each) for each in [array, *others]}) == len(others) + 1
    with np.errstate(all="ignore"):
        computed = np.array([0.0, 1.0]) / np.array([0.0, 1.0])
    assert key_of(computed) == key_of(np.array([float("nan"), 1.0])) != key_of(np.array([None, 1.0]))
    assert key_of(np.array([0.0])) != key_of(np.array([-0.0]))
    texts = [np.array(["".join("ab"), "".join("ab")], dtype=object) for _ in range(2)]
    assert key_of(texts[0]) == key_of(texts[1]) != key_of(np.array([b"ab", b"ab"], dtype=object))


def test_tables_of_polars_and_pyarrow_share_a_key_by_content() -> None:
    columns = {
        "i": [1, None, 3, 4],
        "f": [1.5, None, float("nan"), -0.0],
        "s": ["a", None, "ä", ""],
        "b": [True, None, False, True],
        "l": [[1], None, [], [2, None]],
        "d": [{"x": 1}, None, {"x": None}, {"x": 2}],
        "t": [datetime(2024, 1, 1), None, datetime(2024, 1, 2), datetime(2024, 1, 3)],
    }
    for whole in (pl.DataFrame(columns), pa.table(columns)):
        concatenated = (
            pl.concat([whole[:2], whole[2:]], rechunk=False)
            if isinstance(whole, pl.DataFrame)
            else (pa.concat_tables([whole[:2], whole[2:]]))
        )
        read = JsonSerializer().deserialize(JsonSerializer().serialize(whole))
        copies = [concatenated, type(whole)(whole) if isinstance(whole, pl.DataFrame) else whole, read]
        copies.append(pickle.loads(pickle.dumps(whole)))
        assert {key_of(each) for each in copies} == {key_of(whole)} != {""}
        others = [
            whole[:2],
            whole[2:],
            whole[::-1] if isinstance(whole, pl.DataFrame) else whole.take([3, 2, 1, 0]),
        ]
        others += [whole.select([name]) for name in columns] + [whole["i"], whole["s"]]
        assert len({key_of(each) for each in [whole, *others]}) == len(others) + 1
    series = [
        pl.Series([1]),
        pl.Series([1.0]),
        pl.Series([True]),
        pl.Series(["1"]),
        pl.Series([1], dtype=pl.Int8),
    ]
    series += [pl.Series(["a"], dtype=pl.Enum(names)) for names in ("ab", "ba", "abc")]
    series += [
        pl.Series(["a"]),
        pl.Series(["a"], dtype=pl.Categorical),
        pl.Series([b"a"]),
        pl.Series("x", [1]),
    ]
    assert len({key_of(each) for each in series}) == len(series)


@pytest.mark.slow
def test_keys_of_tables_are_equal_in_other_processes() -> None:
    code = """if True:
        import numpy, pandas, polars, pyarrow
        from hypergraph.cache import compute_cache_key
        columns = {"i": [1, None], "s": ["a", None], "c": pandas.Categorical(["a", "b"])}
        frame = pandas.DataFrame({**columns, "o": pandas.Series([{"a", "b"}, 1], dtype=object)})
        others = [polars.DataFrame({"s": ["a", None]}), pyarrow.table({"s": ["a", None]}), numpy.arange(3)]
        print(compute_cache_key("h", {"v": [frame, *others]}))"""
    keys = {output_of(python(code, PYTHONHASHSEED=seed)) for seed in ("1", "2")}
    assert len(keys) == 1


def test_long_and_cyclic_values_do_not_depend_on_which_texts_are_one_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "".join(["sha", "red"])
    one, two = [text, text, [text]], [text, "".join(["sha", "red"]), ["".join(["sha", "red"])]]
    assert key_of(one) == key_of(two)
    for value in (cycles := [one.copy(), two.copy()]):
        value.append(value)
    assert key_of(cycles[0]) == key_of(cycles[1]) != key_of([*one, one])
    usual = key_of(one)
    monkeypatch.setattr(cache, "_MAX_VISITS", 9)
    part = ["p"]
    assert key_of(one) == key_of(two) != usual
    assert key_of([part, part]) == key_of([["p"], ["p"]]) != key_of([["p"], "p"])
    assert key_of({"a": {1, 2, "text"}}) == key_of({"a": {"text", 2, 1}}) != key_of({"a": [1, 2, "text"]})
    values = [[1, [2, 3]], [1, 2, 3], [1, (2, 3)], [1, {2, 3}], [True, [2, 3]], [1, [2, 3.0]], {1: 2, 3: 4}]
    assert len({key_of(value) for value in values}) == len(values)


def test_a_function_counts_by_its_code_not_only_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for body in ("x + 1", "x + 2", "(lambda: x)()", "(lambda: x + 1)()"):
        scope: dict[str, Any] = {"__name__": __name__}
        exec(f"def scorer(x): return {body}", scope)
        monkeypatch.setattr(sys.modules[__name__], "scorer", scope["scorer"], raising=False)
        keys |= {key_of(scope["scorer"]), key_of(partial(scope["scorer"], 1))}
    assert len(keys) == 8
    assert "" not in keys


# --- in memory ----------------------------------------------------------------------------------


def test_both_backends_keep_the_protocol(tmp_path: Path) -> None:
    class OnlyGet:
        def get(self, key: str) -> tuple[bool, Any]:
            return False, None

    disk = DiskCache(tmp_path / "cache")
    disk.close()
    assert isinstance(InMemoryCache(), CacheBackend)
    assert isinstance(disk, CacheBackend)
    assert not isinstance(OnlyGet(), CacheBackend)


def test_memory_returns_what_was_set_and_knows_none_from_a_miss() -> None:
    cache = InMemoryCache()
    assert cache.get("k") == (False, None)
    cache.set("k", None)
    assert cache.get("k") == (True, None)
    cache.set("k", 2)
    assert cache.get("k") == (True, 2)


def test_memory_lets_the_least_recently_used_go() -> None:
    cache = InMemoryCache(max_size=2)
    cache.set("a", 1)
    cache.set("b", 2)
    cache.get("a")
    cache.set("c", 3)
    assert [cache.get(key)[0] for key in "abc"] == [True, False, True]
    cache.set("a", 4)  # setting is a use too
    cache.set("d", 5)
    assert [cache.get(key)[0] for key in "acd"] == [True, False, True]


def test_memory_of_size_zero_holds_nothing() -> None:
    cache = InMemoryCache(max_size=0)
    cache.set("k", 1)
    assert cache.get("k") == (False, None)


@pytest.mark.parametrize("size", [-1, 1.5, "2", True])
def test_memory_refuses_a_size_that_is_none(size: Any) -> None:
    with pytest.raises(ValueError, match="max_size"):
        InMemoryCache(max_size=size)


def test_memory_serves_many_threads() -> None:
    cache = InMemoryCache(max_size=8)

    def work(seed: int) -> None:
        for number in range(500):
            key = str((seed * number) % 16)
            cache.set(key, key)
            hit, value = cache.get(key)
            assert not hit or value == key

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 9)))
    assert sum(cache.get(str(number))[0] for number in range(16)) == 8


# --- on disk ------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def disk(directory: Path) -> Iterator[DiskCache]:
    cache = DiskCache(directory)
    yield cache
    cache.close()


@pytest.fixture
def raw(disk: DiskCache, directory: Path) -> Iterator[diskcache.Cache]:
    """The same files, without signatures."""
    with diskcache.Cache(str(directory)) as cache:
        yield cache


def test_disk_returns_what_was_set_also_after_reopening(disk: DiskCache, directory: Path) -> None:
    assert disk.get("k") == (False, None)
    disk.set("k", None)
    disk.set("big", b"x" * 100_000)
    disk.close()
    again = DiskCache(str(directory))
    assert again.get("k") == (True, None)
    assert again.get("big") == (True, b"x" * 100_000)
    again.close()


def test_disk_passes_options_on(directory: Path) -> None:
    cache = DiskCache(directory, size_limit=12345)
    cache.close()
    with diskcache.Cache(str(directory)) as raw:
        assert raw.size_limit == 12345


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file of the user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "hypergraph" / "cache.key"


def test_the_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME")
    DiskCache().close()
    assert (tmp_path / ".cache" / "hypergraph").is_dir()
    assert (tmp_path / ".local" / "state" / "hypergraph" / "cache.key").is_file()


@pytest.mark.parametrize("wrong", ["cache_directory", "path", "size_limt", "max_size", "disk"])
def test_disk_refuses_an_option_that_it_does_not_have(directory: Path, wrong: str) -> None:
    with pytest.raises(TypeError, match=f"DiskCache has no option {wrong!r}. (Did you mean|It has)"):
        DiskCache(directory, **{wrong: 10})
    assert not directory.exists()


def test_the_secret_is_private_random_and_apart(disk: DiskCache, secret: Path, tmp_path: Path) -> None:
    assert len(secret.read_bytes()) == 32
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "state"}
    DiskCache(tmp_path / "other", key_file=tmp_path / "own.key").close()
    assert secret.read_bytes() != (tmp_path / "own.key").read_bytes()
    with pytest.raises(ValueError, match="inside of the cache"):
        DiskCache(tmp_path / "other", key_file=tmp_path / "other" / "own.key")


def test_a_damaged_secret_is_refused(disk: DiskCache, directory: Path, secret: Path) -> None:
    secret.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"cache\.key is damaged; delete it"):
        DiskCache(directory)


def test_a_damaged_database_is_refused(disk: DiskCache, directory: Path) -> None:
    disk.close()
    (directory / "cache.db").write_bytes(b"no database " * 1000)
    with pytest.raises(ValueError, match=r"The cache is damaged: .*cache\.db; delete its folder"):
        DiskCache(directory)


def test_another_secret_makes_every_entry_a_miss(disk: DiskCache, directory: Path, secret: Path) -> None:
    disk.set("k", 1)
    secret.unlink()
    stranger = DiskCache(directory)
    assert stranger.get("k") == (False, None)
    stranger.close()


@pytest.mark.parametrize(
    "entry",
    [
        pickle.dumps(Exploding()),
        b"",
        b"short",
        bytes(32) + pickle.dumps(Exploding()),
        "text",
        "long text" * 10_000,
        7,
        1.5,
        None,
        Exploding(),
        [Exploding()] * 10_000,
        (bytes(32), pickle.dumps(Exploding())),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_what_is_not_signed_is_evicted_unread(disk: DiskCache, raw: diskcache.Cache, entry: Any) -> None:
    raw.set("k", entry)
    assert disk.get("k") == (False, None)
    assert "k" not in raw
    assert Exploding.loaded == []


def test_no_byte_of_an_entry_can_be_changed(disk: DiskCache, raw: diskcache.Cache) -> None:
    disk.set("k", 42)
    entry = raw.get("k")
    for position, byte in enumerate(entry):
        raw.set("k", entry[:position] + bytes([byte ^ 1]) + entry[position + 1 :])
        assert disk.get("k") == (False, None)
    for length in range(len(entry)):
        raw.set("k", entry[:length])
        assert disk.get("k") == (False, None)


def test_an_entry_moved_to_another_key_is_a_miss(disk: DiskCache, raw: diskcache.Cache) -> None:
    disk.set("a", 1)
    raw.set("b", raw.get("a"))
    assert disk.get("b") == (False, None)
    assert disk.get("a") == (True, 1)


def test_a_value_that_cannot_be_pickled_is_skipped_with_a_warning(
    disk: DiskCache, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="hypergraph"):
        disk.set("k", threading.Lock())
    assert disk.get("k") == (False, None)
    assert [(record.name, record.levelname) for record in caplog.records] == [("hypergraph", "WARNING")]
    assert "cannot be pickled" in caplog.text


def test_a_value_whose_class_is_gone_is_a_miss(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.set("k", Reference())
    with monkeypatch.context() as patch:
        patch.delattr(sys.modules[__name__], "Reference")
        assert disk.get("k") == (False, None)
    assert disk.get("k")[0]


def test_a_broken_disk_is_a_miss_with_a_warning(
    disk: DiskCache, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk.close()
    for file in directory.glob("cache.db*"):
        file.write_bytes(b"this is no database" * 1000)
    with caplog.at_level(logging.WARNING, logger="hypergraph"):
        disk.set("k", 1)
        assert disk.get("k") == (False, None)
    assert "Writing the cache failed" in caplog.text
    assert "Reading the cache failed" in caplog.text


def test_without_diskcache_construction_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    monkeypatch.setitem(sys.modules, "diskcache", None)
    with pytest.raises(ImportError, match=r"hypergraph\[cache\]"):
        DiskCache(directory)
    assert not directory.exists()


@pytest.mark.slow
def test_importing_the_module_loads_no_database() -> None:
    code = "import sys, hypergraph.cache; print({'diskcache', 'sqlite3'} & set(sys.modules))"
    assert output_of(python(code)) == "set()"


@pytest.mark.slow
def test_processes_that_race_to_create_the_secret_agree_on_one(directory: Path, tmp_path: Path) -> None:
    code = """if True:
        import sys
        import diskcache
        from hypergraph.cache import DiskCache
        print("ready", flush=True)
        sys.stdin.readline()
        DiskCache(sys.argv[1]).set(sys.argv[2], int(sys.argv[2]))"""
    racers = [python(code, str(directory), str(number)) for number in range(4)]
    for racer in racers:
        assert racer.stdout
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        output_of(racer)
    disk = DiskCache(directory)
    assert [disk.get(str(number)) for number in range(4)] == [(True, number) for number in range(4)]
    disk.close()
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "state"}


# -- what a function reads out of its module ------------------------------------------------------------

SCRIPT = """
import json
from hypergraph import Graph, InMemoryCache, SyncRunner, node

runner, calls, count, seen, total = SyncRunner(cache=InMemoryCache()), [], {"n": 0}, {"n": [0]}, 0


@node(output_name="y", cache=True)
def scale(x):
    global total
    total += 1
    calls.append(x)
    count["n"] += 1
    seen["n"][0] = x
    return json.dumps([x, [str(part) for part in FACTOR]])


def status():
    return runner.run(Graph([scale], name="g"), x=10).log.steps[0].status
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2,), (3,)),
        ([1, 2], [1, 3]),
        ({"a": None}, {"b": None}),
        ({"a", "b"}, {"a"}),
        (b"a", b"b"),
        ("text", "other"),
    ],
)
def test_plain_data_that_a_function_reads_by_name_is_part_of_the_key(before: Any, after: Any) -> None:
    names: dict[str, Any] = {"FACTOR": before}
    file = "<a cell of a notebook>"
    linecache.cache[file] = (len(SCRIPT), None, SCRIPT.splitlines(keepends=True), file)
    exec(compile(SCRIPT, file, "exec"), names)
    status = names["status"]
    assert [status(), status()] == ["completed", "cached"]
    names["FACTOR"] = after
    assert [status(), status()] == ["completed", "cached"]
    names["FACTOR"] = before
    assert status() == "cached"
    assert len(names["calls"]) == names["count"]["n"] == names["total"] == 2  # state of its own, and no input


def test_other_globals_are_no_part_of_the_key() -> None:
    names: dict[str, Any] = {}
    exec("def read(): return json, Graph, large, endless, missing", names)
    endless: list[Any] = []
    endless.append(endless)
    names.update(json=pickle, Graph=CacheBackend, large="x" * 1_000_000, endless=endless)
    assert plain_globals(names["read"]) == {}
    assert plain_globals(partial(names["read"])) == {}
    assert plain_globals(len) == {}
    names["large"] = "x"
    assert plain_globals(partial(names["read"])) == {"large": "x"}


# --- classes of another release ------------------------------------------------------------------


@dataclass
class Price:
    amount: int


class Place(NamedTuple):
    x: int
    y: int


class Side(enum.Flag):
    LEFT = 1
    RIGHT = 2


def another(monkeypatch: pytest.MonkeyPatch, name: str, cls: Any, version: int = 1) -> Any:
    """Put a class in the place of one of this module, as another release does."""
    cls.__module__, cls.__qualname__ = __name__, name
    register(cls, version=version, upgrade={1: lambda fields: fields} if version > 1 else None)
    monkeypatch.setitem(globals(), name, cls)
    return cls


@pytest.mark.parametrize(
    "wrap", [lambda price: price, lambda price: {"all": [(price,)]}], ids=["alone", "in"]
)
def test_an_object_of_another_version_of_its_class_is_a_miss(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]
) -> None:
    old = Price
    disk.set("k", wrap(Price(2)))
    assert disk.get("k") == (True, wrap(Price(2)))
    new = another(monkeypatch, "Price", make_dataclass("Price", [("amount", int)]), version=2)
    assert disk.get("k") == (False, None)
    disk.set("k", wrap(new(200)))
    assert disk.get("k") == (True, wrap(new(200)))
    monkeypatch.setitem(globals(), "Price", old)
    assert disk.get("k") == (False, None)  # nor is an object of a newer release taken


def test_an_object_whose_class_has_other_fields_is_a_miss(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.set("price", Price(2))
    disk.set("place", Place(1, 2))
    disk.set("class", Price)
    another(monkeypatch, "Price", make_dataclass("Price", [("cents", int, 0)]))
    another(monkeypatch, "Place", NamedTuple("Place", [("y", int), ("x", int)]))
    assert [disk.get(key)[0] for key in ("price", "place", "class")] == [False, False, False]


def test_members_come_back_by_their_names(disk: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.set("left", [Side.LEFT, Side.LEFT | Side.RIGHT])
    disk.set("right", Side.RIGHT)
    new = another(monkeypatch, "Side", enum.Flag("Side", {"UP": 1, "LEFT": 2}))
    assert disk.get("right") == (False, None)
    assert disk.get("left") == (False, None)
    wide = another(monkeypatch, "Side", enum.Flag("Side", {"UP": 1, "LEFT": 2, "RIGHT": 4}))
    assert disk.get("left") == (True, [wide["LEFT"], wide["LEFT"] | wide["RIGHT"]])
    another(monkeypatch, "Side", new, version=2)
    assert disk.get("left") == (False, None)


def test_keys_tell_classes_of_different_releases_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key_of(Price(2)), key_of(Place(1, 2)), key_of(Side.LEFT), key_of({Side.LEFT: {Side.LEFT}})]
    assert keys == [
        key_of(Price(2)),
        key_of(Place(1, 2)),
        key_of(Side.LEFT),
        key_of({Side.LEFT: {Side.LEFT}}),
    ]
    new = another(monkeypatch, "Price", make_dataclass("Price", [("amount", int)]), version=2)
    turned = another(monkeypatch, "Place", NamedTuple("Place", [("y", int), ("x", int)]))
    side = another(monkeypatch, "Side", enum.Flag("Side", {"UP": 1, "LEFT": 2}))
    up = side["UP"]
    assert not {key_of(new(2)), key_of(turned(1, 2)), key_of(up), key_of({up: {up}})}.intersection(keys)


def test_a_class_that_other_processes_cannot_find_has_no_key() -> None:
    @dataclass
    class Local:
        x: int

    assert key_of(Local(1)) == ""


def test_an_entry_of_an_older_format_is_a_miss(disk: DiskCache) -> None:
    payload = pickle.dumps(Price(2), 5)
    signature = cache.hmac.new(disk._secret, cache.hashlib.sha256(b"k").digest(), "sha256")
    signature.update(payload)
    disk._store.set("k", signature.digest() + payload)
    assert disk.get("k") == (False, None)
