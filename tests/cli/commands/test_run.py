"""`hypergraph run`, `resume` and `fork`, as people call them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT
from support.cli_shop import RunCli, shop

from hypergraph import END, Graph, SyncRunner, ifelse, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli import main
from hypergraph.exceptions import OwnershipLostError

__all__ = ["shop"]

pytestmark = pytest.mark.slow  # every call is a process


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return said


@node(output_name="messages", append=True)
def reply(said: str) -> str:
    return f"and {said.upper()} to you"


@interrupt("approved")
def approve(said: str) -> bool | None:
    return None


@node(output_name="left")
def count_down(left: int) -> int:
    return left - 1


@ifelse(when_true="count_down", when_false=END)
def is_more(left: int) -> bool:
    return left > 0


@node(output_name="twice")
def double(n: int) -> int:
    return 2 * n


DOUBLING = Graph([double], name="doubling")
CHAT = Graph([listen, reply], name="chat")
COUNTING = Graph([count_down, is_more], name="counting")
ASKING = Graph([approve], name="asking")


def test_a_run_shows_its_log_and_outputs_and_is_written_down(shop: RunCli) -> None:
    shop.golden("run-completed", "run", "shop:math", "n=8", "--id", "eight", "--tag", "user=ann")
    found = SqliteCheckpointer(shop.database).workflow("eight")
    assert found is not None
    assert (found.status, found.tags) == (
        WorkflowStatus.COMPLETED,
        {"hypergraph.app": "shop:math", "user": "ann"},
    )


def test_a_failed_run_ends_with_1_and_goes_on_where_it_failed(shop: RunCli) -> None:
    shop.golden("run-failed", "run", "shop:math", "n=-8", "--id", "neg", code=1)
    (Path(shop.folder) / "fixed").touch()
    shop.golden("resume-fixed", "resume", "neg", "shop:math")


def test_a_paused_run_says_how_to_answer_and_takes_the_answer(shop: RunCli) -> None:
    shop.golden("run-paused", "run", "shop:asks", "n=3", "--id", "q")
    shop.golden("resume-answered", "resume", "q", "approved=false")


def test_an_answer_with_a_fork_or_a_turn_is_for_its_own_question(shop: RunCli) -> None:
    shop("run", "shop:asks", "n=3", "--id", "q")
    shop("resume", "q", "approved=false")
    found = shop.json("resume", "q", "n=4", "approved=true", "--new-turn")
    assert (found["status"], found["outputs"][-1]["value"]) == ("completed", "8: True")
    at = next(s["superstep"] for s in shop.json("steps", "q")["items"][::-1] if s["node"] == "approve") - 1
    for answer, value in (("true", "8: True"), ("false", "8: False")):
        found = shop.json("fork", "q", f"approved={answer}", "--at", at, "--code-change", "rerun")
        assert (found["status"], found["outputs"][-1]["value"]) == ("completed", value)


def test_items_of_a_map_are_answered_by_path_and_used_by_the_next_run(shop: RunCli) -> None:
    mapped = ("shop:asks", "n=[3, 4]", "--map-over", "n")
    shop.golden("run-paused-map", "run", *mapped, "--id", "m")
    keys = [found["response_key"] for found in shop.json("show", "m")["questions"]]
    assert keys == ["item-0.approved", "item-1.approved"]
    shop.golden("answer-item", "answer", "m", "item-1.approved=True", "--by", "ann")
    shop.golden("answer-twice", "answer", "m", "item-1.approved=False", code=4)
    shop.golden("answer-no-item", "answer", "m", "item-7.approved=True", code=4)
    shop.golden("answer-nothing", "answer", "m", code=2)
    shop("answer", "m/item-0", "approved=False")
    found = shop.json("resume", "m", *mapped)
    assert [item["status"] for item in found["items"]] == ["completed", "completed"]
    assert shop.json("show", "m")["questions"] == []
    step = shop.json("step", "m/item-1", "1")
    assert (step["answer"], step["answered_by"]) == ("used", "ann")


def test_a_map_lists_failed_items_first_and_is_run_again_for_the_rest(shop: RunCli) -> None:
    words = (
        "run",
        "shop:math",
        "n=[1, -2, 3]",
        "--map-over",
        "n",
        "--error-handling",
        "continue",
        "--id",
        "m",
    )
    shop.golden("run-map", *words, code=1)
    shop.golden("resume-of-a-map-with-one-item", "resume", "m", "shop:math", "n=5", code=2)
    (Path(shop.folder) / "fixed").touch()
    done = shop.json(*words, "--resume")
    assert (done["status"], [item["status"] for item in done["items"]]) == ("completed", ["completed"] * 3)


def test_a_map_with_a_key_is_resumed_with_its_list(shop: RunCli) -> None:
    mapped = ("--map-over", "n", "--key", "n", "--error-handling", "continue")
    shop("run", "shop:math", "n=[1, -2, 3]", *mapped, "--id", "m", code=1)
    refused = shop("resume", "m", code=2).err
    assert "is a map with a key: give its list again" in refused
    assert "resume m shop:math KEY=VALUES --map-over KEY --key KEY" in refused
    shop("run", "shop:math", "n=[1, 3]", *mapped, "--id", "m", "--resume")  # completed, one failed inside
    assert "resume m KEY=VALUES --map-over KEY --key KEY" in shop("show", "m").out


def test_a_map_is_resumed_with_the_items_that_are_stored(shop: RunCli) -> None:
    mapped = ("n=[1, -2, 3]", "--map-over", "n", "--error-handling", "continue")
    shop("run", "shop:math", *mapped, "--id", "m", code=1)
    assert (
        "the same command with --id m --resume"
        in shop("run", "shop:math", *mapped, "--id", "m", "--resume", code=1).out
    )
    assert "To run the others: the same command again\n" in shop("resume", "m", code=1).out
    (Path(shop.folder) / "fixed").touch()
    done = shop.json("resume", "m")
    assert (done["status"], [item["status"] for item in done["items"]]) == ("completed", ["completed"] * 3)


def test_a_map_does_not_complete_without_items_that_never_began(shop: RunCli) -> None:
    store = SqliteCheckpointer(shop.database)
    shop("run", "shop:math", "n=[1, -2, 3, 4]", "--map-over", "n", "--id", "m", code=1)
    (Path(shop.folder) / "fixed").touch()
    shop.golden("resume-of-a-map-that-lacks-items", "resume", "m", code=2)
    assert shop.json("resume", "m", code=2)["error"]["code"] == "usage"
    store.tag("m", remove=["hypergraph.items"])  # as a map that no command has run
    refused = shop("resume", "m", code=2).err
    assert "it may have more" in refused
    assert "Run the program that began it again, or run the item left by itself: hypergraph" in refused
    assert "resume m/item-1 shop:math. Or give the whole list" in refused
    assert store.workflow("m").status is WorkflowStatus.PARTIAL
    done = shop.json("resume", "m", "n=[1, -2, 3, 4]", "--map-over", "n")
    assert [item["status"] for item in done["items"]] == ["completed"] * 4


def test_items_of_a_map_that_a_program_began_run_by_the_command_that_is_named(shop: RunCli) -> None:
    store = SqliteCheckpointer(shop.database)
    mapped = ("n=[1, -2, -3]", "--map-over", "n", "--error-handling", "continue")
    shop("run", "shop:math", *mapped, "--id", "m", code=1)
    store.tag("m", remove=["hypergraph.items"])  # as a map that no command has run
    assert "run each of the 2 items left by itself: hypergraph" in shop("resume", "m", code=2).err
    (Path(shop.folder) / "fixed").touch()
    for number in (1, 2):
        assert shop.json("resume", f"m/item-{number}", "shop:math")["status"] == "completed"


def test_a_map_with_a_key_is_resumed_with_a_list_in_another_order(shop: RunCli) -> None:
    shop("run", "shop:math", "n=[8, -8]", "--map-over", "n", "--key", "n", "--id", "m", code=1)
    (Path(shop.folder) / "fixed").touch()
    refused = shop("resume", "m", "shop:math", code=2)
    assert "--map-over KEY --key KEY" in refused.err
    listed = ("n=[-8, 7, 8]", "--map-over", "n", "--key", "n")
    found = shop.json("resume", "m", "shop:math", *listed)
    assert (found["status"], [item["status"] for item in found["items"]]) == ("completed", ["completed"] * 3)
    assert shop.json("ls", "--parent", "m")["total"] == 3


def test_a_map_that_is_run_on_with_a_longer_list_needs_that_list(shop: RunCli) -> None:
    longer = ("n=[1, -2, 3]", "--map-over", "n", "--id", "m")
    shop("run", "shop:math", "n=[1]", *longer[1:])
    shop("run", "shop:math", *longer, "--resume", code=1)
    assert "2 of 3 items have begun" in shop("resume", "m", code=2).err


def test_a_paused_map_and_its_items_are_resumed_as_the_hints_say(shop: RunCli) -> None:
    shop("run", "shop:asks", "n=[3, 4, 5]", "--map-over", "n", "--id", "m")
    assert "hypergraph --db FILE resume m\n" in shop.settled(shop("show", "m").out)
    shop("answer", "m", "item-1.approved=True")
    assert [item["status"] for item in shop.json("resume", "m")["items"]] == ["paused", "completed", "paused"]
    assert shop.json("resume", "m/item-0", "approved=False")["status"] == "completed"
    done = shop.json("resume", "m", "item-2.approved=True")
    assert [item["status"] for item in done["items"]] == ["completed"] * 3


def test_a_map_ends_at_its_first_failing_item_unless_told_otherwise(shop: RunCli) -> None:
    found = shop.json("run", "shop:math", "n=[-1, 2]", "--map-over", "n", code=1)
    assert [item["status"] for item in found["items"]] == ["failed"]
    assert found["error"]["node"] == "root"


def test_a_fork_is_made_without_a_graph_and_runs_on_with_one(shop: RunCli) -> None:
    shop("run", "shop:math", "n=8", "--id", "eight")
    shop.golden("fork-made", "fork", "eight", "--at", 0)
    shop.golden("fork-run", "fork", "eight", "--at", 0, "--set", "double=7", "--id", "seven")
    assert shop.json("resume", "eight-fork-1")["outputs"][-1]["value"] == 16.0
    whole = shop.json("fork", "eight")["workflow"]
    assert (whole["forked_from"], whole["forked_at"], whole["steps"], whole["status"]) == (
        "eight",
        1,
        2,
        "stopped",
    )
    shop.golden("fork-beyond-the-end", "fork", "eight", "--at", 9, code=1)
    shop.golden("fork-onto-another", "fork", "eight", "--id", "seven", code=4)
    store = SqliteCheckpointer(shop.database)
    store.tag("eight", remove=["hypergraph.app"])
    shop.golden("fork-edit-without-graph", "fork", "eight", "--set", "double=7", code=2)
    store.tag("eight", {"hypergraph.app": "antigravity:graph"})
    said = shop("fork", "eight", "double=7", code=2).err
    assert "'antigravity:graph', which started 'eight', is not taken: 'antigravity' is not in the" in said
    (Path(shop.folder) / "deploy.py").write_text("open('deployed', 'w')")  # of another purpose
    store.tag("eight", {"hypergraph.app": "deploy:graph"})
    assert "is not taken: deploy.py does not mention hypergraph" in shop("resume", "eight", code=2).err
    assert not (Path(shop.folder) / "deployed").exists()


def test_values_are_json_of_a_text_a_file_or_stdin(shop: RunCli) -> None:
    (Path(shop.folder) / "in.json").write_text('{"n": 1}')
    assert shop.json("run", "shop:math", "--values", "@in.json")["outputs"][0]["value"] == 2
    assert "'n' is given twice" in shop("run", "shop:math", "--values", '{"n": 1}', "n=5", code=2).err
    command = [
        sys.executable,
        "-m",
        "hypergraph",
        "run",
        "shop:math",
        "--values",
        "-",
        "--json",
        "--no-store",
    ]
    given = {"input": b'{"n": 4}', "cwd": shop.folder, "env": ENVIRONMENT}
    said = subprocess.run(command, check=True, capture_output=True, **given)
    assert json.loads(said.stdout)["outputs"][0]["value"] == 8
    assert shop.json("ls")["total"] == 1  # the default database is the same file, and has no second run


def test_what_is_no_literal_is_text_and_prints_of_nodes_stay_out_of_json(shop: RunCli) -> None:
    said = shop("run", "shop:talks", "text=plain words", "--json")
    assert json.loads(said.out)["outputs"][0]["value"] == "plain words"
    assert said.err == "a node prints\n"


def test_graphs_and_the_database_have_names_in_pyproject(shop: RunCli) -> None:
    (Path(shop.folder) / "pyproject.toml").write_text(
        '[tool.hypergraph]\ndb = "named.db"\n[tool.hypergraph.graphs]\nsums = "shop:math"\n'
    )
    command = [sys.executable, "-m", "hypergraph", "run", "sums", "n=1"]
    subprocess.run(command, check=True, cwd=shop.folder, env=ENVIRONMENT, capture_output=True)
    assert os.path.exists(os.path.join(shop.folder, "named.db"))
    assert "  sums\n" in shop("run", "sms", code=1).err


def test_an_interrupted_run_is_stopped_and_says_how_to_go_on(shop: RunCli) -> None:
    command = [sys.executable, "-m", "hypergraph", "--db", shop.database]
    words = ["run", "shop:hangs", "n=1", "--id", "long"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command + words, cwd=shop.folder, env=ENVIRONMENT, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hanging\n"
        busy = shop("rm", "long", "--yes", code=4)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert f"hypergraph --db {shop.database} resume long shop:hangs".encode() in told
    assert "is being run by process" in busy.err
    found = SqliteCheckpointer(shop.database).workflow("long")
    assert found is not None
    assert found.status is WorkflowStatus.STOPPED


UNEQUAL = ("--values", '{"n": [1], "double": [1, 2]}', "--map-over", "n", "--map-over", "double")
BAD = {
    "run-no-target": (("run",), 2),
    "run-unknown-module": (("run", "shp:math"), 1),
    "run-file-for-module": (("run", "shop.py:math"), 1),
    "run-unknown-attribute": (("run", "shop:mth", "n=1"), 1),
    "run-no-graph": (("run", "shop:number"), 2),
    "run-unknown-name": (("run", "nothing"), 1),
    "run-missing-input": (("run", "shop:math"), 2),
    "run-misspelt-input": (("run", "shop:math", "nn=1"), 2),
    "run-bad-json": (("run", "shop:math", "--values", '{"n": }'), 2),
    "run-json-list": (("run", "shop:math", "--values", "[1]"), 2),
    "run-no-file": (("run", "shop:math", "--values", "@nowhere.json"), 2),
    "run-no-pair": (("run", "shop:math", "n"), 2),
    "run-bad-select": (("run", "shop:math", "n=1", "--select", "nope"), 2),
    "run-map-option-without-map": (("run", "shop:math", "n=1", "--map-mode", "product"), 2),
    "run-unequal-lists": (("run", "shop:math", *UNEQUAL), 2),
    "run-resume-without-id": (("run", "shop:math", "n=1", "--resume"), 2),
    "run-tag-without-store": (("run", "shop:math", "n=1", "--no-store", "--tag", "a=b"), 2),
    "run-empty-id": (("run", "shop:math", "n=1", "--id", ""), 2),
    "run-bad-id": (("run", "shop:math", "n=1", "--id", "a/b"), 2),
    "resume-without-database": (("resume", "x", "shop:math"), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_with_what_to_do(shop: RunCli, name: str) -> None:
    words, code = BAD[name]
    shop.golden(f"bad-{name}", *words, code=code)


def test_the_table_of_a_later_turn_says_what_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERGRAPH_DB", str(tmp_path / "runs.db"))
    assert main(["run", f"{__name__}:COUNTING", "left=2", "--id", "w"]) == 0
    assert "of this turn" not in capsys.readouterr().out
    assert main(["resume", "w", f"{__name__}:COUNTING", "left=3"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"count_down +3 ", said)
    assert "These are the steps of this turn, from superstep 5 on. `show` counts all turns." in said
    assert main(["show", "w"]) == 0
    assert re.search(r"count_down +5 ", capsys.readouterr().out)


NOTHING_RAN = "Nothing ran: the values equal the stored ones. To use them again: --new-turn."


def test_values_that_do_nothing_are_named_and_count_in_a_new_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERGRAPH_DB", str(tmp_path / "runs.db"))
    chat = f"{__name__}:CHAT"

    def said(*words: str, code: int = 0) -> str:
        assert main([*words]) == code
        return "".join(capsys.readouterr())

    assert NOTHING_RAN not in said("run", chat, "said=hello", "--id", "w")
    for words in (["resume", "w", chat], ["run", chat, "--id", "w", "--resume"], ["fork", "w", chat]):
        assert said(*words, "said=hello").count(NOTHING_RAN) == 1
    assert NOTHING_RAN not in said("resume", "w", chat)
    assert NOTHING_RAN not in said("fork", "w", chat, "said=bye")
    assert NOTHING_RAN not in said("fork", "w", chat, "said=hello", "--new-turn", "--id", "again")
    assert "--new-turn counts the values" in said("fork", "w", chat, "--new-turn", code=2)
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        assert store.state("again")["messages"] == ["hello", "and HELLO to you"] * 2
        assert store.workflow("w").step_count == 2


def test_an_answer_that_was_given_before_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERGRAPH_DB", str(tmp_path / "runs.db"))
    asking = f"{__name__}:ASKING"
    assert main(["run", asking, "said=a", "--id", "w"]) == 0
    assert main(["resume", "w", asking, "approved=true"]) == 0
    capsys.readouterr()
    assert main(["resume", "w", asking, "approved=true"]) == 0
    told = capsys.readouterr().out
    assert "Nothing ran: the question has been answered with the same value." in told
    assert "--new-turn" not in told


def test_an_edit_that_no_node_takes_is_not_called_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERGRAPH_DB", str(tmp_path / "runs.db"))
    doubling = f"{__name__}:DOUBLING"
    assert main(["run", doubling, "n=2", "--id", "w"]) == 0
    assert main(["fork", "w", doubling, "twice=5"]) == 0
    assert NOTHING_RAN not in capsys.readouterr().out


def test_of_a_list_that_nodes_append_to_the_last_item_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", f"{__name__}:CHAT", "said=hello", "--id", "talk"]) == 0
    assert "[..., 'and HELLO to you']" in capsys.readouterr().out
    assert main(["resume", "talk", f"{__name__}:CHAT", "said=bye", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["outputs"]
    assert found["value"] == ["hello", "and HELLO to you", "bye", "and BYE to you"]


def test_an_answer_is_followed_by_the_command_that_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    SyncRunner(checkpointer="runs.db").run(ASKING, said="a", workflow_id="by-code")
    main(["run", f"{__name__}:ASKING", "said=a", "--id", "by-command"])
    main(["run", f"{__name__}:ASKING", "said=a", "--id", "elsewhere"])
    capsys.readouterr()
    main(["answer", "elsewhere", "approved=true"])  # the module is in another folder
    assert capsys.readouterr().out.endswith("resume elsewhere MODULE:GRAPH\n")
    file = (tmp_path / __name__.replace(".", "/")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, file)
    for name, ending in (("by-code", "resume by-code MODULE:GRAPH\n"), ("by-command", "resume by-command\n")):
        main(["answer", name, "approved=true"])
        assert capsys.readouterr().out.endswith(ending)


def test_a_question_is_listed_with_what_became_of_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def listed(workflow_id: str) -> str:
        capsys.readouterr()
        main(["show", workflow_id])
        rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  approve  ")]
        return rows[-1].partition("  0  ")[2].strip()

    target = f"{__name__}:ASKING"
    main(["run", target, "said=a", "--id", "w"])
    assert listed("w") == "open"
    main(["answer", "w", "approved=true", "--by", "ann"])
    assert listed("w") == "answered by ann, not used yet"
    main(["resume", "w", target])
    assert listed("w") == "answered by ann"
    main(["run", target, "said=a", "approved=true", "--id", "beforehand"])
    assert listed("beforehand") == "answered"


def test_every_command_that_is_printed_names_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    target = f"{__name__}:ASKING"
    for words in (
        ["run", target, "said=a", "--id", "w"],
        ["show", "w"],
        ["fork", "w", "--at", "9"],
        ["step", "w", "9"],
        ["show", "nothing-like-it"],
        ["answer", "w", "approved=true"],
        ["resume", "w", target],
    ):
        main(["--db", "n.db", *words])
        said = "".join(capsys.readouterr())
        assert said.count("hypergraph --db n.db ") >= 1
        assert not re.search(r"hypergraph (?!--db)[a-z]", said)


def test_a_module_that_raises_is_named_with_the_line(shop: RunCli) -> None:
    (Path(shop.folder) / "broken.py").write_text("x = 1\nraise KeyError('\\x1b[31mno')\n")
    said = shop("run", "broken:graph", code=2)
    assert "KeyError" in said.err
    assert "line 2" in said.err
    assert "\x1b" not in said.err


def test_what_a_node_makes_or_raises_cannot_move_the_cursor(shop: RunCli) -> None:
    (Path(shop.folder) / "odd.py").write_text(
        "from hypergraph import Graph, node\n"
        "@node(output_name='page')\n"
        "def fetch(url):\n    return '\\x1b[2J\\r\\nnext: rm -rf ~\\u202e' + 'x' * 500\n"
        "@node(output_name='end')\n"
        "def parse(page):\n    raise ValueError(page)\n"
        "graph = Graph([fetch, parse], name='odd\\x1b[31m')\n"
    )
    text = shop.golden("run-hostile", "run", "odd:graph", "url=x", "--id", "h", code=1)
    assert max(map(len, text.splitlines())) < 700
    assert not {"\x1b", "\r", "\u202e"} & set(text)


def test_an_id_that_is_taken_is_refused_without_resume(shop: RunCli) -> None:
    shop("run", "shop:math", "n=1", "--id", "one")
    shop.golden("run-id-taken", "run", "shop:math", "n=1", "--id", "one", code=4)


def test_a_store_that_cannot_be_written_ends_with_3(shop: RunCli) -> None:
    nowhere = RunCli(Path(shop.folder) / "no" / "folder" / "x.db", shop.folder)
    assert "check that the folder exists" in nowhere("run", "shop:math", "n=1", code=3).err


def test_a_refusal_names_options_of_the_command_line(shop: RunCli) -> None:
    shop("run", "shop:asks", "n=3", "--id", "q")
    shop("resume", "q", "approved=false")
    refused = shop("resume", "q", "shop:asks", "approved=True", code=4)
    again = f"hypergraph --db {shop.database} fork q shop:asks approved=... --at 0\n"
    assert refused.err.endswith(f"fork the workflow before the question: {again}")
    nothing = shop("resume", "q", "shop:asks", "--new-turn", code=2)
    assert "--new-turn counts the values" in nothing.err
    assert "new_turn" not in nothing.err
    assert (
        shop.json("resume", "q", "shop:asks", "approved=True", "--new-turn")["outputs"][-1]["value"]
        == "6: True"
    )


def test_a_workflow_that_another_process_owns_is_taken_over_with_force(shop: RunCli) -> None:
    store = SqliteCheckpointer(shop.database)
    with store:
        claim = store.backend.claim("mine", NewWorkflow(), store.encoding)
        refused = shop("resume", "mine", "shop:math", "n=1", code=4)
        assert "--force" in refused.err
        assert "force=True" not in refused.err
        assert shop.json("resume", "mine", "shop:math", "n=1", "--force")["status"] == "completed"
        with pytest.raises(OwnershipLostError):
            store.backend.write(store.encoding.commit(claim))


def test_a_new_turn_is_not_for_maps(shop: RunCli) -> None:
    words = ("run", "shop:math", "n=[1]", "--map-over", "n", "--new-turn")
    assert "--new-turn cannot be combined with --map-over" in shop(*words, code=2).err


def test_a_running_workflow_is_cancelled_from_outside(shop: RunCli) -> None:
    command = [
        sys.executable,
        "-m",
        "hypergraph",
        "--db",
        shop.database,
        "run",
        "shop:waits",
        "n=3",
        "--id",
        "w",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=shop.folder, env=ENVIRONMENT, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "waiting\n"
        assert shop.json("cancel", "w")["ids"] == ["w"]
        assert shop.json("show", "w")["status"] == "stopped"
        (Path(shop.folder) / "go").touch()
        assert "taken over by another run" in running.stdout.read()
    assert running.returncode != 0
    assert shop.json("show", "w")["status"] == "stopped"
    assert "is stopped: nothing to cancel" in shop("cancel", "w", code=4).err
    assert "Workflow: w | completed" in shop("resume", "w").out


def test_a_paused_workflow_is_cancelled(shop: RunCli) -> None:
    shop("run", "shop:asks", "n=3", "--id", "q")
    shop("cancel", "q")
    assert shop.json("show", "q")["status"] == "stopped"


def test_progress_is_printed_in_lines_if_wanted(shop: RunCli) -> None:
    said = shop("run", "shop:math", "n=3", "--progress")
    assert "▶ twice started" in said.err


def test_errors_stats_show_and_graph_agree_about_a_resolved_error(shop: RunCli) -> None:
    shop("run", "shop:math", "n=-8", "--id", "neg", code=1)
    assert shop.json("errors")["failures"] == 1
    (Path(shop.folder) / "fixed").touch()
    shop("resume", "neg")
    assert shop.json("errors")["failures"] == 0
    every = shop.json("errors", "--all")
    (stats,) = (item for item in shop.json("stats")["items"] if item["node"] == "root")
    (shown,) = (node for node in shop.json("show", "neg")["nodes"] if node["node"] == "root")
    drawn = shop.json("graph", "neg")["overlay"]["root"]
    assert every["failures"] == round(stats["error_rate"] * stats["count"]) == shown["errors"] == 1
    assert stats["count"] == shown["runs"] == drawn["runs"] == 2
    assert shop.json("ls")["items"][0]["steps"] == 3
    assert "First error (resolved): neg, step 1, root" in shop("show", "neg").out
