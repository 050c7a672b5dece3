"""Every link inside the repository leads somewhere: to a file, to a heading of a page, to a picture.

Looked at are all pages and the texts of all notebooks; code is left out. What begins with a scheme, such as
https:, leads out of the repository and is not followed.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*~*$", re.MULTILINE | re.DOTALL)
IN_LINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINKS = [
    re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"),  # [text](target "title"), ![picture](target)
    re.compile(r"^ {0,3}\[[^\]^]+\]:\s*<?([^\s>]+)>?", re.MULTILINE),  # [name]: target
    re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]+)\""),
]
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def documents() -> list[Path]:
    places = [ROOT / folder for folder in ("docs", "examples", "benchmarks", "src", "tests")]
    pages = [*ROOT.glob("*.md"), *(page for place in places for page in place.rglob("*.md"))]
    return sorted(pages) + sorted((ROOT / "examples").rglob("*.ipynb"))


def text_of(document: Path) -> str:
    """Return what is written, without blocks of code."""
    text = document.read_text(encoding="utf-8")
    if document.suffix == ".ipynb":
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(source) for source in cells)
    return FENCED.sub("", text)


def links_in(text: str) -> list[str]:
    prose = IN_LINE.sub("`code`", text)
    return [target for link in LINKS for target in link.findall(prose)]


@cache
def anchors_of(document: Path) -> set[str]:
    """Return the anchors that viewers make of headings; those that are alike are counted."""
    anchors: set[str] = set()
    text = text_of(document)
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", text, re.MULTILINE):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        alike = (f"{name}-{number}" for number in range(1, len(anchors) + 2))
        anchors.add(name if name not in anchors else next(each for each in alike if each not in anchors))
    return anchors | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken(document: Path, root: Path = ROOT) -> list[str]:
    """Return the links of a document that lead nowhere."""
    found = []
    for target in links_in(text_of(document)):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if SCHEME.match(target):
            continue
        leads = file.exists() and file.is_relative_to(root)
        if not leads or (anchor and (file.suffix != ".md" or anchor not in anchors_of(file))):
            found.append(target)
    return found


@pytest.mark.parametrize("document", documents(), ids=lambda document: document.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_all_kinds_of_documents_are_looked_at() -> None:
    names = {document.relative_to(ROOT).as_posix() for document in documents()}
    assert {"README.md", "CHANGELOG.md", "docs/index.md", "examples/tour.ipynb"} <= names


GOOD = """# One `two` three

## Again
## Again
[a](#one-two-three) [b](#again-1 "title") ![c](c.png) <img alt="" src="c.png"> [d][] [e](https://x.example/#y)
`[f](nowhere)`

[d]: page.md#again

```text
# Not a heading
[g](nowhere)
```
"""


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("", []),
        ("[x](gone.md)", ["gone.md"]),
        ("![x](gone.png)", ["gone.png"]),
        ('<img src="gone.png">', ["gone.png"]),
        ("[x]: gone.md", ["gone.md"]),
        ("[x](#again-2)", ["#again-2"]),
        ("[x](page.md#not-a-heading)", ["page.md#not-a-heading"]),
        ("[x](c.png#part)", ["c.png#part"]),
        ("[x](../outside.md)", ["../outside.md"]),
    ],
)
def test_a_link_that_leads_nowhere_is_found(more: str, wrong: list[str], tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "c.png").touch()
    (tmp_path / "outside.md").touch()
    page = root / "page.md"
    page.write_text(f"{GOOD}\n{more}\n", encoding="utf-8")
    assert broken(page, root.resolve()) == wrong
