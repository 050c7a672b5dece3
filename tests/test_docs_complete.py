"""Nothing public is undocumented: every name, option and message has a place in the reference."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import hypergraph
from hypergraph import AsyncRunner, SyncRunner, events, exceptions

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = {page: page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md"))}
PUBLIC_MODULES = [
    *("cache", "events", "events.rich_progress", "events.types", "exceptions", "graph", "graph.validation"),
    *("nodes.base", "nodes.function", "nodes.gate", "nodes.graph_node", "nodes.interrupt"),
    *(
        "integrations.dbos",
        "integrations.executors",
        "runners",
        "runners.async_",
        "runners.sync",
        "testing",
        "viz",
    ),
]
CALLS = [
    getattr(runner, call)
    for runner in (SyncRunner, AsyncRunner)
    for call in ("__init__", "run", "map", "iter")
]
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
    "B11": ["maps over a graph with interrupts", "is atomic but contains interrupts"],
    "B12": ["cannot have cache=True"],
    "B13": ["wait_for='saved'", "Did you mean 'save'?"],
    "B14": ["Type mismatch", "Missing type annotation", "Unresolvable type hint"],
}
EVENTS = [
    name for name in events.__all__ if name.endswith("Event") and inspect.isclass(getattr(events, name))
]
ERRORS = [
    name
    for name, thing in vars(exceptions).items()
    if inspect.isclass(thing) and issubclass(thing, exceptions.HypergraphError)
]
OPTIONS = sorted(
    {
        name
        for call in CALLS
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY or call.__name__ == "__init__"
    }
    - {"self"}
)
HANDLERS = [name for name in vars(hypergraph.TypedEventProcessor) if name.startswith("on_")]


def undocumented(names: list[str], pages: str = "\n".join(REFERENCE.values())) -> list[str]:
    """Return the names that never stand in code style: in backquotes, or in a block of code or output."""
    code = " ".join(re.findall(r"```.*?```|`[^`\n]+`", pages, re.DOTALL))
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code)]


def test_every_root_name_is_in_the_reference() -> None:
    assert undocumented(hypergraph.__all__) == []


def test_every_event_and_its_handler_is_in_the_reference() -> None:
    assert len(EVENTS) > 10
    assert undocumented([*EVENTS, *HANDLERS]) == []


def test_every_event_field_is_in_the_reference() -> None:
    fields = {field for name in EVENTS for field in getattr(events, name).__dataclass_fields__}
    assert undocumented(sorted(fields)) == []


def test_every_error_is_in_the_reference() -> None:
    assert len(ERRORS) > 10
    assert undocumented(ERRORS) == []


def test_every_runner_option_is_in_the_reference() -> None:
    assert {"timeout", "map_over", "offload_sync"} <= set(OPTIONS)
    assert undocumented(OPTIONS) == []


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_name_of_a_public_module_is_in_the_reference(module: str) -> None:
    found = importlib.import_module(f"hypergraph.{module}")
    names = getattr(found, "__all__", [])
    internal = {"RULES", "fresh_span_id", "PauseExecution"}  # exported for the package itself
    assert undocumented([name for name in names if name not in internal]) == []


@pytest.mark.parametrize("check", BUILD_CHECKS)
def test_every_build_check_is_in_the_reference_with_its_fragments_and_a_fix(check: str) -> None:
    page = REFERENCE[DOCS / "reference" / "checks.md"]
    section = page.partition(f"\n## {check}: ")[2].partition("\n## ")[0]
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
    contract = importlib.import_module("hypergraph.engine.schedule").__doc__ or ""
    labels = re.findall(r"^(S\d+a?)\b", contract, re.MULTILINE)
    page = REFERENCE[DOCS / "reference" / "scheduling.md"]
    assert len(labels) > 10
    assert [label for label in labels if f"| {label} |" not in page] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w/.-]+\.md)", index)) == set()


def test_a_name_in_plain_prose_does_not_count_as_documented() -> None:
    assert undocumented(["Graph", "chain"], "A Graph is `Graph(nodes)`; a chain is not.") == ["chain"]
