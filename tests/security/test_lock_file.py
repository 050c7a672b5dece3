"""The lock file of the development environment fits pyproject.toml, and names packages alone."""

from __future__ import annotations

import re

from support.locking import FILE, locked, release_of, wanted


def test_it_pins_all_that_development_needs_and_nothing_else() -> None:
    pins = locked()
    assert wanted(pins).keys() <= pins.keys()
    if all(release_of(name) == pins[name] for name in pins):  # else another release may need others
        assert wanted(pins).keys() == pins.keys()


def test_the_pins_are_releases_that_are_asked_for() -> None:
    pins = locked()
    wrong = [
        f"{requirement} is pinned to {pins[name]}"
        for name, requirements in wanted(pins).items()
        for requirement in requirements
        if not requirement.specifier.contains(pins[name], prereleases=True)
    ]
    assert wrong == []


def test_it_names_no_index_and_no_path() -> None:
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line) for line in lines)
