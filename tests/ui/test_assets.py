"""The files of the page: libraries as published, modules short and all in use, nothing from elsewhere."""

import hashlib
import json
import re
from pathlib import Path

import pytest

import hypergraph.ui.assets

STATIC = hypergraph.ui.assets.FOLDER
OURS = sorted(path for path in STATIC.iterdir() if path.is_file())
LIBRARIES = sorted((STATIC / "vendor").glob("*.js"))
MODULES = {path.name: path.read_text() for path in OURS if path.suffix == ".js"}
FORBIDDEN = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
NAMES = re.compile(r"http://www\.w3\.org/\d{4}/[\w/]+")  # of languages: never fetched
ROOTS = {"main.js", "offline.js"}  # the page, and what a page in a file begins with


def test_libraries_are_what_was_published() -> None:
    listed = json.loads((STATIC / "vendor/manifest.json").read_text())
    for entry in listed:
        assert entry.keys() >= {"name", "version", "file", "sha256", "license"}
        content = (STATIC / "vendor" / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["file"]
    assert {path.name for path in LIBRARIES} == {entry["file"] for entry in listed}


def test_the_license_of_each_library_is_there() -> None:
    texts = (STATIC / "vendor/LICENSES.txt").read_text()
    for entry in json.loads((STATIC / "vendor/manifest.json").read_text()):
        assert entry["name"] in texts
        assert entry["license"].split("-")[0] in texts


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_files_of_the_page_never_make_markup_of_text(path: Path) -> None:
    text = path.read_text()
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("path", [*OURS, *LIBRARIES], ids=lambda path: path.name)
def test_nothing_comes_from_another_machine(path: Path) -> None:
    addresses = re.findall(r"(?:https?:)?//[\w-]+\.[\w./-]+", path.read_text())
    assert [address for address in addresses if not NAMES.fullmatch(address)] == []


def imported(text: str) -> set[str]:
    return set(re.findall(r'^import (?:[^"]+ from )?"([^"]+)";$', text, re.MULTILINE))


def test_every_module_is_in_use_and_every_import_has_a_file() -> None:
    page = (STATIC / "index.html").read_text()
    listed = json.loads(re.findall(r'<script type="importmap">(.*?)</script>', page, re.DOTALL)[0])["imports"]
    reached, waiting = set(), set(ROOTS)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for found in imported(MODULES[name]):
            if found.startswith("hg/"):
                waiting |= {found.removeprefix("hg/")} - reached
            else:
                assert (STATIC / listed[found].removeprefix("/static/")).is_file()
    assert reached == set(MODULES)


def test_the_page_loads_every_style_and_nothing_that_is_missing() -> None:
    page = (STATIC / "index.html").read_text()
    asked = set(re.findall(r'(?:href|src)="/static/([^"]+)"', page))
    assert asked == {"main.js", *(path.name for path in OURS if path.suffix == ".css")}
