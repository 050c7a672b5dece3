"""The docs use the words of the trade: phrases that need two readings do not come back.

Each pattern is a habit that once was in these pages. The right side says what to write instead.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BANNED = {
    r"\b(no|any|some|every)body\b|\bwho(m|ever)\b": "the process, the user, the owner, or a passive sentence",
    r"\b(is|are|was) no (harm|news|matter|index)\b": "harmless, unchanged, ...",
    r"\b(mend|mended|mends)\b": "fix",
    r"\b(go|goes|going|went) on\b": "continue, keep running, resume",
    r"\b(take|takes|took|taken) up\b": "resume",
    r"\bfor ever\b": "a timeout, without end",
    r"\ball is well\b|\bis it well\b": "healthy, health checks",
    r"\bbegins? (so|anew)\b|\bmade anew\b": "starts with, start over",
    r"\bat work on\b": "running",
    r"\bwritten down\b|\bwrite it down\b": "stored",
    r"\b(is|are) told\b|\bcan tell\b|\btells? (what|whether|how)\b": "is asked, shows, reports",
    r"\bwith you\b|\bto the letter\b": "on your machine, exactly",
    r"\bwhat is (known|missing|promised|done)\b": "name the thing",
    r"\blook(s|ed)? (at it|back)\b": "inspect, review",
    r"\bbeside (a|other|the) (peer|librar)": "compared with",
    r"\bmakes no sense\b": "usage error",
    r"(?-i:\b[Tt]rouble\b)": "errors, failures",
    r"\bpolite(ly)?\b": "cooperative",
    r"\bwishe?s?\b": "wants",
    r"\bthe (line|wire) (is|was) cut\b": "the connection is lost",
}
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def findings(text: str) -> list[str]:
    """Return the phrases of a page to replace, with their lines."""
    prose = CODE.sub(lambda found: "\n" * found[0].count("\n"), text)
    return [
        f"line {prose.count(chr(10), 0, found.start()) + 1}: {found[0]!r}; write: {instead}"
        for pattern, instead in BANNED.items()
        for found in re.finditer(pattern, prose, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_reads_well(page: Path) -> None:
    assert findings(page.read_text(encoding="utf-8")) == []


def test_a_phrase_is_found_in_prose_and_not_in_code() -> None:
    assert findings("# A\n\nNobody knows.\n") == [f"line 3: 'Nobody'; write: {BANNED[next(iter(BANNED))]}"]
    assert findings("`nobody`\n```text\nnobody\n```\n[a](nobody.md)\n") == []
