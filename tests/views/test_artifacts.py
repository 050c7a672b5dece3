"""Values outside of the database: lists and comparisons say so, and do not fetch them."""

from pathlib import Path

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import FileArtifactStore, SqliteCheckpointer
from hypergraph.views.diff import changes, diff
from hypergraph.views.values import NOT_FETCHED
from hypergraph.views.why import why


@node(output_name="text", artifact=True)
def read(number: int) -> str:
    return f"{number} " * 1000


graph = Graph([read], name="reading")


def test_comparisons_and_descents_say_that_a_value_was_not_fetched(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        for number, workflow_id in ((1, "a"), (1, "same"), (2, "b")):
            SyncRunner(checkpointer=store).run(graph, number=number, workflow_id=workflow_id)
        found = {item["name"]: item for item in diff(store, "a", "b")["items"]}
        (root,) = (item for item in why(store, "b", "text")["items"] if item["name"] == "text")
        for shown in (found["text"]["a"], found["text"]["b"], root["value"]):
            assert shown is not None
            assert (shown["type"], shown["text"]) == ("artifact", f"({NOT_FETCHED})")
        assert diff(store, "a", "same")["same"]
        SyncRunner(checkpointer=store).run(graph, number=3, workflow_id="b")
        (number, text) = changes(store, "b", 0, 1)["items"]
        assert text["b"] is not None
        assert text["b"]["text"] == f"({NOT_FETCHED})"


def test_a_value_whose_artifact_is_gone_is_not_mistaken_for_one_that_was_left(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        SyncRunner(checkpointer=store).run(graph, number=1, workflow_id="a")
    elsewhere = SqliteCheckpointer(
        tmp_path / "runs.db", artifact_store=FileArtifactStore(tmp_path / "elsewhere")
    )
    with elsewhere:
        assert "is not in" in elsewhere.state("a")["text"].reason
