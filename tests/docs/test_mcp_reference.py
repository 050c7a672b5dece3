"""The page about tools for agents is what the server tells them: HYPERGRAPH_REGOLD=1 writes it anew."""

import os
from pathlib import Path

import pytest
from support import mcp_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"


@pytest.mark.slow
def test_the_reference_of_tools_is_what_agents_are_told() -> None:
    text = mcp_reference.reference()
    if os.environ.get("HYPERGRAPH_REGOLD"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "HYPERGRAPH_REGOLD=1 writes it anew"
    assert all(f"\n### {tool.name}\n" in text for tool in mcp_reference.tools())
    assert text.count("| Argument |") > 15
