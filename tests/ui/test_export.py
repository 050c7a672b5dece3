"""A workflow in one HTML file: it opens without a server, answers as one does, and lets nothing in or out."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browsing import apart, browser
from support.cli import Cli
from support.cli_stories import STORIES, stories
from support.ui_serving import Served, environment, serving, write_story

from hypergraph import AsyncRunner, Graph, SqliteCheckpointer, SyncRunner, node
from hypergraph.ui import export as packing
from hypergraph.ui.export import Trees, inert, packed, page
from hypergraph.views.diff import changes
from hypergraph.views.problems import Problem
from hypergraph.views.state import state, value
from hypergraph.views.step import step, step_value
from hypergraph.views.workflow import workflow

__all__ = ["browser", "stories"]  # fixtures

ASK = "([name, params]) => import('hg/api.js').then((api) => api.get(name, params))"


@pytest.fixture
def store(stories: Cli) -> SqliteCheckpointer:
    return SqliteCheckpointer(stories.database)


class Opened:
    """A file in a browser that has no network; all that goes wrong is noted."""

    def __init__(self, browser: Browser, file: Path) -> None:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", offline=True)
        self.page: Page = context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", lambda said: said.type == "error" and self.troubles.append(said.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda sent: self._note(sent.url, file))
        self.page.goto(file.as_uri())

    def _note(self, address: str, file: Path) -> None:
        if not address.startswith((file.as_uri(), "data:")):
            self.troubles.append(address)

    def ask(self, name: str, **params: Any) -> Any:
        return self.page.evaluate(ASK, [name, params])


@pytest.fixture
def opened(browser: Browser, store: SqliteCheckpointer, tmp_path: Path, request: Any) -> Iterator[Opened]:
    file = tmp_path / "one.html"
    file.write_bytes(page(store, request.param))
    found = Opened(browser, file)
    expect(found.page.locator(".title .badge")).to_be_visible()
    yield found
    found.page.context.close()
    assert found.troubles == []


def runs_in(store: SqliteCheckpointer, story: str) -> list[str]:
    return list(packed(store, story)["runs"])


def told(document: Any, *left_out: str) -> Any:
    return {name: found for name, found in json.loads(json.dumps(document)).items() if name not in left_out}


@pytest.mark.slow
@pytest.mark.parametrize(("opened", "story"), [(story, story) for story in STORIES], indirect=["opened"])
def test_a_file_answers_as_the_store_does(opened: Opened, store: SqliteCheckpointer, story: str) -> None:
    assert_same_answers(opened, store, story)


@node(output_name="messages")
def reply(messages: list[str], text: str) -> list[str]:
    return [*messages, text, f"you said {text}"]


@node(output_name=("words", "letters"))
def count(text: str) -> tuple[int, int]:
    return len(text.split()), len(text)


@node(output_name="picture", artifact=True)
def draw(messages: list[str]) -> bytes:
    return b"x" * len(messages)


@pytest.mark.slow
def test_inputs_of_later_turns_and_artifacts_are_told_alike(browser: Browser, tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "chat.db")
    chat, runner = Graph([reply, count, draw], name="chat"), SyncRunner(checkpointer=store)
    runner.run(chat, {"messages": [], "text": "hello"}, workflow_id="chat")
    runner.run(chat, {"text": "and then?"}, workflow_id="chat")
    file = tmp_path / "chat.html"
    file.write_bytes(page(store, "chat"))
    opened = Opened(browser, file)
    assert_same_answers(opened, store, "chat")
    opened.page.context.close()
    assert opened.troubles == []


@node(output_name="checked")
def check(words: int, text: str) -> int:
    if text == "fails":
        raise ValueError(text)
    return words


@pytest.mark.slow
def test_values_of_an_earlier_turn_are_told_alike(browser: Browser, tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "chat.db")
    chat, runner = Graph([count, check], name="chat"), SyncRunner(checkpointer=store)
    for text in ("hello", "fails"):
        runner.run(chat, {"text": text}, workflow_id="chat", error_handling="continue")
    file = tmp_path / "chat.html"
    file.write_bytes(page(store, "chat"))
    opened = Opened(browser, file)
    assert_same_answers(opened, store, "chat")
    told = opened.ask("state", id="chat")["items"]
    assert [item["name"] for item in told if item["earlier_turn"]] == ["checked"]
    opened.page.context.close()
    assert opened.troubles == []


@node(output_name="log", append=True)
def listen(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@node(output_name="log", append=True)
def note(text: str) -> list[Any]:
    return [] if text == "nothing" else [f"noted {text}", {"of": text}]


@pytest.mark.slow
def test_who_added_what_to_a_list_is_told_alike(browser: Browser, tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "log.db")
    graph, runner = Graph([listen, note], name="log"), SyncRunner(checkpointer=store)
    runner.run(graph, {"log": ["begun"], "text": "tea"}, workflow_id="log")
    for text in ("nothing", "milk"):
        runner.run(graph, {"text": text}, workflow_id="log")
    runner.run(graph, {"log": ["begun anew"], "text": "cups"}, workflow_id="log")
    file = tmp_path / "log.html"
    file.write_bytes(page(store, "log"))
    opened = Opened(browser, file)
    assert_same_answers(opened, store, "log")
    for at in range((state(store, "log")["last"] or 0) + 1):
        theirs, ours = opened.ask("value", id="log", key="log", at=at), value(store, "log", "log", at=at)
        assert [part["by"] for part in theirs["items"]] == [part["by"] for part in ours["items"]]
        assert [part["text"] for part in theirs["items"]] == [part["text"] for part in ours["items"]]
    for index in range(workflow(store, "log")["steps"]):
        theirs = opened.ask("value", id="log", key="log", step=index)
        ours = step_value(store, "log", index, "log")
        assert [part["by"] for part in theirs["items"]] == [part["by"] for part in ours["items"]]
    opened.page.context.close()
    assert opened.troubles == []


@pytest.mark.slow
def test_a_list_to_which_a_faster_tool_has_added_is_told_alike(browser: Browser, tmp_path: Path) -> None:
    ended = asyncio.Event()

    @node(output_name="log", append=True)
    async def slow(text: str) -> str:
        await ended.wait()
        return "slow"

    @node(output_name="log", append=True)
    async def fast(text: str) -> str:
        ended.set()
        return "fast"

    @node(output_name="joined")
    def join(log: list[str]) -> str:
        return " ".join(log)

    store = SqliteCheckpointer(tmp_path / "log.db")

    async def write() -> None:
        runner = AsyncRunner(checkpointer=store)
        assert (await runner.run(Graph([slow, fast, join]), text="tea", workflow_id="log"))["joined"]

    apart(write())
    file = tmp_path / "log.html"
    file.write_bytes(page(store, "log"))
    opened = Opened(browser, file)
    assert_same_answers(opened, store, "log")
    taken = opened.ask("value", id="log", key="log", step=2, side="input")
    assert taken["value"] == ["slow", "fast"] == step_value(store, "log", 2, "log", side="input")["value"]
    opened.page.context.close()
    assert opened.troubles == []


def shown(item: Any) -> Any:
    """Return what both tell of a value: only a file says that what is kept elsewhere is not in it."""
    return told(item, "bytes", *(["problem"] if item["artifact"] else []))


def assert_same_answers(opened: Opened, store: SqliteCheckpointer, story: str) -> None:
    for run in runs_in(store, story)[:4]:
        assert opened.ask("workflow", id=run) == told({**workflow(store, run), "forks": []})
        last = state(store, run)["last"]
        for at in [None] if last is None else [None, *range(last + 1)]:
            theirs, ours = opened.ask("state", id=run, at=at), state(store, run, at=at)
            assert [shown(item) for item in theirs["items"]] == [shown(item) for item in ours["items"]]
            assert told(theirs, "items") == told(ours, "items")
        for index in range(workflow(store, run)["steps"]):
            assert_same_step(opened.ask("step", id=run, index=index), step(store, run, index))
        for second in range(1, (last or 0) + 1):
            theirs, ours = (
                opened.ask("changes", id=run, first=second - 1, second=second),
                changes(store, run, second - 1, second),
            )
            assert [(item["name"], item["kind"], item["made_by"]) for item in theirs["items"]] == [
                (item["name"], item["kind"], item["made_by"]) for item in ours["items"]
            ]


def assert_same_step(theirs: Any, ours: Any) -> None:
    inexact = (
        "inputs",
        "outputs",
        "started_at",
        "ended_at",
        "duration_ms",
        "input_versions",
        "output_versions",
    )
    assert {name: theirs.get(name) for name in told(ours, *inexact)} == told(ours, *inexact)
    for side in ("inputs", "outputs"):
        assert [
            told(one, "value", "stored", "problem" if not one["value"] else "") for one in theirs[side]
        ] == [told(one, "value", "stored", "problem" if not one["value"] else "") for one in ours[side]]
        for mine, one in zip(theirs[side], ours[side], strict=True):
            assert (mine["value"] or {}).get("value") == (one["value"] or {}).get("value")


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["support-1"], indirect=True)
def test_parts_of_values_are_found_by_their_path(opened: Opened, store: SqliteCheckpointer) -> None:
    for item in state(store, "support-1")["items"]:
        ours = value(store, "support-1", item["name"])
        assert opened.ask("value", id="support-1", key=item["name"]) == told(ours)
        for part in ours["items"]:
            theirs = opened.ask("value", id="support-1", key=item["name"], path=part["path"])
            assert theirs == told(value(store, "support-1", item["name"], path=part["path"]))


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["refine-1"], indirect=True)
def test_the_slider_works_in_a_file(opened: Opened) -> None:
    slider = opened.page.get_by_role("slider", name="Superstep")
    slider.focus()
    slider.press("Home")
    expect(opened.page.get_by_text("as of superstep 0")).to_be_visible()
    opened.page.get_by_role("link", name="All workflows").click()
    opened.page.get_by_role("link", name="refine-1").click()
    opened.page.get_by_role("button", name="copy").click()
    expect(opened.page.get_by_role("dialog")).to_contain_text("It is complete")


class Scripts(HTMLParser):
    """The scripts of a page, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.others: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.found.append(dict(attrs))
        self.others.add(tag)


