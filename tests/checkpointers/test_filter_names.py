"""The filters of both forms of a list are the same."""

import inspect

import pytest

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, query


@pytest.mark.parametrize("method", [Checkpointer.workflows, Checkpointer.list_workflows])
def test_both_forms_of_a_list_take_the_filters_of_a_query(method: object) -> None:
    parameters = dict(inspect.signature(method, locals=vars(query), eval_str=True).parameters)
    del parameters["self"]
    assert parameters == dict(inspect.signature(query.parse, eval_str=True).parameters)


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(TypeError, match="owner"):
        MemoryCheckpointer().workflows(owner="me")
