"""The Postgres store: what every store promises, and what it promises besides."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.postgres import dsn_in, store_in

from hypergraph.checkpointers import Checkpointer
from hypergraph.testing import CheckpointerConformance


class TestPostgres(CheckpointerConformance):
    def make_store(self, folder: Path) -> Checkpointer:
        return store_in(folder)

    @pytest.fixture(autouse=True)
    def database(self, tmp_path: Path) -> None:
        dsn_in(tmp_path)  # of this process's server, whoever uses it first
