"""The lock file of the development environment: `python tests/support/locking.py` writes it.

It pins what `hypergraph[dev]` needs, directly or not, to the releases that are installed. It names packages
and versions and nothing else: no index, no path.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILE = ROOT / "requirements-dev.lock"
HEAD = """\
# The environment in which `make test` was green last, written by tests/support/locking.py:
# pip install -c requirements-dev.lock -e '.[dev]'
"""


def wanted(pins: Mapping[str, str] | None = None) -> dict[str, list[Requirement]]:
    """Return the requirements of `hypergraph[dev]` by package, with those of the packages that they need.

    With `pins`, those of packages that are installed in another release are left out: a new release says
    nothing about the pinned one.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: dict[str, list[Requirement]] = {}
    left = [Requirement(text) for text in (*project["dependencies"], *extras["dev"])]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        requirement = left.pop()
        name, asked = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name == "hypergraph":
            left += [Requirement(text) for extra in asked for text in extras[extra]]
            continue
        found.setdefault(name, []).append(requirement)
        if (name, asked) not in seen:
            seen.add((name, asked))
            if pins is None or release_of(name) == pins.get(name):
                left += _requirements_of(name, asked)
    return found


def release_of(name: str) -> str | None:
    """Return the release of a package that is installed, None if an older environment lacks it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements_of(name: str, extras: frozenset[str]) -> list[Requirement]:
    try:
        given = [Requirement(text) for text in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []  # an environment may be older than pyproject.toml
    return [
        each
        for each in given
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def locked() -> dict[str, str]:
    """Return the versions in the lock file by package."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    pins = [re.fullmatch(r"([a-z0-9-]+)==(\S+)", line) for line in lines if not line.startswith("#")]
    return {pin[1]: pin[2] for pin in pins if pin}


if __name__ == "__main__":
    pins = sorted(f"{name}=={metadata.version(name)}\n" for name in wanted())
    FILE.write_text(HEAD + "".join(pins), encoding="utf-8")
