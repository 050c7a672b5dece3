"""Static files of the page, each with a tag of its content.

Only files of this package are served: a name consists of plain segments, and its file must be in the folder
and of a known type.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


class Asset(NamedTuple):
    """One file of the page."""

    content: bytes
    type: str
    tag: str  # differs when the content does; quoted, as in the header ETag


def asset(name: str) -> Asset | None:
    """Return the file of a name like "vendor/preact.js", None if it does not exist."""
    segments = name.split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return None
    path = FOLDER.joinpath(*segments)
    try:
        real = path.resolve(strict=True)
        found = real.stat()
    except OSError:
        return None
    if path.suffix not in _TYPES or not real.is_file() or not real.is_relative_to(FOLDER.resolve()):
        return None
    return _read(real, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int, _size: int) -> Asset:
    """Return a file; its time and size are part of the cache key, so a changed file is read again."""
    content = path.read_bytes()
    return Asset(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def import_map_hash() -> str | None:
    """Return the hash that admits the import map, the only inline script of the page."""
    page = asset("index.html")
    found = _IMPORT_MAP.search(page.content) if page else None
    return base64.b64encode(hashlib.sha256(found[1]).digest()).decode() if found else None
