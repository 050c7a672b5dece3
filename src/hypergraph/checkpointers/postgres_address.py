"""The address of a database: checked, completed with what notices a dead line, shown without its password."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypergraph.checkpointers.postgres_driver import conninfo_to_dict, make_conninfo, psycopg

# A cut line must be noticed on both sides: by who waits for an answer, and by the server that keeps the
# locks of an owner. Seconds, except for the user timeout, which is in milliseconds.
_PATIENCE = {"idle": 10, "interval": 5, "count": 3}
_USER_TIMEOUT = 20_000
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "hypergraph",
    "tcp_user_timeout": _USER_TIMEOUT,
    **{f"keepalives_{name}": value for name, value in _PATIENCE.items()},
}
SERVER_SETTINGS = {  # the same from the other side
    "tcp_user_timeout": str(_USER_TIMEOUT),
    **{f"tcp_keepalives_{name}": str(value) for name, value in _PATIENCE.items()},
}


class Address(NamedTuple):
    """Where a store is: how to get there, in which schema, how that is shown, and what must not be."""

    conninfo: str
    schema: str
    shown: str
    secret: str


def address_of(dsn: str, schema: str) -> Address:
    """Return the address of a store.

    Raises:
        ValueError: it is no address of a Postgres database, or the schema has no name.
    """
    if not isinstance(schema, str) or not schema.strip() or "\0" in schema:
        raise ValueError(f"schema={schema!r} is no name of a schema")
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The driver's text repeats the address with its password.
        raise ValueError(
            'the address is none of a Postgres database; write "postgresql://user@host/database"'
        ) from None
    secret = str(given.get("password") or "")
    return Address(make_conninfo("", **{**_DEFAULTS, **given}), schema, _shown(given), secret)


def _shown(given: dict[str, Any]) -> str:
    user = f"{given['user']}{':***' if given.get('password') else ''}@" if given.get("user") else ""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{user}/{given.get('dbname', '')}?host={host}"
    return f"postgresql://{user}{host}{':' + port if port else ''}/{given.get('dbname', '')}"
