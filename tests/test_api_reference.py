"""The reference of the Python API is what the code says of itself: HYPERGRAPH_REGOLD=1 writes it anew."""

import os

import api_reference
import pytest


@pytest.mark.parametrize("name", api_reference.PATHS)
def test_a_page_of_the_api_is_what_the_code_says(name: str) -> None:
    file, text = api_reference.REFERENCE / name, api_reference.pages()[name]
    if os.environ.get("HYPERGRAPH_REGOLD"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "HYPERGRAPH_REGOLD=1 writes it anew"
