"""Workflows that are stored ahead in one statement, read together, and claimed by one statement each."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.postgres import psycopg, server

from hypergraph.checkpointers import PostgresCheckpointer, WorkflowStatus
from hypergraph.checkpointers.postgres.driver import Driver
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowLockedError, WorkflowNotFoundError

ITEM = "m/item-{}"


@pytest.fixture
def stores() -> Iterator[list[PostgresCheckpointer]]:
    """Return two stores over one database, each with a session of its own, as two processes have."""
    dsn = server().create()
    found = [PostgresCheckpointer(f"{dsn}&application_name={name}") for name in ("one", "two")]
    found[0].create_workflow("m")
    yield found
    for store in found:
        store.close()


def new(number: int, **inputs: Any) -> NewWorkflow:
    return NewWorkflow(
        graph_name="g", graph_hash="h", node_hashes={"n": "1"}, parent_id="m", item=number, inputs=inputs
    )


def put(store: PostgresCheckpointer, count: int, **inputs: Any) -> list[str]:
    items = {ITEM.format(number): new(number, **inputs) for number in range(count)}
    store.backend.create_all(items, store.encoding)
    return list(items)


def claim(store: PostgresCheckpointer, name: str) -> Any:
    return store.backend.claim(name, NewWorkflow(parent_id="m"), store.encoding)


def test_what_is_added_together_is_what_is_added_one_by_one(stores: list[PostgresCheckpointer]) -> None:
    store = stores[0]
    values = {"x": 1, "text": "a\0b\x01", "many": list(range(50)), "none": None}
    store.backend.create("m2", NewWorkflow(), store.encoding)
    given = {ITEM.format(0): new(0, **values), ITEM.format(1): new(1), ITEM.format(2): new(2, x=2)}
    claimed = store.backend.claim(ITEM.format(2), new(2, x="before"), store.encoding)
    store.backend.create_all(given, store.encoding)
    alone = store.backend.claim("m2/item-0", new(0, **values), store.encoding)
    found, other = store.workflow(ITEM.format(0)), store.workflow("m2/item-0")
    same = ("status", "graph_name", "graph_hash", "node_hashes", "parent_id", "item", "visit", "tags")
    assert [getattr(found, name) for name in same] == [getattr(other, name) for name in same]
    first, second = (store.read_history(name) for name in (ITEM.format(0), "m2/item-0"))
    assert first is not None
    assert second is not None
    assert first.inputs == second.inputs == {name: (1, value) for name, value in values.items()}
    assert store.read_history(ITEM.format(1)).inputs == {}  # type: ignore[union-attr]
    assert store.read_history(ITEM.format(2)).inputs == {"x": (1, "before")}  # type: ignore[union-attr]
    assert set(store.backend.read_ahead(list(given))) == {ITEM.format(0), ITEM.format(1)}
    for each in (claimed, alone):
        store.backend.release(each)


def test_what_was_read_ahead_is_the_history(stores: list[PostgresCheckpointer]) -> None:
    one, two = stores
    names = put(one, 3, x=[1, 2], word="tea")
    assert list(one.backend.read_ahead([*names, "m", "unknown"])) == names
    for name in names:
        ahead, read = one.read_history(name), two.read_history(name)
        assert ahead is not None
        assert read is not None
        assert ahead._replace(state={}) == read._replace(state={})
        assert dict(ahead.state) == dict(read.state) == {}
    one.backend.forget_ahead(names)
    assert one.backend.ahead(names[0]) is None


@pytest.mark.parametrize("seed", range(4))
def test_of_many_that_claim_at_once_one_gets_it(stores: list[PostgresCheckpointer], seed: int) -> None:
    rng, names = random.Random(seed), put(stores[0], 25, x=1)
    rivals = [(store, name) for name in names for store in stores for _ in range(2)]
    rng.shuffle(rivals)
    for store in stores:
        store.backend.read_ahead(rng.sample(names, 20))  # the others are claimed in the usual way
    got: list[tuple[PostgresCheckpointer, Any]] = []
    wrong: list[BaseException] = []

    def work() -> None:
        while rivals:
            try:
                store, name = rivals.pop()
                got.append((store, claim(store, name)))
            except (WorkflowLockedError, IndexError):
                continue
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sorted(each.workflow_id for _, each in got) == sorted(names)
    for store, each in got:
        assert (each.fence, each.crashed) == (1, False)
        assert each.existing.status is WorkflowStatus.ACTIVE
        store.backend.write(store.encoding.commit(each, status=WorkflowStatus.COMPLETED))
        store.backend.release(each)
    assert {child.status for child in stores[0].backend.children("m")} == {WorkflowStatus.COMPLETED}
    assert not any(store.backend.database.locks.held for store in stores)


def test_what_changed_since_it_was_read_is_found_as_it_is(stores: list[PostgresCheckpointer]) -> None:
    one, two = stores
    names = put(one, 3, x=1)
    one.backend.read_ahead(names)
    two.backend.stop_all(names[:1])
    stopped = claim(one, names[0])
    assert (stopped.fence, stopped.existing.status) == (2, WorkflowStatus.STOPPED)
    one.backend.release(stopped)
    taken = claim(two, names[1])
    with pytest.raises(WorkflowLockedError):
        claim(one, names[1])
    two.backend.release(taken)
    two.delete("m")
    with pytest.raises(WorkflowNotFoundError):
        claim(one, names[2])
    assert two.backend.read_workflow(names[2]) is None


@pytest.mark.parametrize("counts", [True, False])
def test_a_claim_whose_answer_is_lost_is_no_crash_and_has_one_owner(
    stores: list[PostgresCheckpointer], monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    one, two = stores
    (name,) = put(one, 1, x=1)
    one.backend.read_ahead([name])
    real = Driver.quickly

    def cut(driver: Driver, *args: Any) -> Any:
        monkeypatch.setattr(Driver, "quickly", real)
        if counts:
            driver.quickly(*args)
        driver.close()
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(Driver, "quickly", cut)
    claimed = claim(one, name)
    assert (claimed.fence, claimed.crashed) == (2 if counts else 1, False)
    assert claimed.existing.crashes == {}
    with pytest.raises(WorkflowLockedError):
        claim(two, name)
    one.backend.write(one.encoding.commit(claimed, status=WorkflowStatus.COMPLETED))
    one.backend.release(claimed)
    assert two.workflow(name).status is WorkflowStatus.COMPLETED
