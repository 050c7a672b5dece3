"""The tutorial is a session that happened: typed again here, to the letter, in a fresh environment."""

from pathlib import Path

import pytest
from support.pages import blocks_of, comparable_in_a_terminal
from support.tutorial import NAMED, PAGES, check

TOPICS = ["ls", "show", "steps", "state order-1 --at", "why", "diff", "fork", "resume", "ui"]
BY_TIME = "  Node  A runs  A time  B runs  B time\n  ────  ──────  ──────  ──────  ──────\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_of_the_tutorial_shows_what_the_page_says(tmp_path: Path) -> None:
    check(tmp_path, *PAGES)


def test_the_tutorial_goes_from_an_installation_to_time_travel() -> None:
    typed = "".join(block.text for page in PAGES for block in blocks_of(page) if block.language == "bash")
    assert typed.startswith("mkdir first-steps\ncd first-steps\npython3 -m venv .venv\n")
    assert [topic for topic in TOPICS if f"hypergraph {topic}" not in typed] == []


def test_every_file_of_the_tutorial_is_used() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    files = {found[1] for block in blocks if (found := NAMED.search(block.prose))}
    text = "".join(block.text for block in blocks)
    used = [Path(file).stem for file in files if file in text or f"from {Path(file).stem} import" in text]
    shown = [Path(file).stem for file in files if f"{Path(file).stem}:" in text]
    assert {Path(file).stem for file in files} == {*used, *shown}


@pytest.mark.slow
def test_a_session_keeps_its_folder_and_its_files(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\nmkdir first-steps\ncd first-steps\n```\nSave `a.py`:\n```python\nprint(3)\n```\n"
        "```bash\npython3 a.py\nsh -c 'kill -9 $$'\n```\n```text\n3\nKilled\n```\n"
    )
    check(tmp_path, page)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```bash\necho a\n```\n```text\nb\n```\n", "line 2: a"),
        ("```bash\necho a\n```\nThis is no output:\n\n```bash\ntrue\n```\n", "line 2: a"),
        ("```bash\ntrue\n```\nText.\n```text\na\n```\n", "outputs of nothing"),
        ("Text.\n```python\nprint(3)\n```\n", "line 3: no line above names the file"),
    ],
)
def test_a_session_that_did_not_happen_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=complaint):
        check(tmp_path, page)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("made: 2026-11-15 11:25 (now)", "made: 2031-01-02 03:04 (59m ago)"),
        (
            "hypergraph 0.1.0 | Python 3.11.7 | SQLite 3.40.1",
            "hypergraph 2.0 | Python 3.14.0rc1 | SQLite 3.50.4",
        ),
        ("http://127.0.0.1:4531/#token=6ju-Nq\nx", "http://127.0.0.1:80/#token=aaa_b\nx"),
        (
            f"{BY_TIME}  a  1  1ms  1  2ms\n  b  1  1ms  1  2ms\n\nc",
            f"{BY_TIME}  b  1  4ms  1  2ms\n  a  1  1ms  1  2ms\n\nc",
        ),
    ],
)
def test_what_varies_compares_equal(one: str, other: str) -> None:
    assert comparable_in_a_terminal(one) == comparable_in_a_terminal(other)


@pytest.mark.parametrize("text", ["made: 2026-11-15", "hypergraph 0.1.0", "http://127.0.0.1:80/", "3 steps"])
def test_all_else_is_compared_to_the_letter(text: str) -> None:
    assert comparable_in_a_terminal(text).strip() == text
