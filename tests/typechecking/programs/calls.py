"""Nodes called as functions: parameters and results are those of the function."""

from typing import assert_type

from hypergraph import END, FunctionNode, NodeContext, ifelse, interrupt, node, route


@node(output_name="length")
def measure(text: str, times: int = 1) -> int:
    return len(text) * times


@node
def tell(text: str) -> None:
    print(text)


@node(output_name="answer", timeout=3)
async def ask(question: str) -> str:
    return question


@route(targets=["measure", END])
def choose(length: int) -> str:
    return "measure" if length else "END"


@ifelse(when_true="measure", when_false=END)
def is_long(length: int) -> bool:
    return length > 3


@interrupt("approved")
def review(draft: str) -> bool | None:
    return None


@node(output_name="greeting")
def greet(name: str, context: NodeContext) -> str:
    return f"{name} {context.attempt}"


assert_type(measure("tea"), int)
assert_type(measure("tea", times=2), int)
assert_type(measure.with_name("other").with_inputs(text="title")("tea"), int)
assert_type(measure.func("tea"), int)
assert_type(choose(3), str)
assert_type(is_long(3), bool)
assert_type(review("draft"), bool | None)
made = FunctionNode(measure.func, "made", "length")
assert_type(made("tea"), int)
also = node(measure, output_name="size")
assert_type(also("tea"), int)


async def main() -> str:
    return await ask("why")


def takes_any(any_node: FunctionNode) -> FunctionNode[[str], str]:
    any_node(1, 2, 3)
    return node(lambda text: text.upper(), "loud")


measure(3)  # E: Argument 1 to "__call__" of "CallableNode" has incompatible type "int"; expected "str"
measure()  # E: Missing positional argument "text"
measure("tea", time=2)  # E: Unexpected keyword argument "time"
wrong: str = measure("tea")  # E: Incompatible types in assignment (expression has type "int"
choose("x")  # E: incompatible type "str"; expected "int"
is_long([])  # E: expected "int"
review(3)  # E: incompatible type "int"; expected "str"
ask("why").upper()  # E: "Coroutine[Any, Any, str]" has no attribute "upper"
made(3)  # E: incompatible type "int"; expected "str"
greet("Ann")  # E: Missing positional argument "context"
node(measure.func, output="x")  # E: No overload variant of "node" matches
