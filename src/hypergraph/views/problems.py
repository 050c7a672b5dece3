"""Errors of answers: a message and a hint for people, a code for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypergraph.exceptions import CheckpointError, HypergraphError, InvalidWorkflowIdError, WorkflowError

NOT_FOUND, AMBIGUOUS, USAGE, STORE, REFUSED = "not_found", "ambiguous", "usage", "store", "refused"


class Problem(Exception):
    """A query that has no answer, or a request that is refused.

    `code` is one of the constants above, `hint` says what to do next, `matches` lists candidates.
    """

    def __init__(self, code: str, message: str, hint: str = "", matches: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.matches = tuple(matches)

    def to_dict(self) -> dict[str, object]:
        """Return the document that replaces an answer."""
        about: dict[str, object] = {"code": self.code, "message": self.message, "hint": self.hint}
        return {"error": {**about, "matches": list(self.matches)} if self.matches else about}


def without_python_options(message: str) -> str:
    """Return a message without the sentences that name options of Python calls, like `force=True`."""
    parts = re.split(r"(?<=[.;]) ", message)
    kept = [part for part in parts if not re.search(r"\b\w+=(True|\"\w+\")", part)]
    return re.sub(";$", ".", " ".join(kept)) or message


def problem_of(error: Problem | HypergraphError) -> Problem:
    """Return the problem that an exception of this package stands for."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, WorkflowError):
        return Problem(USAGE if isinstance(error, InvalidWorkflowIdError) else REFUSED, str(error))
    if isinstance(error, CheckpointError):
        return Problem(STORE, str(error))
    return Problem(USAGE, f"{type(error).__name__}: {error}")
