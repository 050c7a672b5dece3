"""What is public: the names of every public module, and the members of every public class.

A name that several modules export stands on the first page of the reference that has it. What a class
inherits from another public class is a member there; what it inherits from others counts as its own.
"""

import ast
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, NamedTuple

PAGES = {  # by page: the modules it is about, and the guides to its subject
    "nodes": (
        ["nodes", "nodes.base", "nodes.function", "nodes.gate", "nodes.graph_node", "nodes.interrupt"],
        ["nodes", "scheduling"],
    ),
    "graph": (["graph", "graph.validation"], ["graph", "checks"]),
    "runners": (["runners", "runners.sync", "runners.async_"], ["runners", "results", "resuming"]),
    "exceptions": (["exceptions"], ["errors"]),
    "events": (["events", "events.types", "events.rich_progress", "events.otel"], ["events"]),
    "cache": (["cache"], ["caching"]),
    "checkpointers": (["checkpointers"], ["checkpointers", "postgres", "codecs", "artifacts"]),
    "integrations": (
        ["integrations", "integrations.dbos", "integrations.executors", "integrations.mcp"],
        ["dbos", "runners"],
    ),
    "testing": (["testing"], ["testing"]),
    "migration": (["migration"], ["resuming"]),
    "viz": (["viz"], ["graph"]),
    "cli": (["cli"], ["cli"]),
}
NAMES = {  # of modules without a list of their own
    "nodes.base": ["HyperNode", "RenameEntry"],
    "nodes.function": ["FunctionNode", "node"],
    "nodes.gate": ["END", "GateNode", "RouteNode", "IfElseNode", "route", "ifelse"],
    "nodes.graph_node": ["GraphNode"],
    "nodes.interrupt": ["InterruptNode", "interrupt"],
    "runners.sync": ["SyncRunner"],
    "runners.async_": ["AsyncRunner"],
    "events.rich_progress": ["RichProgressProcessor"],
    "events.otel": ["OpenTelemetryProcessor"],
    "integrations.mcp": ["agent_server", "serve_agents"],
}
RETURNED = {  # what calls return or take, and nobody needs to import
    "graph": ["graph.wiring:Edge"],
    "runners": ["runners.handles:RunIterator", "runners.async_:AsyncRunIterator"],
    "checkpointers": [
        *(
            "checkpointers.overview:Overview",
            "checkpointers.backend:Owner",
            "checkpointers.backend:StepTally",
            "checkpointers.records:StoredHistory",
            "checkpointers.history:Origin",
            "checkpointers.history:Iteration",
        ),
        *("checkpointers.analysis:Difference", "checkpointers.analysis:Divergence"),
        *("checkpointers.analysis:NodeStats", "checkpointers.analysis:Lineage"),
    ],
    "integrations": ["integrations.dbos.worker:Worker", "integrations.dbos.worker:WorkerSettings"],
}
INTERNAL = {"RULES", "fresh_span_id"}  # exported for the package itself


def loaded(module: str) -> ModuleType:
    return importlib.import_module(f"hypergraph.{module}" if module else "hypergraph")


@lru_cache
def names_of(module: str) -> list[str]:
    """Return the public names of a module of the package, "" for the package itself."""
    return [name for name in NAMES.get(module) or loaded(module).__all__ if name not in INTERNAL]


@lru_cache
def homes() -> dict[str, list[str]]:
    """Return by name all public modules that export it."""
    found: dict[str, list[str]] = {}
    for module in ["", *(module for modules, _ in PAGES.values() for module in modules)]:
        for name in names_of(module):
            found.setdefault(name, []).append(f"hypergraph.{module}".rstrip("."))
    return found


@lru_cache
def contents() -> dict[str, dict[str, Any]]:
    """Return by page the things on it, by name; each stands on one page only."""
    seen: set[str] = set()
    pages: dict[str, dict[str, Any]] = {}
    for page in sorted(PAGES, key=lambda page: page != "exceptions"):  # all errors stand together
        modules, _ = PAGES[page]
        own = {name: getattr(loaded(module), name) for module in modules for name in names_of(module)}
        for place in RETURNED.get(page, []):
            module, name = place.split(":")
            own[name] = getattr(loaded(module), name)
        names = sorted(own, key=lambda name: ancestry(own[name]))  # an error follows what it is a kind of
        pages[page] = {name: own[name] for name in names if name not in seen}
        seen |= set(pages[page])
    return {page: pages[page] for page in PAGES}


def ancestry(thing: Any) -> list[str]:
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    return [base.__name__ for base in reversed(thing.__mro__) if base is not object] if is_error else []


class Attribute(NamedTuple):
    """What is read off an object: a field, a property, or what its constructor sets."""

    name: str
    type: str
    meaning: str


