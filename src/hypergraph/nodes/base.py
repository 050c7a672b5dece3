"""HyperNode, the base class of all nodes, and renaming.

Nodes are immutable: `with_*` methods return copies. `inputs` and `outputs` hold current names; a node keeps
the history of its renames, so that an error message can show what became of a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, Self

from hypergraph.display import did_you_mean
from hypergraph.exceptions import RenameError
from hypergraph.nodes.names import require_name
from hypergraph.nodes.options import OnAmbiguous, OnWorkerLoss
from hypergraph.nodes.signature import sha256

RenameKind = Literal["name", "inputs", "outputs"]


class Frozen:
    """Refuse assignment, for nodes and graphs that are shared. A copy of an immutable object is itself."""

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


@dataclass(frozen=True, slots=True)
class RenameEntry:
    """Record one rename. Renames made in one call share a batch_id and happen at the same time."""

    kind: RenameKind  # "name", "inputs" or "outputs"
    old: str  # the name before
    new: str  # the name after
    batch_id: int  # the number of the call


class HyperNode:
    """Define what a graph needs to know of a node. Abstract: instantiating it raises TypeError."""

    abstract = True  # applies to the class that defines it, not to its subclasses
    name: str  # unique in its graph
    inputs: tuple[str, ...] = ()  # current names of the inputs
    outputs: tuple[str, ...] = ()  # current names of the outputs, emit names last
    wait_for: tuple[str, ...] = ()  # outputs of other nodes that must exist before it runs
    is_async = False  # whether its function is async
    is_generator = False  # whether its function is a generator
    is_interrupt = False  # whether it can pause a run
    append: tuple[str, ...] = ()  # outputs that are added to a list
    cache = False  # whether a runner with a cache keeps its results
    hide = False  # whether drawings leave it out
    persist = True  # whether its outputs are stored
    repeatable = True  # whether it may run again if a crash left its outcome unknown
    on_ambiguous: OnAmbiguous | None = None  # what to do if it may not
    stream = False  # whether what it gives to `NodeContext.stream` is kept in the store
    artifact: bool | None = None  # whether outputs go to the artifact store; None: by size
    on_worker_loss: OnWorkerLoss | None = None  # what to do when an executor loses its worker
    transaction = False  # whether its effects and its step are one commit
    node_type = "FUNCTION"  # "FUNCTION", "GRAPH" or "BRANCH"
    nested_graph: Any = None  # the inner graph of a GraphNode, None for other nodes
    _history: tuple[RenameEntry, ...] = ()

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        if "abstract" in cls.__dict__:
            raise TypeError(
                f"{cls.__name__} is abstract; use @node, @route, @ifelse, @interrupt or Graph.as_node()."
            )
        return super().__new__(cls)

    @property
    def definition_hash(self) -> str:
        """64 hex characters that identify the definition."""
        return sha256(type(self).__name__, self.name, *self.inputs, "->", *self.outputs)

    @cached_property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs that carry values: all except the emit names."""
        return self.outputs

    def has_default_for(self, param: str) -> bool:
        """Return whether the input has a default or a bound value."""
        return False

    def get_default_for(self, param: str) -> Any:
        """Return the default of an input. Raises KeyError without one."""
        raise KeyError(f"No default for {param!r}")

    def can_do_without(self, param: str) -> bool:
        """Return whether the node can run without a value for this input."""
        return self.has_default_for(param)

    def has_signature_default_for(self, param: str) -> bool:
        """Return whether the signature has a default; values bound to a graph do not count."""
        return self.has_default_for(param)

    def get_signature_default_for(self, param: str) -> Any:
        """Return the default in the signature. Raises KeyError without one."""
        return self.get_default_for(param)

    def get_input_type(self, param: str) -> Any:
        """Return the declared type of an input, None if unknown."""
        return None

    def get_output_type(self, output: str) -> Any:
        """Return the declared type of an output, None if unknown."""
        return None

    def map_inputs_to_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a dict keyed by current input names to one keyed by original parameter names."""
        return dict(values)

    @property
    def nx_attrs(self) -> dict[str, Any]:
        """The attributes of this node in networkx graphs."""
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
        """Return a copy with another name. Raises TypeError if the name is not a string."""
        entry = RenameEntry("name", self.name, require_name(name, "name"), len(self._history))
        return self._copy(name=name, _history=(*self._history, entry))

    def with_inputs(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> Self:
        """Return a copy with inputs renamed, `old="new"`.

        >>> @node(output_name="length")
        ... def measure(text):
        ...     return len(text)
        >>> measure.with_inputs(text="title").inputs
        ('title',)

        Raises RenameError for unknown inputs and for a rename that would repeat a name.
        """
        return self._renamed("inputs", {**(mapping or {}), **names})

    def with_outputs(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> Self:
        """Return a copy with outputs renamed, `old="new"`.

        Raises RenameError for unknown outputs and for a rename that would repeat a name.
        """
        return self._renamed("outputs", {**(mapping or {}), **names})

    def _renamed(self, kind: Literal["inputs", "outputs"], changes: dict[str, str]) -> Self:
        current: tuple[str, ...] = getattr(self, kind)
        for old, new in changes.items():
            if old not in current:
                hint = did_you_mean(old, current)
                raise RenameError(
                    f"{self._rename_chain(old, kind)}. {hint + ' ' if hint else ''}Current {kind}: {current}"
                )
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
        """Return further attributes that a rename changes; for subclasses."""
        return {}

    def _rename_chain(self, name: str, kind: str) -> str:
        """Describe the renames of a former name, or report that the name never existed."""
        chains: dict[str, list[str]] = {}  # current name -> all names it has had
        found: list[str] = []  # the chain of the last input or output that had this name
        renames = (entry for entry in self._history if entry.kind == kind)
        for _, batch in groupby(renames, key=lambda entry: entry.batch_id):
            moved = {entry: chains.pop(entry.old, [entry.old]) for entry in batch}
            for entry, chain in moved.items():
                chain.append(entry.new)
                chains[entry.new] = chain
                found = chain if entry.old == name else found
        if not found:
            return f"{name!r} not found"
        return f"{name!r} was renamed: {'→'.join(found[found.index(name) :])}"

    def _copy(self, **changes: Any) -> Self:
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone.__dict__.pop("data_outputs", None)  # computed once per node, from what a copy may change
        clone.__dict__.update(changes)
        return clone
