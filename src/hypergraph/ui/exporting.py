"""One workflow as one HTML file that opens offline: the page of `hypergraph ui`, and what it would ask for.

Modules and libraries are in the file as data addresses of an import map. What is stored is in a block of JSON
in which no markup can end it. A policy lets run what carries a number that was drawn when the file was made,
and lets nothing be fetched. Needs no extra.
"""

from __future__ import annotations

import base64
import json
import re
import secrets

import msgspec

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import escape_html
from hypergraph.ui.assets import FOLDER, asset
from hypergraph.ui.packed import packed

_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="{policy}">
    <title>{title}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="data:,">
    <style nonce="{number}">{styles}</style>
    <script type="application/json" id="documents">{documents}</script>
    <script type="importmap" nonce="{number}">{modules}</script>
    <script type="module" nonce="{number}">import "hg/offline.js"; import "hg/main.js";</script>
  </head>
  <body>
    <div id="app"><p class="boot">Loading…</p></div>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
"""
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
_OURS = "hg/"


def page(store: Checkpointer, workflow_id: str) -> bytes:
    """Return the file of a workflow.

    Raises:
        Problem: there is no such workflow.
    """
    documents = msgspec.json.encode(packed(store, workflow_id)).decode()
    number = secrets.token_urlsafe(18)
    text = _PAGE.format(
        policy=_policy(number),
        number=number,
        title=escape_html(f"{workflow_id} · hypergraph"),
        styles="".join(_text(name) for name in _STYLE.findall(_text("index.html"))),
        documents=inert(documents),
        modules=inert(json.dumps({"imports": _modules()})),
    )
    return text.encode("utf-8", "backslashreplace")


def inert(text: str) -> str:
    """Return JSON that means the same and can stand in a script: nothing in it ends that."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(number: str) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{number}'",
            f"style-src 'nonce-{number}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _modules() -> dict[str, str]:
    """Return the address of each module by the name that others import it by."""
    found = _MAP.search(_text("index.html"))
    listed: dict[str, str] = json.loads(found[1])["imports"] if found else {}
    names = {name: place.removeprefix("/static/") for name, place in listed.items() if name != _OURS}
    ours = {f"{_OURS}{path.name}": path.name for path in sorted(FOLDER.glob("*.js"))}
    return {name: _address(file) for name, file in {**names, **ours}.items()}


def _address(file: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(_text(file).encode()).decode()}"


def _text(name: str) -> str:
    found = asset(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing in {FOLDER}")  # a broken installation
    return found.content.decode()
