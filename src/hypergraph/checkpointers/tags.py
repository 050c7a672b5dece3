"""Tags of workflows: texts under names, which people and programs find workflows by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_tags(tags: Any) -> Mapping[str, str]:
    """Return the tags.

    Raises:
        ValueError: they are no texts under names.
    """
    if isinstance(tags, Mapping) and all(isinstance(part, str) for pair in tags.items() for part in pair):
        return tags
    raise ValueError(f'tags must be a dict from text to text, as in {{"user": "ann"}}, got {tags!r}')


def changed(tags: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return tags after some were set, and those under None taken off."""
    after = {**tags, **changes}
    return {name: text for name, text in after.items() if text is not None}
