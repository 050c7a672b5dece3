"""The shape of the package, read from its sources: layers, cycles of imports, and which modules may wait.

Every rule is a function from (path below the package, source text) to a list of findings, and is first tried
on a source that breaks it.
"""

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "hypergraph"
PUBLIC = "the package itself"  # what comes below it may use its public names
LAYERS = [  # a module imports from its own layer and from those above it
    *(
        "exceptions",
        "display",
        "node_kinds",
        "structure",
        "scheduling",
        "layout",
        "records",
        "answers",
        "clock",
        "nodes",
        "graph",
        "values",
    ),
    *("engine", "executors", "events", "runs", "cache", "checkpointers", "durability", "runners", "viz"),
    *(PUBLIC, "testing", "migration", "views", "ui", "integrations", "demo", "cli", "__main__"),
]
BLIND = {"checkpointers": {"nodes", "graph", "engine"}}  # a store knows no graph
MAY_WAIT = {
    "engine/async_kernel.py",  # how the engine waits on an event loop
    "checkpointers/base.py",  # questions to a store, answered in a worker thread
    "checkpointers/live.py",  # streams of nodes, followed on an event loop
    "runners/async_.py",  # the runner that has an event loop
    "runners/sync_on_loop.py",  # the one that has none, while executors work for it
    "cli/execution.py",  # a command that runs a graph waits for it
    "cli/commands/debug.py",  # step by step, too
    "cli/due.py",  # and so does one that watches timers
    "demo/approve.py",  # an example of use: it awaits what users await
    "demo/story.py",
    "ui/actions.py",  # the server of the page: it runs graphs on a loop of their own,
    "ui/server.py",  # and is one event loop
    "ui/process.py",  # whose connections have deadlines
    "integrations/dbos/execution.py",  # runs on the event loop of DBOS
    "integrations/dbos/worker.py",
    "testing/replaying.py",  # calls async nodes of users
    "testing/simulation.py",  # is an event loop that a seed orders
    "testing/variants.py",  # runs async graphs of users
    "testing/conformance/ownership.py",  # tests of what users await
    "testing/conformance/races.py",
    "testing/conformance/stores.py",
    "testing/conformance/upkeep.py",
}
ONE_CONCEPT = [  # files of one room that may import each other
    {
        "runners/__init__.py",
        "runners/sync.py",
    },  # the parts that need an event loop, loaded through the package
]
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|Users|work|tmp|mnt|opt|srv)/\w|\b[A-Z]:\\+Users\b")

# What views, commands and the page may import of the stores besides the public names of the package.
STORE_HELPERS = {
    "query",
    "backend",
    "history",
    "course",
    "analysis",
    "overview",
    "records",
    "artifacts",
    "view",
}
STORE_INTERNALS = {  # the few modules that may know more
    "views/database.py": {"errors", "sql.connection", "sql.store", "sqlite.migrations", "sqlite.reading"},
    "views/export.py": {"sql.transfer"},
    "views/address.py": {"sqlite.listing"},  # lists are read without loading a store
}
FACING = ("views", "cli", "ui", "demo")

Rule = Callable[[str, str], list[str]]


class Imports(ast.NodeVisitor):
    """Every import that happens at run time: (line, dotted name, innermost function or None)."""

    def __init__(self, path: str, source: str) -> None:
        self.package = ["hypergraph", *PurePosixPath(path).parent.parts]
        self.functions: list[str] = []
        self.found: list[tuple[int, str, str | None]] = []
        self.visit(parsed(source))

    def add(self, node: ast.AST, name: str) -> None:
        self.found.append((node.lineno, name, self.functions[-1] if self.functions else None))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) - node.level + 1] if node.level else []
        for alias in node.names:
            self.add(node, ".".join([*base, *filter(None, [node.module]), alias.name]))

    def visit_Call(self, node: ast.Call) -> None:
        func = node.func
        called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if called in ("__import__", "import_module"):
            name = node.args and isinstance(node.args[0], ast.Constant) and str(node.args[0].value)
            if name:
                self.add(node, "hypergraph" + name if name.startswith(".") else name)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        type_only = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for child in node.orelse if type_only else ast.iter_child_nodes(node):
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.functions.append(getattr(node, "name", "lambda"))
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef


parsed = cache(ast.parse)  # each rule looks at every file


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "hypergraph"


def layers_import_one_way(path: str, source: str) -> list[str]:
    if path == "__init__.py":  # it gathers the public names of all layers
        return []
    own = PurePosixPath(path).parts[0].removesuffix(".py")
    if own not in LAYERS:
        return [f"{path}: {own!r} has no place in LAYERS"]
    findings = []
    for line, name, _ in imports_in(path, source):
        target = [*name.split("."), ""][1]
        layer = target if target in LAYERS else PUBLIC
        if is_ours(name) and (LAYERS.index(layer) > LAYERS.index(own) or layer in BLIND.get(own, ())):
            findings.append(f"{path}:{line}: {own} imports {name}, which is of a layer it must not know")
    return findings


