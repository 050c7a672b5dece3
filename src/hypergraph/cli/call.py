"""One call of a command: its arguments, the settings of the project, and its reply."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.cli.arguments import Namespace
from hypergraph.cli.registry import module_of
from hypergraph.display import Block
from hypergraph.views.address import DEFAULT, is_named, is_server, lists_at, without_password
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.views.workflows import Lists


class Reply(NamedTuple):
    """Answer of a command: header and blocks for a terminal, the document for --json, with the same content.

    `blocks` is called only if they are printed. `next` are suggested commands, at most two.
    """

    document: Any  # a read model
    blocks: Callable[[], Iterable[Block]] = tuple
    header: Sequence[str] = ()
    next: Sequence[str] = ()
    code: int = 0


class Call:
    """One call: its arguments, and the address of the store."""

    def __init__(self, options: Namespace) -> None:
        self.options = options

    @property
    def address(self) -> str:
        """The address of the database: --db, HYPERGRAPH_DB, pyproject.toml, or ./runs.db.

        Raises:
            Problem: the settings cannot be used. A folder may come from anywhere: to look at its runs must
                not run its code, so only the user names a store in Python code.
        """
        given: str | None = self.options.db or os.environ.get("HYPERGRAPH_DB")
        if given:
            return given
        found: str = settings().get("db") or DEFAULT
        if is_named(found):
            raise Problem(
                USAGE,
                f"[tool.hypergraph] db in pyproject.toml names code ({found}), which is not run unasked",
                f"Give --db {found}, or set HYPERGRAPH_DB",
            )
        return found

    @property
    def database(self) -> str | None:
        """What --db gives, without a password; None without --db. Commands that are printed repeat it."""
        return without_password(self.options.db) if self.options.db else None

    def lists(self) -> Lists:
        """Return a source of lists of workflows. Raises Problem if the database does not exist."""
        if is_named(self.address):
            lists: Lists = module_of("ls_store").opened(self).backend  # imports the code of the user
            return lists
        return lists_at(self.address)


def settings() -> dict[str, Any]:
    """Return [tool.hypergraph] of pyproject.toml, empty without one; `db` may be relative to that file.

    Raises:
        Problem: the file cannot be read, or another user can write it.
    """
    folder = os.getcwd()
    while not os.path.isfile(path := os.path.join(folder, "pyproject.toml")):
        if folder == (folder := os.path.dirname(folder)):
            return {}
    try:
        with open(path, "rb") as file:
            content, writable = file.read(), _is_of_others(os.lstat(path), os.fstat(file.fileno()))
    except OSError as error:
        raise Problem(USAGE, f"Cannot read {path}: {error}") from error
    if b"tool.hypergraph" not in content:  # most projects have no such table, and need no parser
        return {}
    if writable:
        raise Problem(
            USAGE,
            f"{path} belongs to another user, or everyone can write it: its settings are not used",
            "Give --db or HYPERGRAPH_DB, work in another folder, or take over the file (chown, chmod o-w)",
        )
    found: dict[str, Any] = _parsed(path, content).get("tool", {}).get("hypergraph", {})
    database = found.get("db")
    if isinstance(database, str) and not ("://" in database or is_server(database) or is_named(database)):
        found["db"] = os.path.join(folder, database)
    return found


def _is_of_others(*found: os.stat_result) -> bool:
    """Return whether a file, or the link to it, is another user's: whose settings choose a server for us."""
    if not hasattr(os, "geteuid"):  # Windows, where a search does not leave the folders of a user
        return False
    trusted = {0, os.geteuid()}
    return any(
        each.st_uid not in trusted or (not stat.S_ISLNK(each.st_mode) and each.st_mode & stat.S_IWOTH)
        for each in found
    )


def _parsed(path: str, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise Problem(USAGE, f"Cannot read {path}: {error}") from error
