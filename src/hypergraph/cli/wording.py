"""Messages of the package in the words of the command line: its options and commands, not those of Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hypergraph.cli.output import suggested
from hypergraph.exceptions import HypergraphError, WorkflowLockedError
from hypergraph.views.problems import REFUSED, Problem, problem_of, without_python_options

_WORDS = {  # how messages for Python name an option, and its name here
    "force=True": "--force",
    "new_turn=True": "--new-turn",
    "another workflow_id": "another id",
    "fork_from=... with an earlier superstep": "hypergraph fork with an earlier superstep (--at)",
    "with_entrypoint() or entrypoint=": "--entrypoint",
    "raise max_iterations": "raise --max-iterations",
    "Pass it to run()": "Give it to hypergraph resume",
}
# Patterns are not compiled at import, because most commands succeed.
_CHOICES = r"\b(code_change|restart)=(['\"])(\w+)\2"
_REPLACE = r"store\.answer\('(.*?)', '(.*?)', \.\.\., replace=True\)(?:\.$)?"
_LEAVING_OUT = r", or leave out '[^']*': graph\.with_entrypoint\([^)]*\)(\.) \(Invalid [^)]*\)"
_ONLY_PYTHON = r"\s*Pass on_internal_override=[^.]*\."
_SERVICES = r"runner\.run\(\.\.\., services=\{('.*?'): \.\.\.\}\)"
_PLACE = r"fork_from=\((['\"])(.*?)\1, (\d+|None)\)"
# The place of a fork alone, or the whole call. A full stop would look like a part of the command.
_FORK = rf"(?:run\(graph, \w+=\.\.\., )?{_PLACE}(?:, workflow_id=\.\.\.\))?(?:\.$)?"


def _plain_fork(workflow_id: str, at: str | None) -> str:
    return suggested("fork", workflow_id, options=[] if at is None else ["--at", at])


def _replacing(found: re.Match[str]) -> str:
    return suggested("answer", found[1], f"{found[2]}=...", options=["--replace"])


def as_command_line(message: str, fork: Callable[[str, str | None], str] = _plain_fork) -> str:
    """Return a message for a terminal; `fork` returns the command that forks a workflow at a superstep."""
    message = re.sub(_FORK, lambda found: fork(found[2], None if found[3] == "None" else found[3]), message)
    message = re.sub(_REPLACE, _replacing, message)
    message = re.sub(_SERVICES, r"--services MODULE:NAME, of a dict with \1", message)
    message = re.sub(_CHOICES, lambda found: f"--{found[1].replace('_', '-')} {found[3]}", message)
    for python, option in _WORDS.items():
        message = message.replace(python, option)
    return re.sub(_ONLY_PYTHON, "", re.sub(_LEAVING_OUT, r"\1", message))


def complaint(error: Problem | HypergraphError, *, can_take_over: bool = False) -> Problem:
    """Return the problem that an exception stands for, as a terminal says it.

    With `can_take_over`, the command that was refused has the option --force.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, WorkflowLockedError) and error.workflow_id is not None:
        ways = [f"{what}: {suggested(name, error.workflow_id)}" for name, what in _WAYS.items()]
        hint = "; ".join([*ways, "to take it over: --force"] if can_take_over else ways)
        return Problem(REFUSED, without_python_options(str(error)), hint)
    found = problem_of(error)
    found.message = as_command_line(found.message)
    return found


def pardoning(reasons: Iterable[str | None]) -> tuple[str, ...]:
    """Return the option without which what failed for these reasons, or errors, is not resumed."""
    return ("--force",) if any("CrashLoopError" in reason for reason in reasons if reason) else ()


_WAYS = {"watch": "To follow it", "cancel": "to stop it"}
