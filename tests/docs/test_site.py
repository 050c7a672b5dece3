"""The site builds without warnings: navigation, links, anchors, search, and a list for language models."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_in_the_site_and_can_be_searched(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.parent.relative_to(site) for path in site.rglob("index.html")}
    assert {page for page in pages if page.name != "index"} <= built
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("at-least-once" in entry["text"] for entry in found["docs"])


@pytest.mark.slow
def test_files_beside_the_docs_are_part_of_the_site(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="project/examples/approval/' in index
    assert (site / "project" / "examples" / "state_machine.py").is_file()
    assert (site / "project" / "CONTRIBUTING" / "index.html").is_file()


@pytest.mark.slow
def test_the_list_for_language_models_names_every_page(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# hypergraph\n\n> ")
    assert len(re.findall(r"^- \[.+\]\(.*\): ", listed, re.MULTILINE)) > 80


@pytest.mark.slow
def test_a_page_loads_nothing_from_other_servers(site: Path) -> None:
    for page in (site / "index.html", site / "faq" / "index.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]+"', text) == []


@pytest.mark.slow
def test_a_pipe_in_the_code_of_a_table_has_no_backslash(site: Path) -> None:
    text = (site / "reference" / "api" / "runners" / "index.html").read_text(encoding="utf-8")
    assert "<code>str | None</code>" in text
    assert r"\|" not in text
