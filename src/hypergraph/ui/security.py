"""Access control of the server: host, origin and token are checked for every request before routing.

The files of the page are public. Everything else needs the token, in a header that a browser never adds by
itself: a cookie would also be sent to other ports of this machine. The page keeps the token in the storage of
its origin, which includes the port. The headers of every response forbid the browser what the page does not
need.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

from hypergraph.cache import key_file, load_secret
from hypergraph.ui.assets import import_map_hash

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ADMITTED = "hypergraph.admitted"  # set in the scope of a request that has the token
LOGIN = "/api/v1/token"  # exchanges the one-time code for the token
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9/._-]*")
_OURS = (None, "same-origin", "none")  # Sec-Fetch-Site; old browsers and programs do not send it
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Refusal(NamedTuple):
    """The reason to refuse a request."""

    status: int
    code: str
    message: str
    hint: str = ""


class Gate:
    """ASGI middleware that refuses requests without access, and adds headers to every response."""

    def __init__(self, app: App, refuse: Callable[[Refusal], App], *, token: str, port: int) -> None:
        self._app, self._refuse = app, refuse
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":  # lifespan; there are no websockets
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        refusal = self._check(scope, headers)
        app = self._app if refusal is None else self._refuse(refusal)
        await app(scope, receive, _guarded(send))

    def _check(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        if headers.get("host") not in self._hosts:
            return Refusal(403, "forbidden", "Invalid Host header: use the address of this server")
        if not _PLAIN_PATH.fullmatch(scope.get("raw_path") or b""):
            return Refusal(404, "not_found", "Not found")
        path = scope["path"]
        if path != "/" and headers.get("sec-fetch-site") not in _OURS:
            return Refusal(403, "forbidden", "Requests from other origins are not allowed")
        if headers.get("origin") not in (None, f"http://{headers['host']}"):
            return Refusal(403, "forbidden", "Requests from other origins are not allowed")
        if path == "/" or path.startswith("/static/"):
            return None
        if path != LOGIN:
            if not self._bears(headers):
                hint = "Open the address that `hypergraph ui` printed, or send its token as a bearer token"
                return Refusal(401, "unauthorized", "Missing or invalid token", hint)
            scope[ADMITTED] = True
        return self._check_post(headers) if scope["method"] == "POST" else None

    def _check_post(self, headers: dict[str, str]) -> Refusal | None:
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return Refusal(415, "usage", "The body must be JSON", "Send Content-Type: application/json")
        return None

    def _bears(self, headers: dict[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        return scheme.lower() == "bearer" and secrets.compare_digest(given, self._token)


def token_for(database: str, port: int) -> str:
    """Return the token of a server: the same one for this user, database and port after a restart.

    It is derived from a secret in a file that only the user can read. Without such a file it is random.
    """
    try:
        secret = load_secret(key_file("ui"))
    except (OSError, ValueError):
        return secrets.token_urlsafe(32)
    digest = hmac.digest(secret, f"{port} {database}".encode("utf-8", "surrogateescape"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Code:
    """A code that a browser exchanges for the token, once."""

    def __init__(self) -> None:
        self.text = secrets.token_urlsafe(32)
        self._lock, self._is_used = threading.Lock(), False

    def use(self, given: str) -> bool:
        """Return whether the text is the code, and was not used before; it is used now."""
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.text.encode()):
            return False
        with self._lock:
            was_used, self._is_used = self._is_used, True
        return not was_used


def policy() -> str:
    """Return the Content-Security-Policy: scripts and styles of this server, and no request elsewhere."""
    inside = import_map_hash()
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' 'sha256-{inside}'" if inside else "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            ours = {**_HEADERS, "content-security-policy": policy()}
            if b"cache-control" not in given:
                ours["cache-control"] = "no-store"
            more = [(name.encode(), value.encode()) for name, value in ours.items()]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return guarded


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name; one that is repeated counts as empty."""
    found: dict[str, str] = {}
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for name, value in pairs:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found else value.decode("latin-1")
    return found
