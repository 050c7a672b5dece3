"""Nothing public is undocumented: every name, option and message has a place in the reference."""

import enum
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.api_names import PAGES, contents, names_of

import hypergraph
from hypergraph import events, exceptions
from hypergraph.cli.arguments import FOR_ALL
from hypergraph.cli.main import options_of
from hypergraph.cli.registry import COMMANDS, spelled
from hypergraph.views import problems
from hypergraph.views.schemas import SCHEMAS, full_name
from hypergraph.views.sql import VIEWS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "hypergraph"
REFERENCE = {page: page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").rglob("*.md"))}
MODULES = ["", *(module for modules, _ in PAGES.values() for module in modules)]
BUILD_CHECKS = {
    "B1": ["Duplicate node name: 'x'"],
    "B2": [
        *("2-tuple or 3-tuple", "unknown source", "unknown target", "not an output", "not an input"),
        "Multiple nodes produce 'x'",
    ],
    "B3": ["Invalid graph name", "cannot contain '.'"],
    "B4": ["reserved"],
    "B5": ["Invalid node name", "Invalid output name", "valid Python identifiers", "keyword"],
    "B6": ["collides with output"],
    "B7": ["Inconsistent defaults for 'x'", "without default"],
    "B8": ["unknown node", "Did you mean"],
    "B9": ["cannot target itself"],
    "B10": ["share the output"],
    "B11": [
        "is atomic but contains interrupts",
        "is atomic but contains nodes with repeatable=False",
    ],
    "B12": ["cannot have cache=True"],
    "B13": ["wait_for='saved'", "Did you mean 'save'?"],
    "B14": ["Type mismatch", "Missing type annotation", "Unresolvable type hint"],
    "B15": ["Some nodes append"],
    "B16": ["answers 'approve' and is an input of"],
}
EVENTS = [name for name in events.__all__ if name.endswith("Event") and name != "Event"]
THINGS = {name: thing for page in contents().values() for name, thing in page.items()}
CLASSES = {name: thing for name, thing in THINGS.items() if inspect.isclass(thing)}


def page(name: str) -> str:
    return REFERENCE[DOCS / "reference" / name]


def code_in(text: str) -> str:
    """Return what stands in backquotes, or in a block of code or output."""
    return " ".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def undocumented(names: list[str], text: str = "\n".join(REFERENCE.values())) -> list[str]:
    """Return the names that never stand in code style."""
    code = code_in(text)
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code)]


def sections(text: str) -> dict[str, str]:
    """Return by heading of the second level all that stands below it."""
    return dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))


