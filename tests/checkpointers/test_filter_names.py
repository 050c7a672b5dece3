"""The filters of both forms of a list are the same."""

import inspect
from typing import get_type_hints

import pytest

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, query


def test_both_forms_of_a_list_take_the_filters_of_a_query() -> None:
    wanted = inspect.signature(query.parse, eval_str=True).parameters
    parameters = dict(inspect.signature(Checkpointer.workflows, locals=vars(query), eval_str=True).parameters)
    del parameters["self"]
    assert parameters == dict(wanted)
    (_, filters) = inspect.signature(Checkpointer.list_workflows).parameters.values()
    assert filters.annotation == "Unpack[Filters]"
    assert get_type_hints(query.Filters) == {name: each.annotation for name, each in wanted.items()}


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(TypeError, match="owner"):
        MemoryCheckpointer().workflows(owner="me")
