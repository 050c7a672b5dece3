"""The address of a database: checked, with keepalive settings, shown without its password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from hypergraph.checkpointers.postgres.driver import conninfo_to_dict, make_conninfo, psycopg

# A cut connection must be noticed on both sides: by the client, and by the server, which keeps the
# lock of an owner. Seconds, except for the user timeout, which is in milliseconds.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "hypergraph",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_BOTH_SIDES = {  # what the server calls it
    "keepalives_idle": "tcp_keepalives_idle",
    "keepalives_interval": "tcp_keepalives_interval",
    "keepalives_count": "tcp_keepalives_count",
    "tcp_user_timeout": "tcp_user_timeout",
}


DEFAULT_SCHEMA = "hypergraph"
_LONGEST = 63  # bytes of a name in Postgres
_IN_URL = re.compile(r"(?<=[?&])schema=([^&]*)(?:&|$)")
_IN_KEYWORDS = re.compile(r"(?:^|\s+)schema\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")
_SECRET = re.compile("password|secret|scram")  # in names of settings


class Address(NamedTuple):
    """Where a store is: how to get there, in which schema, how that is shown, and what must not be.

    `settings` are those of the server by which it notices a cut line.
    """

    conninfo: str
    schema: str
    shown: str
    secrets: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def cluster_schema(self) -> str:
        """The schema of the tables of DBOS, for runs on a cluster."""
        return "dbos" if self.schema == DEFAULT_SCHEMA else f"{self.schema}_dbos"

    @property
    def with_schema(self) -> str:
        """The connection string, with the schema if it is not the usual one."""
        if self.schema == DEFAULT_SCHEMA:
            return self.conninfo
        quoted = self.schema.replace("\\", "\\\\").replace("'", "\\'")
        return f"{self.conninfo} schema='{quoted}'"


def address_of(dsn: str, schema: str | None = None) -> Address:
    """Return the address of a store; `?schema=NAME` in it, or `schema`, names the schema of its tables.

    Raises:
        ValueError: the address is not one of a Postgres database, the schema cannot have that name, or two
            schemas are named.
    """
    dsn, named = split_schema(dsn)
    if named is not None and schema not in (None, named):
        raise ValueError(f"the address names the schema {named!r}, and schema={schema!r} another one")
    given_schema = schema if named is None else named
    schema = _checked_schema(DEFAULT_SCHEMA if given_schema is None else given_schema)
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The driver's text repeats the address with its password.
        raise ValueError(
            'not an address of a Postgres database; write "postgresql://user@host/database"'
        ) from None
    authority, _, path = dsn.partition("://")[2].partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:  # a part of the password would be taken for a name, and shown
        raise ValueError(
            "the password in the address contains @ or /: write %40 or %2F instead, or set PGPASSWORD"
        )
    whole = {**_DEFAULTS, **given}
    settings = tuple((theirs, str(whole[ours])) for ours, theirs in _BOTH_SIDES.items())
    return Address(make_conninfo("", **whole), schema, _shown(given), secrets_of(given), settings)


def split_schema(dsn: str) -> tuple[str, str | None]:
    """Return an address without the schema that it names, and the name, None without one."""
    if "://" in dsn:
        found = _IN_URL.search(dsn)
        if found is None:
            return dsn, None
        return (dsn[: found.start()] + dsn[found.end() :]).rstrip("?&"), unquote(found[1])
    found = _IN_KEYWORDS.search(dsn)
    if found is None:
        return dsn, None
    name = found[1]
    if name.startswith("'"):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return (dsn[: found.start()] + dsn[found.end() :]).strip(), name


def _checked_schema(schema: Any) -> str:
    """Return the name of a schema. Raises ValueError for what cannot be one."""
    if not isinstance(schema, str) or not schema.strip() or "\0" in schema:
        raise ValueError(f"schema={schema!r} is not a valid name of a schema")
    if len(schema.encode("utf-8", "replace")) > _LONGEST:
        raise ValueError(
            f"schema={schema[:20]!r}... is longer than the {_LONGEST} bytes of a name in Postgres"
        )
    if schema.startswith("pg_") or schema == "information_schema":
        raise ValueError(f"schema={schema!r} is a name that Postgres keeps for itself")
    return schema


def secrets_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of settings that no message may repeat."""
    return tuple(str(value) for name, value in given.items() if value and _SECRET.search(name))


def _shown(given: dict[str, Any]) -> str:
    user = f"{given['user']}{':***' if given.get('password') else ''}@" if given.get("user") else ""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}/{given.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{':' + port if port else ''}/{given.get('dbname', '')}"
