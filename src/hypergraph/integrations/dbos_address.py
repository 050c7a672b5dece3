"""One address for everything: the store, the tables of DBOS, and the session that says who lives.

Every session of a worker carries the worker's name, so that others can end all of them together.
"""

from __future__ import annotations

from typing import Any

try:
    import dbos
    import psycopg
except ImportError as error:
    raise ImportError("DBOSRunner needs DBOS. Install it: pip install 'hypergraph[dbos]'") from error

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.engine import URL

__all__ = ["dbos", "named", "psycopg", "url_of"]

# A line that was cut is noticed by who waits for an answer; what the user says goes first.
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def named(dsn: str, name: str) -> str:
    """Return the address of a database for sessions of that name.

    Raises:
        ValueError: it is no address of a Postgres database.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:  # its text repeats the address, with the password
        raise ValueError(
            'the address is none of a Postgres database; write "postgresql://user@host/database"'
        ) from None
    return make_conninfo("", **{**_DEFAULTS, **given, "application_name": name})


def url_of(conninfo: str) -> str:
    """Return an address as the URL that DBOS takes."""
    parts: dict[str, Any] = dict(conninfo_to_dict(conninfo))
    user, password, database = (parts.pop(name, None) for name in ("user", "password", "dbname"))
    query = {name: str(value) for name, value in parts.items() if name != "application_name"}
    url = URL.create("postgresql", username=user, password=password or None, database=database, query=query)
    return url.render_as_string(hide_password=False)
