"""Values that a call is given again, and that are known to be stored: they need not be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from hypergraph.checkpointers.records import Payload

if TYPE_CHECKING:
    from hypergraph.values.serializers import Serializer  # a list of runs needs none

Form = tuple[int, int, int]


class Recognised:
    """The given values of one call that would be stored as the bytes that are stored.

    Of bytes only sums are kept: a map has many items.
    """

    def __init__(self) -> None:
        self._forms: dict[int, tuple[Any, Serializer, Form]] = {}  # by the id of the value
        self.rows: dict[tuple[object, ...], tuple[Any]] = {}  # the values, by where they are stored

    def form_of(self, value: Any, serializer: Serializer) -> Form:
        """Return the sums of the bytes that a value is stored as. Raises TypeError if it cannot be stored."""
        kept, by, form = self._forms.get(id(value), (None, None, None))
        if form is None or kept is not value or by is not serializer:
            form = _sums_of(serializer.without_types().serialize(value))
            self._forms[id(value)] = value, serializer, form  # its id stays its own while it is kept
        return form

    def is_stored_as(self, raw: bytes, value: Any, serializer: Serializer) -> bool:
        """Say whether a value would be stored as these bytes. Raises TypeError if it cannot be stored."""
        return self.form_of(value, serializer) == _sums_of(raw)

    def forget_forms(self) -> None:
        """Forget what given values look like: nodes may change them from here on."""
        self._forms.clear()

    def add(self, workflow_id: str, payload: Payload, value: Any) -> None:
        """Take a given value for a stored one."""
        self.rows[_place(workflow_id, payload)] = (value,)

    def get(self, workflow_id: str, payload: Payload) -> tuple[Any] | None:
        """Return the given value that is stored there, None if it is not known to be one."""
        return self.rows.get(_place(workflow_id, payload))


def _sums_of(raw: bytes) -> Form:
    """Return what tells bytes from others."""
    return len(raw), crc32(raw), hash(raw)


def _place(workflow_id: str, payload: Payload) -> tuple[object, ...]:
    length = -1 if payload.data is None else len(payload.data)
    return workflow_id, *payload[:4], length, payload.superstep, payload.idx