class Members:
    """The public members of a public class, but for those of a public class above it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    @cached_property
    def public_bases(self) -> list[type]:
        things = {id(thing) for page in contents().values() for thing in page.values()}
        return [base for base in self.kind.__mro__[1:] if id(base) in things]

    @cached_property
    def own(self) -> list[type]:
        """The class, and those above it that are not public, all of this package."""
        above = {base for public in self.public_bases for base in public.__mro__}
        return [
            base
            for base in self.kind.__mro__
            if base.__module__.startswith("hypergraph") and (base is self.kind or base not in above)
        ]

    @cached_property
    def methods(self) -> dict[str, Any]:
        """The methods by name, as they are got from the class."""
        found = {}
        for base in self.own:
            for name, thing in vars(base).items():
                if name.startswith("_") or name in found or not is_method(thing):
                    continue
                method = getattr(self.kind, name)
                if not any(is_the_same(getattr(public, name, None), method) for public in self.public_bases):
                    found[name] = method
        return found

    @cached_property
    def attributes(self) -> list[Attribute]:
        """The fields, properties and instance attributes, in the order in which they are written."""
        found: dict[str, Attribute] = {}
        for base in reversed(self.own):
            for attribute in [*fields(base), *set_by_constructor(base), *properties(base)]:
                known = found.get(attribute.name)
                if known is None or attribute.meaning:
                    found[attribute.name] = attribute
        above = {each.name for public in self.public_bases for each in Members(public).attributes}
        explained = dict(re.findall(r"^ +(\w+): (.+)", self.kind.__doc__ or "", re.MULTILINE))
        return [
            each._replace(meaning=each.meaning or explained.get(name, ""))
            for name, each in found.items()
            if name not in above
        ]


def is_method(thing: Any) -> bool:
    is_fixture = hasattr(thing, "_pytestfixturefunction")  # which some releases of pytest keep as a function
    return (inspect.isfunction(thing) and not is_fixture) or isinstance(thing, classmethod | staticmethod)


def is_the_same(one: Any, other: Any) -> bool:
    """Tell whether a method takes what another one takes: then it needs no second description."""
    return callable(one) and inspect.signature(one).parameters == inspect.signature(other).parameters


def properties(kind: type) -> Iterator[Attribute]:
    for name, thing in vars(kind).items():
        getter = getattr(thing, "fget", None) or (isinstance(thing, cached_property) and thing.func)
        if getter and not name.startswith("_"):
            yield Attribute(name, hints(getter).get("return", ""), getter.__doc__)


@lru_cache
def lines_of(module: str) -> list[str]:
    return inspect.getsource(importlib.import_module(module)).splitlines()


@lru_cache
def parsed(module: str) -> ast.Module:
    return ast.parse("\n".join(lines_of(module)))


def source(kind: type) -> tuple[ast.ClassDef, list[str]]:
    """Return a class as it is written, and the lines of its module."""
    classes = (node for node in parsed(kind.__module__).body if isinstance(node, ast.ClassDef))
    return next(node for node in classes if node.name == kind.__name__), lines_of(kind.__module__)


def hints(call: Any) -> dict[str, str]:
    """Return the annotations of a call as they are written, whether Python evaluates them or not."""
    if inspect.isclass(call):
        found: dict[str, str] = {}
        for base in reversed(call.__mro__):
            if base.__module__.startswith("hypergraph"):
                body = source(base)[0].body
                fields = (node for node in body if isinstance(node, ast.AnnAssign))
                found |= {ast.unparse(node.target): as_text(node.annotation) for node in fields}
        return found | hints(call.__init__)
    function = inspect.unwrap(getattr(call, "__func__", call))
    node: Any = parsed(function.__module__) if inspect.isfunction(function) else None
    for name in function.__qualname__.split("."):
        inside = [each for each in getattr(node, "body", ()) if getattr(each, "name", None) == name]
        node = inside[-1] if inside else None  # the last one is not an overload
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}  # made by a decorator
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    taken = {each.arg: as_text(each.annotation) for each in arguments if each.annotation}
    return taken | ({"return": as_text(node.returns)} if node.returns else {})


def as_text(hint: ast.expr) -> str:
    return hint.value if isinstance(hint, ast.Constant) and isinstance(hint.value, str) else ast.unparse(hint)


def beside(node: ast.stmt, lines: list[str]) -> str:
    """Return the comment at the end of a statement, or the one right above it."""
    comment = re.search(r"  # (?!noqa|type:)(.*)$", lines[(node.end_lineno or 0) - 1])
    above = re.fullmatch(r" +# (\w.*)", lines[node.lineno - 2])
    return comment[1] if comment else above[1] if above else ""


def fields(kind: type) -> Iterator[Attribute]:
    if issubclass(kind, enum.Enum):
        yield from (Attribute(each.name, repr(each.value), "") for each in kind)
        return
    body, lines = source(kind)
    for node in body.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        if not isinstance(target, ast.Name) or target.id.startswith("_"):
            continue
        if isinstance(node, ast.AnnAssign):
            text = as_text(node.annotation)
        elif isinstance(node.value, ast.Constant):
            text = type(node.value.value).__name__
        else:
            continue  # a method under another name
        yield Attribute(target.id, text, beside(node, lines))


def set_by_constructor(kind: type) -> Iterator[Attribute]:
    body, lines = source(kind)
    for method in body.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        hints = {each.arg: each.annotation for each in [*method.args.args, *method.args.kwonlyargs]}
        for node in ast.walk(method):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Attribute):
                continue
            if ast.unparse(target.value) == "self" and not target.attr.startswith("_"):
                hint = node.annotation if isinstance(node, ast.AnnAssign) else hints.get(target.attr)
                yield Attribute(target.attr, ast.unparse(hint) if hint else "", beside(node, lines))
