"""Plan of a graph: prepared calls, meaning of results, steps and their consumers."""

from __future__ import annotations

import copy
import enum
import numbers
import types
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from inspect import Parameter as Kinds
from operator import itemgetter
from typing import Any, Literal, NoReturn, Protocol

from hypergraph.exceptions import GraphConfigError
from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import scope_of
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.context import NodeContext, RunFacts
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.gate import END, GateNode, RouteNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.options import Replace
from hypergraph.nodes.signature import MISSING, Parameter
from hypergraph.nodes.timer import TimerNode
from hypergraph.scheduling import Part

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_IMMUTABLE = (type(None), int, float, str, bytes, type, enum.Enum, *_FUNCTIONS, numbers.Number)
_BY_POSITION = (Kinds.POSITIONAL_ONLY, Kinds.POSITIONAL_OR_KEYWORD)


class Call(Protocol):
    """A prepared call: everything it needs comes from the state and the run."""

    def __call__(self, values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any: ...


def is_immutable(value: Any) -> bool:
    """Say whether a value cannot change in place: numbers, text, functions, classes, tuples of such."""
    kind = type(value)  # not its __class__, which a proxy looks up, and may fail to
    if kind is not tuple and kind is not frozenset:
        return issubclass(kind, _IMMUTABLE)
    try:
        return all(map(is_immutable, value))
    except RecursionError:
        return False  # too deep to tell, and mutable is what costs nothing but a step


def takes_plain_positions(node: CallableNode) -> bool:
    """Say whether the function can be called with its inputs by position, straight from the state."""
    return not node.signature.by_keyword and all(
        p.kind in _BY_POSITION and p.default is MISSING and not p.is_context
        for p in node.signature.parameters
    )


def getter_of(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return what fetches several inputs as a tuple, None for fewer than two."""
    return itemgetter(*names) if len(names) > 1 else None


def takes_context_last(node: CallableNode) -> bool:
    """Say whether the function takes its inputs by position and, behind them, the context."""
    params = node.signature.parameters
    return (
        not node.signature.by_keyword
        and bool(node.inputs)
        and [p.is_context for p in params] == [False] * len(node.inputs) + [True]
        and all(p.kind in _BY_POSITION and p.default is MISSING for p in params)
    )


def prepare_call(
    node: CallableNode, other: Callable[..., Any] | None = None, lists: Collection[str] = ()
) -> Call:
    """Return the call of a function that needs more than plain positions, or of another in its place.

    Each call gets copies of `lists`, and empty ones for those to which nothing was added yet.
    """
    func = other or node.func
    names = dict(zip((p.name for p in node.params), node.inputs, strict=True))
    parts = [
        (p, names.get(p.name, ""), list if _starts_empty(p, names, lists) else _copier(node, p))
        for p in node.signature.parameters
    ]
    spread = any(p.kind is Kinds.VAR_POSITIONAL for p in node.signature.parameters)
    keywords = node.signature.by_keyword and not spread

    def call(values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for param, name, default in parts:
            if param.is_context:
                value: Any = NodeContext(run, node.name, superstep)
            elif name in values:
                value = list(values[name]) if name in lists else values[name]
            else:
                value = default()
            _place(param, value, args, kwargs, keywords)
        return func(*args, **kwargs)

    return call


def _starts_empty(param: Parameter, names: Mapping[str, str], lists: Collection[str]) -> bool:
    return names.get(param.name) in lists and param.default is MISSING


def _place(param: Parameter, value: Any, args: list[Any], kwargs: dict[str, Any], keywords: bool) -> None:
    if param.kind is Kinds.VAR_POSITIONAL:
        args.extend(value)
    elif param.kind is Kinds.VAR_KEYWORD:
        kwargs.update(value)
    elif param.kind is Kinds.KEYWORD_ONLY or (keywords and param.kind is not Kinds.POSITIONAL_ONLY):
        kwargs[param.name] = value
    else:
        args.append(value)


def _copier(node: CallableNode, param: Parameter) -> Callable[[], Any]:
    """Return what makes the default of a parameter: a copy per call where it could be changed."""
    default = param.default
    if is_immutable(default):
        return lambda: default

    def fresh() -> Any:
        try:
            return copy.deepcopy(default)
        except Exception as error:
            raise GraphConfigError(
                f"The default of {param.name!r} in node {node.name!r} cannot be safely copied "
                f"({type(error).__name__}: {error}), and each call needs a copy of its own.\n"
                f"How to fix: graph.bind({param.name}=...) shares one object between all calls. Or use None "
                "as the default, and create the object in the function."
            ) from error

    return fresh


def inputs_of(step: Step, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the node would take from this state, by current input names."""
    node, found = step.node, {}
    for name in node.inputs:
        if name in values:
            found[name] = values[name]
    if len(found) < len(node.inputs):
        found |= {name: default for name, default in node.defaults.items() if name not in found}
    if step.lists:
        found |= {name: list(found.get(name, ())) for name in step.lists}
    return found


Names = tuple[str, ...]
ABSENT: Any = type("ABSENT", (), {"__repr__": lambda self: "<absent>"})()  # an output that was not produced
NO_ANSWER: Any = object()  # what a handler that returned None says


def decider(gate: GateNode) -> Callable[[Any], Any]:
    """Return what turns the result of a gate into its decision, quickly for the usual result."""
    if gate.multi_target or not isinstance(gate, RouteNode):
        return gate.decide
    decide, targets = gate.decide, frozenset(gate.targets)

    def resolve(result: Any) -> Any:
        return result if (type(result) is str or result is END) and result in targets else decide(result)

    return resolve


def drop(result: Any) -> tuple[()]:
    """Return nothing: whatever a node without outputs returns is not wanted."""
    return ()


def refuse_replace(name: str, output: str) -> NoReturn:
    """Raise TypeError for a Replace where nothing is appended."""
    raise TypeError(
        f"Node {name!r} returned Replace for {output!r}, which is not appended. Return the value itself, "
        f"or declare the node with append={output!r}."
    )


_HOLDERS = (list, tuple, Replace)


def refuse_replace_inside(name: str, output: str, result: Any, *, is_generator: bool = False) -> None:
    """Raise TypeError for a Replace among the items that are appended: it would become one of them."""
    items = result.items if isinstance(result, Replace) else result
    if isinstance(items, (list, tuple)) and Replace in map(type, items):
        how, plain = ("yielded", ", from a function without yield") if is_generator else ("returned", "")
        raise TypeError(
            f"Node {name!r} {how} Replace among the items of {output!r}, and would add it as an item. "
            f"Return Replace(items) alone{plain}, with all items that the list then consists of."
        )


def appender(node: FunctionNode, unpack: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return what turns the result of a node that appends into its values; it raises TypeError."""
    refuse = partial(refuse_replace_inside, node.name, is_generator=node.is_generator)
    places = [(node.data_outputs.index(name), name) for name in node.append]
    output = node.data_outputs[0]

    def one(result: Any) -> Any:
        if isinstance(result, _HOLDERS):
            refuse(output, result)
        return result

    def several(result: Any) -> Any:
        found = result if unpack is None else unpack(result)
        for place, name in places:
            if isinstance(found[place], _HOLDERS):
                refuse(name, found[place])
        return found

    return one if unpack is None else several


def unpacker(
    name: str, outputs: Names, originals: Names, appends: Collection[str] = ()
) -> Callable[[Any], Any]:
    """Return what turns the result of a node with several outputs into their values, in order.

    A dict may use the names the outputs have now, or those they had when the function was written. The
    returned function raises TypeError or ValueError naming the node.
    """
    wanted = len(outputs)

    def unpack(result: Any) -> Any:
        found = in_order(result)
        for value in found:
            if type(value) is Replace:
                for output, made in zip(outputs, found, strict=True):
                    if type(made) is Replace and output not in appends:
                        refuse_replace(name, output)
        return found

    def in_order(result: Any) -> Any:
        if type(result) is tuple or type(result) is list:
            if len(result) == wanted:
                return result
        elif isinstance(result, dict):
            if (named := _by_name(result, outputs, originals)) is not None:
                return named
            raise ValueError(
                f"Node {name!r} returned a dict with keys {list(result)}; its outputs are {outputs}."
            )
        elif result is None:
            raise TypeError(
                f"Node {name!r} returned None; expected {wanted} values, one for each of {outputs}. "
                f"Add a return statement: return {', '.join(outputs)}."
            )
        elif isinstance(result, (str, bytes, bytearray, set, frozenset)) or not hasattr(result, "__len__"):
            raise TypeError(
                f"Node {name!r} returned {type(result).__name__}; expected {wanted} values, one for each of "
                f"{outputs}. Return them as a tuple, or change its output_name."
            )
        if len(result) != wanted:
            raise ValueError(
                f"Node {name!r} returned {len(result)} values; expected {wanted}, one for each of {outputs}. "
                "Change its output_name or its return statement."
            )
        return tuple(result)

    return unpack


def _by_name(result: dict[Any, Any], outputs: Names, originals: Names) -> tuple[Any, ...] | None:
    for names in (originals, outputs):  # where both fit, after a swap of names, the function means its own
        if result.keys() == set(names):
            return tuple(result[name] for name in names)
    return None


def answer_reader(name: str, outputs: Names, originals: Names) -> Callable[[Any], Any]:
    """Return what turns the result of an interrupt's handler into values, or NO_ANSWER.

    The returned function raises ValueError naming the node.
    """

    def read(result: Any) -> Any:
        if result is None:
            return NO_ANSWER
        if len(outputs) == 1:
            return result
        if not isinstance(result, dict):
            return (result, *(ABSENT for _ in outputs[1:]))
        if (named := _by_name(result, outputs, originals)) is not None:
            return named
        missing, extra = sorted(set(outputs) - set(result)), sorted(set(result) - set(outputs), key=str)
        raise ValueError(
            f"Interrupt {name!r}: its handler must return exactly {outputs}; "
            f"missing: {missing}, extra: {extra}"
        )

    return read


Kind = Literal["function", "gate", "interrupt", "graph"]


class Step:
    """One node, prepared: how to call it and what it writes; `signals` are given when it is done."""

    __slots__ = (
        "appends",
        "arg",
        "call",
        "direct",
        "func",
        "getter",
        "index",
        "inward",
        "is_async",
        "is_gate",
        "kind",
        "lists",
        "name",
        "node",
        "output",
        "outputs",
        "plain",
        "resolve",
        "seen",
        "sees",
        "signals",
        "suspends",
        "target_index",
        "wait_for",
    )

    kind: Kind
    arg: str | None
    getter: Callable[[Any], Any] | None
    seen: str | None  # the only input of a function that takes the context behind it,
    sees: Callable[[Any], Any] | None  # or all of them
    call: Call | None
    resolve: Callable[[Any], Any] | None
    func: Callable[..., Any]

    def __init__(self, index: int, node: HyperNode) -> None:
        self.index = index
        self.node: Any = node
        self.name = node.name
        self.kind = _kind_of(node)
        self.is_gate = self.kind == "gate"
        self.is_async = node.is_async
        self.outputs = node.data_outputs
        self.output = self.outputs[0] if len(self.outputs) == 1 else None
        self.wait_for: tuple[str, ...] = node.wait_for
        self.signals: tuple[str, ...] = tuple(o for o in node.outputs if o not in node.data_outputs)
        self.target_index: dict[str, int] = {}
        self.appends: frozenset[str] = frozenset(node.append)  # outputs that are added to a list
        self.lists: frozenset[str] = frozenset()  # inputs that are such lists
        self.inward: frozenset[str] = frozenset()  # what goes round inside a nested graph
        self.arg = self.getter = self.call = self.resolve = None
        self.seen = self.sees = None
        self.plain = self.direct = False
        # Other steps need not wait for a timer, or until the next attempt.
        waits = isinstance(node, TimerNode) or getattr(node, "retry", None) is not None
        self.suspends = node.is_async or self.kind == "graph" or waits
        if isinstance(node, CallableNode):
            self._prepare(node)

    def _prepare(self, node: CallableNode) -> None:
        self.func = node.func
        if takes_plain_positions(node) and node.inputs:
            self.arg = node.inputs[0] if len(node.inputs) == 1 else None
            self.getter = getter_of(node.inputs)
        else:
            self.call = prepare_call(node)
            if takes_context_last(node):
                self.seen = node.inputs[0] if len(node.inputs) == 1 else None
                self.sees = getter_of(node.inputs)
        if isinstance(node, GateNode):
            self.resolve = decider(node)
            self.plain = not (node.cache or node.retry or node.timeout)
        elif isinstance(node, FunctionNode) and node.is_interrupt:
            self.resolve = answer_reader(node.name, self.outputs, node.original_outputs)
        elif isinstance(node, FunctionNode):
            if not self.outputs:
                self.resolve = drop
            elif len(self.outputs) > 1:
                self.resolve = unpacker(node.name, self.outputs, node.original_outputs, self.appends)
            if self.appends:
                self.resolve = appender(node, self.resolve)
            special = node.cache or node.retry or node.timeout or node.offload or node.is_generator
            self.direct = node.transaction and not special
            special = special or node.transaction
            self.plain = not special and node.repeatable and not self.appends
            self.suspends = self.suspends or node.offload

    def take_lists(self, names: Collection[str]) -> None:
        """Let each call have a copy of these inputs, to which nodes append."""
        self.lists = frozenset(names)
        if isinstance(self.node, CallableNode):
            self.arg = self.getter = self.seen = self.sees = None
            self.call = prepare_call(self.node, lists=self.lists)

    def invoke(self, values: Mapping[str, Any], run: RunFacts, superstep: int) -> Any:
        """Call the function with what the state holds."""
        if self.arg is not None:
            return self.func(values[self.arg])
        if self.getter is not None:
            return self.func(*self.getter(values))
        if self.seen is not None:
            return self.func(values[self.seen], NodeContext(run, self.name, superstep))
        if self.sees is not None:
            return self.func(*self.sees(values), NodeContext(run, self.name, superstep))
        return self.call(values, run, superstep)  # type: ignore[misc]  # one of the three is set

    def __repr__(self) -> str:
        return f"Step({self.index}, {self.name!r})"


def _kind_of(node: HyperNode) -> Kind:
    if isinstance(node, GraphNode):
        return "graph"
    if isinstance(node, GateNode):
        return "gate"
    if isinstance(node, FunctionNode):
        return "interrupt" if node.is_interrupt else "function"
    raise TypeError(
        f"Node {node.name!r} is of the unknown class {type(node).__name__}; runners cannot execute it."
    )


class Plan:
    """The steps of a graph and what can be said about its course before any run."""

    def __init__(self, graph: Graph) -> None:
        wiring = graph.wiring
        self.wiring = wiring
        self.steps = [Step(index, node) for index, node in enumerate(wiring.nodes.values())]
        self.index = {step.name: step.index for step in self.steps}
        self.scope = frozenset(scope_of(wiring, graph.entrypoints_config, None))
        self._link_orders(wiring)
        self.lists = wiring.lists
        for step in self.steps if wiring.lists else ():
            if taken := wiring.lists.intersection(step.node.inputs):
                step.take_lists(taken)
        for name, gate in wiring.gates.items():
            self.steps[self.index[name]].target_index = {t: self.index[t] for t in gate.target_names}
        for step in self.steps:
            if isinstance(step.node, GraphNode):
                step.inward = _inward(step.node, wiring)
        asks = [s for s in self.steps if s.kind == "interrupt" or _nested_asks(s.node)]
        self.has_interrupts = bool(asks)
        self.has_cycles = bool(wiring.cycles)
        unsure = [step for step in self.steps if step.kind == "graph" and not _always_delivers(step.node)]
        away = [step for step in self.steps if step.kind == "graph" and _leaves(step.node)]
        self.leaves = bool(away)  # whether a graph inside may run on another worker, for which a run pauses
        self.uncertain = {step.index for step in (*asks, *unsure, *away)}  # may not make all outputs, or ask
        self.fixed = not (
            self.uncertain or self.has_cycles or wiring.gates or wiring.lists or _contested(wiring)
        )
        self.suspends = any(step.suspends for step in self.steps)

    @cached_property
    def accumulated(self) -> frozenset[str]:
        """The names that a turn remembers even if they were never given."""
        asked = {name for step in self.steps if step.kind == "interrupt" for name in step.outputs}
        taken = ((step, name) for step in self.steps for name in step.outputs if name in step.node.inputs)
        return self.lists.union(name for step, name in taken if name not in step.inward) - asked

    @cached_property
    def shared(self) -> frozenset[str]:
        """The names that all items of a map take, and of which the map alone makes a list."""
        return frozenset(
            name for step in self.steps for name in step.inward if _is_shared(step.node, name, self.wiring)
        )

    def could_overlap(self, offloaded: bool) -> bool:
        """Say whether there is anything to wait for, so that something else could run meanwhile."""
        return len(self.steps) > 1 and (offloaded or self.suspends)

    def parts(self, stand_ins: Collection[str]) -> list[Part]:
        """Return the steps as the scheduler sees them; `stand_ins` are names that something is bound to."""
        return [self._part(step, stand_ins) for step in self.steps]

    def _part(self, step: Step, stand_ins: Collection[str]) -> Part:
        node, wiring = step.node, self.wiring
        return Part(
            name=step.name,
            takes=node.inputs,
            makes=step.outputs,
            emits=step.signals,
            waits=step.wait_for,
            feeders={name: tuple(wiring.feeders(step.name, name)) for name in node.inputs},
            optional=frozenset(n for n in node.inputs if n in stand_ins or node.can_do_without(n)),
            bound=frozenset(n for n in node.inputs if n in stand_ins),
            appends=step.appends,
            targets=node.target_names if step.is_gate else None,
            default_open=not step.is_gate or node.default_open,
        )

    def _link_orders(self, wiring: Wiring) -> None:
        scope = self.scope
        for step in self.steps:
            step.wait_for = tuple(n for n in step.wait_for if not scope.isdisjoint(wiring.producers[n]))
        for edge in wiring.edges:
            if edge.edge_type == "ordering" and not edge.value_names and edge.source in scope:
                marker = f"<{edge.source}>"  # no identifier, so it cannot meet a name of the user's
                source, target = self.steps[self.index[edge.source]], self.steps[self.index[edge.target]]
                source.signals = tuple(dict.fromkeys((*source.signals, marker)))
                target.wait_for = (*target.wait_for, marker)


def _contested(wiring: Wiring) -> set[str]:
    """Return the names with several sources: producers, or given values beside an undeclared producer."""
    return {
        name
        for name, producers in wiring.data_producers.items()
        if len(producers) > 1 or any(not wiring.feeders(c, name) for c in wiring.consumers.get(name, ()))
    }


def _inward(node: GraphNode, wiring: Wiring) -> frozenset[str]:
    """Return inputs with which a loop inside could begin, but need not, and that only the node itself makes.

    Each execution of a nested graph is a fresh run: it does not begin where the last one ended. A map makes a
    list of what each of its items takes: that is none of the values that it takes.
    """
    spec = node.graph.inputs
    plain = {*spec.required, *spec.optional}
    inner = dict(zip(node.inputs, node.inner_inputs, strict=True))
    return frozenset(
        name
        for name in node.inputs
        if name in node.outputs
        and (_is_shared(node, name, wiring) or (inner[name] not in plain and node.can_do_without(name)))
        and {node.name}.issuperset(wiring.feeders(node.name, name))
    )


def _is_shared(node: GraphNode, name: str, wiring: Wiring) -> bool:
    """Say whether all items of a map take the same value of an input."""
    return node.map_config is not None and name not in node.map_config[0] and name not in wiring.lists


def _nested_asks(node: Any) -> bool:
    return node.nested_graph is not None and node.nested_graph.has_interrupts


def _leaves(node: GraphNode) -> bool:
    return node.remote or plan_of(node.graph).leaves


def _always_delivers(node: GraphNode) -> bool:
    """Say whether every output of a nested graph exists whenever it completes."""
    return node.map_config is not None or (
        node.graph.entrypoints_config is None and plan_of(node.graph).fixed
    )


def plan_of(graph: Graph) -> Plan:
    """Return the plan of a graph, compiled on first use. Raises TypeError for unknown node classes."""
    plans: dict[Any, Plan] = graph.wiring.memo.setdefault("plans", {})
    if graph.entrypoints_config not in plans:
        plans[graph.entrypoints_config] = Plan(graph)
    return plans[graph.entrypoints_config]


def answer_names(graph: Graph) -> frozenset[str]:
    """Return the names under which answers to interrupts may be given, nested ones by their lifted names."""
    if "answers" not in graph.memo:
        found: set[str] = set()
        scope = scope_of(graph.wiring, graph.entrypoints_config, None) if graph.has_interrupts else ()
        for node in map(graph.wiring.nodes.__getitem__, scope):
            if node.is_interrupt:
                found.update(node.data_outputs)
            elif lifts_answers(node):
                inner = answer_names(node.nested_graph)
                found.update(o for o, i in zip(node.outputs, node.inner_outputs, strict=True) if i in inner)  # type: ignore[attr-defined]  # a node with a nested graph is a GraphNode
        graph.memo["answers"] = frozenset(found)
    return graph.memo["answers"]  # type: ignore[no-any-return]  # set three lines above


def lifts_answers(node: HyperNode) -> bool:
    """Say whether outputs of a node may answer questions inside it: not where each item has its own."""
    inner = node.nested_graph
    return inner is not None and inner.has_interrupts and getattr(node, "map_config", None) is None


def graph_inside(around: Graph, node: Any) -> Graph:
    """Return the graph of a GraphNode with the bindings of the graph around it.

    Inputs that are mapped over are not bound: each item has its own value.
    """
    known: dict[str, Graph] = around.memo.setdefault("inside", {})
    if node.name not in known:
        bound = node.map_inputs_to_params({n: v for n, v in around.bound.items() if n in node.inputs})
        mapped = node.inner_map_params if node.map_config is not None else ()
        shared = {name: value for name, value in bound.items() if name not in mapped}
        if lifts_answers(node):
            outer, answers = around.bound, answer_names(node.graph)
            pairs = zip(node.outputs, node.inner_outputs, strict=True)
            shared |= {inner: outer[name] for name, inner in pairs if name in outer and inner in answers}
        known[node.name] = node.graph.bind(**shared) if shared else node.graph
    return known[node.name]
