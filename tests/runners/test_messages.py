"""Messages of the mistakes that users make when they call a runner."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas
import pytest
from support.running import On, on

from hypergraph import (
    END,
    AsyncRunner,
    BaseRunner,
    Graph,
    IncompatibleRunnerError,
    InfiniteLoopError,
    MissingInputError,
    SyncRunner,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer
from hypergraph.engine.options import RunOptions
from hypergraph.exceptions import GraphChangedError, WorkflowError, WorkflowLockedError

__all__ = ["on"]


@node(output_name="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output_name="total")
def count(words: list[str], at_least: int = 1) -> int:
    return sum(len(word) >= at_least for word in words)


COUNTING = Graph([split, count], name="counting")


def message(call: Any, *args: Any, error: type[BaseException], **options: Any) -> str:
    with pytest.raises(error) as caught:
        call(*args, **options)
    return str(caught.value)


def test_a_missing_input_comes_with_the_call_to_write(on: On) -> None:
    text = message(on.run, COUNTING, error=MissingInputError)
    assert "'text' is needed by split" in text
    assert "run(graph, text=...)" in text


def test_a_misspelt_option_names_the_option(on: On) -> None:
    assert message(on.run, COUNTING, text="a", worklow_id="x", error=ValueError) == (
        "'worklow_id' is neither an input of graph 'counting' nor an option. "
        "Did you mean the option workflow_id=...?"
    )


def test_a_misspelt_option_of_a_map_names_the_option(on: On) -> None:
    text = message(on.map, COUNTING, text=["a"], map_over="text", error_handlng="continue", error=ValueError)
    assert "Did you mean the option error_handling=...?" in text


def test_a_misspelt_optional_input_names_the_input(on: On) -> None:
    text = message(on.run, COUNTING, text="a b", at_leest=9, error=ValueError)
    assert text.startswith("'at_leest' is not an input of graph 'counting'. Did you mean 'at_least'?")


def test_an_async_node_comes_with_the_call_to_write() -> None:
    @node(output_name="page")
    async def fetch(url: str) -> str:
        return url

    text = message(SyncRunner().run, Graph([fetch]), url="u", error=IncompatibleRunnerError)
    assert "cannot run async nodes: fetch" in text
    assert "await AsyncRunner().run(graph, ...)" in text


def test_too_many_values_say_what_to_change(on: On) -> None:
    @node(output_name=("a", "b"))
    def two(x: int) -> Any:
        return 1, 2, x

    text = message(on.run, Graph([two]), x=1, error=ValueError)
    assert "Node 'two' returned 3 values; expected 2" in text
    assert "Change its output_name" in text


@pytest.mark.parametrize(
    "option",
    [{"workflow_id": "x"}, {"tags": {"a": "b"}}, {"wait": True}, {"fork_from": ("w", 0)}],
    ids=lambda option: next(iter(option)),
)
def test_what_needs_a_store_says_how_to_give_one(on: On, option: dict[str, Any]) -> None:
    text = message(on.run, COUNTING, text="a", error=ValueError, **option)
    runner = type(on.runner).__name__
    assert next(iter(option)) in text
    assert text.endswith(f" a runner with a checkpointer: {runner}(checkpointer='runs.db').")


def test_a_map_with_an_id_needs_a_store_too(on: On) -> None:
    text = message(on.map, COUNTING, text=["a"], map_over="text", workflow_id="x", error=ValueError)
    assert text.startswith("workflow_id needs a runner with a checkpointer")


@pytest.mark.parametrize("runner", [SyncRunner, AsyncRunner])
def test_a_path_is_a_store_and_anything_else_is_refused(runner: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "runs.db", str(tmp_path / "runs.db")):
        store = runner(checkpointer=path).checkpointer
        assert isinstance(store, SqliteCheckpointer)
        assert store.backend.location == str(path)
    text = message(runner, checkpointer=3, error=TypeError)
    assert text == (
        "checkpointer must be a Checkpointer or the path of a SQLite file, got int 3. "
        f"Write {runner.__name__}(checkpointer='runs.db')."
    )
    assert "PostgresCheckpointer" in message(runner, checkpointer="postgresql://host/db", error=TypeError)


@pytest.mark.parametrize("use", [len, list, bool, lambda call: call["total"], lambda call: call.log])
@pytest.mark.parametrize("name", ["run", "map"])
def test_a_result_that_was_not_awaited_says_so(name: str, use: Any) -> None:
    options = {"map_over": "text"} if name == "map" else {}
    call = getattr(AsyncRunner(), name)(Graph([split]), {"text": "a b"}, **options)
    assert f"Write `await runner.{name}(...)`" in message(use, call, error=TypeError)


def test_a_call_is_a_coroutine_for_tasks_gather_and_debuggers() -> None:
    runner, graph = AsyncRunner(), Graph([split])

    async def main() -> None:
        task = asyncio.create_task(runner.run(graph, text="a b"))
        assert "AsyncRunner" in repr(task)
        first, second = await asyncio.gather(runner.run(graph, text="c"), task)
        assert (first["words"], second["words"]) == (["c"], ["a", "b"])
        call = runner.run(graph, text="a")
        assert not hasattr(call, "gi_code")
        assert (await call)["words"] == ["a"]

    asyncio.run(main())


def test_a_store_in_the_place_of_the_cache_is_told_where_it_goes() -> None:
    text = message(SyncRunner, MemoryCheckpointer(), error=TypeError)
    assert "got the store MemoryCheckpointer. Write SyncRunner(checkpointer=...)" in text


def test_a_value_without_a_name_comes_with_the_call_to_write(on: On) -> None:
    text = message(on.run, COUNTING, "a b", error=TypeError)
    assert "values must be a mapping from input names to values, got str 'a b'" in text
    assert "run(graph, text=...)" in text


def test_a_value_for_a_computed_output_says_what_computes_it(on: On) -> None:
    text = message(on.run, COUNTING, text="a", words=["b"], error=ValueError)
    assert text.startswith(
        "You passed 'words', but node 'split' would compute it from 'text'. Pass only one of them, "
        "or leave out 'split': graph.with_entrypoint('"
    )


def test_the_way_to_leave_out_a_node_whose_input_others_take_is_named(on: On) -> None:
    @node(output_name="prices")
    def fetch_prices(shop: str) -> list[float]:
        raise ConnectionError

    @node(output_name="bill")
    def add_up(shop: str, prices: list[float]) -> str:
        return f"{shop}: {sum(prices)}"

    graph = Graph([fetch_prices, add_up], name="bill")
    for values in ({"shop": "corner", "prices": [1.0]}, {"prices": [1.0]}):
        text = message(on.run, graph, values, on_internal_override="ignore", error=Exception)
        assert "graph.with_entrypoint('add_up')" in text
    assert on.run(graph.with_entrypoint("add_up"), shop="a", prices=[1.0])["bill"] == "a: 1.0"


@pytest.mark.parametrize(("value", "shown"), [("a b", "text=['a b']"), (7, "text=[7]")])
def test_what_cannot_be_mapped_over_is_to_be_wrapped_in_a_list(on: On, value: Any, shown: str) -> None:
    text = message(on.map, COUNTING, text=value, map_over="text", error=TypeError)
    assert text == (
        f"Cannot map over 'text': expected a list of items, got {type(value).__name__}. "
        f"For a single item, wrap it in a list: {shown}."
    )


def test_what_is_mapped_over_has_an_order_and_items(on: On) -> None:
    table = pandas.DataFrame({"text": ["a"]})
    for value, why in (({"a", "b"}, "a set has no order"), (table, "the table DataFrame. Pass its rows")):
        assert why in message(on.map, COUNTING, text=value, map_over="text", error=TypeError)


def test_a_run_and_a_map_cannot_share_an_id(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(COUNTING, text="a", workflow_id="run")
    on.map(COUNTING, text=["a"], map_over="text", workflow_id="map")
    text = message(on.map, COUNTING, text=["a"], map_over="text", workflow_id="run", error=WorkflowError)
    assert text == "Workflow 'run' is a single run. Use run() to continue it, or another workflow_id."
    text = message(on.run, COUNTING, text="a", workflow_id="map", error=WorkflowError)
    assert text == "Workflow 'map' is a map. Use map() to continue it, or another workflow_id."


def test_a_workflow_that_runs_names_its_owner_and_the_options(on: On) -> None:
    store = on.runner.checkpointer = MemoryCheckpointer()

    @node(output_name="seen")
    def again(x: int) -> str:
        return message(
            SyncRunner(checkpointer=store).run, inner, x=x, workflow_id="w", error=WorkflowLockedError
        )

    inner = Graph([again])
    text = on.run(inner, x=1, workflow_id="w")["seen"]
    assert re.search(r"Workflow 'w' is being run by process \d+ on ", text)
    assert "wait=True" in text
    assert "force=True" in text


# -- another graph under the same id -------------------------------------------------------------------


@node(output_name="loud")
def shout(text: str) -> str:
    return text.upper()


OTHER = Graph([shout], name="other")


def test_another_graph_is_refused_and_both_are_named(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(COUNTING, text="a b", workflow_id="id1")
    text = message(on.run, OTHER, text="a b", workflow_id="id1", error=GraphChangedError)
    assert "Workflow 'id1' was recorded with graph 'counting' (nodes split, count)" in text
    assert "you passed graph 'other' (nodes shout)" in text
    assert "Use another workflow_id" in text
    assert "fork_from=('id1', None)" in text
    steps = on.runner.checkpointer.steps("id1")
    assert [step.node_name for step in steps] == ["split", "count"]


def test_another_graph_is_refused_before_its_inputs_are_asked_for(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(OTHER, text="a", workflow_id="id1")
    needs_more = Graph([count], name="counts")
    assert "'counts'" in message(on.run, needs_more, workflow_id="id1", error=GraphChangedError)


def test_another_graph_is_refused_for_a_map(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.map(COUNTING, text=["a b"], map_over="text", workflow_id="id1")
    text = message(on.map, OTHER, text=["a b"], map_over="text", workflow_id="id1", error=GraphChangedError)
    assert "'counting'" in text
    assert "'other'" in text


def test_an_unnamed_graph_is_another_one_if_it_shares_no_node(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(Graph([split, count]), text="a b", workflow_id="id1")
    message(on.run, Graph([shout]), text="a b", workflow_id="id1", error=GraphChangedError)
    assert on.run(Graph([split, count, shout]), text="a b", workflow_id="id1")["loud"] == "A B"


def test_a_graph_that_grew_or_got_another_name_is_the_same_one(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(COUNTING, text="a b", workflow_id="id1")
    assert on.run(Graph([split, count], name="renamed"), workflow_id="id1")["total"] == 2
    assert on.run(Graph([split, count, shout], name="counting"), workflow_id="id1")["loud"] == "A B"


def test_another_graph_may_fork_or_rerun(on: On) -> None:
    on.runner.checkpointer = MemoryCheckpointer()
    on.run(COUNTING, text="a b", workflow_id="id1")
    assert on.run(OTHER, fork_from=("id1", None), workflow_id="id2")["loud"] == "A B"
    assert on.run(OTHER, workflow_id="id1", code_change="rerun")["loud"] == "A B"


# -- loops ---------------------------------------------------------------------------------------------


def test_an_endless_loop_without_a_gate_says_so(on: On) -> None:
    @node(output_name="b")
    def there(a: int) -> int:
        return a + 1

    @node(output_name="a")
    def back(b: int) -> int:
        return b + 1

    text = message(on.run, Graph([there, back]), a=1, max_iterations=9, error=InfiniteLoopError)
    assert "exceeded maximum iterations (9): there → back feed each other and no gate ends the loop" in text
    assert "If no loop is meant, rename an output: 'b', 'a'." in text


def test_an_endless_loop_names_its_gate_and_the_last_decision(on: On) -> None:
    @node(output_name="n")
    def up(n: int) -> int:
        return n + 1

    @route(targets=["up", END])
    def more(n: int) -> str:
        return "up"

    text = message(on.run, Graph([up, more]), n=1, max_iterations=9, error=InfiniteLoopError)
    assert "the loop up → more has not ended; gate 'more' last returned 'up'" in text


# -- the options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [BaseRunner.run, BaseRunner.map], ids=["run", "map"])
def test_signatures_and_options_agree(call: Any) -> None:
    declared = {
        name: parameter.default
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "map_over"
    }
    assert declared == {name: getattr(RunOptions, name) for name in declared}


def test_every_option_is_in_a_signature() -> None:
    declared = {*inspect.signature(BaseRunner.run).parameters, *inspect.signature(BaseRunner.map).parameters}
    assert set(RunOptions.__annotations__) <= declared


def test_options_are_frozen() -> None:
    options = RunOptions(timeout=1)
    with pytest.raises(AttributeError, match="frozen"):
        options.timeout = 2
    assert (options.timeout, options.replace(timeout=2).timeout, options.wait) == (1, 2, False)
    assert repr(options) == "RunOptions(timeout=1)"


def test_warnings_of_runs_in_the_background_name_the_line_of_their_call() -> None:
    @interrupt("ok")
    def ask(said: str) -> bool | None:
        return None

    graph = Graph([ask], name="g")
    keywords: dict[str, Any] = {"workflow_id": "w", "new_turn": True}

    def line_of(call: Any) -> tuple[str, int]:
        return call.__code__.co_filename, call.__code__.co_firstlineno + 1

    def start(runner: Any, said: str) -> Any:
        return runner.start_run(graph, said=said, **keywords)

    async def loop(runner: Any, said: str) -> None:
        async for _ in runner.iter(graph, said=said, **keywords):
            pass

    async def main() -> None:
        runner = AsyncRunner(checkpointer=MemoryCheckpointer())
        await runner.run(graph, said="a", workflow_id="w")
        await start(runner, "b").result()
        await loop(runner, "c")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        sync = SyncRunner(checkpointer=MemoryCheckpointer())
        sync.run(graph, said="a", workflow_id="w")
        start(sync, "b").result()
    found = [(warning.filename, warning.lineno) for warning in caught]
    assert found == [line_of(start), line_of(loop), line_of(start)]


def test_warnings_of_a_sync_runner_with_an_executor_name_the_line_of_their_call() -> None:
    @node(output_name="lock")
    def lock(n: int) -> Any:
        return threading.Lock()

    graph = Graph([lock], name="g")

    def calls() -> None:
        with ThreadPoolExecutor(1) as pool:
            runner = SyncRunner(executor=pool, checkpointer=MemoryCheckpointer())
            runner.run(graph, n=1)
            list(runner.iter(graph, n=1))
            runner.map(graph, n=[1, 2], map_over="n")
            list(runner.map_iter(graph, n=[1, 2], map_over="n"))

    async def main() -> None:
        calls()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls()
        asyncio.run(main())
    first = calls.__code__.co_firstlineno
    assert [(warning.filename, warning.lineno - first) for warning in caught] == [
        (__file__, line)
        for line in (3, 4, 5, 5, 6, 6)  # of a map the first item, and how many others
    ] * 2