@pytest.mark.parametrize("story", STORIES)
def test_what_is_stored_adds_no_element(store: SqliteCheckpointer, story: str) -> None:
    scripts = Scripts()
    scripts.feed(page(store, story).decode())
    assert [script["type"] for script in scripts.found] == ["application/json", "importmap", "module"]
    assert scripts.others <= {
        *("html", "head", "meta", "title", "link", "style", "script", "body", "div", "p", "noscript")
    }


def test_json_in_a_script_means_the_same_and_ends_nothing() -> None:
    text = json.dumps("</script><!--&\u2028 <b>", ensure_ascii=False)
    assert json.loads(inert(text)) == json.loads(text)
    assert not set(inert(text)) & set("<>&\u2028")


def test_each_file_has_a_number_of_its_own(store: SqliteCheckpointer) -> None:
    assert page(store, "refine-1") != page(store, "refine-1")


def test_what_finds_no_room_is_told(store: SqliteCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "RUNS", 2)
    monkeypatch.setattr(packing, "STEPS", 1)
    runs_left_out, steps_left_out = packed(store, "batch-1")["notes"]
    assert "runs below it" in runs_left_out
    assert "step" in steps_left_out


def test_equal_values_take_their_room_once_and_long_ones_are_cut() -> None:
    trees = Trees()
    assert trees.place_of({"a": [1, 2]}) == trees.place_of({"a": [1, 2]}) == 0
    place = trees.place_of(["x" * 1000] * 100_000)
    assert place is not None
    assert trees.found[place]["m"] == 1
    assert len(json.dumps(trees.found[place])) < 100_000


