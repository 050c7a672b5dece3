"""Access control of the server: host, origin and token are checked for every request before routing.

Only a browser or a program with the token is admitted, and only under a name of this machine. Requests of a
page of another origin are refused: they lack the cookie (SameSite=Strict), name that origin, or use another
host. The headers of every response forbid the browser what the page does not need.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from hypergraph.ui.assets import import_map_hash

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

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
        self._cookie = cookie_name(port)

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

    def is_token(self, text: str | None) -> bool:
        """Return whether a text is the token, compared in constant time."""
        return text is not None and secrets.compare_digest(text.encode("utf-8", "replace"), self._token)

    def _check(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        if headers.get("host") not in self._hosts:
            return Refusal(403, "forbidden", "Invalid Host header: use the address of this server")
        if not _PLAIN_PATH.fullmatch(scope.get("raw_path") or b""):
            return Refusal(404, "not_found", "Not found")
        is_entrance = scope["path"] == "/"
        if not is_entrance and headers.get("sec-fetch-site") not in _OURS:
            return Refusal(403, "forbidden", "Requests from other origins are not allowed")
        if is_entrance and self.is_token(_asked(scope).get("token")):
            return None
        bearer = self._bears(headers)
        if not bearer and not self.is_token(self._cookie_of(headers)):
            hint = "Open the address that `hypergraph ui` printed, or send its token as a bearer token"
            return Refusal(401, "unauthorized", "Missing or invalid token", hint)
        if scope["method"] == "POST":
            return self._check_post(headers, bearer=bearer)
        return None

    def _check_post(self, headers: dict[str, str], *, bearer: bool) -> Refusal | None:
        origin = headers.get("origin")
        if origin is None and not bearer:
            return Refusal(403, "forbidden", "Missing Origin header")
        if origin is not None and origin != f"http://{headers['host']}":
            return Refusal(403, "forbidden", "Requests from other origins are not allowed")
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return Refusal(415, "usage", "The body must be JSON", "Send Content-Type: application/json")
        return None

    def _bears(self, headers: dict[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(token.strip())

    def _cookie_of(self, headers: dict[str, str]) -> str | None:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return None
        return found.value if found else None


def cookie_name(port: int) -> str:
    """Return the name of the cookie with the token; browsers share cookies between ports."""
    return f"hypergraph-{port}"


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


def _asked(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1")))
