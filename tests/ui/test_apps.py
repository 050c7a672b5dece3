"""The code of --app is loaded anew when it changes; code that cannot be loaded is reported, and not run."""

import os
from pathlib import Path

import pytest
from support.ui_serving import Served, serving

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node

CODE = """
from hypergraph import Graph, node
from shop_prices import PRICE

@node(output_name="total")
def charge(count: int) -> int:
    return count * PRICE

shop = Graph([charge], name="shop")
"""


@node(output_name="length")
def len_of(text: str) -> int:
    return len(text)


def write(file: Path, text: str) -> None:
    later = file.stat().st_mtime_ns + 1_000_000_000 if file.exists() else None
    file.write_text(text)
    if later is not None:  # also on file systems with coarse times
        os.utime(file, ns=(later, later))


def charged(server: Served, name: str) -> object:
    """Return what a new run makes."""
    with server.listening() as news:
        started = server.wish("start", graph="shop", values={"count": 3}, id=name)
        assert started.status == 200, started.document
        while server.ask("workflow", id=name).document["status"] == "active":
            next(news)
    return server.ask("value", id=name, key="total").document["value"]


def test_changed_code_runs_and_broken_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "shop_prices.py", "PRICE = 2")
    write(tmp_path / "shop_app.py", CODE)
    monkeypatch.syspath_prepend(str(tmp_path))  # and so of the server
    with SqliteCheckpointer(tmp_path / "shop.db") as store:
        SyncRunner(checkpointer=store).run(Graph([len_of], name="first"), text="", workflow_id="first")
    with serving(tmp_path / "shop.db", "--app", "shop_app:shop") as server:
        assert charged(server, "one") == 6
        write(tmp_path / "shop_prices.py", "PRICE = 50")  # not the module of the target itself
        assert charged(server, "two") == 150
        with server.listening() as news:
            write(tmp_path / "shop_app.py", CODE.replace("def", "dfe"))
            assert {"kind": "code"} in news
        assert "SyntaxError" in server.ask("about").document["problem"]
        refused = server.wish("start", graph="shop", values={"count": 3}, id="three")
        assert refused.status == 409
        assert "cannot be loaded" in refused.document["error"]["message"]
        write(tmp_path / "shop_app.py", CODE.replace("count *", "1000 + count *"))
        assert charged(server, "four") == 1150
        assert server.ask("about").document["problem"] is None
