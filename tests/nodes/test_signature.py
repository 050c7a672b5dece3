"""definition_hash: equal for equal definitions, different wherever behaviour can differ."""

import enum
import functools
import operator
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.making import make

from hypergraph import END, FunctionNode, Graph, SyncRunner, ifelse, node, route
from hypergraph.checkpointers import MemoryCheckpointer


def hash_of(func: Any) -> str:
    return FunctionNode(func, "f", "y").definition_hash


def double(x):
    return 2 * x


def triple(x):
    return 3 * x


# -- names do not count ---


def test_names_outputs_and_renames_are_not_part_of_it() -> None:
    made = FunctionNode(double, output_name="y")
    others = [
        FunctionNode(double, "other", ("p", "q"), emit="e", wait_for="w", cache=True, hide=True),
        FunctionNode(double, rename_inputs={"x": "z"}, output_name="y"),
        made.with_name("n").with_inputs(x="z").with_outputs(y="w"),
        FunctionNode(made),
    ]
    assert {other.definition_hash for other in others} == {made.definition_hash}
    assert len(made.definition_hash) == 64


def test_different_functions_differ() -> None:
    assert hash_of(double) != hash_of(triple)


# -- captured values ---


def adder(amount: Any) -> Any:
    def add(x):
        return x + amount

    return add


CAPTURED: list[tuple[Any, Any]] = [
    (1, 2),
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    ("a", b"a"),
    (None, 0),
    ([1, 2], [2, 1]),
    ([1], (1,)),
    ({1, 2}, {1, 3}),
    ({"a": 1}, {"a": 2}),
    ([[1], [2]], [[1], [3]]),
    ([10**5000], [10**5000 + 1]),  # more digits than str() allows
    (double, triple),
    (adder(1), adder(2)),
    (functools.partial(double, x=1), functools.partial(double, x=2)),
    (len, max),
    (int, float),
    (operator, functools),
    (lambda x: x, lambda x: -x),
]


@pytest.mark.parametrize(("one", "other"), CAPTURED)
def test_captured_values_count(one: Any, other: Any) -> None:
    assert hash_of(adder(one)) != hash_of(adder(other))
    assert hash_of(adder(one)) == hash_of(adder(one))


@pytest.mark.parametrize(("one", "other"), CAPTURED)
def test_defaults_count(one: Any, other: Any) -> None:
    def with_default(value: Any) -> Any:
        def positional(x=value):
            return x

        def keyword(*, x=value):
            return x

        return positional, keyword

    for first, second in zip(with_default(one), with_default(other), strict=True):
        assert hash_of(first) != hash_of(second)
    assert [*map(hash_of, with_default(one))] == [*map(hash_of, with_default(one))]


def test_captured_values_are_read_once_per_function_object() -> None:
    calls: list[int] = []

    def counting(x):
        calls.append(x)
        return x

    before = hash_of(counting)
    counting(1)
    assert hash_of(counting) == before
    assert FunctionNode(counting).definition_hash == before


def test_a_captured_function_counts_by_its_own_hash() -> None:
    calls: list[int] = []

    def helper(x):
        calls.append(x)
        return x

    def user() -> Any:
        def use(x):
            return helper(x)

        return use

    hash_of(helper)
    before = hash_of(user())
    helper(1)
    assert hash_of(user()) == before


def test_a_captured_node_counts_by_its_own_hash() -> None:
    def calling(inner: FunctionNode) -> Any:
        def call(x):
            return inner(x)

        return call

    one, two = (FunctionNode(f, "inner", "y") for f in (double, triple))
    assert hash_of(calling(one)) != hash_of(calling(two))
    assert hash_of(calling(one)) == hash_of(calling(one.with_name("renamed")))


def test_captured_graphs_never_match_by_accident() -> None:
    graph = Graph([make("a", "x")], name="g")

    def running(inner: Any) -> Any:
        def run(x):
            return inner

        return run

    hashes = [hash_of(running(g)) for g in (graph.bind(x=1), graph.bind(x=2), graph.as_node())]
    assert len(set(hashes)) == 3


def test_local_classes_never_match_by_accident() -> None:
    def factory(amount: int) -> Any:
        class Helper:
            def run(self, x):
                return x + amount

        def use(x):
            return Helper().run(x)

        return use, Helper

    assert hash_of(factory(1)[0]) != hash_of(factory(2)[0])
    assert hash_of(factory(1)[1]) != hash_of(factory(2)[1])


