"""Dialect: the statements that differ between databases, written out for each.

All other statements are shared: written once, with `?` or `:name` for parameters.
"""

from typing import NamedTuple

# The names are found by jumping from one to the next.
NAMES = """
WITH RECURSIVE names (name) AS (
    SELECT (SELECT name FROM vals WHERE workflow = :key AND kind = :kind ORDER BY name LIMIT 1)
    UNION ALL
    SELECT (SELECT name FROM vals WHERE workflow = :key AND kind = :kind AND name > names.name
            ORDER BY name LIMIT 1)
    FROM names WHERE names.name IS NOT NULL)
"""
WHOLE = "v.name, v.version, v.format, v.checksum, v.data, v.superstep, v.idx"  # of a payload without base
PAYLOAD = f"{WHOLE}, v.base"


class Dialect(NamedTuple):
    """The statements in which databases differ.

    A transaction of SQLite has the whole database to itself. In Postgres, rows that must not change before
    the transaction ends are locked.
    """

    brief: bool  # steps are written with the columns of BRIEF, and with brief versions
    owned: str  # (key, fence) -> a row if the claim is the newest
    owner: str  # (id) -> key, status, fence, process, address, since, crashes
    key: str  # (id) -> key
    tags: str  # (id) -> key, tags
    release: str  # (key, fence): forget the owner
    lock: str  # after a SELECT: let no other transaction change what it finds
    next_erased: str  # -> the keys of some workflows whose rows are being deleted
    lock_structures: str | None  # let no structure be added before the transaction ends
    has_long_tag: str  # a condition on workflows with two parameters, the key and the value of a tag
    survey: str | None  # over the steps {found}: node, count, failed, cached, total, p50, p95; None: by hand
    only: str  # (id) -> whether the newest payload is all there is of outputs, and that without its base
    only_before: str  # (upto, id) -> the same, as of a superstep
    state: str  # (key, kind, upto) -> the newest payload of each name, maybe with others of its superstep
