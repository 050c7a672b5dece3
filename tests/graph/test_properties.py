"""Properties of random graphs: equal to a slow recomputation, invalid ones refused, copies independent."""

from collections.abc import Iterable
from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.making import make

from hypergraph import END, FunctionNode, Graph, GraphConfigError, HyperNode, RenameError, route
from hypergraph.structure import cyclic_components, walk

pytestmark = pytest.mark.slow

OUTSIDE = ["p", "q", "r=1", "s=None"]  # inputs without a producer, each with a fixed default


@st.composite
def dags(draw: st.DrawFn) -> list[HyperNode]:
    """Nodes in an order in which each takes only what earlier ones give, some with gates above them."""
    nodes: list[HyperNode] = []
    for i in range(draw(st.integers(1, 8))):
        known = [output for node in nodes for output in node.data_outputs]
        emitted = [output for node in nodes for output in node.outputs]
        inputs = draw(st.lists(st.sampled_from(OUTSIDE + known), unique=True, max_size=4))
        inputs.sort(key=lambda name: "=" in name)  # Python wants defaults last
        awaited = draw(st.lists(st.sampled_from(emitted), unique=True, max_size=2)) if emitted else []
        outputs = tuple(f"v{i}_{k}" for k in range(draw(st.integers(1, 2))))
        emit = (f"e{i}",) if draw(st.booleans()) else ()
        waits = tuple(name for name in awaited if name not in inputs)
        nodes.append(make(f"n{i}", *inputs, out=outputs, emit=emit, wait_for=waits))
    if draw(st.booleans()):
        target = draw(st.sampled_from([node.name for node in nodes]))
        nodes.append(route(targets=[target, END], name="gate")(lambda q: END))
    return nodes


def arrows(nodes: list[HyperNode]) -> set[tuple[str, str]]:
    """Who leads to whom, the slow way."""
    found = {
        (one.name, other.name)
        for one in nodes
        for other in nodes
        if set(one.data_outputs) & set(other.inputs) or set(one.outputs) & set(other.wait_for)
    }
    return found | {(gate.name, t) for gate in nodes for t in getattr(gate, "target_names", ())}


def closure(starts: set[str], pairs: set[tuple[str, str]]) -> set[str]:
    while True:
        grown = starts | {b for a, b in pairs if a in starts}
        if grown == starts:
            return starts
        starts = grown


def naive_scope(nodes: list[HyperNode], entries: tuple[str, ...], selected: tuple[str, ...]) -> set[str]:
    pairs = arrows(nodes)
    allowed = closure(set(entries), pairs) if entries else {node.name for node in nodes}
    if not selected:
        return allowed
    inside = {(a, b) for a, b in pairs if a in allowed and b in allowed}
    backwards = {(b, a) for a, b in inside}
    scope = {node.name for node in nodes if set(selected) & set(node.outputs)} & allowed
    while True:
        grown = closure(scope, backwards)
        targets = {t for node in nodes if node.name in grown for t in getattr(node, "target_names", ())}
        grown |= closure(targets & allowed, inside)
        if grown == scope:
            return scope
        scope = grown


def naive_replaced(scope: list[HyperNode], bound: Iterable[str]) -> set[str]:
    """The nodes that bound outputs replace, the slow way."""
    made = {output for node in scope for output in node.data_outputs}
    chosen = {t for node in scope for t in getattr(node, "target_names", ())}
    injected = made.intersection(bound)
    replaced: set[str] = set()
    for _ in scope:
        for node in scope:
            takers = {o: {n.name for n in scope if o in n.inputs} for o in node.data_outputs}
            takers = {o: names for o, names in takers.items() if names} or takers
            is_made = [
                o for o, names in takers.items() if o not in injected and not (names and names <= replaced)
            ]
            if takers and not is_made and node.name not in chosen:
                replaced.add(node.name)
    return replaced