def test_a_value_without_stable_content_makes_the_hash_private() -> None:
    def locked(lock: Any) -> Any:
        def use(x):
            return lock

        return use

    lock = threading.Lock()
    one, other = locked(lock), locked(lock)
    assert hash_of(one) == hash_of(one)
    assert hash_of(one) != hash_of(other)


def test_functions_that_refer_to_themselves_and_each_other_have_a_hash() -> None:
    def pair(step: int) -> Any:
        def even(x):
            return x == 0 or odd(x - step)

        def odd(x):
            return x != 0 and even(x - step)

        return even, odd

    even, odd = pair(1)
    assert hash_of(even) != hash_of(odd)
    assert hash_of(even) == hash_of(pair(1)[0]) != hash_of(pair(2)[0])


def test_a_recursive_helper_counts_alike_whether_or_not_it_became_a_node() -> None:
    def user() -> Any:
        def down(x):
            return x and down(x - 1)

        def use(x):
            return down(x)

        return use, down

    use, down = user()
    hash_of(down)
    assert hash_of(use) == hash_of(user()[0])


def test_values_that_contain_themselves_have_a_hash() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert hash_of(adder(ring)) == hash_of(adder(ring))


def test_shared_structure_is_looked_at_once() -> None:
    def tower(ground: int) -> list[Any]:
        value: list[Any] = [ground]
        for _ in range(200):
            value = [value, value]
        return value

    assert hash_of(adder(tower(1))) == hash_of(adder(tower(1))) != hash_of(adder(tower(2)))


def test_a_structure_too_deep_to_follow_is_private() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    func = adder(deep)
    assert hash_of(func) == hash_of(func) != hash_of(adder(deep))


def test_a_name_that_is_assigned_later_does_not_hurt() -> None:
    def early(x):
        return later

    assert len(hash_of(early)) == 64
    later = 1


class Colour(enum.Enum):
    """Two values."""

    RED = 1
    BLUE = 2


def test_enum_members_count_by_name_and_value() -> None:
    assert hash_of(adder(Colour.RED)) == hash_of(adder(Colour.RED)) != hash_of(adder(Colour.BLUE))


# -- every sort of callable ---


