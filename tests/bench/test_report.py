"""The report of the benchmarks says what was measured: page, pictures and README have the same figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import environments, plots, report, summary
from benchmarks.environments import Library

ROOT = Path(__file__).parents[2]
SPEED = re.compile(r"(?<![\w.])\d[\d.,]*\s?(?:ns|µs|ms|×)(?!\w)")
FIGURE = re.compile(r"(?<![\w.])\d[\d.,]*\s?(?:ns|µs|ms|s|×|B|KB|MB|GB)(?!\w)")


def figure(us, **more):
    return {"us": us, "calls": us * 20, "spread": 0.1, "slices": 5, **more}


def part(rows, **more):
    return {
        "title": "Chain of N nodes",
        "unit": "per node",
        "axis": "nodes",
        "text": "",
        "rows": rows,
        "dashes": {},
        **more,
    }


def document(**rows):
    chain = part({"hypergraph": {"10": figure(2.0), "100": figure(2.0)}, **rows})
    chat = part({"hypergraph": {"10": figure(2.0, bytes=500)}})
    return {
        "machine": dict.fromkeys(["cpu", "cores", "system", "python", "date", "load"], "x"),
        "versions": {"hypergraph": "1"},
        "missing": {"Gone": "did not install: no such package"},
        "groups": {"chain": chain, "durable": chain},
        "chat": chat,
        "memory": {"hypergraph": {"kept": 1.0, "peak": 100.0}, "Lean": {"kept": 0.0, "peak": 5.0}},
        "import": {"hypergraph": {"ms": 20.0, "statement": "import hypergraph"}},
    }


def test_a_ratio_compares_a_variant_with_ours_of_the_same_name():
    rows = {
        "hypergraph, sync": {"1": figure(10)},
        "hypergraph, exit": {"1": figure(2)},
        "Peer, exit": {"1": figure(20)},
        "Burr": {"1": figure(30)},
    }
    assert report.ratio("Peer, exit", "1", rows) == 10
    assert report.ratio("Burr", "1", rows) == 3


def test_the_page_tells_where_others_are_quicker_and_who_is_missing():
    page = report.page(document(Quick={"100": figure(1.0)}, Slow={"100": figure(9.0)}), [], {})
    slower = page.partition("## What is slower here")[2].partition("##")[0]
    assert "Quick takes 0.5× the time" in slower
    assert "hypergraph has 100 B at its peak; Lean 5 B." in slower
    assert "Slow" not in slower
    assert "Gone is left out: did not install: no such package." in page


def test_a_case_that_failed_is_a_dash_with_its_reason():
    page = report.page(
        document(Deep={"10": figure(4.0), "100": {"error": "RecursionError: too deep"}}), [], {}
    )
    assert "| Deep | 4 µs · 2× | – |" in page
    assert "- Deep: RecursionError: too deep (N = 100)." in page


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.05, "50 ns"), (2.214, "2.21 µs"), (1234, "1.23 ms"), (456_000, "456 ms"), (2e6, "2 s")],
)
def test_times_are_said_with_three_digits(us, text):
    assert report.time_text(us) == text


def test_a_picture_is_xml_with_a_line_and_a_name_for_everybody():
    lines = {"hypergraph": {10: 1.0, 100: 1.2}, "LangGraph": {10: 1.01, 100: 1.3}, "nobody": {}}
    drawn = plots.growth("Title <&>", "sub", "nodes", lines, report.time_text)
    texts = [element for element in ElementTree.fromstring(drawn).iter() if element.tag.endswith("text")]
    names = {text.text: float(text.get("y")) for text in texts if text.text in lines}
    assert set(names) == {"hypergraph", "LangGraph"}
    assert abs(names["hypergraph"] - names["LangGraph"]) >= 15  # they do not touch
    assert "prefers-color-scheme: dark" in drawn


def test_names_stay_inside_of_the_picture():
    lines = {f"row {number}": {10: 1.0, 100: 1.0} for number in range(12)}
    drawn = plots.growth("many", "sub", "nodes", lines, report.time_text)
    places = [float(y) for y in re.findall(r'y="([\d.]+)">row', drawn)]
    assert len(places) == 12
    assert min(places) > plots.TOP
    assert max(places) < plots.HEIGHT


def test_an_environment_is_made_once_and_one_that_fails_is_named(tmp_path, monkeypatch):
    class Done:
        returncode, stderr = 0, ""

    commands = []
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "LIBRARIES", [Library("Tea", "tea", ("tea",))])

    def run(command):
        commands.append(command)
        (tmp_path / "tea").mkdir(exist_ok=True)
        return Done

    monkeypatch.setattr(environments, "_run", run)
    assert environments.installed(quick=True)[1] == {
        "Tea": "its environment is not there: make bench makes it"
    }
    assert commands == []
    for _ in range(2):
        assert [library.name for library in environments.installed(quick=False)[0]] == ["Tea"]
    assert len(commands) == 2  # an environment and an install, and nothing the second time
    Done.returncode, Done.stderr = 1, "ERROR: No matching distribution found for tea"
    (tmp_path / "tea" / "stamp").unlink()
    assert environments.installed(quick=False)[1] == {
        "Tea": "did not install: ERROR: No matching distribution found for tea"
    }


def test_readme_takes_its_lines_below_its_heading_and_nowhere_else():
    readme = "# x\n\n## Speed\n\nold\n\n## Next\n\n- 5 µs\n"
    assert summary.put(readme, ["new"]) == "# x\n\n## Speed\n\nnew\n\n## Next\n\n- 5 µs\n"
    assert summary.section(readme) == "old"
    assert summary.put("# x\n", ["new"]) == "# x\n"
    assert summary.section("# x\n") is None


def test_every_figure_of_speed_in_readme_is_one_of_the_last_report():
    readme = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    found = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    said, section = "\n".join(found["readme"]), summary.section(readme)
    stated = SPEED.findall(readme) + FIGURE.findall(section or "")
    assert [figure for figure in stated if figure not in FIGURE.findall(said)] == []
    if section is not None:
        assert found["machine"]["date"] in section
        assert found["machine"]["cpu"] in section


def test_the_page_and_its_pictures_are_those_of_the_figures():
    found = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    drawn = report.pictures(found)
    names = {name: f"bench-{name}.svg".replace("_", "-") for name in drawn}
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == report.page(
        found, found["bars"], names
    )
    for name, file in names.items():
        assert (ROOT / "docs" / "images" / file).read_text(encoding="utf-8") == drawn[name]
    assert found["readme"] == summary.lines(found)
    assert len(found["readme"]) <= 6
