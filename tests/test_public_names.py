"""The names users may rely on, frozen: where each is found, that it is documented, what importing costs."""

import importlib
import inspect
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import hypergraph

DECORATORS = ["node", "route", "ifelse", "interrupt", "pause_until", "pause_for", "receive"]
NODE_CLASSES = [
    *("HyperNode", "FunctionNode", "GraphNode", "GateNode", "RouteNode", "IfElseNode", "InterruptNode"),
    *("TimerNode", "ReceiveNode", "END", "NodeContext", "Replace", "RetryPolicy"),
]
RUNNERS = ["BaseRunner", "SyncRunner", "AsyncRunner", "ErrorHandling"]
RESULTS = [
    *("RunResult", "MapResult", "RunStatus", "PauseInfo", "RunLog", "MapLog", "NodeRecord", "NodeStats"),
    "InnerStep",
]
ERRORS = [
    *("HypergraphError", "GraphConfigError", "GraphWarning", "RenameError", "MissingInputError"),
    "IncompatibleRunnerError",
    *("InfiniteLoopError", "MaxIterationsError", "NodeError", "PanicError", "CancellationError"),
    *("RunTimeoutError", "NodeTimeoutError", "InvalidAnswerError", "QuestionExpiredError"),
    *("BudgetExceededError", "MissingServiceError", "StepUsageError", "TransactionError"),
]
EVENTS = [
    *("BaseEvent", "Event", "RunStartEvent", "RunEndEvent", "SuperstepStartEvent", "NodeStartEvent"),
    *("NodeEndEvent", "NodeErrorEvent", "NodeRetryEvent", "CacheHitEvent", "RouteDecisionEvent"),
    "NodeProgressEvent",
    *("InterruptEvent", "StopRequestedEvent", "StreamingChunkEvent", "CheckpointSavedEvent"),
]
PROCESSORS = ["EventDispatcher", "EventProcessor", "AsyncEventProcessor", "TypedEventProcessor"]
CACHING = ["CacheBackend", "InMemoryCache", "DiskCache"]
PERSISTENCE = ["Checkpointer", "CheckpointPolicy", "SqliteCheckpointer"]
STORE_ERRORS = [
    *(
        "CheckpointError",
        "StoreUnavailableError",
        "StoreFullError",
        "StoreReadOnlyError",
        "StoreCorruptError",
    ),
    *("SchemaTooNewError", "InvalidWorkflowIdError", "WorkflowLockedError", "OwnershipLostError"),
    *("GraphChangedError", "ItemChangedError", "AmbiguousStepError", "CrashLoopError"),
    *("ArtifactMissingError", "DecryptionError"),
]
GATES = ["END", "GateNode", "RouteNode", "IfElseNode", "route", "ifelse"]

