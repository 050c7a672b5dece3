"""Every claim of the security page names tests, and those tests exist."""

from __future__ import annotations

import re
from pathlib import Path

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "explanation" / "security.md"
NAMED = re.compile(r"`([\w/]*test_\w+)::(test_\w+)`")


def claims() -> list[str]:
    """Return the rows of all tables that name tests."""
    tables = re.findall(
        r"^\| What holds \| Test \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE
    )
    return [row for table in tables for row in table.splitlines()]


def test_every_claim_names_a_test() -> None:
    assert len(claims()) > 40
    assert [row for row in claims() if not NAMED.search(row)] == []


def test_every_test_that_is_named_exists() -> None:
    files = {path.relative_to(TESTS).with_suffix("").as_posix(): path for path in TESTS.rglob("test_*.py")}
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if file not in files or not re.search(rf"def {name}\(", files[file].read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_a_bound_value_is_not_stored(tmp_path: Path) -> None:
    @node(output_name="reply")
    def ask(question: str, api_key: str) -> str:
        return question

    store = SqliteCheckpointer(tmp_path / "runs.db")
    SyncRunner(checkpointer=store).run(Graph([ask]).bind(api_key="s3cr3t"), question="tea", workflow_id="w")
    store.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"tea" in written
    assert b"s3cr3t" not in written
