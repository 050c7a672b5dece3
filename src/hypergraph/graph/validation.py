"""Build-time checks of a graph, reported together in one error.

Every rule is a function from a Draft to findings, texts made by `finding`.
"""

from __future__ import annotations

import keyword
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from hypergraph.display import did_you_mean, finding
from hypergraph.exceptions import GraphConfigError, GraphWarning
from hypergraph.graph.rivals import rivals
from hypergraph.graph.structure import type_text
from hypergraph.graph.type_compat import fits
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import shown
from hypergraph.nodes.signature import fingerprint
from hypergraph.structure import cyclic_components

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph

__all__ = ["RULES", "GraphConfigError", "validate_graph"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A graph under construction. `nodes` lists all nodes, `wiring` has one node per name."""

    nodes: Sequence[HyperNode]
    wiring: Wiring
    name: str | None
    strict_types: bool


def validate_graph(
    nodes: Iterable[HyperNode],
    *,
    edges: Iterable[object] | None = None,
    name: str | None = None,
    strict_types: bool = False,
) -> Wiring:
    """Check the arguments of `Graph`: `nodes`, `edges`, `name`, `strict_types`; return the wiring.

    Raises GraphConfigError with the findings of all rules.
    """
    listed = tuple(nodes)
    draft = Draft(listed, Wiring(listed, edges), name, strict_types)
    repeated = len(draft.wiring.nodes) < len(listed)
    findings = [text for rule in (_NAME_RULES if repeated else RULES) for text in rule(draft)]
    if findings:
        raise GraphConfigError.from_findings(findings)
    wiring = draft.wiring
    found = (_free_cycles(wiring), _old_answers(wiring), _only_waiting(wiring), _beside_loops(wiring))
    for text in chain.from_iterable(found):
        warnings.warn(text, GraphWarning, stacklevel=3)  # at the call of Graph()
    return draft.wiring


# -- warnings ------------------------------------------------------------------------------------------


def _free_cycles(wiring: Wiring) -> Iterator[str]:
    """Yield a text for each cycle that passes no gate and can go round all the same."""
    for cycle in wiring.cycles:
        chosen = {t for name in cycle if name in wiring.gates for t in wiring.gates[name].target_names}
        plain = [name for name in cycle if name not in wiring.gates and name not in chosen]
        ways = {name: [other for other in wiring.ways[name] if other != name] for name in plain}
        for found in cyclic_components(plain, ways):
            names = [name for name in plain if name in found]
            fed = [name for name in names if _is_fed(wiring, name, set(cycle) - set(found))]
            place = _place(wiring, names, set(cycle))
            if fed and chosen:  # a gate drives the loop around: only the way between these nodes is free
                yield (
                    f"{' → '.join(names)} feed each other and no gate lies between them, so another node can "
                    f"replace the inputs of {fed[0]!r} before it runs, or make it run again. "
                    f"They begin at {place!r}, if that has its inputs, and go round until nothing changes. "
                    f"Put {fed[0]!r} behind a gate: make it a target of @route or @ifelse."
                )
                continue
            if not _goes_round(wiring, names, cycle):
                continue
            yield (
                f"{' → '.join(names)} feed each other and no gate ends the loop. It begins at {place!r}, "
                "if that has its inputs, and ends only when its values stop changing. Add a @route or "
                "@ifelse gate that returns END. "
                f"If no loop is meant, rename an output: {wiring.passed(names)}."
            )


def _place(wiring: Wiring, names: list[str], around: set[str]) -> str:
    """Return where nodes that feed each other begin: at the first whose inputs come for sure, if there is.

    What a gate can choose may not run.
    """
    chosen = wiring.chosen
    for others in (around | chosen, around, set(names) | chosen, set(names)):
        for name in names:
            if name not in chosen and _needs_none_of(wiring, name, others):
                return name
    return names[0]


def _is_fed(wiring: Wiring, name: str, sources: set[str]) -> bool:
    """Say whether one of the sources makes an input of a node, other than by appending."""
    params = (param for param in wiring.nodes[name].inputs if param not in wiring.lists)
    return any(not sources.isdisjoint(wiring.feeders(name, param)) for param in params)


def _goes_round(wiring: Wiring, names: list[str], around: Collection[str]) -> bool:
    """Say whether nodes that feed each other can make themselves run again without a gate.

    Only values that come back to the node where they begin count: appended items are not new there, and a
    signal starts nothing. A cycle that is left without that way is looked at by itself.
    """
    values, flow, ways = _inside(wiring, names)
    places = [place for place in flow if place not in values]
    left = [(names, set(around))]  # not recursive: there may be a cycle in a cycle for each node
    while left:
        names, others = left.pop()
        if not any(values[name].intersection(names) for name in names):
            continue
        scope = [*names, *places]
        own = {name: flow[name] for name in scope}
        together = {name: found for found in map(set, cyclic_components(scope, own)) for name in found}
        for begin in _beginnings(wiring, names, others):
            if values[begin] & together.get(begin, set()):
                return True
            rest = {name: ways[name] for name in scope if name != begin}
            for found in map(set, cyclic_components(rest, rest)):
                inner = [name for name in names if name in found]
                if len(inner) > 1:
                    left.append((inner, set(inner)))
    return False


_Links = dict[str, set[str]]


def _inside(wiring: Wiring, names: list[str]) -> tuple[_Links, _Links, _Links]:
    """Return what feeds each of these nodes by values, what each leads to by data, and by signals as well."""
    inside = set(names)
    values: _Links = {name: set() for name in names}  # what feeds it, other than by appending
    flow: _Links = {name: set() for name in names}
    for name in names:
        node = wiring.nodes[name]
        for param in node.inputs:
            makers = inside.intersection(wiring.feeders(name, param)) - {name}
            through = makers
            if param not in wiring.lists:
                values[name] |= makers
            elif not wiring.explicit:  # all who append lead to all who read: a place between them is enough
                through = {f"[{param}]"}
                flow.setdefault(f"[{param}]", set())
            for source in through:
                flow[source].add(name)
    for name in names:
        flow[name] |= flow.keys() & {f"[{output}]" for output in wiring.nodes[name].append}
    ways = {source: {*targets} for source, targets in flow.items()}
    for name in names:
        for awaited in wiring.nodes[name].wait_for:
            for source in inside.intersection(wiring.producers.get(awaited, ())):
                ways[source].add(name)
    return values, flow, ways


def _beginnings(wiring: Wiring, names: list[str], around: set[str]) -> list[str]:
    """Return where such nodes begin: at the first that needs none of the others, else anywhere."""
    for others in (around, set(names)):  # where the loop around begins, if it begins among them
        for name in names:
            if _needs_none_of(wiring, name, others):
                return [name]
    return names


def _needs_none_of(wiring: Wiring, name: str, others: set[str]) -> bool:
    """Say whether a node can run before the others: lists, defaults and other nodes give what it takes."""
    node = wiring.nodes[name]
    needed = [
        *(
            wiring.feeders(name, p)
            for p in node.inputs
            if p not in wiring.lists and not node.has_default_for(p)
        ),
        *(wiring.producers.get(awaited, ()) for awaited in node.wait_for),
    ]
    return all(not makers or not others.issuperset(makers) for makers in needed)


def _old_answers(wiring: Wiring) -> Iterator[str]:
    """Yield a text for each node that a loop can run again on an answer that has been used.

    A node that no gate of the loop controls runs for every new input. If it needs the answer of a question,
    each choice that brings it something new must have the question asked again, or bring another answer.
    """
    for cycle in wiring.cycles:
        asking = [name for name in cycle if _asks(wiring.nodes[name])]
        if not asking:
            continue
        chosen = {t for name in cycle if name in wiring.gates for t in wiring.gates[name].target_names}
        free = [name for name in cycle if name not in chosen]
        after = {name: _run_after(wiring, name, set(free)) for name in (*asking, *chosen.intersection(cycle))}
        for name in free:
            found = _old_answer(wiring, name, asking, {c: after[c] for c in cycle if c in chosen}, after)
            if found:
                question, answer, cause, value = found
                yield (
                    f"{name!r} takes {answer!r}, which comes from the question {question!r}, and {value!r}, "
                    f"which is new when a gate chooses {cause!r}. Then {name!r} runs again on the old answer "
                    f"and {question!r} is not asked again. Put {name!r} behind a gate that takes only "
                    f"{answer!r}: make it a target of @route or @ifelse."
                )


def _old_answer(
    wiring: Wiring,
    name: str,
    asking: Iterable[str],
    causes: Mapping[str, set[str]],
    after: Mapping[str, set[str]],
) -> tuple[str, str, str, str] | None:
    """Return a question, its answer, the choice that does not ask it, and what this brings to a node."""
    node = wiring.nodes[name]
    for question in asking:
        for cause, anew in causes.items():
            if name not in anew or question in anew:
                continue
            others = anew - {name}
            new = [param for param in node.inputs if not others.isdisjoint(wiring.feeders(name, param))]
            old = after[question] - anew
            for param in node.inputs if new else ():
                feeders = wiring.feeders(name, param)
                needed = param not in wiring.lists and not node.has_default_for(param)
                if needed and param not in new and name not in feeders and not old.isdisjoint(feeders):
                    return question, param, cause, new[0]
    return None


def _asks(node: HyperNode) -> bool:
    """Say whether a node asks a question, or has one inside."""
    return node.is_interrupt or (node.nested_graph is not None and node.nested_graph.has_interrupts)


def _run_after(wiring: Wiring, name: str, free: set[str]) -> set[str]:
    """Return a node, and all that run because of its values, without another choice of a gate."""
    found, coming = {name}, [name]
    while coming:
        for other in wiring.value_flow[coming.pop()]:
            if other in free and other not in found:
                found.add(other)
                coming.append(other)
    return found


def _driven(wiring: Wiring) -> list[Collection[str]]:
    """Return the loops that go round by a gate."""
    gates = wiring.gates
    return [
        cycle
        for cycle in wiring.cycles
        if any(t in cycle for n in cycle if n in gates for t in gates[n].target_names)
    ]


def _only_waiting(wiring: Wiring) -> Iterator[str]:
    """Yield a text for each node of a loop that only signals lead to: nothing makes it run again.

    A cycle without a choice, inside of the loop, begins anew in each round.
    """
    for cycle in _driven(wiring):
        ways = _inside(wiring, list(cycle))[2]
        inner = set(chain.from_iterable(cyclic_components(ways, ways)))
        for name in (name for name in cycle if name not in wiring.chosen and name not in inner):
            node, others = wiring.nodes[name], set(cycle) - {name}
            awaited = [n for n in node.wait_for if not others.isdisjoint(wiring.producers.get(n, ()))]
            if awaited and all(others.isdisjoint(wiring.feeders(name, param)) for param in node.inputs):
                yield (
                    f"{name!r} waits for {awaited[0]!r} and takes nothing that its loop makes, so it runs in "
                    "the first round only: a signal does not start a node again; a new input, or the choice "
                    f"of a gate, does. Let {name!r} take a value of the loop, or make it a target of @route "
                    "or @ifelse."
                )


def _beside_loops(wiring: Wiring) -> Iterator[str]:
    """Yield a text for each accumulator that a loop feeds from inside, and that is not part of it."""
    driven = {name for cycle in _driven(wiring) for name in cycle}
    chosen = wiring.chosen  # run when asked for
    for name, node in wiring.nodes.items():
        own = set(node.inputs).intersection(node.data_outputs)
        sources = {f for param in node.inputs if param not in own for f in wiring.feeders(name, param)}
        if own and name not in driven | chosen and sources & driven:
            yield (
                f"{name!r} takes its own output and is fed by a loop that it is not part of: it runs once, "
                "after the loop. To have it in every round, let the gate of the loop wait for it: "
                f"wait_for={min(own)!r}."
            )


# -- names ---------------------------------------------------------------------------------------------


def node_names_are_unique(draft: Draft) -> Iterator[str]:
    """B1: node names are unique."""
    for name, count in Counter(node.name for node in draft.nodes).items():
        if count > 1 and name != "<lambda>":  # which is reported as an invalid name
            yield finding(
                f"Duplicate node name: {name!r}",
                f"{count} nodes of this graph have the name {name!r}",
                fix=f"rename all but one, e.g. with_name('{name}_2').",
            )


def graph_name_has_no_separator(draft: Draft) -> Iterator[str]:
    """B3: the name of a graph, and of a GraphNode, is part of paths and ids."""
    kinds = [(draft.name or "", {"Cs"})]  # half of a surrogate pair has no bytes
    kinds += [(node.name, {"Cs", "Cc"}) for node in draft.nodes if isinstance(node, GraphNode)]
    for name, refused in kinds:
        if any(unicodedata.category(character) in refused for character in name):
            yield finding(
                f"Invalid graph name: {name!a} has a control character, or half of a surrogate pair",
                "the names of graphs are parts of ids and response keys",
                fix="use letters, digits, blanks, '-' and '_'.",
            )
    for character in "./":
        if draft.name and character in draft.name:
            yield finding(
                f"Invalid graph name: {draft.name!r} cannot contain {character!r}",
                "graph names cannot contain '.' or '/': they separate names in ids and response keys",
                fix=f"use another separator, e.g. {draft.name.replace(character, '_')!r}.",
            )


def end_is_reserved(draft: Draft) -> Iterator[str]:
    """B4: END is not a node name."""
    for node in draft.nodes:
        if node.name == "END":
            yield finding(
                "Invalid node name: 'END' is reserved for the end of a gate's branch",
                f"{node!r}",
                fix="give the node another name with with_name().",
            )


def names_are_identifiers(draft: Draft) -> Iterator[str]:
    """B5: names of nodes and outputs become parameters, so they are identifiers."""
    for node in draft.nodes:
        flaw = None if isinstance(node, GraphNode) else _flaw(node.name)
        if flaw:
            is_lambda = node.name == "<lambda>"
            yield finding(
                f"Invalid node name: {node.name!r}{flaw}",
                f"a lambda has no name of its own: {node!r}" if is_lambda else f"node {node!r}",
                fix='name it: FunctionNode(fn, "name", "output").'
                if is_lambda
                else "give the node another name with with_name().",
            )
        for output in node.outputs:
            flaw = _flaw(output)
            if flaw:
                yield finding(
                    f"Invalid output name: {output!r}{flaw}",
                    f"output of node {node.name!r}",
                    fix="choose another output_name, or rename it with with_outputs().",
                )


def _flaw(name: str) -> str | None:
    if not name.isidentifier():
        return ". Names must be valid Python identifiers"
    return " is a Python keyword" if keyword.iskeyword(name) else None


def nested_names_are_not_outputs(draft: Draft) -> Iterator[str]:
    """B6: result[NAME] is either a value or a nested result."""
    for node in draft.nodes:
        if isinstance(node, GraphNode):
            for producer in draft.wiring.producers.get(node.name, ()):
                if producer != node.name:
                    yield finding(
                        f"GraphNode name {node.name!r} collides with output of node {producer!r}",
                        f"result[{node.name!r}] would be ambiguous",
                        fix="rename the GraphNode with as_node(name=...), or the output.",
                    )


# -- edges and producers -------------------------------------------------------------------------------


def edges_are_valid(draft: Draft) -> Iterator[str]:
    """B2, first half: explicit edges connect existing names."""
    yield from draft.wiring.findings


def producers_are_exclusive_or_ordered(draft: Draft) -> Iterator[str]:
    """B2, second half: several producers of one output are exclusive or ordered."""
    yield from map(str, rivals(draft.wiring))


def producers_append_or_none_does(draft: Draft) -> Iterator[str]:
    """B15: all producers of a name append to its list, or none does."""
    wiring = draft.wiring
    for output in wiring.lists:
        others = [name for name in wiring.producers[output] if output not in wiring.nodes[name].append]
        if others:
            appending = [name for name in wiring.producers[output] if name not in others]
            yield finding(
                f"Some nodes append to {output!r}, others do not",
                f"it is appended to by {', '.join(map(repr, appending))}",
                f"it is overwritten by {', '.join(map(repr, others))}",
                fix=f"add append={output!r} to all of them, or to none{_for_graphs(wiring, others, output)}.",
            )


def _for_graphs(wiring: Wiring, others: Iterable[str], output: str) -> str:
    """Return where the option is written for nested graphs, if there are some."""
    nested = any(wiring.nodes[name].nested_graph is not None for name in others)
    return f"; of a nested graph it is as_node(append={output!r})" if nested else ""


def answers_are_not_inputs(draft: Draft) -> Iterator[str]:
    """B16: a given value is an answer to a question or an input, never either of them."""
    wiring = draft.wiring
    for asking in draft.nodes if wiring.explicit else ():
        for name in _answers_of(asking):
            for taker in wiring.consumers.get(name, ()):
                if not wiring.feeders(taker, name):
                    yield finding(
                        f"{name!r} answers {asking.name!r} and is an input of {taker!r}",
                        f"no edge leads from {asking.name!r} to {taker!r}, so a given value could be either",
                        fix=f"add the edge ({asking.name!r}, {taker!r}), or rename one of them.",
                    )


def _answers_of(node: HyperNode) -> tuple[str, ...]:
    """Return the outputs of a node under which answers to questions may be given."""
    if node.is_interrupt:
        return node.data_outputs
    if not isinstance(node, GraphNode) or node.map_config is not None or not node.graph.has_interrupts:
        return ()
    inside = {name for inner in node.graph.iter_nodes() for name in _answers_of(inner)}
    return tuple(o for o, i in zip(node.outputs, node.inner_outputs, strict=True) if i in inside)


def wait_for_names_exist(draft: Draft) -> Iterator[str]:
    """B13: every name in wait_for is an output of a node."""
    for node in draft.nodes:
        for awaited in node.wait_for:
            if awaited not in draft.wiring.producers:
                yield finding(
                    f"Node {node.name!r} has wait_for={awaited!r}, which no node produces",
                    f"outputs of this graph: {shown(tuple(draft.wiring.producers))}",
                    did_you_mean(awaited, draft.wiring.producers),
                    fix="wait for an output or emit name of a node in this graph.",
                )


# -- defaults and types --------------------------------------------------------------------------------


def defaults_are_consistent(draft: Draft) -> Iterator[str]:
    """B7: all consumers of a graph input have the same default."""
    wiring = draft.wiring
    for param, consumers in wiring.consumers.items():
        unfed = [wiring.nodes[name] for name in consumers if not wiring.feeders(name, param)]
        known = {
            n.name: n.get_signature_default_for(param) for n in unfed if n.has_signature_default_for(param)
        }
        lacking = [n.name for n in unfed if n.name not in known and not n.has_default_for(param)]
        if not known or (not lacking and _all_same(list(known.values()))):
            continue
        yield finding(
            f"Inconsistent defaults for {param!r}",
            *(f"node {name!r}: default {shown(default)}" for name, default in known.items()),
            *(f"node {name!r}: without default" for name in lacking),
            fix=f"give every consumer the same default, or remove them and use graph.bind({param}=...).",
        )


def _all_same(values: list[Any]) -> bool:
    first = values[0]
    return all(first is value or (type(first) is type(value) and _equal(first, value)) for value in values)


def _equal(a: Any, b: Any) -> bool:
    try:
        if (a == b) is True:
            return True
    except Exception:  # noqa: S110 - an __eq__ of the user's own may do anything; the content decides
        pass
    return fingerprint(a) == fingerprint(b)  # == of arrays is an array, == of NaN is False


def types_fit(draft: Draft) -> Iterator[str]:
    """B14: under strict_types the type of every output fits the inputs that take it."""
    wiring = draft.wiring
    for name, node in wiring.nodes.items() if draft.strict_types else ():
        for param in node.inputs:
            for feeder in wiring.feeders(name, param):
                yield from _check_types(wiring.nodes[feeder], node, param)


def _check_types(source: HyperNode, target: HyperNode, value: str) -> Iterator[str]:
    sent, wanted = source.get_output_type(value), target.get_input_type(value)
    pair = f"{source.name!r} -> {target.name!r}, value {value!r}"
    if sent is None or wanted is None:
        bare = [n.name for n, known in ((source, sent), (target, wanted)) if known is None]
        yield finding(
            f"Missing type annotation for {value!r}",
            pair,
            f"not annotated in {' and '.join(map(repr, bare))}",
            fix="annotate the parameter and the return value, or build the graph without strict_types.",
        )
    elif not fits(sent, wanted):
        yield finding(
            f"Type mismatch for {value!r}",
            pair,
            f"{source.name!r} returns {type_text(sent)}",
            f"{target.name!r} takes {type_text(wanted)}",
            fix="change one annotation, or put a converting node in between.",
        )


# -- gates ---------------------------------------------------------------------------------------------


def gate_targets_exist(draft: Draft) -> Iterator[str]:
    """B8: every target of a gate is a node of the graph."""
    for name, gate in draft.wiring.gates.items():
        for target in gate.target_names:
            if target not in draft.wiring.nodes:
                yield finding(
                    f"Gate {name!r} targets unknown node {target!r}",
                    f"nodes of this graph: {', '.join(draft.wiring.nodes)}",
                    did_you_mean(target, draft.wiring.nodes),
                    fix="add the node to the graph or correct the target.",
                )


def gates_do_not_target_themselves(draft: Draft) -> Iterator[str]:
    """B9: a gate is not its own target."""
    for name, gate in draft.wiring.gates.items():
        if name in gate.target_names:
            yield finding(
                f"Gate {name!r} cannot target itself",
                "a gate runs again when its inputs change",
                fix="target the node whose output the gate reads.",
            )


def parallel_targets_have_distinct_outputs(draft: Draft) -> Iterator[str]:
    """B10: targets that can run together have different outputs."""
    nodes = draft.wiring.nodes
    for name, gate in draft.wiring.gates.items():
        owners: dict[str, list[str]] = {}
        for target in gate.target_names if gate.multi_target else ():
            for output in nodes[target].data_outputs if target in nodes else ():
                if output in draft.wiring.lists:
                    continue
                owners.setdefault(output, []).append(target)
        for output, targets in owners.items():
            if len(targets) > 1:
                yield finding(
                    f"Targets of multi_target gate {name!r} share the output {output!r}",
                    f"produced by {', '.join(map(repr, targets))}, which can run together",
                    fix="rename the outputs with with_outputs(), or make the gate single-target.",
                )


# -- nested graphs -------------------------------------------------------------------------------------


def interrupts_can_pause(draft: Draft) -> Iterator[str]:
    """B11: a run can resume at every interrupt inside a nested graph."""
    for node in draft.nodes:
        if isinstance(node, GraphNode) and node.graph.has_interrupts:
            listed = _listed(node.graph, lambda inner: inner.is_interrupt)
            if node.durability == "atomic":
                yield finding(
                    f"GraphNode {node.name!r} is atomic but contains interrupts: {listed}",
                    "a run cannot resume inside an atomic graph",
                    fix='use durability="nested", or move the interrupt outside of the graph.',
                )


def effects_have_records(draft: Draft) -> Iterator[str]:
    """B11: a node with repeatable=False or transaction=True needs a stored step of its own."""
    for node in draft.nodes:
        if not isinstance(node, GraphNode) or node.durability != "atomic":
            continue
        kinds = {
            "repeatable=False": _listed(node.graph, lambda inner: not inner.repeatable),
            "transaction=True": _listed(node.graph, lambda inner: inner.transaction),
        }
        for option, listed in kinds.items():
            if listed:
                yield finding(
                    f"GraphNode {node.name!r} is atomic but contains nodes with {option}: {listed}",
                    "after a failure or a crash, all of an atomic graph runs again",
                    fix='use durability="nested", or move these nodes outside of the graph.',
                )


def _listed(graph: Graph, applies: Callable[[HyperNode], bool]) -> str:
    """List the names of nodes, at any depth, to which a condition applies."""

    def names(graph: Graph) -> Iterator[str]:
        for node in graph.iter_nodes():
            if applies(node):
                yield node.name
            elif node.nested_graph is not None:
                yield from names(node.nested_graph)

    return ", ".join(map(repr, names(graph)))


def nested_graphs_are_not_cached(draft: Draft) -> Iterator[str]:
    """B12: inner nodes have their own cache entries."""
    for node in draft.nodes:
        if isinstance(node, GraphNode) and node.cache:
            yield finding(
                f"GraphNode {node.name!r} cannot have cache=True",
                "results are cached per node",
                fix="set cache=True on the inner nodes.",
            )


Rule = Callable[[Draft], Iterable[str]]
RULES: tuple[Rule, ...] = (  # in the order in which findings are reported
    node_names_are_unique,
    edges_are_valid,
    producers_are_exclusive_or_ordered,
    graph_name_has_no_separator,
    end_is_reserved,
    names_are_identifiers,
    nested_names_are_not_outputs,
    defaults_are_consistent,
    gate_targets_exist,
    gates_do_not_target_themselves,
    parallel_targets_have_distinct_outputs,
    interrupts_can_pause,
    effects_have_records,
    nested_graphs_are_not_cached,
    wait_for_names_exist,
    types_fit,
    producers_append_or_none_does,
    answers_are_not_inputs,
)
_NAME_RULES: tuple[Rule, ...] = (  # the rules that apply if names are repeated
    node_names_are_unique,
    graph_name_has_no_separator,
    end_is_reserved,
    names_are_identifiers,
)
