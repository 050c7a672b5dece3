"""Admission of a call: given names checked against the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from operator import itemgetter
from typing import Any

from hypergraph.answers import converted
from hypergraph.display import closest, did_you_mean, finding
from hypergraph.engine.plan import Plan, Step, answer_names, graph_inside, lifts_answers, plan_of
from hypergraph.exceptions import GraphConfigError, MissingInputError, ValueUnreadableError, warn_caller
from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import (
    InputSpec,
    bypassed,
    compute_input_spec,
    consumed_outputs,
    cycles_in,
    entry_needs,
    scope_of,
    starts_alone,
)
from hypergraph.graph.rivals import rivals
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.names import got
from hypergraph.scheduling import Ambiguity, Layout, Part, bits
from hypergraph.values.undecodable import Undecodable


@dataclass(frozen=True, slots=True)
class Request:
    """The names of one call beside the graph they are for; values play no part."""

    graph: Graph
    spec: InputSpec
    active: tuple[str, ...]  # the nodes that may run, in graph order
    scope: frozenset[str]  # the same as a set
    names: frozenset[str]  # everything given, answers to interrupts included
    available: frozenset[str]  # inputs that are given or bound


def check_cycle_entries(request: Request, entrypoint: str | None) -> None:
    """Raise MissingInputError for a cycle that nothing enters, ValueError for a node that enters none."""
    graph, spec = request.graph, request.spec
    configured = graph.entrypoints_config or ()
    if entrypoint is not None and entrypoint not in (*spec.entrypoints, *configured):
        circling = {name for cycle in graph.wiring.cycles for name in cycle} - set(graph.wiring.gates)
        if entrypoint not in circling & request.scope:
            ways = ", ".join(spec.entrypoints) or "none: no cycle of this graph has to be entered"
            raise ValueError(f"{entrypoint!r} is not a valid entry point. Entry points: {ways}")
    for component in cycles_in(graph.wiring, set(request.scope)):
        named = [name for name in component if name == entrypoint]
        _check_component(request, component, named or [name for name in component if name in configured])


def _check_component(request: Request, component: Sequence[str], named: Sequence[str]) -> None:
    wiring, spec, available = request.graph.wiring, request.spec, request.available
    if not named and any(starts_alone(wiring, n, component, spec.bound, request.scope) for n in component):
        return
    needs = {
        name: entry_needs(wiring, name, component, spec.bound, request.scope)
        for name in named or component
        if name in spec.entrypoints
    }
    entries = {name: params for name, params in needs.items() if params}
    if entries and not any(available.issuperset(params) for params in entries.values()):
        ways = "\n".join(f"-> enter at {name!r} with {', '.join(params)}" for name, params in entries.items())
        missing = sorted({p for params in entries.values() for p in params if p not in available})
        first = ", ".join(f"{param}=..." for param in next(iter(entries.values())))
        ways = "\n".join([ways, *_left_out(request.graph, missing, request.scope)])
        raise MissingInputError(
            f"Nothing starts the cycle {' -> '.join(component)}: missing {', '.join(missing)}.\n{ways}\n"
            f"How to fix: pass what one of them needs: run(graph, {first}). Or bind it; bind returns a new "
            f"graph: graph.bind({first}).",
            missing,
            sorted(request.names),
        )


def _left_out(graph: Graph, missing: Iterable[str], scope: Collection[str]) -> list[str]:
    """Return which nodes that make missing names with_entrypoint has left out, and how to take them in."""
    configured = graph.entrypoints_config or ()
    makers: dict[str, list[str]] = {}
    for name in missing if configured else ():
        for maker in graph.wiring.data_producers.get(name, ()):
            if maker not in scope:
                makers.setdefault(maker, []).append(name)
    named = ", ".join(map(repr, configured))
    return [
        f"-> node {maker!r} makes {', '.join(names)}, and with_entrypoint({named}) leaves it out. "
        f"Name it, too: with_entrypoint({maker!r}, {named})"
        for maker, names in makers.items()
    ]


def _ambiguous(loop: Ambiguity) -> ValueError:
    return ValueError(
        f"Ambiguous cycle entry: the loop {' -> '.join(loop.members)} could begin at "
        f"{' or '.join(map(repr, loop.places))}. Name the node to begin with, not a gate, by "
        "with_entrypoint() or entrypoint=, or give the inputs of one of them only."
    )


def _unused(wiring: Wiring, layout: Layout, given: Collection[str]) -> tuple[str, str] | None:
    """A8: return a value for a loop that is made again before a node takes it, and the node that makes it.

    An entry point that is named has been chosen, and a cycle without a gate begins at its first node.
    """
    for name in sorted(cycle_values(wiring).difference(layout.lists).intersection(given)):
        maker = layout.made_before_taken(name, layout.scope)
        loops = [] if maker is None else [layout.loops[k] for k in layout.home[layout.index[maker]]]
        chosen = any(loop.members & layout.named for loop in loops)
        if maker is not None and not chosen and any(loop.gated for loop in loops):
            return name, maker
    return None


_SCALARS = frozenset((int, float, bool, str, bytes, type(None)))


def refuse_undecodable(given: Mapping[str, Any], *, inside_only: bool = False) -> None:
    """Raise ValueUnreadableError for an Undecodable among the inputs of a call, or in one of its containers.

    With `inside_only`, one that is given itself is let through: a resume gives back what it has read.
    """
    for name, value in given.items():
        if type(value) in _SCALARS:
            continue
        is_one = type(value) is Undecodable and not inside_only  # an object may refuse to be looked at
        found = value if is_one else _first_undecodable(value)
        if found is not None:
            there = "is" if found is value else "holds"
            raise ValueUnreadableError(
                f"The value that is given for {name!r} {there} an Undecodable, in place of a stored value "
                f"that cannot be read: {found.reason.rstrip('.')}.\nNothing ran. How to fix: pass the value "
                "itself, or leave it out.",
                name=name,
            )


def _first_undecodable(value: Any) -> Undecodable | None:
    """Return an Undecodable that is a member of a list, tuple, set or dict."""
    kind = type(value)
    if not issubclass(kind, (dict, list, tuple, set, frozenset)):
        return None
    members = value.values() if issubclass(kind, dict) else value
    if Undecodable not in map(type, members):
        return None
    return next(member for member in members if type(member) is Undecodable)


POLICIES = ("warn", "ignore", "error")


def check_overrides(
    request: Request, internal: Sequence[str], unexpected: Sequence[str], policy: str
) -> list[str]:
    """Return warnings about unexpected names. Raises ValueError for conflicts and by policy "error"."""
    if policy not in POLICIES:
        raise ValueError(f'Invalid on_internal_override: {policy!r}. Use "warn", "ignore" or "error".')
    _refuse_conflicts(request, internal)
    if not unexpected or policy == "ignore":
        return []
    unknown = [name for name in unexpected if name not in internal]
    _refuse_misspelt(request, unknown)
    text = _describe(request.graph, internal, unknown)
    if policy == "error":
        raise ValueError(text)
    return [text]


def _refuse_misspelt(request: Request, unknown: Sequence[str]) -> None:
    """Raise ValueError for an unknown name that resembles an optional input or answer that was not given."""
    required = request.spec.required  # MissingInputError says more about those
    expected = dict.fromkeys(
        (*request.spec.all, *(_answer_keys(request.graph, _items_in(unknown)) if unknown else ()))
    )
    free = [name for name in expected if name not in request.names and name not in required]
    for name in sorted(unknown):
        inside = next((key for key in free if shortens(name, key)), None)
        hint = did_you_mean(name, free) if inside is None else f"Did you mean {inside!r}?"
        if inside is not None and "item-" in inside and "item-" not in name:  # the first item may not ask
            hint = f"Each item asks for its own: name the item in the answer, as in {inside!r}."
        if hint is not None:
            raise ValueError(
                f"{name!r} is not an input of graph {request.graph.name or 'unnamed'!r}. {hint} "
                'Pass on_internal_override="ignore" to ignore names that the graph does not use.'
            )


def shortens(name: str, key: str) -> bool:
    """Say whether a name is a key without some of the nodes or items around the question."""
    *path, last = name.split(".")
    *around, question = key.split(".")
    left = iter(around)
    return last == question and all(part in left for part in path)


def _items_in(names: Collection[str]) -> list[str]:
    """Return the items of maps that names mention, at least one."""
    return sorted({part for name in names for part in name.split(".") if ITEM.fullmatch(part)}) or ["item-0"]


def _describe(graph: Graph, internal: Sequence[str], unknown: Sequence[str]) -> str:
    parts = []
    if internal:
        pairs = (f"{name} <- {', '.join(graph.wiring.data_producers[name])}" for name in sorted(internal))
        parts.append(f"Values were given for internal parameters that nodes produce: {'; '.join(pairs)}.")
    for name in sorted(unknown):
        parts.append(f"{name!r} is not an input of the graph and is not used.")
    parts.append('Pass on_internal_override="ignore" if this is intended.')
    return " ".join(parts)


def _refuse_conflicts(request: Request, internal: Sequence[str]) -> None:
    """A5: a node either computes its outputs or has all of them injected.

    A value of a loop is what it begins with. A bound one stands in where its node may not run.
    """
    wiring, available = request.graph.wiring, request.available
    bound = (name for name in request.graph._bound if name not in request.spec.all)  # others are inputs
    injected = {*internal, *(name for name in bound if name in wiring.data_producers)}
    unsure = _unsure(request.graph) if injected else ()
    runs = [_runnable(request, ()), _runnable(request, unsure, waits=True)] if injected else []
    for output in sorted(injected):
        given = output in internal
        for producer in wiring.data_producers[output]:
            if producer not in request.scope or wiring.nodes[producer].is_interrupt:
                continue
            key = key_in_items(request.graph, output)
            if producer in wiring.cycle_of:
                if key is not None and given:
                    raise name_alone(output, producer, [key])
                continue
            if not given and producer in runs[0] and producer not in runs[1]:
                continue
            what = f"You {'passed' if given else 'bound'} {output!r}, but"
            consumed = consumed_outputs(wiring, producer, request.scope)
            partial = sorted(set(consumed).difference(available))
            if output in consumed and partial:
                raise ValueError(
                    f"{what} not {', '.join(map(repr, partial))}, which node "
                    f"{producer!r} returns together with it. Pass all of them or none. "
                    "(Invalid internal override configuration: partial inject outputs.)"
                )
            if producer in runs[0]:
                sources = [name for name in wiring.nodes[producer].inputs if name in available]
                hint = "" if key is None else f" To answer a question inside of it, pass {key!r}."
                raise ValueError(
                    f"{what} node {producer!r} would compute it"
                    f"{' from ' + ', '.join(map(repr, sources)) if sources else ''}. Pass only one of them"
                    f"{_begin_after(request, output, producer)}.{hint} "
                    "(Invalid internal override configuration: Cannot mix compute and inject.)"
                )


def _unsure(graph: Graph) -> set[str]:
    """Return the nodes that may not run, or not make all of their outputs."""
    plan = plan_of(graph)
    return {*graph.wiring.chosen, *(plan.steps[index].name for index in plan.uncertain)}


def _begin_after(request: Request, output: str, producer: str) -> str:
    """Return the advice to begin with the nodes that take a value, if others take what makes it, too."""
    takers = [
        n for n in request.graph.wiring.consumers.get(output, ()) if n in request.scope and n != producer
    ]
    if not takers:
        return ""
    return f", or leave out {producer!r}: graph.with_entrypoint({', '.join(map(repr, takers))})"


def _runnable(request: Request, left_out: Collection[str], *, waits: bool = False) -> set[str]:
    """Return the nodes that could run from the names given, directly or through others, but for these.

    With `waits`, a node also needs the signals that it waits for.
    """
    wiring, runnable = request.graph.wiring, set[str]()
    lacking: dict[str, set[tuple[str, bool]]] = {}
    takers: dict[tuple[str, bool], list[str]] = {}  # by name, and whether it is awaited
    for name in request.active:
        if name not in left_out:
            lacking[name] = {(param, False) for param in _lacking(wiring.nodes[name], request.available)}
            lacking[name] |= {(awaited, True) for awaited in _awaited(request, name)} if waits else set()
            for need in lacking[name]:
                takers.setdefault(need, []).append(name)
    fresh = [name for name, needs in lacking.items() if not needs]
    while fresh:
        runnable.add(name := fresh.pop())
        for need in ((output, awaited) for output in wiring.nodes[name].outputs for awaited in (False, True)):
            for taker in takers.pop(need, ()):
                lacking[taker].discard(need)
                if not lacking[taker]:
                    fresh.append(taker)
    return runnable


def _awaited(request: Request, name: str) -> list[str]:
    """Return the names that a node waits for, but for those that nothing here makes."""
    wiring = request.graph.wiring
    return [
        n for n in wiring.nodes[name].wait_for if not request.scope.isdisjoint(wiring.producers.get(n, ()))
    ]


def _lacking(node: HyperNode, available: Collection[str]) -> set[str]:
    return {param for param in node.inputs if param not in available and not node.can_do_without(param)}


def check_waits(layout: Layout) -> None:
    """Raise GraphConfigError if a node could run but for what it waits for, which cannot come about."""
    if not any(part.waits for part in layout.parts):
        return
    stuck = layout.able(waits=False) & ~layout.able()
    if stuck:
        parts = [layout.parts[i] for i in bits(stuck)]
        names = ", ".join(repr(part.name) for part in parts)
        waits = [f"-> {p.name!r} waits for {', '.join(map(repr, p.waits))}\n" for p in parts if p.waits]
        raise GraphConfigError(
            f"Deadlock: these nodes would wait forever: {names}\n{''.join(waits)}"
            "How to fix: break the cycle of wait_for, or wait for something that exists with these inputs."
        )


def check_order(wiring: Wiring, layout: Layout, given: Collection[str]) -> None:
    """Raise GraphConfigError if nodes share a name in no fixed order."""

    def goes_first(one: str, other: str) -> bool:
        return bool(layout.before[layout.index[other]] >> layout.index[one] & 1)

    def begun(target: str) -> list[str]:
        return layout.names_of(layout.begun_beside(layout.index[target]))

    found = rivals(
        wiring,
        goes_first,
        given=given,
        scope=layout.scope_names,
        unasked=layout.names_of(layout.unasked),
        unaided=layout.names_of(layout.unaided),
        begun=begun,
    )
    findings = list(map(str, found))
    if findings:
        raise GraphConfigError.from_findings(findings)


_WAYS = 64  # sets of inputs that are tried; what is refused with more of them is refused when it is reached


def check_inside(graph: Graph, plan: Plan, layout: Layout, answers: Collection[str]) -> None:
    """Raise what a nested graph that could run is refused with, whichever of its inputs are there by then.

    Raises GraphConfigError, MissingInputError or ValueError, naming the node.
    """
    for index in bits(layout.scope):
        step = plan.steps[index]
        if step.kind == "graph":
            refusal = _refused_inside(graph, step, layout, answers)
            if refusal is not None and layout.able() >> index & 1:
                raise _inside(step.node, refusal) from None


def _refused_inside(graph: Graph, step: Step, layout: Layout, answers: Collection[str]) -> Exception | None:
    """Return why a nested graph cannot run; None if it can with any of the sets of inputs that may come."""
    node, part, inside = step.node, layout.parts[step.index], graph_inside(graph, step.node)
    made = {name for i in bits(layout.scope) for name in layout.parts[i].makes}
    sure = {name for name in node.inputs if name in layout.given or name not in part.optional}
    made -= sure | step.inward.intersection(graph.inputs.all)  # what goes round inside counts if it is given
    unsure = [name for name in node.inputs if name in made]
    given = () if node.map_config is not None else answers_inside(node, answers).values()
    ways = (some for count in range(len(unsure), -1, -1) for some in combinations(unsure, count))
    refusal: Exception | None = None
    for some in islice(ways, _WAYS):
        taken = node.map_inputs_to_params({name: name for name in node.inputs if name in sure.union(some)})
        names = dict.fromkeys((*node.inner_map_params, *taken, *given))
        try:
            admit(inside, tuple(names), on_internal_override="ignore")
            return None
        except (GraphConfigError, MissingInputError, ValueError) as error:
            refusal = refusal or error
    return refusal if next(ways, None) is None else None


def answers_inside(node: GraphNode, names: Iterable[str]) -> dict[str, str]:
    """Return those of these names that answer a question inside a node, each with its name there."""
    lifted = {} if node.map_config is not None else dict(zip(node.outputs, node.inner_outputs, strict=True))
    found: dict[str, str] = {}
    for name in names:
        head, dot, rest = name.partition(".")
        if dot and head == node.name:
            found[name] = rest
        elif name in lifted:
            found[name] = lifted[name]
    return found


def _inside(node: GraphNode, refusal: Exception) -> Exception:
    """Return a refusal of a nested graph as one of the graph around it."""
    text = f"Inside node {node.name!r}: {refusal}"
    if isinstance(refusal, GraphConfigError):
        return GraphConfigError(text, [text, *refusal.findings[1:]])
    if not isinstance(refusal, MissingInputError):
        return ValueError(text)
    outer = dict(zip(node.inner_inputs, node.inputs, strict=True))
    missing, provided = ([outer.get(n, n) for n in names] for names in (refusal.missing, refusal.provided))
    pairs = zip(refusal.missing, missing, strict=True)
    renamed = "".join(f"\n-> {inner!r} is {name!r} outside of it" for inner, name in pairs if inner != name)
    what, fix, how = text.partition("\nHow to fix:")
    how = re.sub(r"(\w+)=\.\.\.", lambda found: f"{outer.get(found[1], found[1])}=...", how)
    return MissingInputError(f"{what}{renamed}{fix}{how}", missing, provided)


UNSET: Any = type("UNSET", (), {"__repr__": lambda self: "<unset>", "__bool__": lambda self: False})()
_KEPT = 256  # admissions remembered per graph; more key sets than that are a sign of generated names


@dataclass(slots=True)
class Admission:
    """The outcome of checking a set of names against a graph."""

    graph: Graph
    plan: Plan
    spec: InputSpec
    base: dict[str, Any]
    lent: dict[str, Any]  # what of the base is bound inside nested graphs only
    returns: tuple[str, ...]
    answers: frozenset[str]
    notices: tuple[str, ...]
    given: frozenset[str]
    selected: tuple[str, ...] | None
    layout: Layout
    unused: tuple[str, str] | None = None  # a value for a loop that a run would not use, and who makes it
    course: Any = None  # the fixed schedule, once rehearsed
    flow: Any = None  # the same as a Flow, False where nothing could overlap
    layouts: dict[Any, Layout] = field(default_factory=dict)  # by what is given and remembered
    versions: dict[int, Any] = field(default_factory=dict)  # what steps of a fixed course take and make
    fetch: Callable[[dict[str, Any]], dict[str, Any]] | None = None  # what a fixed schedule always delivers
    _made: frozenset[str] | None = None
    _fetch_all: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None = None

    @property
    def made(self) -> frozenset[str]:
        """The names that the nodes of this scope make."""
        if self._made is None:
            active = map(self.plan.steps.__getitem__, bits(self.layout.scope))
            self._made = frozenset(name for step in active for name in step.outputs)
        return self._made

    @property
    def fetch_all(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """What collects all values that are returned, of several. It raises KeyError if one is missing."""
        if self._fetch_all is None:
            self._fetch_all = itemgetter(*self.returns)
        return self._fetch_all

    def layout_for(self, names: Collection[str], remembered: Collection[str] = ()) -> Layout:
        """Return the layout of a run that is given other names, and of a turn that remembers some.

        Raises ValueError for a loop that could begin at several places, GraphConfigError for nodes that share
        a name in no fixed order.
        """
        key = frozenset(names), frozenset(remembered)
        if key not in self.layouts:
            known = self.layout
            layout = compile_layout(
                known.parts,
                known.scope_names,
                names,
                known.entrypoints,
                known.uncertain,
                known.declared,
                remembered,
            )
            check_order(self.graph.wiring, layout, {*names, *remembered, *self.base})
            self.layouts[key] = layout
        return self.layouts[key]

    def remember_outcome(self, names: tuple[str, ...]) -> None:
        """Prepare the way to collect these values from a state."""
        if len(names) > 1:
            getter = itemgetter(*names)
            self.fetch = lambda values: dict(zip(names, getter(values), strict=True))
        elif names:
            (name,) = names
            self.fetch = lambda values: {name: values[name]}

    def warn(self) -> None:
        """Repeat the warnings about the names given; they belong to every call, not only the first."""
        for notice in self.notices:
            warn_caller(notice)

    def refuse_unused(self) -> None:
        """Raise ValueError for a value that would not be used: its loop begins with a node that makes it."""
        if self.unused is None:
            return
        name, maker = self.unused
        loop = self.layout.loops[self.layout.home[self.layout.index[maker]][0]]
        begins = " and ".join(map(repr, self.layout.names_of(loop.begins)))
        raise ValueError(
            f"Ambiguous cycle entry: the loop {' -> '.join(self.layout.names_of(loop.members))} begins at "
            f"{begins}, and node {maker!r} makes {name!r} before one takes the value that you passed. Leave "
            f"out {name!r}, or name another node to begin with by with_entrypoint() or entrypoint=. Pass "
            'on_internal_override="ignore" to ignore values that the graph does not use.'
        )


def admit(
    graph: Graph,
    names: tuple[str, ...],
    select: Any = UNSET,
    entrypoint: str | None = None,
    on_internal_override: str = "warn",
) -> Admission:
    """Check the names a run starts with; the outcome is remembered.

    Raises GraphConfigError, MissingInputError or ValueError by rules A2-A9, TypeError for what is no name.
    """
    wanted = tuple(select) if isinstance(select, list) else select
    key = (names, wanted, entrypoint, on_internal_override)
    known: dict[Any, Admission] = graph.memo.setdefault("admissions", {})
    try:
        return known[key]
    except KeyError:
        pass
    if strange := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"values must be a mapping from input names to values, got the key {strange[0]!r}")
    admission = _admit(graph, frozenset(names), wanted, entrypoint, on_internal_override)
    if len(known) >= _KEPT:
        known.clear()
    known[key] = admission
    return admission


def _admit(
    graph: Graph, names: frozenset[str], select: Any, entrypoint: str | None, policy: str
) -> Admission:
    plan, wiring, bound = plan_of(graph), graph.wiring, graph._bound
    selected = _selected(graph, select)
    if selected == graph.selected:
        spec = graph.inputs
    else:
        spec = compute_input_spec(wiring, bound, selected, graph.entrypoints_config)
    active = tuple(scope_of(wiring, graph.entrypoints_config, None))
    offered, known = names.union(bound), answer_names(graph)
    answers = frozenset(n for n in offered if n in known or ("." in n and is_answer(graph, n)))
    plain = names - answers
    request = Request(graph, spec, active, frozenset(active), names, plain.union(bound))  # A3
    expected = {*spec.all, *_unmade(wiring, request.scope), *cycle_values(wiring), *wiring.lists}
    unexpected = [name for name in plain if name not in expected]
    internal = [n for n in unexpected if not request.scope.isdisjoint(wiring.data_producers.get(n, ()))]  # A4
    notices = check_overrides(request, internal, unexpected, policy)  # A5, A6
    check_cycle_entries(request, entrypoint)  # A8
    _check_missing(request, bypassed(wiring, active, request.available))  # A7, A9
    lent = _lent(plan, spec, bound)
    base = {**lent, **bound}
    named = (*(graph.entrypoints_config or ()), *(() if entrypoint is None else (entrypoint,)))
    stand_ins = [name for name in base if name not in answers]
    uncertain = sum(1 << index for index in plan.uncertain)
    layout = compile_layout(plan.parts(stand_ins), active, plain, named, uncertain, wiring.explicit)
    check_waits(layout)
    check_order(wiring, layout, {*plain, *base})
    check_inside(graph, plan, layout, answers)
    return Admission(
        graph=graph,
        plan=plan,
        spec=spec,
        base=base,
        lent=lent,
        returns=selected or tuple(wiring.data_producers),
        answers=answers,
        notices=tuple(notices),
        given=plain,
        selected=selected,
        layout=layout,
        unused=None if policy == "ignore" else _unused(wiring, layout, plain),
        layouts={(plain, frozenset()): layout},
    )


def compile_layout(  # noqa: PLR0917 - as many as a layout takes
    parts: Sequence[Part],
    active: Collection[str],
    given: Collection[str],
    named: Collection[str],
    uncertain: int,
    declared: bool,
    remembered: Collection[str] = (),
) -> Layout:
    """Compile the structure of a graph. Raises ValueError for a loop that could begin at several places."""
    try:
        return Layout(parts, given, active, named, uncertain, declared, remembered)
    except Ambiguity as loop:
        raise _ambiguous(loop) from None


def admit_nothing(graph: Graph) -> Admission:
    """Return an admission by which no step runs: for a run that fails before it starts."""
    nothing: frozenset[Any] = frozenset()
    plan = plan_of(graph)
    layout = Layout([], ())
    return Admission(graph, plan, graph.inputs, {}, {}, (), nothing, (), nothing, None, layout)


def names_to_give(graph: Graph) -> frozenset[str]:
    """Return the inputs of a graph, and the values with which a loop may begin that only choices close.

    What only bypassed nodes take is among them: they run where it is given.
    """
    if "to_give" not in graph.memo:
        wiring = graph.wiring
        begins = {
            param
            for name, cycle in wiring.cycle_of.items()
            for param in wiring.nodes[name].inputs
            if not cycle.isdisjoint(makers := wiring.feeders(name, param))
            and wiring.flow_cycle_of.get(name, set()).isdisjoint(makers)
        }
        scope = frozenset(scope_of(wiring, graph.entrypoints_config, None))
        graph.memo["to_give"] = frozenset(graph.inputs.all) | _unmade(wiring, scope) | begins - wiring.lists
    return graph.memo["to_give"]  # type: ignore[no-any-return]  # set above


def _unmade(wiring: Wiring, scope: frozenset[str]) -> set[str]:
    """Return what nodes take and none makes."""
    return {
        param
        for name in scope
        for param in wiring.nodes[name].inputs
        if scope.isdisjoint(wiring.feeders(name, param))
    }


def cycle_values(wiring: Wiring) -> set[str]:
    """Return the names that go round in cycles: a run may start from any of them, whatever else it has."""
    return {
        param
        for name, cycle in wiring.cycle_of.items()
        for param in wiring.nodes[name].inputs
        if not cycle.isdisjoint(wiring.feeders(name, param))
    }


def _lent(plan: Plan, spec: InputSpec, bound: Collection[str]) -> dict[str, Any]:
    """V1: return values bound inside nested graphs that plain nodes beside them take too."""
    inside = {name: value for name, value in spec.bound.items() if name not in bound}
    taken = (
        {param for step in plan.steps if step.kind != "graph" for param in step.node.inputs} if inside else ()
    )
    return {name: value for name, value in inside.items() if name in taken}


def _selected(graph: Graph, select: Any) -> tuple[str, ...] | None:
    """A2: which outputs the caller wants back."""
    if select is UNSET or select is None:
        return graph.selected
    if select == "**":
        return None
    if not isinstance(select, Iterable):
        raise TypeError(f"select takes the name of an output or a list of names, got {got(select)}")
    wanted = (select,) if isinstance(select, str) else tuple(select)
    if not wanted:
        raise GraphConfigError(finding("Invalid select: it names no output.", fix='use "**" for all.'))
    outputs = graph.wiring.data_producers
    for name in wanted:
        if name not in outputs:
            what = f"Invalid select: {name!r} is not an output of the graph."
            details = (did_you_mean(name, outputs), f"outputs: {', '.join(outputs)}")
            raise GraphConfigError(finding(what, *details, fix="select outputs of the graph."))
    return wanted


def _answer_keys(graph: Graph, items: Collection[str] = ("item-0",)) -> list[str]:
    """Return all names that answer a question of the graph, those of nested graphs with their paths, too.

    Of the items of a map, only these are listed.
    """
    found = sorted(answer_names(graph))
    for node in graph.wiring.nodes.values():
        if node.nested_graph is not None and node.nested_graph.has_interrupts:
            mapped = getattr(node, "map_config", None) is not None
            heads = [f"{node.name}.{item}" for item in items] if mapped else [node.name]
            found += (f"{head}.{key}" for head in heads for key in _answer_keys(node.nested_graph, items))
    return found


def key_in_items(graph: Graph, name: str) -> str | None:
    """Return the whole key, of the first item, for a name that collects answers of items of a mapped graph.

    None is returned for a name that is an answer itself, or has none inside.
    """
    return None if name in answer_names(graph) else _key_inside(graph, name)


def _key_inside(graph: Graph, name: str) -> str | None:
    """Return the whole key of the question that makes an output, of a map in its first item; else None."""
    for node in graph.wiring.nodes.values() if graph.has_interrupts else ():
        if node.is_interrupt and name in node.data_outputs:
            return name
        if isinstance(node, GraphNode) and name in node.outputs:
            found = _key_inside(node.graph, node.inner_outputs[node.outputs.index(name)])
            if found is not None:
                return f"{node.name}{'' if node.map_config is None else '.item-0'}.{found}"
    return None


def name_alone(name: str, node: str, keys: Sequence[str]) -> ValueError:
    """Return the error for an answer without the item of a mapped graph that asks for it."""
    return ValueError(
        f"You passed {name!r}, but each item of node {node!r} asks for its own. To answer one, pass "
        f"{' or '.join(map(repr, keys))}."
    )


def is_answer(graph: Graph, name: str) -> bool:
    """Say whether a name answers a question: "review.decision" one inside the GraphNode "review"."""
    if name in answer_names(graph):
        return True
    head, dot, rest = name.partition(".")
    node = graph.wiring.nodes.get(head)
    inner = node.nested_graph if dot and node is not None else None
    if inner is None:
        return False
    if getattr(node, "map_config", None) is not None:
        item, _, rest = rest.partition(".")
        return bool(ITEM.fullmatch(item)) and is_answer(inner, rest)
    return is_answer(inner, rest)


def check_answers(graph: Graph, given: Mapping[str, Any], mapped: Collection[str] = ()) -> None:
    """Raise InvalidAnswerError for a given answer of another type than its question asks for.

    Of `mapped` names there is one answer for each item.
    """
    for name, value in given.items():
        found = _asking(graph, name) if isinstance(name, str) else None
        if found is not None:
            declared = found[0].answer_types.get(found[1])
            for answer in value if name in mapped and isinstance(value, (list, tuple)) else (value,):
                converted(name, answer, declared)


def _asking(graph: Graph, name: str) -> tuple[InterruptNode, str] | None:
    """Return the interrupt that a name answers, and its output; of several, the first."""
    nodes = graph.wiring.nodes
    head, dot, rest = name.partition(".")
    inner = nodes[head].nested_graph if dot and head in nodes else None
    if inner is not None:
        if getattr(nodes[head], "map_config", None) is not None:
            _, _, rest = rest.partition(".")
        return _asking(inner, rest)
    for node in nodes.values():
        if isinstance(node, InterruptNode) and name in node.data_outputs:
            return node, name
        if lifts_answers(node) and isinstance(node, GraphNode) and name in node.outputs:
            found = _asking(node.graph, node.inner_outputs[node.outputs.index(name)])
            if found is not None:
                return found
    return None


ITEM = re.compile(r"item-(0|[1-9][0-9]*)")


def split_answers(
    graph: Graph, given: Mapping[str, Any]
) -> tuple[dict[int, dict[str, Any]], Mapping[str, Any]]:
    """Return the answers to questions of single items of a map, as in "item-3.approved", and all the rest."""
    found: dict[int, dict[str, Any]] = {}
    if not graph.has_interrupts:
        return found, given
    for name, value in given.items():
        item, dot, key = name.partition(".") if isinstance(name, str) else ("", "", "")
        if dot and (number := ITEM.fullmatch(item)) is not None:
            if not is_answer(graph, key):
                hint = (
                    did_you_mean(key, _answer_keys(graph))
                    or f"It asks for: {', '.join(_answer_keys(graph))}."
                )
                raise ValueError(f"{name!r} answers no question of graph {graph.name or 'unnamed'!r}. {hint}")
            found.setdefault(int(number[1]), {})[key] = value
    if not found:
        return found, given
    own = {f"item-{number}.{key}" for number, answers in found.items() for key in answers}
    return found, {name: value for name, value in given.items() if name not in own}


def _check_missing(request: Request, idle: Collection[str]) -> None:
    wiring = request.graph.wiring
    missing = [
        name
        for name in request.spec.required
        if name not in request.available.union(request.names)
        and any(
            consumer in request.scope and consumer not in idle and not wiring.feeders(consumer, name)
            for consumer in wiring.consumers[name]
        )
    ]
    if missing:
        text = _missing_text(request.graph, missing, request.names, request.spec)
        raise MissingInputError(text, missing, sorted(request.names))


def _missing_text(graph: Graph, missing: Sequence[str], given: Iterable[str], spec: InputSpec) -> str:
    given = sorted(given)
    lines = [f"Missing required inputs of graph {graph.name or 'unnamed'!r}: {', '.join(map(repr, missing))}"]
    for name in missing:
        consumers = ", ".join(n.name for n in graph.consumers_of(name))
        similar = closest(name, [g for g in given if g not in spec.all])
        hint = f"; you passed {similar!r}. Did you mean {name!r}?" if similar else ""
        if name == "self":  # decorated inside its class, so the method never got an object
            hint = "; a method becomes a node together with its object: node(an_object.method, ...)"
        lines.append(f"-> {name!r} is needed by {consumers}{hint}")
    lines += [
        f"-> you passed {passed!r} in place of node {producer!r}, which takes {name!r}, too. To leave "
        "it out, pass both to a graph that begins after it: "
        f"graph.with_entrypoint({', '.join(map(repr, takers))})"
        for name in missing
        for passed in given
        for producer in graph.wiring.data_producers.get(passed, ())
        if name in graph.wiring.nodes[producer].inputs
        and (takers := [taker for taker in graph.wiring.consumers.get(passed, ()) if taker != producer])
    ]
    lines += [
        f"-> node {node.name!r} returns a value but has no output_name, so the value is dropped; "
        f"add output_name={node.name if node.name in missing else '...'!r} to make it an input of other nodes"
        for node in graph.iter_nodes()
        if isinstance(node, FunctionNode) and node.drops_result
    ]
    lines.append(f"-> provided: {', '.join(map(repr, given)) or 'nothing'}")
    unused = [name for name in spec.all if name not in given and name not in missing]
    if unused:
        lines.append(f"-> other inputs, which may be given: {', '.join(map(repr, unused))}")
    form = ", ".join(f"{name}=..." for name in missing)
    lines.append(
        f"How to fix: call run(graph, {form}), or bind them; bind returns a new graph: graph.bind({form})."
        if all(name.isidentifier() for name in missing)
        else "How to fix: pass them in `values`, or bind them; bind returns a new graph."
    )
    return "\n".join(lines)


def transactional_node(graph: Graph) -> str | None:
    """Return the name of a node with transaction=True, at any depth; None if there is none."""
    if "transactional" not in graph.memo:
        found = None
        for node in graph.iter_nodes():
            inner = node.nested_graph
            name = node.name if node.transaction else None if inner is None else transactional_node(inner)
            found = found or name
        graph.memo["transactional"] = found
    return graph.memo["transactional"]  # type: ignore[no-any-return]  # put there above
