"""Texts in columns: tags are read without a JSON parser where they can be, versions lose nothing in brief."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.checkpointers.sql.columns import _texts_of, mapping_in, versions_in, versions_text

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


@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.parametrize(
    ("taken", "made"),
    [
        ({"number": 3}, {"messages": 1234}),
        ({"a": 1, "b": 2}, {}),
        ({}, {"ä": 1}),
        ({}, {}),
        ({"},{": 1, "a\nb": 2}, {'"': 3, "": 4, "[{": 5, "\\": 6}),
    ],
)
def test_versions_come_back(taken: dict[str, int], made: dict[str, int], brief: bool) -> None:
    assert versions_in(versions_text(brief, taken, made)) == [taken, made]


def test_brief_versions_are_short() -> None:
    assert versions_text(True, {"number": 3}, {"messages": 3}) == '"number":3\n"messages":3'


@pytest.mark.parametrize("text", ["", "nonsense", '"a":1', '"a":1\n"b":"c"', "[", "7", '"a":1\n"b":2\n"c'])
def test_what_are_no_versions_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller names the row
        _taken, _made = versions_in(text)
