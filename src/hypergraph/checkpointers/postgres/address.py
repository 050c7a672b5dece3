"""The address of a database: checked, with keepalive settings, shown without its password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

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


def address_of(dsn: str, schema: str) -> Address:
    """Return the address of a store.

    Raises:
        ValueError: the address is not one of a Postgres database, or the schema has no name.
    """
    if not isinstance(schema, str) or not schema.strip() or "\0" in schema:
        raise ValueError(f"schema={schema!r} is not a valid name of a schema")
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


def secrets_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of settings that no message may repeat."""
    return tuple(str(value) for name, value in given.items() if value and _SECRET.search(name))


def _shown(given: dict[str, Any]) -> str:
    user = f"{given['user']}{':***' if given.get('password') else ''}@" if given.get("user") else ""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}/{given.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{':' + port if port else ''}/{given.get('dbname', '')}"
