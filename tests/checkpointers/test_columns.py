"""Tags are read without a JSON parser where they are plain texts, with the same result."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.checkpointers.sql.columns import _texts_of, mapping_in

TEXTS = st.text(st.sampled_from('ab: ,{}[]"\\é—\n\u200b'), max_size=6)


@given(st.dictionaries(TEXTS, TEXTS, max_size=4), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_a_mapping_of_texts_is_read_as_json_reads_it(
    tags: dict[str, str], ascii_only: bool, separators: tuple[str, str]
) -> None:
    text = json.dumps(tags, ensure_ascii=ascii_only, separators=separators)
    assert mapping_in(text, str) == tags
    assert _texts_of(text) in (None, tags)


@given(st.text(st.sampled_from('ab:, {}"\\'), max_size=14))
def test_any_other_text_is_left_to_json(text: str) -> None:
    found = _texts_of(text)
    if found is not None:
        assert json.loads(text) == found


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": "b",}', '{"a": "b"} x', '{"a": "\\n"}', '["a"]'])
def test_what_is_not_a_mapping_of_plain_texts_is_not_read(text: str) -> None:
    assert _texts_of(text) is None


def test_plain_tags_are_read() -> None:
    assert _texts_of('{"hypergraph.app": "shop:orders", "user": "ann"}') == {
        "hypergraph.app": "shop:orders",
        "user": "ann",
    }