class Scale:
    """A callable object with a method."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x):
        return self.factor * x

    def method(self, x):
        return self.factor * x

    @classmethod
    def of_class(cls, x):
        return cls

    @staticmethod
    def alone(x):
        return x


def doubling(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return 2 * func(*args, **kwargs)

    return wrapper


def tripling(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return 3 * func(*args, **kwargs)

    return wrapper


def executed(text: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace["f"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (functools.partial(pow, 2), functools.partial(pow, 3)),
        (functools.partial(double, x=1), functools.partial(triple, x=1)),
        (functools.partial(adder(1), x=1), functools.partial(adder(2), x=1)),
        (Scale(1), Scale(2)),
        (Scale(1).method, Scale(2).method),
        (Scale(1), Scale(1).method),
        (Scale.of_class, Scale.alone),
        (Scale(Scale(1)).method, Scale(Scale(2)).method),
        ({"a": 1}.get, {"a": 2}.get),
        ("a".join, "b".join),
        (operator.neg, operator.pos),
        (doubling(double), tripling(double)),
        (doubling(double), doubling(triple)),
        (doubling(double), double),
        (functools.cache(double), functools.cache(triple)),
        (functools.cache(adder(1)), functools.cache(adder(2))),
        (functools.cache(double), double),
        (executed("def f(x): return x"), executed("def f(x): return -x")),
        (executed("def f(x, y=1): return x"), executed("def f(x, y=2): return x")),
        (executed("f = lambda x: 1"), executed("f = lambda x: 2")),
        (executed("f = lambda x: [1 for _ in x]"), executed("f = lambda x: [2 for _ in x]")),
        (executed("f = lambda x, y: x"), executed("f = lambda x, *, y: x")),
        (lambda x: x + 1, lambda x: x + 2),
        (Scale, Colour),
    ],
)
def test_behaviour_that_differs_shows_in_the_hash(one: Any, other: Any) -> None:
    assert hash_of(one) != hash_of(other)
    assert hash_of(one) == hash_of(one)


@pytest.mark.parametrize(
    "build",
    [
        lambda: functools.partial(double, x=1),
        lambda: Scale(1),
        lambda: Scale(1).method,
        lambda: {"a": 1}.get,
        lambda: adder(1),
        lambda: doubling(double),
        lambda: functools.cache(adder(1)),
        lambda: executed("def f(x): return {'a', 'b', 'c'} & {x}"),
        lambda: executed("f = lambda x: x in {'a', 'b', 'c'}"),
        lambda: Scale,
    ],
)
def test_the_same_behaviour_has_the_same_hash(build: Any) -> None:
    assert hash_of(build()) == hash_of(build())


@pytest.mark.slow
def test_the_hash_is_the_same_in_another_process() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from nodes.test_signature import adder, double, executed, hash_of;"
        "print(*map(hash_of, [double, adder({'a', 'b', 'c'}), executed('f = lambda x: x in {1, \"a\"}')]))"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parents[1])]
    found = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    ).stdout.split()
    here = [double, adder({"a", "b", "c"}), executed("f = lambda x: x in {1, 'a'}")]
    assert found == [hash_of(func) for func in here]


# -- graphs ---


def test_a_graph_hash_covers_nodes_names_and_edges() -> None:
    a, b = make("a", "x"), make("b", "a_out", "y")
    graphs = [
        Graph([a, b]),
        Graph([a, b.with_inputs(y="a_out", a_out="y")]),
        Graph([a, b.with_inputs(y="z")]),
        Graph([make("a", "x", out=("a_out", "y")), b]),
        Graph([make("a", "x", out=("y", "a_out")), b]),
        Graph([a, b.with_name("c")]),
        Graph([a, b], edges=[]),
        Graph([a, b], edges=[("b", "a")]),
        Graph([make("a", "x", emit="e"), make("b", "y", wait_for="e")]),
        Graph([a, FunctionNode(double, "b", "b_out", rename_inputs={"x": "a_out"})]),
        Graph([a, b, route(targets=["b"], name="g")(double)]),
        Graph([a, b, route(targets=["a", END], name="g")(double)]),
    ]
    assert len({graph.definition_hash for graph in graphs}) == len(graphs)


def test_a_graph_hash_ignores_bindings_selection_and_order() -> None:
    a, b = make("a", "x"), make("b", "a_out")
    graph = Graph([a, b])
    others = [graph.bind(x=1), graph.select("b_out"), graph.with_entrypoint("b"), Graph([b, a], name="other")]
    assert {other.definition_hash for other in others} == {graph.definition_hash}


def test_order_does_not_count_even_where_the_first_producer_gets_the_edge() -> None:
    gate = ifelse("a", "b", name="g")(double)
    nodes = [gate, make("a", out="v", emit="e"), make("b", out="v", emit="f"), make("c", "v", wait_for="f")]
    assert Graph(nodes).edges != Graph(nodes[::-1]).edges
    assert Graph(nodes).definition_hash == Graph(nodes[::-1]).definition_hash


def test_a_graph_hash_reaches_into_nested_graphs() -> None:
    def outer(func: Any) -> Graph:
        inner = Graph([FunctionNode(func, "f", "y")], name="inner")
        return Graph([Graph([inner.as_node()], name="middle").as_node()])

    assert outer(double).definition_hash == outer(double).definition_hash != outer(triple).definition_hash


def test_a_graph_that_is_nested_often_is_hashed_once() -> None:
    @node(output_name="y")
    def leaf(x):
        return x

    graph = Graph([leaf], name="g0")
    for level in range(1, 40):
        left = graph.as_node(name="left").with_outputs(y="z")
        right = graph.as_node(name="right").with_inputs(x="z")
        graph = Graph([left, right], name=f"g{level}").select("y")
    assert len(graph.definition_hash) == 64


class Shop:
    """An object with a graph of its own methods."""

    def __init__(self) -> None:
        self.inner = Graph([FunctionNode(self.price, output_name="price")], name="inner")
        self.graph = Graph([self.inner.as_node(), FunctionNode(self.pay, output_name="paid")], name="shop")

    def price(self, n: int) -> int:
        return n

    def pay(self, price: int) -> int:
        return price


def test_a_method_of_an_object_that_holds_its_own_graph_has_a_hash() -> None:
    shop = Shop()
    assert FunctionNode(shop.pay, output_name="paid").definition_hash
    assert FunctionNode(functools.partial(shop.pay, price=2), "pay", "paid").definition_hash
    assert pickle.loads(pickle.dumps(shop)).graph.definition_hash
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    for _ in range(2):
        assert runner.run(shop.graph, n=3, workflow_id="w")["paid"] == 3
