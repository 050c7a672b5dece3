"""The contract every node keeps: a name, inputs, outputs, and copies under other names.

Nodes never change. Names in `inputs` and `outputs` are always the current ones; a node remembers its
renames so that an error can show the way a name has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from hypergraph.exceptions import RenameError
from hypergraph.nodes.fingerprint import sha256

RenameKind = Literal["name", "inputs", "outputs"]


@dataclass(frozen=True, slots=True)
class RenameEntry:
    """One rename; those made in one call share a batch_id and happen at the same time."""

    kind: RenameKind
    old: str
    new: str
    batch_id: int


class HyperNode:
    """Be something a graph can contain. Abstract: instantiating it raises TypeError."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    wait_for: tuple[str, ...] = ()
    is_async = False
    is_generator = False
    is_interrupt = False
    cache = False
    hide = False
    node_type = "FUNCTION"
    _history: tuple[RenameEntry, ...] = ()

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        if cls is HyperNode:
            raise TypeError("HyperNode is abstract; use @node, @route, @ifelse, @interrupt or Graph.as_node().")
        return super().__new__(cls)

    @property
    def definition_hash(self) -> str:
        """64 hex characters that tell definitions apart."""
        return sha256(type(self).__name__, self.name, *self.inputs, "->", *self.outputs)

    @property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs that carry values: all but the emit names."""
        return self.outputs

    @property
    def nested_graph(self) -> Any:
        """The inner graph of a GraphNode, None for all others."""
        return None

    def has_default_for(self, param: str) -> bool:
        """Say whether the node can do without this input."""
        return False

    def get_default_for(self, param: str) -> Any:
        """Return the default of an input. Raises KeyError when it has none."""
        raise KeyError(f"No default for {param!r}")

    def has_signature_default_for(self, param: str) -> bool:
        """Say whether the signature itself has a default; values bound to a graph do not count."""
        return self.has_default_for(param)

    def get_signature_default_for(self, param: str) -> Any:
        """Return the signature's default of an input. Raises KeyError when it has none."""
        return self.get_default_for(param)

    def get_input_type(self, param: str) -> Any:
        """Return the declared type of an input, None when unknown."""
        return None

    def get_output_type(self, output: str) -> Any:
        """Return the declared type of an output, None when unknown."""
        return None

    def map_inputs_to_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a dict keyed by current input names to one keyed by original parameter names."""
        return dict(values)

    @property
    def nx_attrs(self) -> dict[str, Any]:
        """The attributes under which networkx and drawings know this node."""
        return {
            "node_type": self.node_type,
            "label": self.name,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "data_outputs": self.data_outputs,
            "wait_for": self.wait_for,
            "input_types": {name: self.get_input_type(name) for name in self.inputs},
            "output_types": {name: self.get_output_type(name) for name in self.data_outputs},
            "has_defaults": {name: self.has_default_for(name) for name in self.inputs},
            "hide": self.hide,
        }

    def with_name(self, name: str) -> Self:
        """Return a copy under another name. Raises TypeError for a name that is no text."""
        entry = RenameEntry("name", self.name, require_name(name, "name"), len(self._history))
        return self._copy(name=name, _history=(*self._history, entry))

    def with_inputs(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> Self:
        """Return a copy with inputs renamed, old name to new. Raises RenameError."""
        return self._renamed("inputs", {**(mapping or {}), **names})

    def with_outputs(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> Self:
        """Return a copy with outputs renamed, old name to new. Raises RenameError."""
        return self._renamed("outputs", {**(mapping or {}), **names})

    def _renamed(self, kind: Literal["inputs", "outputs"], changes: dict[str, str]) -> Self:
        current = self.inputs if kind == "inputs" else self.outputs
        for old in changes:
            if old not in current:
                raise RenameError(self._unknown_name(kind, old, current))
        batch = len(self._history)
        entries = tuple(
            RenameEntry(kind, old, require_name(new, f"new name of {old!r}"), batch) for old, new in changes.items()
        )
        renamed = tuple(changes.get(name, name) for name in current)
        repeated = sorted({name for name in renamed if renamed.count(name) > 1})
        if repeated:
            raise RenameError(
                f"Renaming {kind} of node {self.name!r} would give duplicate names: {', '.join(map(repr, repeated))}. "
                f"Current {kind}: {current}"
            )
        return self._copy(**{kind: renamed}, **self._after_rename(kind, changes), _history=self._history + entries)

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        """Return what else changes together with renamed names; for subclasses."""
        return {}

    def _unknown_name(self, kind: str, name: str, current: tuple[str, ...]) -> str:
        chain, batch = [name], -1
        for entry in self._history:
            if entry.kind == kind and entry.old == chain[-1] and entry.batch_id != batch:
                chain.append(entry.new)
                batch = entry.batch_id
        what = f"{name!r} was renamed: {'→'.join(chain)}" if len(chain) > 1 else f"{name!r} not found"
        return f"{what}. Current {kind}: {current}"

    def _copy(self, **changes: Any) -> Self:
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.__dict__.update(changes)
        return clone


def require_name(value: Any, what: str) -> str:
    """Return the value if it is text. Raises TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, got {type(value).__name__} {value!r}")
    return value


def as_names(value: str | tuple[str, ...] | list[str] | None, what: str) -> tuple[str, ...]:
    """Turn None, a name or several names into a tuple. Raises TypeError or, for repeats, ValueError."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{what} must be a string or a tuple of strings, got {type(value).__name__} {value!r}")
    names = tuple(require_name(name, f"each name in {what}") for name in value)
    if len(set(names)) < len(names):
        raise ValueError(f"{what} names must be different from each other, got {names}")
    return names


class Frozen:
    """Refuse assignment: nodes and graphs are shared, so nobody may change them."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__} is immutable: cannot set {name!r}. The with_* methods return changed copies."
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name!r}.")
