"""Pickles that know their classes: members of an Enum by name, and the version and fields of each class.

A pickle alone sets the fields that it has, whatever they mean by now, and finds a member by its value.
"""

from __future__ import annotations

import enum
import io
import json
import pickle
from collections.abc import Mapping
from typing import Any

from hypergraph.values.classes import form_of, kind_of, name_of

_PROTOCOL = 5  # pinned, so that a newer Python's default does not empty every cache
_SIZE_BYTES = 4  # of the length of what stands before the pickle


def member_of(cls: type[Any], parts: Mapping[str, Any]) -> Any:
    """Return a member of an Enum by its name. Raises ValueError for one that is not there any more."""
    kind = kind_of(cls)
    if kind is None or kind.shape != "member":
        raise ValueError(f"{name_of(cls)} is not an Enum any more")
    return kind.from_parts(**parts)


class _Pickler(pickle.Pickler):
    """Write members of an Enum by name, and keep the forms of the classes that the pickle names."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)
        self.forms: dict[str, str] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how a member is made; classes are looked at and written as usual."""
        if isinstance(value, type):
            if form := form_of(value):
                self.forms[name_of(value)] = form
        elif isinstance(value, enum.Enum):
            kind = kind_of(type(value))
            try:
                return NotImplemented if kind is None else (member_of, (type(value), kind.to_parts(value)))
            except TypeError:  # not a member of its class: its own way to be pickled may know what it is
                return NotImplemented
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Refuse a class that has another form than when the pickle was made."""

    def __init__(self, file: io.BytesIO, forms: Mapping[str, str]) -> None:
        super().__init__(file)
        self._forms = forms

    def find_class(self, module: str, name: str) -> Any:
        """Return what the pickle names. Raises ValueError for a class of another form."""
        found = super().find_class(module, name)
        if isinstance(found, type) and form_of(found) != self._forms.get(name_of(found), ""):
            raise ValueError(f"the class {name_of(found)} has another version, or other fields, by now")
        return found


def pickled(value: Any) -> tuple[bytes, dict[str, str]]:
    """Return a value as a pickle, and the forms of its classes. Raises what pickle raises."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.forms


def dumped(value: Any) -> bytes:
    """Return a value as bytes, with the forms of its classes. Raises what pickle raises."""
    data, known = pickled(value)
    forms = json.dumps(known).encode()
    return b"".join((len(forms).to_bytes(_SIZE_BYTES), forms, data))


def loaded(data: bytes | memoryview) -> Any:
    """Return the value of these bytes, which must be trusted: a pickle can call anything.

    Raises ValueError if a class has another form by now, and what pickle raises.
    """
    view = memoryview(data)
    start = _SIZE_BYTES + int.from_bytes(view[:_SIZE_BYTES])
    forms = json.loads(bytes(view[_SIZE_BYTES:start]))
    return _Unpickler(io.BytesIO(view[start:]), forms).load()