@given(dags(), st.data())
def test_the_input_spec_is_what_the_slow_way_says(nodes: list[HyperNode], data: st.DataObject) -> None:
    graph = Graph(nodes)
    names = [node.name for node in nodes if node.name != "gate"]
    entries = tuple(data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2)))
    selected = tuple(data.draw(st.lists(st.sampled_from([*graph.data_outputs]), unique=True, max_size=2)))
    bound = data.draw(st.dictionaries(st.sampled_from([*graph.wiring.consumers, "v0_0"]), st.integers()))
    spec = graph.with_entrypoint(*entries).select(*selected).bind(**bound).inputs

    scope = [node for node in nodes if node.name in naive_scope(nodes, entries, selected)]
    fed = {output for node in scope for output in node.data_outputs}
    taking = [node for node in scope if node.name not in naive_replaced(scope, bound)]
    free = list(dict.fromkeys(param for node in scope for param in node.inputs if param not in fed))
    free = [param for param in free if any(param in node.inputs for node in taking)]
    optional = {p for p in free if p in bound or any(node.has_default_for(p) for node in scope)}
    assert spec.required == tuple(p for p in free if p not in optional)
    assert spec.optional == tuple(p for p in free if p in optional)
    assert (spec.entrypoints, spec.bound) == ({}, bound)


@given(dags(), st.randoms(use_true_random=False))
def test_the_hash_depends_neither_on_order_nor_on_bindings(nodes: list[HyperNode], rng: Any) -> None:
    shuffled = list(nodes)
    rng.shuffle(shuffled)
    graph, other = Graph(nodes), Graph(shuffled, name="other")
    assert graph.definition_hash == other.definition_hash
    assert other.bind(v0_0=1).definition_hash == graph.definition_hash
    fewer = Graph(nodes[:-1]) if "gate" not in graph.nodes else Graph([n for n in nodes if n.name != "gate"])
    assert fewer.definition_hash != graph.definition_hash


@given(dags())
def test_edges_are_exactly_the_pairs_that_names_and_targets_join(nodes: list[HyperNode]) -> None:
    graph = Graph(nodes)
    assert {(edge.source, edge.target) for edge in graph.edges} == arrows(nodes)
    assert graph.has_cycles != networkx.is_directed_acyclic_graph(graph.nx_graph)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), unique=True)))
def test_components_and_walks_agree_with_networkx(links: dict[str, list[str]]) -> None:
    network = networkx.DiGraph(links)
    names = list(network.nodes)
    cyclic = {
        frozenset(c)
        for c in networkx.strongly_connected_components(network)
        if len(c) > 1 or network.has_edge(*[*c] * 2)
    }
    assert {frozenset(component) for component in cyclic_components(names, links)} == cyclic
    for name in names:
        assert set(walk([name], links)) == {name} | networkx.descendants(network, name)


# -- broken graphs ---

Defect = tuple[
    list[HyperNode], dict[str, Any], list[str]
]  # further nodes, options of Graph, what must be named


def _twice(i: int) -> Defect:
    return [make(f"t{i}"), make(f"t{i}", "x")], {}, [f"'t{i}'"]


def _contested(i: int) -> Defect:
    return [make(f"c{i}", out=f"w{i}"), make(f"d{i}", out=f"w{i}")], {}, [f"'w{i}'", f"'c{i}'", f"'d{i}'"]


def _no_target(i: int) -> Defect:
    return (
        [route(targets=[f"nowhere{i}", END], name=f"g{i}")(lambda p: END)],
        {},
        [f"'g{i}'", f"'nowhere{i}'"],
    )


def _own_target(i: int) -> Defect:
    return [route(targets=[f"o{i}", END], name=f"o{i}")(lambda p: END)], {}, [f"'o{i}'"]


def _no_signal(i: int) -> Defect:
    return [make(f"w{i}", wait_for=f"never{i}")], {}, [f"'w{i}'", f"'never{i}'"]


def _no_identifier(i: int) -> Defect:
    return [make("x").with_name(f"not {i}"), make(f"k{i}", out=f"{i}x")], {}, [f"'not {i}'", f"'k{i}'"]


def _defaults(i: int) -> Defect:
    return [make(f"f{i}", f"z{i}=1"), make(f"h{i}", f"z{i}")], {}, [f"'z{i}'", f"'f{i}'", f"'h{i}'"]


def _collision(i: int) -> Defect:
    inner = Graph([make("a", out=f"inner{i}")], name=f"y{i}")
    return [inner.as_node(), make(f"b{i}", out=f"y{i}")], {}, [f"'y{i}'", f"'b{i}'"]


