"""Every answer has a schema, a place in the reference, and keeps to both."""

import json
import os
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from support.json_reference import reference

from hypergraph.views.problems import Problem
from hypergraph.views.schemas import SCHEMAS, full_name, json_schema

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "json.md"


def test_every_document_of_the_views_has_a_schema() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/hypergraph/views").glob("*.py")]
    named = {name for source in sources for name in re.findall(r"schema: str  # (hypergraph\.\S+)", source)}
    assert named == {full_name(name) for name in SCHEMAS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_knows_its_document(name: str) -> None:
    schema = json_schema(full_name(name))
    Draft202012Validator.check_schema(schema)
    assert schema == json_schema(name)
    assert schema["$id"] == full_name(name)


def test_an_unknown_document_is_told_apart() -> None:
    with pytest.raises(Problem, match="Unknown document: 'stepz'") as caught:
        json_schema("stepz")
    assert caught.value.hint == "Did you mean 'step'?"


def test_the_reference_is_up_to_date() -> None:
    if os.environ.get("HYPERGRAPH_REGOLD"):
        PAGE.write_text(reference(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == reference(), "write it anew: HYPERGRAPH_REGOLD=1"


def test_every_document_of_a_command_has_a_schema() -> None:
    folders = [ROOT / "src" / "hypergraph" / name for name in ("cli", "views", "demo")]
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'"hypergraph\.([a-z-]+)/1"', text)}
    assert named - set(SCHEMAS) == {"export"}  # the format of a file


@pytest.mark.parametrize("name", SCHEMAS)
def test_documents_call_the_same_thing_by_the_same_name(name: str) -> None:
    fields = set(json.dumps(json_schema(name)).replace('"', " ").split())
    odd = {"workflow_id", "node_name", "graph_name", "duration", "createdAt", "error_message"}
    assert not odd & fields, "write workflow, node, graph, duration_ms, created_at, error"
