"""Valid workflow ids and tags."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from hypergraph.exceptions import InvalidWorkflowIdError

MAX_BYTES = 512
_UNPRINTABLE = {"Cc": "a control character", "Cs": "half of a surrogate pair"}


def check_workflow_id(workflow_id: object, *, child: bool = False) -> str:
    """Return the id; those of children are made by the runners, of "/" and names as long as they are.

    Raises:
        InvalidWorkflowIdError: it cannot be an id; the text says why.
    """
    wrong = _what_is_wrong(workflow_id, child)
    if wrong:
        shown = ascii(workflow_id)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise InvalidWorkflowIdError(
            f"{shown} cannot be a workflow id: it {wrong}. Use 1 to {MAX_BYTES} bytes of printable text.",
            workflow_id=workflow_id if isinstance(workflow_id, str) else None,
        )
    return str(workflow_id)


def _what_is_wrong(workflow_id: object, child: bool) -> str | None:
    if not isinstance(workflow_id, str):
        return f"is of type {type(workflow_id).__name__}, not str"
    if not workflow_id:
        return "is empty"
    if workflow_id.isascii() and workflow_id.isprintable():
        size = len(workflow_id)
    else:
        found = next((c for c in workflow_id if unicodedata.category(c) in _UNPRINTABLE), None)
        if found is not None:
            return f"contains {_UNPRINTABLE[unicodedata.category(found)]}, {found!a}"
        size = len(workflow_id.encode())
    if child:
        return None
    if workflow_id != workflow_id.strip():
        return "begins or ends with a blank"
    if "/" in workflow_id:
        return 'contains "/", which separates the ids of nested workflows'
    if size > MAX_BYTES:
        return f"has {size} bytes"
    return None


def moved(child: str, origin: str, workflow_id: str) -> str:
    """Return the id of a child of another workflow as that of the same child of this one."""
    return workflow_id + child.removeprefix(origin) if child.startswith(f"{origin}/") else child


def check_tags(tags: Any) -> Mapping[str, str]:
    """Return the tags.

    Raises:
        ValueError: they are not texts under names.
    """
    if isinstance(tags, Mapping) and all(isinstance(part, str) for pair in tags.items() for part in pair):
        return tags
    raise ValueError(f'tags must be a dict from text to text, as in {{"user": "ann"}}, got {tags!r}')


def changed(tags: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return tags after some were set, and those under None taken off."""
    after = {**tags, **changes}
    return {name: text for name, text in after.items() if text is not None}