def _reserved(i: int) -> Defect:
    return [make("END", out=f"end{i}")], {}, ["'END'"]


def _graph_name(i: int) -> Defect:
    return [], {"name": f"bad.name{i}"}, [f"'bad.name{i}'"]


def _edge(i: int) -> Defect:
    return (
        [make(f"u{i}")],
        {"edges": [(f"u{i}", f"away{i}"), ("n0",), 7, (f"u{i}", "n0", ["zz"])]},
        [f"'away{i}'"],
    )


def _types(i: int) -> Defect:
    return [make(f"i{i}"), make(f"j{i}", f"i{i}_out")], {"strict_types": True}, [f"'i{i}'", f"'j{i}'"]


DEFECTS = [
    *(_twice, _contested, _no_target, _own_target, _no_signal, _no_identifier, _defaults, _collision),
    *(_reserved, _graph_name, _edge, _types),
]
NEED_EDGES = {_contested, _no_target, _own_target, _no_signal, _defaults, _collision, _edge, _types}


@given(
    dags(),
    st.lists(st.sampled_from(DEFECTS), min_size=1, max_size=4, unique=True),
    st.randoms(use_true_random=False),
)
def test_a_broken_graph_is_refused_and_every_culprit_named(
    nodes: list[HyperNode], defects: list[Any], rng: Any
) -> None:
    broken, options, named = list(nodes), {}, []
    for i, defect in enumerate(defects):
        further, more, names = defect(i)
        broken += further
        options |= more
        if not (_twice in defects and defect in NEED_EDGES) and not (_edge in defects and defect is _types):
            named += names
    rng.shuffle(broken)
    with pytest.raises(GraphConfigError) as caught:
        Graph(broken, **options)
    assert [name for name in named if name not in str(caught.value)] == []
    assert all("How to fix: " in finding for finding in caught.value.findings)


# -- copies ---


def snapshot(thing: Any) -> dict[str, Any]:
    hidden = {"memo", "_hash"}  # what is remembered may grow
    return {name: repr(value) for name, value in vars(thing).items() if name not in hidden}


NAMES = st.sampled_from(["p", "q", "r", "n0", "v0_0", "v0_1", "e0", "z"])


@given(dags(), st.lists(st.tuples(st.sampled_from(["bind", "unbind", "select", "enter", "add"]), NAMES)))
def test_graph_methods_never_touch_their_receiver(
    nodes: list[HyperNode], steps: list[tuple[str, str]]
) -> None:
    graph = Graph(nodes)
    for verb, name in steps:
        before, spec = snapshot(graph), graph.inputs
        actions = {
            "bind": lambda g, n: g.bind(**{n: 1}),
            "unbind": lambda g, n: g.unbind(n),
            "select": lambda g, n: g.select(n),
            "enter": lambda g, n: g.with_entrypoint(n),
            "add": lambda g, n: g.add_nodes(make("more", "z", out="more_out")),
        }
        try:
            derived = actions[verb](graph, name)
        except (ValueError, GraphConfigError):
            derived = graph
        assert snapshot(graph) == before
        assert graph.inputs == spec
        graph = derived


@given(
    st.lists(
        st.tuples(st.sampled_from(["name", "inputs", "outputs"]), st.dictionaries(NAMES, NAMES, max_size=3)),
        max_size=5,
    )
)
def test_renames_never_touch_their_receiver_and_always_lead_back(
    steps: list[tuple[str, dict[str, str]]],
) -> None:
    node: FunctionNode = make("n0", "p", "q", "r=3", out=("v0_0", "v0_1"), emit="e0")
    for kind, changes in steps:
        before = snapshot(node)
        try:
            if kind == "name":
                derived = node.with_name("-".join(changes))
            else:
                derived = node.with_inputs(changes) if kind == "inputs" else node.with_outputs(changes)
        except RenameError:
            derived = node
        assert snapshot(node) == before
        node = derived
    given_values = {name: position for position, name in enumerate(node.inputs)}
    assert node.map_inputs_to_params(given_values) == {"p": 0, "q": 1, "r": 2}
    assert node.defaults == {node.inputs[2]: 3}
    assert (len(node.data_outputs), node.emit) == (2, node.outputs[2:])
