"""Draw the graphs of the explanations with our own layout: `make pictures`.

The code of a page is executed, and what it made is drawn. So a picture shows the graph that stands beside it,
and a run as it went there. Durations are left out: the same code gives the same picture.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.test_docs import blocks_of, run_block
from support.golden_graphs import IMAGE, documented

from hypergraph.graph.drawing import overlay_of
from hypergraph.graph.picture import picture

FOLDER = Path(__file__).parent / "images"
PAGE = Path(__file__).parent / "explanation" / "execution-model.md"
PICTURES: dict[str, dict[str, Any]] = {  # the graph, and what is shown of a run, by their names on the page
    "model-report": {"graph": "report"},
    "model-report-at-1": {"graph": "report", "run": "result", "until": 1},
    "model-desk": {"graph": "desk", "run": "easy"},
    "model-essay": {"graph": "essay", "run": "looped"},
    "model-office": {"graph": "office", "run": "nested", "depth": 1},
    "model-library": {"graph": "library", "run": "mapped", "depth": 1},
    "model-letter": {"graph": "letter", "run": "paused"},
    "model-trip": {"graph": "trip", "run": "failed"},
}


def pictures() -> dict[str, str]:
    """Return every picture of the page by the name of its file."""
    names = _run(PAGE)
    return {name: _draw(names, **options) for name, options in PICTURES.items()}


def _run(page: Path) -> Mapping[str, Any]:
    """Execute the code of a page in a folder of its own; return what it defined."""
    module = types.ModuleType("__main__")
    with _set_aside(module), asyncio.Runner() as runner:
        for block in blocks_of(page):
            if block.language == "python":
                run_block(page, block, module, runner)
    return vars(module)


@contextlib.contextmanager
def _set_aside(module: types.ModuleType) -> Iterator[None]:
    """Let the page be the main program for a while, in an empty folder."""
    main, home = sys.modules["__main__"], os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        sys.modules["__main__"] = module
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(home)
            sys.modules["__main__"] = main


def _draw(
    names: Mapping[str, Any], *, graph: str, run: str = "", until: float = float("inf"), depth: int = 0
) -> str:
    told = _told(names[run], until) if run else None
    return picture(names[graph], direction="LR", depth=depth, overlay=told)


def _told(result: Any, until: float) -> dict[str, Any]:
    """Return what is known of a run after a superstep, without durations; a pause is no step of a log."""
    run = types.SimpleNamespace(steps=[step for step in result.log.steps if step.superstep <= until])
    known: dict[str, Any] = {path: dict(facts) for path, facts in (overlay_of(run) or {}).items()}
    if result.pause is not None:
        known[result.pause.node_name] = {"status": "paused", "runs": 1}
    for facts in known.values():
        facts.pop("duration_ms", None)
        facts.pop("share", None)
    return known


if __name__ == "__main__":
    IMAGE.write_text(documented(), encoding="utf-8")  # the guide to drawing has a graph of the tests
    for name, text in pictures().items():
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