@pytest.mark.parametrize("story", STORIES)
def test_heavy_values_are_read_one_by_one_and_told_alike(
    store: SqliteCheckpointer, monkeypatch: pytest.MonkeyPatch, story: str
) -> None:
    light = packed(store, story)
    monkeypatch.setattr(packing, "_HEAVY", -1)
    heavy = packed(store, story)
    assert (heavy["runs"], heavy["values"]) == (light["runs"], light["values"])


def test_a_file_needs_no_extra() -> None:
    code = "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None; import hypergraph.ui.export"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_there_is_no_file_of_what_is_unknown(store: SqliteCheckpointer) -> None:
    with pytest.raises(Problem, match="not found"):
        page(store, "nobody")


# --- through the server -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("export") / "story.db"
    store = SqliteCheckpointer(file)
    apart(write_story(store))
    store.close()
    with serving(file) as running:
        yield running


def test_a_file_is_saved_under_a_plain_name(server: Served) -> None:
    answer = server.ask("export", id="loop-1")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''loop-1.html"
    hostile = server.ask("export", id='it\'s "quoted" & <b>', format="json")
    assert hostile.headers["content-disposition"] == "attachment; filename*=UTF-8''it-s-quoted-b.json"
    assert server.ask("export", id="..").headers["content-disposition"].endswith("''workflow.html")


def test_a_file_is_refused_as_everything_else_is(server: Served) -> None:
    assert server.ask("export", id="nobody").status == 404
    assert server.ask("export", id="loop-1", format="exe").status == 400
    assert server.ask("export").status == 400
    assert server.request("/api/v1/export?id=loop-1", token=None).status == 401


def test_what_was_exported_can_be_imported(server: Served) -> None:
    content = server.ask("export", id="outer-1", format="json").body.decode()
    taken = server.wish("import", content=content)
    assert (taken.status, taken.document["error"]["code"]) == (409, "refused")
    answer = server.wish("import", content=content, new_id="copied")
    assert answer.document == {"schema": "hypergraph.imported/1", "ids": ["copied", "copied/inside"]}
    assert server.ask("value", id="copied", key="n").document["value"] == 5


def test_what_is_no_export_is_not_imported(server: Served) -> None:
    for content in ("", "{}", "<html>", "[" * 100_000):
        answer = server.wish("import", content=content)
        assert (answer.status, answer.document["error"]["code"]) == (400, "usage"), content[:9]
    assert server.wish("import").status == 400
