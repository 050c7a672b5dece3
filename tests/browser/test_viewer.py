"""Values open large, each in the form that suits it, to be read, searched, sorted, copied and saved."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browsing import looking_at
from support.ui_serving import serving

from browser.panels import Panels
from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node

pytestmark = pytest.mark.slow

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@node(output_name=("picture", "table", "numbers", "raw", "notes", "chat", "config"))
def make(seed: int) -> tuple[Any, ...]:
    frame = pandas.DataFrame(
        {"name": [f"row {n}" for n in range(1200)], "score": [n % 97 for n in range(1200)]}
    )
    call = {"id": "1", "function": {"name": "search", "arguments": '{"q": "tea"}'}}
    chat = [
        {"role": "user", "content": "What is **tea**?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "search", "content": "a leaf"},
        {"role": "assistant", "content": "A leaf."},
    ]
    notes = "# Notes\n\n- first\n- second\n\n**done**, all of it, and more than a line"
    numbers = numpy.arange(600, dtype="float32").reshape(20, 30)
    return (
        PIXEL,
        frame,
        numbers,
        bytes(range(256)) * 20,
        notes,
        chat,
        {"model": {"name": "small", "steps": [1, 2]}},
    )


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file: Path = tmp_path_factory.mktemp("viewer") / "values.db"
    with SqliteCheckpointer(file) as store:
        SyncRunner(checkpointer=store).run(Graph([make], name="values"), seed=1, workflow_id="values")
    with serving(file, "--read-only") as served, looking_at(browser, served) as opened:
        Panels(opened, "wf=values")
        yield opened


@pytest.fixture
def opened(page: Page) -> Iterator[Any]:
    """Open a value of the run large, and close it after the test."""

    def large(key: str) -> Locator:
        line = page.locator(f'[data-key="{key}"] .line').first
        line.hover()
        line.get_by_role("button", name="large").click()
        return page.get_by_role("dialog", name=key)

    yield large
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_images_arrays_and_bytes(page: Page, opened: Any) -> None:
    picture = opened("picture").get_by_role("img")
    expect(picture).to_be_visible()
    page.wait_for_function("element => element.naturalWidth === 1", arg=picture.element_handle())
    page.keyboard.press("Escape")
    numbers = opened("numbers")
    expect(numbers).to_contain_text("20 × 30")
    expect(numbers).to_contain_text("float32")
    expect(numbers).to_contain_text("299.5")  # the mean
    expect(numbers.locator(".heat rect")).to_have_count(200)
    page.keyboard.press("Escape")
    raw = opened("raw")
    expect(raw.get_by_label("bytes")).to_contain_text(re.compile(r"00000020 {2}20 21 22.*!\"#"))
    raw.get_by_role("button", name="next page").click()
    expect(raw.get_by_label("bytes")).to_contain_text("00000640")


def test_a_table_has_types_orders_and_pages(opened: Any) -> None:
    table = opened("table")
    expect(table).to_contain_text("1,200 rows, 2 columns; the first 1,000 are shown and sorted")
    expect(table.get_by_role("columnheader", name="score")).to_contain_text("int64")
    table.get_by_role("button", name="score").click()
    table.get_by_role("button", name="score").click()
    expect(table.locator("tbody tr").first).to_contain_text("96")
    table.get_by_role("button", name="next page").click()
    expect(table.locator("tbody tr")).to_have_count(100)


def test_a_conversation_and_markdown_are_read_as_they_are_meant(page: Page, opened: Any) -> None:
    chat = opened("chat")
    messages = chat.get_by_role("list", name="Conversation").locator("> li")
    expect(messages).to_have_count(4)
    expect(messages.first.locator("b").nth(1)).to_have_text("tea")
    expect(messages.nth(1).locator("pre")).not_to_be_visible()
    messages.nth(1).get_by_text("calls search").click()
    expect(messages.nth(1).locator("pre")).to_contain_text('"q": "tea"')
    page.keyboard.press("Escape")
    notes = opened("notes")
    expect(notes.locator(".heading")).to_have_text("Notes")
    expect(notes.locator("li")).to_have_count(2)
    notes.get_by_label("Markdown").uncheck()
    expect(notes.locator("pre")).to_contain_text("# Notes")


def test_parts_are_found_opened_by_their_path_and_saved(page: Page, opened: Any) -> None:
    config = opened("config")
    config.get_by_role("searchbox", name="Find in the value").fill("small")
    config.get_by_role("button", name="/model/name").click()
    expect(config.get_by_role("navigation", name="Path")).to_contain_text(
        re.compile(r"config\s*/\s*model\s*/\s*name")
    )
    expect(config.locator("pre")).to_have_text("small")
    config.get_by_role("button", name="config").click()
    with page.expect_download() as saving:
        config.get_by_role("button", name="download").click()
    assert saving.value.suggested_filename == "config.json"
    assert '"name": "small"' in Path(saving.value.path()).read_text()
