"""A worker whose line to the database is cut, in a network namespace of its own; needs root on Linux."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dbos")

from integrations.dbos.test_worker import assert_all_ended, bodies, live_of, submit
from support.dbos_cluster import TestCluster
from support.postgres import pgexec, pgserver

from hypergraph.integrations.dbos.presence import session_name

pytestmark = pytest.mark.slow

HERE, THERE = "10.231.77.1", "10.231.77.2"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def namespace() -> Iterator[str]:
    """Return the name of a network namespace with one line to this one, which can be cut."""
    name, near, far = f"hg{os.getpid()}", f"hgn{os.getpid()}", f"hgf{os.getpid()}"
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root")
    try:
        run("ip", "netns", "add", name)
    except subprocess.CalledProcessError:
        pytest.skip("this machine has no network namespaces")
    try:
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        run("ip", "addr", "add", f"{HERE}/30", "dev", near)
        run("ip", "link", "set", near, "up")
        run("ip", "-n", name, "addr", "add", f"{THERE}/30", "dev", far)
        run("ip", "-n", name, "link", "set", far, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture
def dsn(namespace: str) -> Iterator[str]:
    """Return the address of a server that listens on that line."""
    server = pgserver.PostgresServer(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    server.start()
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    folder, data = server.get_postmaster_info().socket_dir, server.pgdata
    with open(data / "pg_hba.conf", "a") as rules:
        rules.write("host all all 10.231.77.0/30 trust\n")

    def control(*arguments: str) -> None:
        pgexec(
            "pg_ctl", ("-w", "-D", str(data), *arguments), bin_path=server.bin_path, user=server.system_user
        )

    control("-m", "fast", "stop")
    control("-o", f"-h {HERE} -p {port} -k {folder}", "-l", str(server.log), "start")
    try:
        yield f"postgresql://postgres@{HERE}:{port}/postgres"
    finally:
        control("-m", "immediate", "stop")
        server.cleanup()


def test_a_worker_that_is_cut_off_is_taken_over_and_refused_when_it_is_back(dsn: str, namespace: str) -> None:
    line = f"hgf{os.getpid()}"
    cluster = TestCluster(dsn)
    try:
        (cut_off,) = cluster.start("w1", inside=namespace, NODE_SECONDS="0.1")
        names = submit(cluster, 3)
        cluster.until(lambda: bodies(cluster) >= 6)
        run("ip", "-n", namespace, "link", "set", line, "down")
        cluster.start("w2", options=("--patience", "2"), NODE_SECONDS="0.1")
        assert_all_ended(cluster, names, most_repeated=3)
        assert not live_of(cluster, "w1")
        run("ip", "-n", namespace, "link", "set", line, "up")
        back = (
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
            "AND application_name = %s"
        )
        cluster.until(lambda: cluster.one(back, session_name("w1", "dbos")), 60)
        cluster.workers[1].kill()
        more = submit(cluster, 4)  # the first three have ended; the last one is for the one that is back
        assert_all_ended(cluster, more, most_repeated=3)
        cut_off.leave(60)
        assert "is tried again" in cut_off.words()
    finally:
        cluster.close()
