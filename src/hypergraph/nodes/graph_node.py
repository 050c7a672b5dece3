"""GraphNode: a graph as a node of another graph.

Naming is flat: inner names appear in the parent unchanged unless renamed. `inputs[i]` corresponds to
`inner_inputs[i]`, `outputs[i]` to `inner_outputs[i]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, Self

from hypergraph.display import did_you_mean
from hypergraph.nodes.base import Frozen, HyperNode
from hypergraph.nodes.function import list_type
from hypergraph.nodes.names import Names, as_names, got, require_name
from hypergraph.nodes.signature import MISSING

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph

_ITEM_NAME = re.compile(r"item-\d+")
MapMode = Literal["zip", "product"]


class GraphNode(Frozen, HyperNode):
    """Run a whole graph as one node.

    >>> inner = Graph([FunctionNode(lambda words: len(words), "count", "total")], name="inner")
    >>> GraphNode(inner).inputs, GraphNode(inner).outputs
    (('words',), ('total',))

    Raises TypeError if `graph` is not a Graph or `remote` not a bool, ValueError for a missing or reserved
    name, an unknown durability, names to lift or append that are not outputs, or an atomic graph that is to
    run elsewhere.

    Args:
        graph: the inner graph
        name: the name of the node; by default that of the graph
        durability: "nested" stores inner steps as a child workflow, "atomic" stores a single step
        lift: the outputs that the parent receives, in this order; by default all
        append: the outputs that are added to the list of that name in the parent, each run's in turn
        remote: on a cluster, run the graph as a run of its own that any worker may take; elsewhere in place
    """

    node_type = "GRAPH"
    graph: Graph  # the inner graph
    nested_graph: Graph  # the same, as other nodes have none
    _indispensable: frozenset[str]
    durability: str
    remote: bool  # whether any worker of a cluster may run it
    inner_inputs: tuple[str, ...]  # the names of `inputs` in the inner graph
    inner_outputs: tuple[str, ...]  # the names of `outputs` in the inner graph
    map_config: tuple[list[str], str, str] | None  # inputs, mode and error handling of map_over
    clone: bool | list[str]  # which values map_over copies for each item
    _liftable: dict[str, str]  # current name of every output -> its inner name
    _appended: frozenset[str]  # inner names of the outputs that `append` named

    def __init__(
        self,
        graph: Graph,
        name: str | None = None,
        *,
        durability: Literal["nested", "atomic"] = "nested",
        lift: Names = None,
        append: Names = None,
        remote: bool = False,
    ) -> None:
        if not hasattr(graph, "wiring"):  # Graph belongs to a layer above
            raise TypeError(f"A GraphNode needs a Graph, got {got(graph)}")
        if durability not in ("nested", "atomic"):
            raise ValueError(f'durability must be "nested" or "atomic", got {durability!r}')
        if not isinstance(remote, bool):
            raise TypeError(f"remote must be a bool, got {got(remote)}")
        if remote and durability == "atomic":
            raise ValueError(
                'remote=True needs durability="nested": what runs on another worker has a history of its own.'
            )
        inputs, outputs = graph.inputs.all, graph.selected or graph.outputs
        self.__dict__.update(
            graph=graph,
            nested_graph=graph,
            name=_checked_name(graph.name if name is None else name, remote),
            inputs=inputs,
            inner_inputs=inputs,
            outputs=outputs,
            inner_outputs=outputs,
            durability=durability,
            remote=remote,
            map_config=None,
            clone=False,
            is_async=graph.has_async_nodes,
            _indispensable=graph.indispensable,
            _liftable=dict(zip(outputs, outputs, strict=True)),
            _appended=frozenset(() if append is None else as_names(append, "append")),
        )
        for output in self._appended.difference(graph.data_outputs) | self._appended.difference(outputs):
            hint = did_you_mean(output, outputs) or f"Outputs: {outputs}"
            raise ValueError(f"append={output!r} is not an output of {self.name!r}. {hint}")
        for param in inputs:
            self.has_default_for(param)  # fills the memo, so that deep nesting needs no recursion
        if lift is not None:
            self.__dict__.update(self.lift(*as_names(lift, "lift")).__dict__)

    @cached_property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs that carry values: all except inner emit names."""
        return tuple(
            o for o, i in zip(self.outputs, self.inner_outputs, strict=True) if i in self.graph.data_outputs
        )

    @property
    def append(self) -> tuple[str, ...]:  # type: ignore[override]  # follows from the inner graph
        """The outputs that are added to a list: those given as `append`, and lists that are also taken."""
        lists = self.graph.wiring.lists
        taken = dict(zip(self.inputs, self.inner_inputs, strict=True)) if lists else {}
        pairs = zip(self.outputs, self.inner_outputs, strict=True) if lists or self._appended else ()
        return tuple(
            outer
            for outer, inner in pairs
            if inner in self._appended or (inner in lists and taken.get(outer) == inner)
        )

    @property
    def emit(self) -> tuple[str, ...]:
        """The inner emit names, for `wait_for` in the parent."""
        return tuple(o for o in self.outputs if o not in self.data_outputs)

    def with_name(self, name: str) -> Self:
        """Return a copy with another name. Raises ValueError for a reserved name."""
        return super().with_name(_checked_name(name, self.remote))

    @property
    def definition_hash(self) -> str:
        """The hash of the inner graph."""
        return self.graph.definition_hash

    def lift(self, *names: str) -> Self:
        """Return a copy that passes only these outputs to the parent.

        Raises ValueError for unknown, repeated or missing names.
        """
        if not names:
            raise ValueError(f"lift() on {self.name!r} needs at least one output name.")
        if len(set(names)) < len(names):
            raise ValueError(f"lift() on {self.name!r} must not repeat a name, got {names}")
        for name in names:
            if name not in self._liftable:
                raise ValueError(
                    f"{name!r} is not an output of {self.name!r}. Outputs: {tuple(self._liftable)}"
                )
        return self._copy(outputs=names, inner_outputs=tuple(self._liftable[name] for name in names))

    def map_over(
        self,
        *params: str,
        mode: MapMode = "zip",
        error_handling: Literal["raise", "continue"] = "raise",
        clone: bool | list[str] = False,
    ) -> Self:
        """Return a copy that runs the inner graph once per item of these inputs.

        >>> words = Graph([FunctionNode(len, "measure", "length").with_inputs(obj="word")], name="words")
        >>> SyncRunner().run(Graph([words.as_node().map_over("word")]), word=["a", "tea"])["length"]
        [1, 3]

        Raises ValueError for unknown or missing names and modes, TypeError for an invalid `clone`.

        Args:
            params: names of the inputs that hold one value per item
            mode: "zip" pairs the items by position, "product" combines each with each
            error_handling: "raise" stops at the first failing item, "continue" puts None for its outputs
            clone: deep-copy other inputs for each item: True for all, or a list of names
        """
        if not params:
            raise ValueError(f"map_over on {self.name!r} needs at least one parameter.")
        for param in params:
            if isinstance(param, list | tuple):  # as runner.map takes them
                names = ", ".join(map(repr, param)) or '"name"'
                raise ValueError(f"map_over takes names one by one, not a list: map_over({names}).")
            if param not in self.inputs:
                hint = did_you_mean(param, self.inputs) or f"Inputs: {self.inputs}"
                raise ValueError(f"{param!r} is not an input of {self.name!r}. {hint}")
        if len(set(params)) < len(params):
            raise ValueError(f"map_over on {self.name!r} names an input twice: {', '.join(params)}.")
        if mode not in ("zip", "product"):
            raise ValueError(f'mode must be "zip" or "product", got {mode!r}')
        if error_handling not in ("raise", "continue"):
            raise ValueError(f'error_handling must be "raise" or "continue", got {error_handling!r}')
        config = (list(params), mode, error_handling)
        return self._copy(map_config=config, clone=checked_clone(clone, params, self.inputs))

    def with_graph(self, graph: Graph) -> Self:
        """Return a copy that runs another graph with the same inputs and outputs.

        Raises ValueError if its inputs differ, or an output of the node is missing.
        """
        lost = [name for name in self._liftable.values() if name not in graph.outputs]
        if set(graph.inputs.all) != set(self.inner_inputs) or lost:
            raise ValueError(
                f"The graph for node {self.name!r} has inputs {graph.inputs.all} "
                f"and outputs {graph.outputs}, the one it replaces {self.inner_inputs} "
                f"and {tuple(self._liftable.values())}"
            )
        changed = self._copy(
            graph=graph,
            nested_graph=graph,
            is_async=graph.has_async_nodes,
            _indispensable=graph.indispensable,
        )
        for param in self.inputs:
            changed.has_default_for(param)  # fills the memo, as for a new node
        return changed

    def with_names_inside(self, graph: Graph, names: Mapping[str, str]) -> Self:
        """Return a copy that runs the same graph, whose values have other names inside."""
        return self._copy(
            graph=graph,
            nested_graph=graph,
            inner_inputs=tuple(names.get(name, name) for name in self.inner_inputs),
            inner_outputs=tuple(names.get(name, name) for name in self.inner_outputs),
            _indispensable=graph.indispensable,
            _liftable={outer: names.get(inner, inner) for outer, inner in self._liftable.items()},
            _appended=frozenset(names.get(name, name) for name in self._appended),
        )

    @property
    def inner_map_params(self) -> list[str]:
        """The mapped parameters under their names in the inner graph."""
        return (
            [self.inner_inputs[self.inputs.index(p)] for p in self.map_config[0]] if self.map_config else []
        )

    @property
    def inner_clone(self) -> bool | list[str]:
        """The clone argument under inner names."""
        if isinstance(self.clone, bool):
            return self.clone
        return [self.inner_inputs[self.inputs.index(p)] for p in self.clone]

    def has_default_for(self, param: str) -> bool:
        """Return whether the input is bound inside, or an inner consumer has a default."""
        return self._inner_default(param) is not MISSING

    def get_default_for(self, param: str) -> Any:
        """Return the bound value or the first inner default. Raises KeyError without one."""
        return _require_default(param, self._inner_default(param))

    def can_do_without(self, param: str) -> bool:
        """Return whether the inner graph can run without this input; mapped inputs are always required."""
        mapped = self.map_config is not None and param in self.map_config[0]
        return param in self.inputs and not mapped and self._inner_input(param) not in self._indispensable

    def has_signature_default_for(self, param: str) -> bool:
        """Return whether every inner consumer has a default and no value is bound."""
        return self._inner_default(param, of_signature=True) is not MISSING

    def get_signature_default_for(self, param: str) -> Any:
        """Return the first inner signature default. Raises KeyError without one."""
        return _require_default(param, self._inner_default(param, of_signature=True))

    def _inner_default(self, param: str, *, of_signature: bool = False) -> Any:
        """Return a default or MISSING; kept in the memo of the inner graph, so that depth costs nothing."""
        inner = self._inner_input(param)
        known: dict[Any, Any] = self.graph.memo.setdefault("defaults", {})
        if (inner, of_signature) not in known:
            find = _inner_signature_default if of_signature else _inner_default_of
            known[inner, of_signature] = MISSING if inner is None else find(self.graph, inner)
        return known[inner, of_signature]

    def get_input_type(self, param: str) -> Any:
        """Return the type declared by the first inner consumer; list[type] for a mapped input."""
        inner = self._inner_input(param)
        consumers = self.graph.consumers_of(inner) if inner is not None else []
        declared = consumers[0].get_input_type(inner) if consumers else None
        if self.map_config and param in self.map_config[0] and declared is not None:
            return GenericAlias(list, (declared,))
        return declared

    @property
    def output_annotation(self) -> dict[str, Any]:
        """The declared type of each output, as far as the inner producers define it."""
        types = {name: self.get_output_type(name) for name in self.data_outputs}
        return {name: found for name, found in types.items() if found is not None}

    def get_output_type(self, output: str) -> Any:
        """Return the type of the inner producer; list[type] under map_over and of what is appended."""
        if output not in self.outputs:
            return None
        inner = self.inner_outputs[self.outputs.index(output)]
        declared = self.graph.producers_of(inner)[0].get_output_type(inner)
        if output in self.append:
            return declared if inner in self.graph.wiring.lists or declared is None else list_type(declared)
        if self.map_config is None:
            return declared
        return list if declared is None else GenericAlias(list, (declared,))

    def map_inputs_to_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a dict keyed by current input names to one keyed by inner names."""
        originals = dict(zip(self.inputs, self.inner_inputs, strict=True))
        return {originals.get(name, name): value for name, value in values.items()}

    def _inner_input(self, param: str) -> Any:
        return self.inner_inputs[self.inputs.index(param)] if param in self.inputs else None

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        if kind == "outputs":
            kept = {name: inner for name, inner in self._liftable.items() if name not in changes}
            return {"_liftable": kept | {new: self._liftable[old] for old, new in changes.items()}}
        after: dict[str, Any] = {}
        if self.map_config is not None:
            params, mode, errors = self.map_config
            after["map_config"] = ([changes.get(p, p) for p in params], mode, errors)
        if not isinstance(self.clone, bool):
            after["clone"] = [changes.get(p, p) for p in self.clone]
        return after

    def __repr__(self) -> str:
        mapped = f", map_over={self.map_config[0]}" if self.map_config else ""
        return f"GraphNode({self.name}, inputs={self.inputs}, outputs={self.outputs}{mapped})"


def checked_clone(clone: Any, mapped: Sequence[str], inputs: Sequence[str]) -> bool | list[str]:
    """Check a clone argument. Raises TypeError or ValueError."""
    if isinstance(clone, bool):
        return clone
    if not isinstance(clone, list):
        raise TypeError(f"clone must be bool or list, got {type(clone).__name__}")
    for name in clone:
        if not isinstance(name, str):
            raise TypeError(f"clone list entries must be strings, got {got(name)}")
        if name in mapped:
            raise ValueError(f"Cannot clone mapped parameter {name!r}: each item has its own value.")
        if name not in inputs:
            raise ValueError(f"Cannot clone {name!r}: not an input. Inputs: {tuple(inputs)}")
    return list(clone)


def _inner_default_of(graph: Graph, name: str) -> Any:
    if name in graph.inputs.bound:
        return graph.inputs.bound[name]
    having = (node for node in graph.consumers_of(name) if node.has_default_for(name))
    return next((node.get_default_for(name) for node in having), MISSING)


def _inner_signature_default(graph: Graph, name: str) -> Any:
    consumers = graph.consumers_of(name)
    if name in graph.inputs.bound or not all(node.has_signature_default_for(name) for node in consumers):
        return MISSING
    return consumers[0].get_signature_default_for(name)


def _require_default(param: str, default: Any) -> Any:
    if default is MISSING:
        raise KeyError(f"No default for {param!r}")
    return default


def _checked_name(name: str | None, remote: bool) -> str:
    if not name:
        raise ValueError("GraphNode requires a name: Graph(..., name=...) or as_node(name=...).")
    require_name(name, "name")
    for character in "./#":
        if character in name:
            raise ValueError(
                f"GraphNode name {name!r} cannot contain {character!r}, a separator in workflow ids."
            )
    if _ITEM_NAME.fullmatch(name):
        raise ValueError(f"GraphNode name {name!r} is reserved for items of a map; choose another name.")
    if remote and name.isdecimal():
        raise ValueError(f"GraphNode name {name!r} is that of an attempt of a submitted run; choose another.")
    return name
