"""The dialect of SQLite."""

from __future__ import annotations

from hypergraph.checkpointers.sql.dialect import NAMES, PAYLOAD, Dialect

SQLITE = Dialect(
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
    has_tag="EXISTS (SELECT 1 FROM json_each(workflows.tags) AS tag WHERE tag.key = ? AND tag.value = ?)",
    survey=None,
    # The newest row of each name is one seek from above.
    state=f"""{NAMES}
    SELECT {PAYLOAD} FROM names JOIN vals AS v
        ON v.workflow = :key AND v.kind = :kind AND v.name = names.name AND (v.superstep, v.idx, v.node) = (
            SELECT superstep, idx, node FROM vals
            WHERE workflow = :key AND kind = :kind AND name = names.name AND superstep <= :upto
            ORDER BY superstep DESC, idx DESC, node DESC LIMIT 1)
    """,  # noqa: S608 - fixed names
)
