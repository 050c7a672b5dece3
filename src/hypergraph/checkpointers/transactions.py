"""Connections of transactional nodes: statements of a user inside of the transaction of a step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from hypergraph.exceptions import TransactionError

T = TypeVar("T")

# Not compiled at import: few programs have transactional nodes.
_COMMENT = r"(?s)--[^\n]*|/\*.*?\*/"
# Statements that end or change the transaction, at the beginning of a text or after another statement.
_REFUSED = (
    r"(?i)(?:^|;)[\s;]*(commit|end|rollback|begin|start|abort|prepare\s+transaction|savepoint|release|attach|"
    r"detach|pragma|vacuum|set\s+(?:local\s+|session\s+)?(?:search_path|transaction))\b"
)
_METHODS = frozenset(
    ("commit", "rollback", "close", "executescript", "backup", "transaction", "tpc_begin", "__enter__")
)


@lru_cache(maxsize=256)  # statements have parameters, so most of them are the same text again
def _ending_in(text: str) -> str | None:
    """Return the statement in a text that would end the transaction, None if there is none."""
    found = re.search(_REFUSED, re.sub(_COMMENT, " ", text))
    return None if found is None else found[1].upper()


def refuse_ending(node: str, statement: Any) -> None:
    """Raise TransactionError for a statement that would end the transaction, or change how it works."""
    text = statement.decode("utf-8", "replace") if isinstance(statement, bytes) else str(statement)
    found = _ending_in(text)
    if found is not None:
        raise TransactionError(
            f"Node {node!r} may not execute {found}: its statements and its step are one commit, "
            "which the run makes when the function returns. Pass texts as parameters.",
            node_name=node,
        )


class UserCursor:
    """A cursor in the transaction of a step."""

    def __init__(self, owner: UserConnection, cursor: Any) -> None:
        self._owner = owner
        self._cursor = cursor

    def execute(self, statement: Any, *args: Any, **options: Any) -> UserCursor:
        """Execute one statement and return this cursor. Raises TransactionError, and the driver's errors."""
        self._owner.check(statement)
        self._cursor.execute(statement, *args, **options)
        return self

    def executemany(self, statement: Any, *args: Any, **options: Any) -> UserCursor:
        """Execute one statement for each set of parameters; raises what `execute` raises."""
        self._owner.check(statement)
        self._cursor.executemany(statement, *args, **options)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def __enter__(self) -> UserCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("connection", "executescript", "copy"):
            raise self._owner.refusal(name)
        return getattr(self._cursor, name)


class UserConnection:
    """The connection of a transactional node: that of the store, without what would end the transaction."""

    def __init__(
        self, node: str, driver: Any, new_cursor: Callable[[], Any], is_open: Callable[[], bool]
    ) -> None:
        self._node = node
        self._driver = driver
        self._new_cursor = new_cursor
        self._is_open = is_open  # whether the transaction still is
        self._is_over = False

    def execute(self, statement: Any, *args: Any, **options: Any) -> UserCursor:
        """Execute one statement and return a cursor. Raises TransactionError, and the driver's errors."""
        return self.cursor().execute(statement, *args, **options)

    def executemany(self, statement: Any, *args: Any, **options: Any) -> UserCursor:
        """Execute one statement for each set of parameters; raises what `execute` raises."""
        return self.cursor().executemany(statement, *args, **options)

    def cursor(self, *args: Any, **options: Any) -> UserCursor:
        """Return a cursor. Raises TransactionError after the node has ended."""
        if self._is_over:
            raise TransactionError(
                f"Node {self._node!r} has ended, and its connection with it.", node_name=self._node
            )
        return UserCursor(self, self._new_cursor(*args, **options))

    def check(self, statement: Any) -> None:
        """Raise TransactionError for a statement that would end the transaction."""
        if self._is_over:
            self.cursor()
        self.check_open()
        refuse_ending(self._node, statement)

    def check_open(self) -> None:
        """Raise TransactionError if a statement has ended the transaction, as ON CONFLICT ROLLBACK does."""
        if not self._is_open():
            raise TransactionError(
                f"The transaction of node {self._node!r} was rolled back by a statement of its own, and what "
                "it wrote before is gone. Let the error of that statement pass; use no ON CONFLICT ROLLBACK.",
                node_name=self._node,
            )

    def refusal(self, name: str) -> TransactionError:
        """Return the error for a method that would end the transaction."""
        return TransactionError(
            f"Node {self._node!r} may not call {name}() of its connection: its statements and its step are "
            "one commit, which the run makes when the function returns.",
            node_name=self._node,
        )

    def end(self) -> None:
        """Refuse everything from now on."""
        self._is_over = True

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            raise self.refusal(name)
        return getattr(self._driver, name)


class Raised(Exception):
    """An exception of the user's function, on its way through the transaction, which it ends."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
