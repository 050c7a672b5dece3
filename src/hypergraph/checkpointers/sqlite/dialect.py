"""The dialect of SQLite."""

from __future__ import annotations

from hypergraph.checkpointers.sql.dialect import NAMES, PAYLOAD, WHOLE, Dialect
from hypergraph.checkpointers.sqlite.migrations import OUTPUT

_ONE = f"SELECT name FROM vals WHERE workflow = w.key AND kind = {OUTPUT}"  # noqa: S608 - fixed names
# Every column takes a quarter of a microsecond, so what has to be checked is one.
_ONLY = f"""
SELECT v.base IS NULL AND NOT w.scrambled AND {{is_alone}}, {WHOLE}
FROM workflows AS w JOIN vals AS v ON v.workflow = w.key AND v.kind = {OUTPUT}
"""  # noqa: S608 - fixed names

SQLITE = Dialect(
    brief=True,
    owned="SELECT 1 FROM workflows WHERE key = ? AND fence = ?",
    owner=(
        "SELECT key, status, fence, owner_pid, owner_host, owner_since, crashes FROM workflows WHERE id = ?"
    ),
    key="SELECT key FROM workflows WHERE id = ?",
    tags="SELECT key, tags FROM workflows WHERE id = ?",
    release="UPDATE workflows SET owner_pid = NULL WHERE key = ? AND fence = ? AND owner_pid IS NOT NULL",
    lock="",
    next_erased="SELECT key FROM erased LIMIT 200",
    lock_structures=None,
    has_long_tag=(
        "EXISTS (SELECT 1 FROM json_each(workflows.tags) AS tag WHERE tag.key = ? AND tag.value = ?)"
    ),
    survey=None,
    only=f"""{_ONLY.format(is_alone=f"v.name = ({_ONE} ORDER BY name LIMIT 1)")}
    WHERE w.id = ? ORDER BY v.name DESC, v.superstep DESC, v.idx DESC, v.node DESC LIMIT 1
    """,
    only_before=f"""{_ONLY.format(is_alone=f"NOT EXISTS ({_ONE} AND name > v.name)")}
    AND v.superstep <= ? AND v.name = ({_ONE} ORDER BY name LIMIT 1)
    WHERE w.id = ? ORDER BY v.superstep DESC, v.idx DESC, v.node DESC LIMIT 1
    """,
    # The newest superstep of each name is one seek from above; a join of another kind would copy the names.
    state=f"""{NAMES}
    SELECT {PAYLOAD} FROM names CROSS JOIN vals AS v
        ON v.workflow = :key AND v.kind = :kind AND v.name = names.name AND v.superstep = (
            SELECT superstep FROM vals
            WHERE workflow = :key AND kind = :kind AND name = names.name AND superstep <= :upto
            ORDER BY superstep DESC LIMIT 1)
    """,  # noqa: S608 - fixed names
)
