"""The filters of lists are told by `help`, and one that does not exist by its name."""

import inspect

import pytest

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.checkpointers.base import Filters


@pytest.mark.parametrize("method", [Checkpointer.workflows, Checkpointer.list_workflows])
def test_the_signature_of_a_list_names_its_filters_and_defaults(method: object) -> None:
    parameters = dict(inspect.signature(method).parameters)
    del parameters["self"]
    assert {name: parameter.default for name, parameter in parameters.items()} == {
        **dict.fromkeys(Filters.__annotations__),
        "limit": 100,
    }


def test_an_unknown_filter_is_named_with_those_there_are() -> None:
    with pytest.raises(TypeError, match=r"no filter owner; there are status, graph, .*cursor"):
        MemoryCheckpointer().workflows(owner="me")
