"""The contract every node keeps: a name, inputs, outputs, and copies under other names.

Nodes never change. Names in `inputs` and `outputs` are always the current ones; a node remembers its
renames so that an error can show the way a name has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, Self

from hypergraph.exceptions import RenameError
from hypergraph.nodes.names import require_name
from hypergraph.nodes.options import OnAmbiguous, OnWorkerLoss
from hypergraph.nodes.signature import sha256

RenameKind = Literal["name", "inputs", "outputs"]


@dataclass(frozen=True, slots=True)
class RenameEntry:
    """One rename; those made in one call share a batch_id and happen at the same time."""

    kind: RenameKind  # what was renamed
    old: str  # the name before
    new: str  # the name since
    batch_id: int  # the number of the call


class HyperNode:
    """Be something a graph can contain. Abstract: instantiating it raises TypeError."""

    abstract = True  # holds for the very class that says so, not for its subclasses
    name: str  # what it is called in its graph
    inputs: tuple[str, ...] = ()  # current names of what it takes
    outputs: tuple[str, ...] = ()  # current names of what it makes, emit names last
    wait_for: tuple[str, ...] = ()  # outputs of others that must be there first
    is_async = False  # whether its function is async
    is_generator = False  # whether its function is a generator
    is_interrupt = False  # whether it may pause a run
    cache = False  # whether its results are remembered
    hide = False  # whether drawings leave it out
    persist = True  # whether its outputs are stored
    repeatable = True  # whether it may run again after a crash left open what it did
    on_ambiguous: OnAmbiguous | None = None  # what follows if it may not
    artifact: bool | None = None  # whether outputs are stored outside of the row; None: by size
    on_worker_loss: OnWorkerLoss | None = None  # what follows when an executor loses its worker
    node_type = "FUNCTION"  # "FUNCTION", "GRAPH" or "BRANCH"
    _history: tuple[RenameEntry, ...] = ()

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        if "abstract" in cls.__dict__:
            raise TypeError(
                f"{cls.__name__} is abstract; use @node, @route, @ifelse, @interrupt or Graph.as_node()."
            )
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

    def can_do_without(self, param: str) -> bool:
        """Say whether the node can run when nobody supplies this input."""
        return self.has_default_for(param)

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
        current: tuple[str, ...] = getattr(self, kind)
        for old, new in changes.items():
            if old not in current:
                raise RenameError(f"{self._fate_of(old, kind)}. Current {kind}: {current}")
            require_name(new, f"new name of {old!r}")
        renamed = tuple(changes.get(name, name) for name in current)
        repeated = sorted({name for name in renamed if renamed.count(name) > 1})
        if repeated:
            raise RenameError(
                f"Renaming {kind} of node {self.name!r} would give duplicate names: "
                f"{', '.join(map(repr, repeated))}. Current {kind}: {current}"
            )
        batch = len(self._history)
        entries = (RenameEntry(kind, old, new, batch) for old, new in changes.items() if old != new)
        return self._copy(
            **{kind: renamed}, **self._after_rename(kind, changes), _history=(*self._history, *entries)
        )

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        """Return what else changes together with renamed names; for subclasses."""
        return {}

    def _fate_of(self, name: str, kind: str) -> str:
        """Say what became of a name that is no longer there, or never was."""
        ways: dict[str, list[str]] = {}  # current name -> all names it has had
        lost: list[str] = []  # the way of whatever had this name last
        renames = (entry for entry in self._history if entry.kind == kind)
        for _, batch in groupby(renames, key=lambda entry: entry.batch_id):
            moved = {entry: ways.pop(entry.old, [entry.old]) for entry in batch}
            for entry, way in moved.items():
                way.append(entry.new)
                ways[entry.new] = way
                lost = way if entry.old == name else lost
        return (
            f"{name!r} was renamed: {'→'.join(lost[lost.index(name) :])}" if lost else f"{name!r} not found"
        )

    def _copy(self, **changes: Any) -> Self:
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.__dict__.update(changes)
        return clone


class Frozen:
    """Refuse assignment: nodes and graphs are shared, so nobody may change them.

    A copy of what cannot change is the thing itself.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__} is immutable: cannot set {name!r}. "
            "The with_* methods return changed copies."
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name!r}.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
