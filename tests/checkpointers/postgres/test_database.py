"""Lost connections: what was committed counts once, who owns a workflow goes on, unless it was taken over."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.cutting import Line
from support.postgres import Server, dsn_in, psycopg, server, store_in

from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import PostgresCheckpointer, WorkflowStatus
from hypergraph.checkpointers.postgres import database
from hypergraph.checkpointers.postgres.database import _FOR_WRITING, Database
from hypergraph.checkpointers.postgres.driver import Driver
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.checkpointers.sql import writes
from hypergraph.exceptions import OwnershipLostError, StoreUnavailableError, WorkflowLockedError
from hypergraph.testing.conformance.samples import commit, given, opened, step


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    """A line to the server that can be cut."""
    (tmp_path / "line").mkdir()
    made = Line(tmp_path / "line", Path(server().folder))
    yield made
    made.close()


@pytest.fixture
def behind(tmp_path: Path, line: Line) -> Iterator[PostgresCheckpointer]:
    """A store whose connections go over the line."""
    dsn = dsn_in(tmp_path).replace(server().folder, str(line.folder))
    made = PostgresCheckpointer(dsn)
    yield made
    made.close()


def sessions(store: Any, kill: bool = False) -> list[int]:
    """Return the sessions that hold an advisory lock, of which there is one for each owner; end them."""
    with psycopg.connect(store.backend.database.address.conninfo, autocommit=True) as connection:
        end = "pg_terminate_backend(pid, 5000)" if kill else "true"
        found = connection.execute(
            f"SELECT pid, {end} FROM pg_locks JOIN pg_database ON pg_database.oid = database "
            "WHERE locktype = 'advisory' AND datname = current_database()"
        ).fetchall()
    return [pid for pid, _ in found]


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_commit_whose_connection_is_cut_counts_once(
    behind: PostgresCheckpointer, line: Line, what: str
) -> None:
    claim = opened(behind)
    commit(behind, claim, step(0, values={"x": 0}))
    line.arm(what)
    commit(behind, claim, step(1, values={"x": 1}), inputs={"q": (1, "?")})
    assert line.cuts == 1
    assert [found.values for found in behind.steps("w")] == [{"x": 0}, {"x": 1}]
    assert given(behind, "w") == {"q": (1, "?")}
    line.arm(what)
    behind.backend.write(behind.encoding.commit(claim, status=WorkflowStatus.COMPLETED))
    assert behind.workflow("w").status is WorkflowStatus.COMPLETED
    behind.backend.release(claim)


@pytest.mark.parametrize("what", ["request", "reply"])
def test_commits_together_whose_connection_is_cut_count_once_each(
    behind: PostgresCheckpointer, line: Line, what: str
) -> None:
    claims = [opened(behind, name) for name in ("a", "b")]
    units = [
        behind.encoding.commit(
            claim, [behind.encoding.encode(step(0, values={"x": 1}, workflow_id=claim.workflow_id))]
        )
        for claim in claims
    ]
    line.arm(what)
    assert behind.backend.write_all(units) == [None, None]
    assert line.cuts == 1
    assert [len(behind.steps(name)) for name in ("a", "b")] == [1, 1]


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_question_whose_connection_is_cut_is_asked_again(
    behind: PostgresCheckpointer, line: Line, what: str
) -> None:
    opened(behind)
    line.arm(what)
    assert behind.workflow("w").id == "w"
    assert line.cuts == 1


def test_an_owner_whose_session_was_ended_still_owns_what_nobody_took(tmp_path: Path) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, application="other")
    claim = opened(store)
    assert len(sessions(store, kill=True)) == 1
    commit(store, claim, step(0))
    with pytest.raises(WorkflowLockedError):
        opened(other)
    store.backend.release(claim)
    other.backend.release(opened(other))


def cut_off(store: Any) -> None:
    """End the session of an owner, and let it open no other, as on a machine that is cut off."""

    def refuse() -> Any:
        raise psycopg.OperationalError("no route to host")

    store.backend.database.locks._connect = refuse
    sessions(store, kill=True)


def test_an_owner_whose_session_was_ended_is_refused_once_somebody_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "grace", 0.2)
    store, other = store_in(tmp_path), store_in(tmp_path, application="other")
    claim = opened(store)
    connect = store.backend.database.locks._connect
    cut_off(store)
    taken = opened(other)
    assert taken.crashed
    store.backend.database.locks._connect = connect
    with pytest.raises(OwnershipLostError):
        commit(store, claim, step(0))
    store.backend.release(claim)
    commit(other, taken, step(0, values={"x": "theirs"}))
    assert store.state("w") == {"x": "theirs"}
    with pytest.raises(WorkflowLockedError):
        opened(store)


def test_a_live_owner_has_time_to_replace_its_session(tmp_path: Path) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, application="other")
    claim = opened(store)
    with pytest.raises(WorkflowLockedError):
        opened(other)
    for _ in range(5):
        sessions(other, kill=True)  # all of them, as when the server restarts
        with pytest.raises(WorkflowLockedError):
            opened(other)
    commit(store, claim, step(0))


def test_a_session_is_replaced_while_the_owner_is_busy(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    claim = opened(store)
    (before,) = sessions(store, kill=True)
    while (found := sessions(store)) in ([], [before]):  # nothing is asked of the store meanwhile
        time.sleep(0.01)
    assert len(found) == 1
    commit(store, claim, step(0))


def test_a_session_is_replaced_once_the_server_is_back() -> None:
    own = Server()
    store = PostgresCheckpointer(own.create())
    claim = opened(store)
    tries = threading.Semaphore(0)
    session, connect = store.backend.database.locks, store.backend.database.locks._connect

    def try_to_connect() -> Driver:
        tries.release()
        return connect()

    session._connect = try_to_connect
    own.stop()
    assert tries.acquire(timeout=300)
    assert tries.acquire(timeout=300)  # again, although nothing is asked of the store
    own.start()
    while not sessions(store):
        time.sleep(0.01)
    commit(store, claim, step(0))
    store.close()


def test_a_session_is_used_and_closed_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    opened(store)
    session = store.backend.database.locks
    unlocked = []

    def watched(name: str) -> Any:
        method = getattr(Driver, name)

        def call(self: Driver, *args: Any, **options: Any) -> Any:
            if self is session._driver and not session._lock._is_owned():
                unlocked.append(name)
            return method(self, *args, **options)

        return call

    for name in ("execute", "close"):
        monkeypatch.setattr(Driver, name, watched(name))
    (before,) = sessions(store, kill=True)
    session.open()  # as soon as the thread does
    assert sessions(store) != [before]
    session.end()
    assert not unlocked


@pytest.mark.parametrize("statement", [1, 2])
def test_garbage_may_end_a_session_while_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    store = store_in(tmp_path)
    opened(store)
    session, execute = store.backend.database.locks, Driver.execute
    calls, ended = [], threading.Event()

    def collected(self: Driver, *args: Any, **options: Any) -> Any:
        if threading.current_thread() is session._keeper:
            calls.append(args)
            if len(calls) == statement:
                session.end()  # as the finalizer of a database does, in whatever thread that runs
                ended.set()
        return execute(self, *args, **options)

    monkeypatch.setattr(Driver, "execute", collected)
    keeper = session._keeper
    sessions(store, kill=True)
    assert ended.wait(60)
    keeper.join(60)
    assert not keeper.is_alive()
    assert sessions(store) == []


def test_a_waiting_session_is_not_ended_by_the_server(tmp_path: Path) -> None:
    with psycopg.connect(dsn_in(tmp_path), autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '1s'")
    store = store_in(tmp_path)
    claim = opened(store)
    before = sessions(store)
    with psycopg.connect(dsn_in(tmp_path), autocommit=True) as other:
        assert select.select([other], [], [], 60)[0]  # this one is ended, after the same time
    assert sessions(store) == before
    commit(store, claim, step(0))


def test_a_claim_that_could_not_be_released_is_not_a_crash(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    claim = opened(store)
    store.backend.database.locks.free(claim.key, claim.fence)  # the store was away when it was released
    again = opened(store)
    assert not again.crashed
    assert again.existing.crashes == {}


def test_a_refused_claim_leaves_the_connection_usable(tmp_path: Path) -> None:
    graph = Graph([FunctionNode(lambda x: x + 1, name="one", output_name="y")], name="g")
    store = store_in(tmp_path)
    runner = SyncRunner(checkpointer=store)
    for number in range(8):  # until statements are prepared
        runner.run(graph, {"x": number})
    claim = opened(store)
    with pytest.raises(WorkflowLockedError):
        opened(store)
    for number in range(20):
        assert runner.run(graph, {"x": number})["y"] == number + 1
    store.backend.release(claim)


def test_a_claim_whose_session_was_lost_does_not_wait_for_itself(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    claim = opened(store)
    sessions(store, kill=True)
    with pytest.raises(WorkflowLockedError):
        opened(store)  # the row is locked while the owner is looked for
    commit(store, claim, step(0))


def test_a_locked_row_holds_up_no_other_async_run(tmp_path: Path) -> None:
    async def one(x: int) -> int:
        return x + 1

    graph = Graph([FunctionNode(one, output_name="y")], name="g")
    store = store_in(tmp_path)
    store.backend.create("locked", NewWorkflow(), store.encoding)

    async def both() -> list[str]:
        runner, ended = AsyncRunner(checkpointer=store), []

        async def run(workflow_id: str) -> None:
            await runner.run(graph, {"x": 1}, workflow_id=workflow_id)
            ended.append(workflow_id)

        with psycopg.connect(dsn_in(tmp_path)) as other:
            other.execute("SELECT 1 FROM hypergraph.workflows WHERE id = 'locked' FOR UPDATE")
            waits = asyncio.create_task(run("locked"))
            for number in range(10):
                await run(f"free-{number}")
        await waits
        return ended

    assert asyncio.run(both()) == [*(f"free-{number}" for number in range(10)), "locked"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_pooler_is_used_if_it_keeps_sessions_and_refused_by_name_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    monkeypatch.setattr(database, "_backend_pid", lambda driver: -1)  # a pooler has a number of its own
    if not keeps:
        execute = Driver.execute

        def on_another_session(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            if "hypergraph.probe" in str(query) and "current_setting" in str(query):
                query = "SELECT ''"
            return execute(self, query, *args, **kwargs)

        monkeypatch.setattr(Driver, "execute", on_another_session)
    store = store_in(tmp_path)
    if keeps:
        assert store.workflows() == []
    else:
        with pytest.raises(StoreUnavailableError, match="pool_mode=session"):
            store.workflows()


def test_a_write_does_not_wait_forever_for_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_FOR_WRITING, "lock_timeout", "100ms")
    store = store_in(tmp_path)
    opened(store)
    with psycopg.connect(dsn_in(tmp_path)) as other:
        other.execute("SELECT 1 FROM hypergraph.workflows FOR UPDATE")
        with pytest.raises(StoreUnavailableError, match="lock"):
            opened(store)


def test_an_owner_in_the_same_process_is_known_whatever_its_address(tmp_path: Path) -> None:
    store, other = store_in(tmp_path), store_in(tmp_path, application="other")
    claim = opened(store)
    assert store_in(tmp_path).backend.database is store.backend.database
    for rival in (store, other, store_in(tmp_path)):
        with pytest.raises(WorkflowLockedError) as caught:
            opened(rival)
        assert " " not in caught.value.host
    store.backend.release(claim)
    other.backend.release(opened(other))


LENGTH, WORKFLOWS = 10, 200


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_in_the_middle_loses_nothing(mode: str) -> None:
    own = Server()
    store = PostgresCheckpointer(own.create())
    ran: Counter[str] = Counter()
    begun = threading.Semaphore(0)

    def body(x: int) -> int:
        ran[threading.current_thread().name] += 1
        begun.release()
        return x + 1

    nodes = [FunctionNode(body, f"n{i}", f"v{i + 1}", rename_inputs={"x": f"v{i}"}) for i in range(LENGTH)]
    graph, runner = Graph(nodes, name="chain"), SyncRunner(checkpointer=store)
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(runner.run, graph, {"v0": 0}, workflow_id=f"w{n}") for n in range(WORKFLOWS)]
        for _ in range(2):
            for _ in range(300):  # some workflows further on
                assert begun.acquire(timeout=300)
            own.stop(mode)
            own.start()
        again = [n for n, run in enumerate(runs) if isinstance(run.exception(), StoreUnavailableError)]
    for number in again:  # a claim or farewell that was cut off: the workflow is resumed
        runner.run(graph, {"v0": 0}, workflow_id=f"w{number}")
    assert [run.result()[f"v{LENGTH}"] for n, run in enumerate(runs) if n not in again] == [LENGTH] * (
        WORKFLOWS - len(again)
    )
    assert len(again) <= 8  # at most those under way, at each restart
    found = store.workflows(status="completed", limit=None)
    assert len(found) == WORKFLOWS
    for workflow in found:
        assert [s.node_name for s in store.steps(workflow.id)] == [f"n{i}" for i in range(LENGTH)]
    assert sum(ran.values()) <= WORKFLOWS * LENGTH + len(again)
    store.close()


def test_readers_and_writers_share_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = store_in(tmp_path).backend.database
    found.open()
    connect, made = database.connect, []
    monkeypatch.setattr(database, "connect", lambda *args: made.append(args) or connect(*args))
    limit = "SHOW statement_timeout"
    with found.lend() as reader, found.lend(writing=True) as writer:
        pids = {reader.info.backend_pid, writer.info.backend_pid}
        usual = reader.execute(limit).fetchone()
    assert len(made) == 1
    for _ in range(3):
        for writing in (True, False):
            with found.lend(writing=writing) as one, found.lend(writing=writing) as other:
                assert {one.info.backend_pid, other.info.backend_pid} == pids
                expected = ("5min",) if writing else usual
                assert [one.execute(limit).fetchone(), other.execute(limit).fetchone()] == [expected] * 2
    assert len(made) == 1


def test_a_look_by_key_takes_a_connection_of_either_kind_and_changes_none(tmp_path: Path) -> None:
    found = store_in(tmp_path).backend.database
    found.open()
    limit = "SHOW statement_timeout"
    with found.lend(writing=True) as writer:
        pid, timeout = writer.info.backend_pid, writer.execute(limit).fetchone()
        with found.lend(either=True) as reader:  # no connection is idle
            assert reader.info.backend_pid != pid
            usual = reader.execute(limit).fetchone()
        assert usual != timeout
    for _ in range(3):
        with found.lend() as reader, found.lend(either=True) as one:
            assert one.info.backend_pid == pid
            assert [each.execute(limit).fetchone() for each in (reader, one)] == [usual, timeout]
    with found.lend(writing=True) as writer, found.lend() as reader:
        assert [each.execute(limit).fetchone() for each in (writer, reader)] == [timeout, usual]


def test_a_claim_that_is_new_has_a_fence_above_all_before(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    fences = []
    for _ in range(3):
        claim = store.backend.claim("w", NewWorkflow(), store.encoding)
        fences.append(claim.fence)
        store.backend.release(claim)
    assert fences == [1, 2, 3]


def test_a_result_that_was_not_received_is_a_lost_connection(tmp_path: Path) -> None:
    """Libpq makes a result of its own then, with a text and without a code."""
    store, errors = store_in(tmp_path), []

    def work(connection: Any) -> int:
        if not errors:
            result = connection.driver.pgconn.make_empty_result(psycopg.pq.ExecStatus.FATAL_ERROR)
            errors.append(psycopg.errors.error_from_result(result))
            raise errors[0]
        return int(connection.execute("SELECT 7").fetchone()[0])

    assert store.backend.database.read(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)
    assert store.backend.database.read(work) == 7
    assert type(errors[0]) is psycopg.DatabaseError
    assert isinstance(store.backend.database.translated(errors[0]), StoreUnavailableError)


def test_idle_connections_are_closed_by_several_threads_at_once() -> None:
    class Taken(list[Any]):
        """A list whose last item another thread takes between two looks."""

        def __bool__(self) -> bool:
            return True

    closed: list[int] = []

    class Idle:
        def close(self) -> None:
            closed.append(1)

    database._close_all(Taken([Idle(), Idle()]))
    assert len(closed) == 2


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
def test_the_commit_that_ends_a_run_releases_it(tmp_path: Path, kind: Any, monkeypatch: Any) -> None:
    store, written, write = store_in(tmp_path), [], Database.write

    def seen(self: Database, work: Any, **options: Any) -> Any:
        written.append(getattr(work, "func", work))
        return write(self, work, **options)

    monkeypatch.setattr(Database, "write", seen)
    graph = Graph([FunctionNode(lambda x: x + 1, "add", "y")])
    result = kind(checkpointer=store).run(graph, x=1, workflow_id="w")
    assert (asyncio.run(result) if kind is AsyncRunner else result)["y"] == 2
    assert writes.release not in written
    assert store.backend.read_owners(["w"]) == {}
    assert not store.backend.database.locks.held
