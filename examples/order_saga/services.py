"""A warehouse, a card company and a carrier, which keep what they did in a ledger of their own: services.db.

They stand for services elsewhere. What they did is done, whatever becomes of the process that asked for it.
`KILL` names a moment at which the process dies, as by `kill -9`: "before charge", "after charge".
"""

import os
import signal
import sqlite3
from contextlib import closing
from typing import NamedTuple

KILL = ""


class Effect(NamedTuple):
    """One thing that happened in the world."""

    order_id: str
    deed: str
    key: str


def _ledger(sql: str, *parameters: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect("services.db", isolation_level=None)) as ledger:
        ledger.execute("CREATE TABLE IF NOT EXISTS effects (order_id TEXT, deed TEXT, key TEXT)")
        return ledger.execute(sql, parameters).fetchall()


def do(effect: Effect) -> str:
    """Do it, however often it was done before: like most services, this one does not ask."""
    _die_if(f"before {effect.deed}")
    _ledger("INSERT INTO effects VALUES (?, ?, ?)", *effect)
    print(f"  {effect.deed} {effect.order_id}", flush=True)
    _die_if(f"after {effect.deed}")
    return f"receipt for {effect.deed} {effect.order_id}"


def do_once(effect: Effect) -> str:
    """Do it, unless it was done under the same key: services that handle money take such keys."""
    return find(effect.key) or do(effect)


def find(key: str) -> str | None:
    """Return the receipt of what was done under a key."""
    for deed, order_id in _ledger("SELECT deed, order_id FROM effects WHERE key = ?", key):
        print(f"  {deed} {order_id}: has happened already", flush=True)
        return f"receipt for {deed} {order_id}"
    return None


def effects() -> list[Effect]:
    return [Effect(*row) for row in _ledger("SELECT * FROM effects ORDER BY rowid")]


def _die_if(moment: str) -> None:
    if moment == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