def our_imports_stand_on_top(path: str, source: str) -> list[str]:
    lazy = "__getattr__" if path.endswith("__init__.py") else None  # the one function that may import late
    return [
        f"{path}:{line}: {function}() imports {name}; move it to the top"
        for line, name, function in imports_in(path, source)
        if function not in (None, lazy) and is_ours(name)
    ]


def only_a_few_know_asyncio(path: str, source: str) -> list[str]:
    names = [] if path in MAY_WAIT else imports_in(path, source)
    return [f"{path}:{line}: imports asyncio" for line, name, _ in names if name.split(".")[0] == "asyncio"]


@cache
def imports_in(path: str, source: str) -> list[tuple[int, str, str | None]]:
    """Return what a file imports; each rule asks for it."""
    return Imports(path, source).found


def imported_files(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return by file the files of the package that it imports at run time."""
    files = {"hypergraph": "__init__.py"}
    for path in sources:
        parts = PurePosixPath(path).with_suffix("").parts
        files[".".join(["hypergraph", *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    found: dict[str, set[str]] = {}
    for path, source in sources.items():
        names = [name.split(".") for _, name, _ in imports_in(path, source) if is_ours(name)]
        longest = [
            next(end for end in range(len(name), 0, -1) if ".".join(name[:end]) in files) for name in names
        ]
        targets = {files[".".join(name[:end])] for name, end in zip(names, longest, strict=True)}
        found[path] = (targets & sources.keys()) - {path}
    return found


def import_cycles(sources: dict[str, str]) -> list[list[str]]:
    """Return the groups of files each of which imports, directly or not, all others of its group."""
    direct = imported_files(sources)
    reached: dict[str, set[str]] = {}
    for path in direct:
        seen, waiting = set(), [path]
        while waiting:
            new = direct[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[path] = seen
    groups = {
        tuple(sorted(other for other in seen if path in reached[other]))
        for path, seen in reached.items()
        if path in seen
    }
    return sorted(map(list, groups))


def no_import_cycles(sources: dict[str, str]) -> list[str]:
    findings = []
    for cycle in import_cycles(sources):
        rooms = sorted({PurePosixPath(path).parts[0] for path in cycle})
        if len(rooms) > 1:
            findings.append(f"a cycle of imports through {', '.join(rooms)}: {', '.join(cycle)}")
        elif not any(cycle_of_one >= set(cycle) for cycle_of_one in ONE_CONCEPT):
            findings.append(f"a cycle of imports that ONE_CONCEPT does not list: {', '.join(cycle)}")
    return findings


def no_machine_paths(path: str, source: str) -> list[str]:
    return [f"{path}: mentions {match.group()!r}..." for match in MACHINE_PATH.finditer(source)]


def views_use_the_face_of_the_store(path: str, source: str) -> list[str]:
    if PurePosixPath(path).parts[0] not in FACING:
        return []
    findings = []
    allowed = {"", *STORE_HELPERS, *STORE_INTERNALS.get(path, ())}
    for line, name, _ in imports_in(path, source):
        module, _, _ = name.removeprefix("hypergraph.checkpointers").rpartition(".")
        if name.startswith("hypergraph.checkpointers.") and module.lstrip(".") not in allowed:
            findings.append(f"{path}:{line}: imports {name}, which is internal to the stores")
    if path != "views/database.py":
        findings += [
            f"{path}: {match.group()} reaches into a store or asks for its class"
            for match in re.finditer(r"store\._\w+|isinstance\(\w*store\b[^)]*\)", source)
        ]
    return findings


BROKEN: list[tuple[Rule, str, str]] = [
    (views_use_the_face_of_the_store, "views/why.py", "from hypergraph.checkpointers.sql.reads import step"),
    (views_use_the_face_of_the_store, "cli/commands/ls.py", "from ...checkpointers.sqlite import store"),
    (views_use_the_face_of_the_store, "ui/api.py", "def f(store):\n    return store._database"),
    (
        views_use_the_face_of_the_store,
        "views/state.py",
        "def f(store):\n    return isinstance(store, SqliteCheckpointer)",
    ),
    (layers_import_one_way, "nodes/base.py", "from hypergraph.graph import Graph"),
    (layers_import_one_way, "nodes/base.py", "from ..graph.graph import Graph"),
    (layers_import_one_way, "nodes/base.py", "from .. import runners"),
    (layers_import_one_way, "display.py", "import hypergraph.records"),
    (layers_import_one_way, "engine/execute.py", "def f():\n    from ..runners import SyncRunner"),
    (layers_import_one_way, "viz.py", "from hypergraph import Graph"),
    (layers_import_one_way, "checkpointers/base.py", "from hypergraph.graph import Graph"),
    (layers_import_one_way, "helpers.py", ""),
    (our_imports_stand_on_top, "engine/plan.py", "def f():\n    import hypergraph.graph"),
    (
        our_imports_stand_on_top,
        "engine/plan.py",
        "class A:\n    async def f(self):\n        from .graph import Graph",
    ),
    (our_imports_stand_on_top, "engine/plan.py", "f = lambda: import_module('.graph')"),
    (our_imports_stand_on_top, "engine/plan.py", "def __getattr__(name):\n    from . import graph"),
    (only_a_few_know_asyncio, "engine/execute.py", "def f():\n    from asyncio import sleep"),
    (only_a_few_know_asyncio, "runners/sync.py", "import asyncio.events"),
    (no_machine_paths, "cache.py", "PATH = '/home/ann/cache'"),
    (no_machine_paths, "cache.py", r"PATH = 'C:\\Users\\ann'"),
]
SOUND: list[tuple[Rule, str, str]] = [
    (views_use_the_face_of_the_store, "views/why.py", "from hypergraph.checkpointers.history import History"),
    (views_use_the_face_of_the_store, "views/why.py", "from hypergraph.checkpointers import Checkpointer"),
    (views_use_the_face_of_the_store, "durability/journal.py", "store._database"),
    (
        layers_import_one_way,
        "graph/graph.py",
        "import ast\nfrom ..nodes import base\nfrom .wiring import edges",
    ),
    (layers_import_one_way, "nodes/base.py", "if TYPE_CHECKING:\n    from hypergraph.graph import Graph"),
    (layers_import_one_way, "cli/main.py", "from hypergraph import Graph"),
    (layers_import_one_way, "__init__.py", "from hypergraph.runners import SyncRunner"),
    (our_imports_stand_on_top, "engine/plan.py", "def f():\n    import networkx"),
    (our_imports_stand_on_top, "__init__.py", "def __getattr__(name):\n    from .runners import AsyncRunner"),
    (only_a_few_know_asyncio, "engine/async_kernel.py", "import asyncio"),
    (no_machine_paths, "cache.py", "URL = 'https://example.org/home/ann'"),
]
RULES = list(dict.fromkeys(rule for rule, _, _ in BROKEN))


@pytest.mark.parametrize(("rule", "path", "source"), BROKEN)
def test_rule_finds_what_breaks_it(rule: Rule, path: str, source: str) -> None:
    assert rule(path, source)


@pytest.mark.parametrize(("rule", "path", "source"), SOUND)
def test_rule_accepts_what_keeps_it(rule: Rule, path: str, source: str) -> None:
    assert rule(path, source) == []


@pytest.mark.parametrize(
    ("sources", "count"),
    [
        ({"a/x.py": "from hypergraph.b.y import Y", "b/y.py": "from ..a import x"}, 1),
        (
            {
                "a/x.py": "import hypergraph.b.y",
                "b/y.py": "from hypergraph.c import z",
                "c.py": "from .a.x import X",
            },
            1,
        ),
        ({"a/x.py": "from . import y", "a/y.py": "from .x import X"}, 1),
        ({"a/x.py": "def f():\n    from . import y", "a/y.py": "from .x import X"}, 1),
        (
            {
                "runners/__init__.py": "from .sync import S",
                "runners/sync.py": "from hypergraph import runners",
            },
            0,
        ),
        ({"a/x.py": "from hypergraph.b.y import Y", "b/y.py": "if TYPE_CHECKING:\n    from ..a import x"}, 0),
        ({"a/x.py": "from hypergraph.b.y import Y", "b/y.py": "from hypergraph.b import z", "b/z.py": ""}, 0),
    ],
)
def test_a_cycle_of_imports_is_found(sources: dict[str, str], count: int) -> None:
    assert len(no_import_cycles(sources)) == count


def test_files_do_not_import_in_circles() -> None:
    findings = no_import_cycles(sources_of("*.py"))
    assert not findings, "\n".join(["", *findings])


def sources_of(pattern: str) -> dict[str, str]:
    found = {
        file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8", errors="replace")
        for file in sorted(PACKAGE.rglob(pattern))
        if file.is_file() and file.suffix != ".pyc"
    }
    assert found
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    sources = sources_of("*" if rule is no_machine_paths else "*.py")
    findings = [finding for path, source in sources.items() for finding in rule(path, source)]
    assert not findings, "\n".join(["", *findings])