API = {name: text for path in PAGES for name, text in sections(page(f"api/{path}.md")).items()}


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what `dir` shows of a class that this package, and not Python, has written."""
    for name in dir(kind):
        written_by = next((base.__module__ for base in kind.__mro__ if name in vars(base)), "")
        if not name.startswith("_") and written_by.startswith("hypergraph"):
            yield name, getattr(kind, name)


def parameters(call: Any) -> list[str]:
    return [name for name in inspect.signature(call).parameters if name not in ("self", "cls")]


def missing_of(kind: type, api: dict[str, str]) -> list[str]:
    """Return members and their parameters that no section of a class, or of those above it, has."""
    text = "\n".join(api.get(base.__name__, "") for base in kind.__mro__)
    missing = []
    for name, member in members(kind):
        known = undocumented([name], text) == []
        takes = (
            parameters(member)
            if known and inspect.isfunction(member) and not name.startswith("test_")
            else []
        )
        missing += [name] if not known else [f"{name}({each})" for each in undocumented(takes, text)]
    return missing


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_public_module_has_a_section(module: str) -> None:
    assert [name for name in names_of(module) if name not in API] == []


def test_every_list_of_names_is_looked_at() -> None:
    """A module that says what it exports is public, or a part that the package alone uses."""
    internal = {"layout", "runs", "runs.log", "checkpointers.records"}
    internal |= {"checkpointers.postgres.driver", "values", "values.serializers"}
    internal |= {"demo"}
    lists = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        for file in PACKAGE.rglob("*.py")
        if re.search(r"^__all__ = ", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert lists - set(MODULES) == internal


@pytest.mark.parametrize("name", CLASSES)
def test_every_member_and_parameter_of_a_class_is_in_the_reference(name: str) -> None:
    assert missing_of(CLASSES[name], API) == []


def test_a_member_or_parameter_that_is_left_out_is_found() -> None:
    names = ("BaseRunner", "SyncRunner")
    cut = {name: API[name].replace("map_iter", "...").replace("on_missing", "...") for name in names}
    assert "map_iter" in missing_of(hypergraph.SyncRunner, {**API, **cut})
    assert "run(on_missing)" in missing_of(hypergraph.SyncRunner, {**API, **cut})


def test_every_parameter_of_a_function_is_in_the_reference() -> None:
    calls = {name: thing for name, thing in THINGS.items() if inspect.isroutine(thing)}
    assert len(calls) > 10
    assert {name for name, call in calls.items() if undocumented(parameters(call), API[name])} == set()


def test_every_parameter_of_a_constructor_is_in_the_reference() -> None:
    made = {
        name: kind
        for name, kind in CLASSES.items()
        if inspect.isfunction(kind.__init__) and kind.__name__ == name and not issubclass(kind, enum.Enum)
    }
    given = {
        "MapHandle",
        "NodeContext",
        "RunHandle",
        "RunIterator",
        "AsyncRunIterator",
        "Submitted",
        "Worker",
    }
    given |= {"NodeStop", "RunDebugger", "AsyncRunDebugger"}
    given |= {"ArtifactStore", "CacheBackend", "Codec", "PauseExecution"}  # protocols, and a signal
    for name in sorted(made.keys() - given):
        assert undocumented(parameters(made[name]), API[name]) == [], name


def test_every_event_its_fields_and_its_handler_are_in_the_guide_to_events() -> None:
    handlers = [name for name in vars(hypergraph.TypedEventProcessor) if name.startswith("on_")]
    fields = {field for name in EVENTS for field in getattr(events, name).__dataclass_fields__}
    assert len(EVENTS) > 10
    assert undocumented([*EVENTS, *handlers, *sorted(fields)], page("events.md")) == []


def test_every_error_is_in_a_guide_to_errors() -> None:
    assert len(exceptions.__all__) > 30
    assert undocumented(exceptions.__all__, page("errors.md") + page("checkpointers.md")) == []


def test_every_code_of_an_error_is_in_the_reference_of_each_interface() -> None:
    codes = [value for name, value in vars(problems).items() if name.isupper()]
    assert len(codes) == 5
    for interface in ("json.md", "http.md", "mcp.md"):
        assert undocumented(codes, page(interface)) == []


@pytest.mark.slow
def test_every_command_and_option_long_and_short_is_in_the_reference() -> None:
    text = page("cli.md")
    parts = dict(re.findall(r"^### ([\w -]+)\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))
    assert undocumented([option.name for option in FOR_ALL], text) == []
    for name in COMMANDS:
        spellings = [text for option in options_of(name) for text in (option.name, option.short) if text]
        assert undocumented(spellings, parts[spelled(name)]) == [], name


def test_every_document_and_every_column_of_a_view_is_in_the_reference() -> None:
    assert [name for name in SCHEMAS if f"\n### {full_name(name)}\n" not in page("json.md")] == []
    views = sections(page("sql.md"))
    assert {name for name, columns in VIEWS.items() if undocumented(list(columns), views[name])} == set()


def test_every_environment_variable_that_is_read_is_in_the_reference() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    read = set(re.findall(r"""(?:environ(?:\.get\(|\[)|getenv\()["'](\w+)""", text))
    assert {"HYPERGRAPH_DB", "NO_COLOR"} <= read
    assert undocumented(sorted(read), page("installing.md")) == []


def test_every_extra_is_in_the_reference() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| `(\w+)` \|", page("installing.md").partition("## Environment")[0], re.MULTILINE)
    assert sorted([*listed, "dev", "docs", "cluster"]) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize("check", BUILD_CHECKS)
def test_every_build_check_is_in_the_reference_with_its_fragments_and_a_fix(check: str) -> None:
    section = page("checks.md").partition(f"\n## {check}: ")[2].partition("\n## ")[0]
    flat = " ".join(section.split())
    assert [fragment for fragment in BUILD_CHECKS[check] if _plain(fragment) not in _plain(flat)] == []
    assert "Fix" in section


def _plain(text: str) -> str:
    """Let any name stand for a name."""
    return re.sub(r"'\w+'", "'x'", text)


def test_every_build_rule_has_a_section() -> None:
    rules = importlib.import_module("hypergraph.graph.validation").RULES
    labels = {label for rule in rules for label in re.findall(r"\bB\d+\b", rule.__doc__ or "")}
    assert labels == set(BUILD_CHECKS)


def test_every_scheduling_rule_is_in_the_reference() -> None:
    contract = importlib.import_module("hypergraph.scheduling").__doc__ or ""
    labels = re.findall(r"^([A-Z][a-z]+)\. ", contract, re.MULTILINE)
    assert labels == ["Edges", "Rounds", "Due", "Wait", "Open", "Entry", "New"]
    assert [label for label in labels if f"| {label} |" not in page("scheduling.md")] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    of_the_api = {f"reference/{target}" for target in re.findall(r"\]\((api/\w+\.md)", page("api.md"))}
    assert pages - of_the_api - set(re.findall(r"\]\(([\w/.-]+\.md)", index)) == set()


def test_a_name_in_plain_prose_does_not_count_as_documented() -> None:
    assert undocumented(["Graph", "chain"], "A Graph is `Graph(nodes)`; a chain is not.") == ["chain"]
