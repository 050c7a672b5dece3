"""Graphs on the command line: `module:attribute`, or a name from `[tool.hypergraph.graphs]`.

Modules are imported from the current folder too, as `python -m` does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from hypergraph import Graph
from hypergraph.cli.arguments import Option
from hypergraph.cli.output import suggested
from hypergraph.cli.remembered import APP, file_of, known_graphs, mentions_us, why_not
from hypergraph.display import did_you_mean, first_line
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem
from hypergraph.views.stores import import_here

TARGET = Option("TARGET", "a graph: module:attribute, or a name from [tool.hypergraph.graphs]", needed=True)
STORED_TARGET = TARGET._replace(
    needed=False, help="a graph: module:attribute or a name; default: the one that `hypergraph run` was given"
)
SERVICES = Option(
    "--services", "clients for nodes: module:name of a dict, or of a function that returns one", "MODULE:NAME"
)
_PLACE = re.compile(r"([^:\s]+):([^:\s]+)")


def target_of(given: str | None, tags: Mapping[str, str], workflow_id: str, command: str = "resume") -> str:
    """Return the TARGET of a call, or else the one that started the workflow, if it may be taken.

    Raises:
        Problem: neither is known.
    """
    if given is not None:
        return given
    remembered = tags.get(APP)
    if remembered is None:
        hint = "It was not started by `hypergraph run`, so give the graph: module:attribute"
        raise Problem(USAGE, f"Missing argument: TARGET of workflow {workflow_id!r}", hint)
    reason = why_not(remembered)
    if reason is None:
        return remembered
    naming = suggested(command, workflow_id, remembered)
    hint = f"A store must not choose what code is run. If this is your graph, name it: {naming}"
    raise Problem(USAGE, f"{remembered!r}, which started {workflow_id!r}, is not taken: {reason}", hint)


def graph_at(target: str) -> Graph:
    """Return the graph of a target; its module is imported, which runs its code.

    Raises:
        Problem: the module or attribute does not exist, cannot be imported, or is not a graph.
    """
    module_name, found = object_at(target)
    if not isinstance(found, Graph):
        hint = f"Graphs there: {', '.join(graphs)}" if (graphs := _graphs_in(module_name)) else ""
        raise Problem(USAGE, f"{target} is of type {type(found).__name__}, not Graph", hint)
    return found


def services_at(target: str) -> dict[str, Any]:
    """Return the services of a target: a dict, or what a function without parameters returns.

    Raises:
        Problem: it does not exist, cannot be called, or is not a dict from names.
    """
    _, found = object_at(target)
    if callable(found):
        try:
            found = found()
        except Exception as error:  # code of the user
            raise Problem(USAGE, f"{target}() failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise Problem(USAGE, f"{target} is of type {type(found).__name__}, not a dict of services by name")
    return dict(found)


def object_at(target: str) -> tuple[str, object]:
    """Return the module and the object of a target, of any type. Raises Problem if it does not exist."""
    place = _PLACE.fullmatch(known_graphs().get(target, target))
    if place is None:
        raise _unknown_name(target)
    module_name, attribute = place.groups()
    found: object = _module(module_name, attribute)
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise _no_attribute(found, name, target) from None
    return module_name, found


def _unknown_name(target: str) -> Problem:
    known = known_graphs()
    module = target.removesuffix(".py").removeprefix("./")
    file = file_of(module)
    if file is not None and mentions_us(file):
        hint = f"Name the graph in the module as well, as in {module}:graph"
    else:
        hint = did_you_mean(target, known) or "Give module:attribute, or a name from [tool.hypergraph.graphs]"
    return Problem(NOT_FOUND, f"Graph {target!r} not found", hint, sorted(known))


def _module(name: str, attribute: str) -> ModuleType:
    if name.endswith(".py") or os.sep in name:
        written = name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise Problem(NOT_FOUND, f"Module {name!r} not found", f"Write it as {written}:{attribute}")
    try:
        return import_here(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        here = [entry.removesuffix(".py") for entry in os.listdir() if entry.endswith(".py")]
        hint = did_you_mean(name, here) or "It must be installed, or be in the current folder"
        raise Problem(NOT_FOUND, f"Module {name!r} not found", hint) from error
    except Exception as error:  # the code of a user may raise anything
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> Problem:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
    text = f"{type(error).__name__}: {first_line(error)}{where}"
    return Problem(USAGE, f"Cannot import module {name!r}: {text}", f"Try: python -c 'import {name}'")


def _no_attribute(holder: object, name: str, target: str) -> Problem:
    known = [known for known in dir(holder) if not known.startswith("_")]
    graphs = _graphs_in(holder.__name__) if isinstance(holder, ModuleType) else []
    hint = did_you_mean(name, known) or ("Graphs there:" if graphs else "The module defines no graph")
    return Problem(NOT_FOUND, f"{target} not found: no attribute {name!r}", hint, graphs)


def _graphs_in(module_name: str) -> list[str]:
    names = vars(sys.modules[module_name])
    return sorted(name for name, value in names.items() if isinstance(value, Graph))