MODULES = {
    "hypergraph": [
        *(*DECORATORS, *NODE_CLASSES, "Graph", "chain", "InputSpec", *RUNNERS, *RESULTS),
        *(*ERRORS, *EVENTS, *PROCESSORS, "RichProgressProcessor", *CACHING),
        *PERSISTENCE,
    ],
    "hypergraph.nodes": [*DECORATORS, *NODE_CLASSES, "RenameEntry", "RenameError"],
    "hypergraph.nodes.base": ["HyperNode"],
    "hypergraph.nodes.function": ["FunctionNode", "node"],
    "hypergraph.nodes.graph_node": ["GraphNode"],
    "hypergraph.nodes.interrupt": ["InterruptNode", "interrupt"],
    "hypergraph.nodes.gate": GATES,
    "hypergraph.graph": ["Graph", "InputSpec", "GraphConfigError", "compute_input_spec", "validate_graph"],
    "hypergraph.graph.validation": ["GraphConfigError"],
    "hypergraph.runners": [
        *(*RUNNERS, *RESULTS, "PauseExecution", "RunnerCapabilities", "GraphState", "NodeExecution"),
        *("RunHandle", "MapHandle"),
    ],
    "hypergraph.runners.sync": ["SyncRunner"],
    "hypergraph.runners.async_": ["AsyncRunner"],
    "hypergraph.exceptions": [*ERRORS, "ExecutionError", *STORE_ERRORS],
    "hypergraph.cache": [*CACHING, "compute_cache_key"],
    "hypergraph.events": [*EVENTS, "RunStatus", *PROCESSORS],
    "hypergraph.events.types": [*EVENTS, "RunStatus"],
    "hypergraph.events.rich_progress": ["RichProgressProcessor"],
    "hypergraph.events.otel": ["OpenTelemetryProcessor"],
    "hypergraph.checkpointers": [
        *(*PERSISTENCE, "MemoryCheckpointer", "Checkpoint", "StepRecord", "StepStatus", "Workflow"),
        *("WorkflowStatus", "WorkflowList", "Serializer", "JsonSerializer", "MsgpackSerializer"),
        *("PickleSerializer", "register", "Undecodable", "Codec", "ZlibCodec", "ZstdCodec", "AesGcmCodec"),
        *("CodecChain", "ArtifactRef", "ArtifactStore", "FileArtifactStore", "MemoryArtifactStore"),
        *("ObjectArtifactStore", "PostgresCheckpointer", "Question", "Progress", "StreamChunk"),
    ],
    "hypergraph.cli": ["main"],
    "hypergraph.integrations.dbos": ["DBOSRunner", "ExecutorInUseError", "Submitted"],
    "hypergraph.integrations.executors": ["RayExecutor"],
    "hypergraph.testing": ["CheckpointerConformance", "FakeClock", "RecordingProcessor"],
    "hypergraph.viz": ["visualize", "to_mermaid", "MermaidDiagram"],
}
NOT_AT_IMPORT = [
    *("networkx", "rich", "click", "sqlite3", "diskcache", "opentelemetry", "numpy", "msgspec"),
    *("asyncio", "starlette", "uvicorn", "zstandard", "cryptography", "obstore"),
]

every_module = pytest.mark.parametrize("module", MODULES)


def test_root_names_are_exactly_the_frozen_list() -> None:
    assert sorted(hypergraph.__all__) == sorted(MODULES["hypergraph"])


@every_module
def test_names_are_found_in_their_module(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in MODULES[module] if not hasattr(found, name)] == []


@every_module
def test_dir_lists_the_names_of_a_module(module: str) -> None:
    assert set(MODULES[module]) - set(dir(importlib.import_module(module))) == set()


@every_module
def test_a_name_means_the_same_object_everywhere(module: str) -> None:
    found = importlib.import_module(module)
    shared = set(MODULES[module]) & set(MODULES["hypergraph"])
    assert [name for name in sorted(shared) if getattr(found, name) is not getattr(hypergraph, name)] == []


@every_module
def test_public_classes_and_functions_have_docstrings(module: str) -> None:
    found = importlib.import_module(module)
    documented = {name: getattr(found, name) for name in MODULES[module]}
    assert [
        name
        for name, thing in documented.items()
        if (inspect.isclass(thing) or inspect.isroutine(thing))
        and (not thing.__doc__ or thing.__doc__.startswith(f"{name}("))  # what @dataclass writes is none
    ] == []


def test_star_import_brings_every_root_name() -> None:
    namespace: dict[str, object] = {}
    exec("from hypergraph import *", namespace)
    assert set(MODULES["hypergraph"]) - set(namespace) == set()


def test_unknown_root_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        hypergraph.no_such_name  # noqa: B018 - the access is the test


def answer_of_fresh_python(code: str, bytecode: Path) -> object:
    """Run the code in an interpreter of its own, whose bytecode is kept, and return the JSON it prints."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.slow
def test_import_loads_no_optional_part(tmp_path: Path) -> None:
    code = (
        "import json, sys; before = set(sys.modules); import hypergraph; hypergraph.Graph;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    assert sorted(set(NOT_AT_IMPORT) & set(answer_of_fresh_python(code, tmp_path))) == []


@pytest.mark.slow
def test_import_takes_at_most_five_times_the_standard_modules_it_builds_on(tmp_path: Path) -> None:
    def seconds(names: str) -> float:
        code = f"from time import perf_counter as now; start = now(); import {names}; print(now() - start)"
        return float(answer_of_fresh_python(code, tmp_path))

    pairs = [(seconds("dataclasses, inspect, typing"), seconds("hypergraph")) for _ in range(7)]
    standard, ours = map(min, zip(*pairs, strict=True))
    assert ours <= 5 * standard, f"{ours / standard:.1f} times"


def test_the_package_has_its_version() -> None:
    assert hypergraph.__version__ == metadata.version("hypergraph")
