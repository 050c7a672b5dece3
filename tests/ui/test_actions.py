"""What can be done through `hypergraph ui`: the same calls as everybody's, behind a running server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ui_serving import Answer, Served, serving, write_story

from hypergraph import SqliteCheckpointer
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.ui.actions import ACTIONS

NAMES = ["loop", "review", "inverse", "translating", "files", "both", "posting"]
APPS = [word for name in NAMES for word in ("--app", f"support.ui_serving:{name}")]
SERVICES = ("--services", "support.ui_serving:services")


def story(folder: Path) -> Path:
    store = SqliteCheckpointer(folder / "story.db")
    asyncio.run(write_story(store))
    store.close()
    return folder / "story.db"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(story(tmp_path_factory.mktemp("ui")), *APPS, *SERVICES) as running:
        yield running


def settled(server: Served, workflow_id: str, but: str = "active") -> dict[str, object]:
    """Return the workflow once it has another status: news tell when to look."""
    with server.listening() as news:
        while True:
            found = server.ask("workflow", id=workflow_id)
            if found.status == 200 and found.document["status"] not in ("active", but):
                document: dict[str, object] = found.document
                return document
            next(news)


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.document["error"]["message"]


def test_the_graphs_that_may_run_are_named(server: Served) -> None:
    assert server.ask("about").document["graphs"] == NAMES


def test_a_fork_with_edited_values_runs_on(server: Served) -> None:
    answer = server.wish("fork", id="loop-1", at=3, values={"n": 4}, new_id="edited")
    assert answer.document == {"schema": "hypergraph.started/1", "id": "edited"}
    found = settled(server, "edited")
    assert (found["status"], found["forked_from"], found["forked_at"]) == ("completed", "loop-1", 3)
    assert server.ask("value", id="edited", key="n").document["value"] == 5


def test_a_fork_asks_before_it_makes_calls_again(server: Served) -> None:
    assert server.wish("start", graph="posting", values={"amount": 1}, id="posting-1").status == 200
    assert settled(server, "posting-1")["status"] == "completed"
    wish = {"id": "posting-1", "values": {"amount": 2}, "new_id": "corrected"}
    answer = server.wish("fork", **wish)
    assert (answer.status, answer.document["error"]["code"]) == (409, "repeats")
    assert "'post' (1 completed call)" in answer.document["error"]["message"]
    assert server.ask("workflow", id="corrected").status == 404
    assert server.wish("fork", **wish, repeat=True).status == 200
    assert settled(server, "corrected")["status"] == "completed"


def test_nodes_get_the_services_of_the_server(server: Served) -> None:
    assert server.wish("start", graph="translating", values={"word": "tea"}, id="tea").status == 200
    assert settled(server, "tea")["status"] == "completed"
    assert server.ask("value", id="tea", key="translated").document["value"] == "Tee"


def test_a_fork_finds_a_name_that_is_free(server: Served) -> None:
    names = [server.wish("fork", id="loop-1", at=0).document["id"] for _ in range(2)]
    assert names == ["loop-1-fork-1", "loop-1-fork-2"]
    assert {str(settled(server, name)["status"]) for name in names} == {"completed"}


def test_an_answer_lets_a_paused_run_go_on(server: Served) -> None:
    assert server.wish("answer", id="review-1", answer=True).status == 200
    assert settled(server, "review-1", but="paused")["status"] == "completed"
    assert server.ask("value", id="review-1", key="sent").document["value"] == "about tea: True"


def test_an_answer_to_a_question_that_is_not_open_does_not_count_for_the_next(server: Served) -> None:
    server.wish("start", graph="review", values={"topic": "milk"}, id="review-2")
    settled(server, "review-2")
    (asked,) = server.ask("workflow", id="review-2").document["questions"]
    late = server.wish("answer", id="review-2", answer=True, key="approved", question=asked["question"] + "0")
    assert refused(late) == (409, "This question of 'review-2' is not open any more")
    assert server.ask("workflow", id="review-2").document["status"] == "paused"
    answer = server.wish("answer", id="review-2", answer=False, key="approved", question=asked["question"])
    assert answer.status == 200
    assert settled(server, "review-2", but="paused")["status"] == "completed"
    assert server.ask("value", id="review-2", key="sent").document["value"] == "about milk: False"


def test_an_answer_to_one_of_two_questions_names_its_key_or_its_question(server: Served) -> None:
    server.wish("start", graph="both", values={"topic": "tea"}, id="both-1")
    settled(server, "both-1")
    unclear = server.wish("answer", id="both-1", answer=True)
    assert refused(unclear)[0] == 409
    assert unclear.document["error"]["code"] == "ambiguous"
    assert sorted(unclear.document["error"]["matches"]) == ["approved", "paid"]
    asked = {each["response_key"]: each for each in server.ask("workflow", id="both-1").document["questions"]}
    paid = server.wish("answer", id="both-1", answer=False, question=asked["paid"]["question"])
    assert paid.status == 200
    with server.listening() as news:
        while server.ask("value", id="both-1", key="paid").status != 200:
            next(news)
    assert server.ask("value", id="both-1", key="paid").document["value"] is False
    settled(server, "both-1")
    assert server.wish("answer", id="both-1", answer=True).status == 200  # one is left
    assert settled(server, "both-1", but="paused")["status"] == "completed"


def test_a_failed_run_is_resumed_with_other_values(server: Served) -> None:
    assert server.wish("resume", id="inverse-1", values={"x": 4}).status == 200
    assert settled(server, "inverse-1", but="failed")["status"] == "completed"
    assert server.ask("value", id="inverse-1", key="y").document["value"] == 0.25


def test_failed_items_inside_a_run_are_run_again(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "late.txt"
    values = {"path": [str(file)]}
    assert server.wish("start", graph="files", values=values, id="files-1").status == 200
    assert settled(server, "files-1")["failed_inside"] == 1
    file.write_text("here", encoding="utf-8")
    assert server.wish("resume", id="files-1").status == 200
    assert settled(server, "files-1")["failed_inside"] == 1
    assert server.wish("resume", id="files-1", restart="node").status == 200
    with server.listening() as news:
        while server.ask("workflow", id="files-1").document["failed_inside"]:
            next(news)
    assert settled(server, "files-1")["status"] == "completed"
    assert server.ask("value", id="files-1", key="size").document["value"] == [4]


def test_equal_values_count_as_new_in_a_new_turn(server: Served) -> None:
    assert server.wish("start", graph="translating", values={"word": "tea"}, id="twice").status == 200
    assert settled(server, "twice")["steps"] == 1
    said = {"id": "twice", "values": {"word": "tea"}}
    for name, steps in (("same", 1), ("again", 2)):
        assert server.wish("fork", **said, new_id=name, new_turn=steps == 2).status == 200
        assert settled(server, name, but="stopped")["steps"] == steps
    assert server.wish("resume", **said, new_turn=True).status == 200
    with server.listening() as news:
        while server.ask("workflow", id="twice").document["steps"] < 2:
            next(news)


def test_tags_are_set_and_taken_off(server: Served) -> None:
    assert server.wish("tag", id="loop-1", set={"a": "1", "b": "2"}).document["tags"] == {"a": "1", "b": "2"}
    assert server.wish("tag", id="loop-1", remove=["a"]).document == {
        "schema": "hypergraph.tags/1",
        "id": "loop-1",
        "tags": {"b": "2"},
    }
    assert server.ask("workflows", tag="b=2").document["total"] == 1


def test_a_workflow_is_deleted_with_its_children(server: Served) -> None:
    content = server.ask("export", id="outer-1", format="json").body.decode()
    assert server.wish("import", content=content, new_id="gone").status == 200
    assert server.ask("workflow", id="gone/inside").status == 200
    assert server.wish("delete", id="gone").document["deleted"] == 2
    assert server.ask("workflow", id="gone/inside").status == 404


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("fork", {"id": "nobody"}, 404, "Workflow 'nobody' not found"),
        ("fork", {"id": "loop-1", "at": 999}, 409, "has no superstep 999"),
        ("fork", {"id": "loop-1", "new_id": "health"}, 409, "Workflow 'health' already exists"),
        ("fork", {"id": "loop-1", "new_id": "a/b"}, 409, "cannot be a workflow id"),
        ("fork", {"id": "loop-1", "new_id": ""}, 409, "cannot be a workflow id: it is empty"),
        ("start", {"graph": "loop", "values": {"n": 1}, "id": ""}, 409, "it is empty"),
        ("fork", {"id": "loop-1", "graph": "lop"}, 409, "does not have graph 'lop'"),
        ("fork", {"id": "loop-1", "values": {"n": 1}, "new_turn": 1}, 400, "Expected `bool`, got `int`"),
        ("fork", {"id": "loop-1", "new_turn": True}, 400, "none are given"),
        ("resume", {"id": "loop-1", "values": {"n": 1}, "new_turn": "yes"}, 400, "Invalid enum value 'yes'"),
        ("resume", {"id": "loop-1", "new_turn": True}, 400, "none are given"),
        ("resume", {"id": "map-1"}, 409, "is a map"),
        ("resume", {"id": "outer-1/inside"}, 409, "runs inside 'outer-1'"),
        ("start", {"graph": "loop", "values": {"m": 1}}, 400, "'m' is not an input of graph 'loop'"),
        ("start", {"graph": "loop", "values": {"n": "five"}}, 400, "Invalid value for n: 'five' is not int"),
        ("fork", {"id": "loop-1", "values": {"m": 1}}, 400, "'m' is not an input"),
        ("fork", {"id": "loop-1", "values": {"n": "five"}}, 400, "is not int"),
        ("resume", {"id": "loop-1", "values": {"inside.n": 1}}, 400, "'inside.n' is not an input"),
        ("resume", {"id": "loop-1", "values": {"n": [5]}}, 400, "is not int"),
        ("answer", {"id": "loop-1", "answer": 1}, 409, "does not wait for an answer: it is completed"),
        ("delete", {"id": "nobody"}, 404, "Workflow 'nobody' not found"),
    ],
)
def test_what_cannot_be_done_is_told_at_once(
    server: Served, name: str, body: dict[str, object], status: int, said: str
) -> None:
    found, message = refused(server.wish(name, **body))
    assert (found, said in message) == (status, True), message


@pytest.mark.slow
def test_what_somebody_is_at_work_on_is_left_to_them(tmp_path: Path) -> None:
    with serving(file := story(tmp_path), *APPS) as another:
        store = SqliteCheckpointer(file)
        claim = store.backend.claim("loop-1", NewWorkflow(), store.encoding)
        try:
            assert another.wish("resume", id="loop-1", values={"n": 1}).status == 409
            assert another.wish("delete", id="loop-1").status == 409
        finally:
            store.backend.release(claim)
            store.close()


@pytest.mark.slow
def test_read_only_means_that_nothing_can_be_changed(tmp_path: Path) -> None:
    with serving(story(tmp_path), *APPS, "--read-only") as server:
        assert server.ask("about").document["read_only"] is True
        for name in ACTIONS:
            answer = server.wish(name, id="loop-1")
            assert (answer.status, answer.document["error"]["code"]) == (403, "read_only")


@pytest.mark.slow
def test_without_a_graph_that_it_may_run_the_server_says_how_to_give_one(tmp_path: Path) -> None:
    with serving(story(tmp_path)) as server:
        for name in ("fork", "resume"):
            answer = server.wish(name, id="review-1")
            assert answer.status == 409
            assert "--app" in answer.document["error"]["hint"]
        assert server.wish("tag", id="loop-1", set={"a": "b"}).status == 200


@pytest.mark.slow
def test_without_a_graph_an_answer_is_kept_for_the_next_run(tmp_path: Path) -> None:
    with serving(story(tmp_path)) as server:
        kept = server.wish("answer", id="review-1", key="approved", answer=True).document
        assert kept["schema"] == "hypergraph.answered/1"
        assert [(found["response_key"], found["answered"]) for found in kept["questions"]] == [
            ("approved", True)
        ]
        again = server.wish("answer", id="review-1", key="approved", answer=False)
        assert "answered already" in again.document["error"]["message"]
        assert (
            "does not ask"
            in server.wish("answer", id="review-1", key="other", answer=1).document["error"]["message"]
        )


@pytest.mark.slow
def test_a_server_that_stops_leaves_its_runs_resumable(tmp_path: Path) -> None:
    with serving(story(tmp_path), "--app", "support.ui_serving:endless") as server:
        assert (
            server.wish("fork", id="loop-1", at=0, values={"n": 7}, graph="endless", new_id="long").status
            == 200
        )
        code, said = server.stop()
    assert (code, "Traceback" in said) == (0, False)
    store = SqliteCheckpointer(tmp_path / "story.db")
    found = store.workflow("long")
    assert found is not None
    assert found.status in (WorkflowStatus.STOPPED, WorkflowStatus.ACTIVE)
    store.backend.release(store.backend.claim("long", NewWorkflow(), store.encoding))  # nobody holds it
    store.close()


def test_who_gives_an_answer_is_kept(server: Served) -> None:
    server.wish("start", graph="review", values={"topic": "rum"}, id="by-1")
    settled(server, "by-1")
    assert server.wish("answer", id="by-1", answer=True, by="ann").status == 200
    assert settled(server, "by-1", but="paused")["status"] == "completed"
    step = server.ask("step", id="by-1", index=1).document
    assert (step["answer"], step["answered_by"]) == ("used", "ann")


def test_an_item_is_run_by_itself_with_corrected_inputs(server: Served, tmp_path: Path) -> None:
    file = tmp_path / "right.txt"
    file.write_text("four", encoding="utf-8")
    server.wish("start", graph="files", values={"path": [str(tmp_path / "wrong")]}, id="files-2")
    assert settled(server, "files-2")["failed_inside"] == 1
    item = "files-2/file/item-0"
    trace = server.ask("workflow", id="files-2").document["first_error"]["traceback"]
    assert "hypergraph/engine" not in trace
    assert "concurrent/futures" not in trace
    (row,) = server.ask("row_details", id="files-2").document["items"]
    assert row["error"]["node"] == "measure"
    assert server.wish("resume", id=item, values={"path": str(file)}).status == 200
    assert settled(server, item, but="failed")["status"] == "completed"
    assert server.wish("resume", id="files-2").status == 200
    with server.listening() as news:
        while server.ask("value", id="files-2", key="size").document["value"] != [4]:
            next(news)
