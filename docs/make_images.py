"""Make the pictures of the web page: `make pictures`.

The demo is run anew, then a batch in which some tickets fail; each view is photographed in light and dark.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from browser.databases import write_demo
from playwright.sync_api import Page
from support.browsing import launched, looking_at
from support.ui_serving import serving

import hypergraph
from hypergraph import SqliteCheckpointer, SyncRunner
from hypergraph.demo.corpus import TICKETS
from hypergraph.demo.story import DESK

FOLDER = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 800}
APP = ("--app", "hypergraph.demo.story:DESK")

Prepare = Callable[[Page], object]


def nothing(page: Page) -> None:
    """Nothing has to be done before the picture."""


def open_fork(page: Page) -> None:
    """Open the dialog that forks, and begin to edit a value."""
    page.get_by_role("button", name="fork from superstep").click()
    page.get_by_role("button", name="Edit topic").click()
    page.get_by_role("textbox", name="topic").wait_for()


def open_value(page: Page) -> None:
    """Open a value large."""
    page.locator('[data-key="articles"] .line, [data-key="context"] .line').first.hover()
    page.get_by_role("button", name="large").first.click()
    page.locator("dialog table, dialog pre").first.wait_for()


NARROW = {"1024": {"width": 1024, "height": 768}, "phone": {"width": 390, "height": 844}}
VIEWS: dict[str, tuple[str, list[str], Prepare]] = {  # the address, what must be seen, what is done then
    "list": ("#/", ["table.list .of-id", "table.list .why-failed", "table.list .bad"], nothing),
    "workflow": (
        "#/workflow?wf=ticket-1&at=3&key=reply",
        [".wrow.critical", ".state .origin", ".change", "svg.graph .box"],
        nothing,
    ),
    "value": ("#/workflow?wf=ticket-1", [".state .key"], open_value),
    "failed": ("#/workflow?wf=tuesday/item-18", [".traceback", ".state .key", "svg.graph .chosen"], nothing),
    "map": ("#/workflow?wf=tuesday", [".strip", ".row-item", "svg.graph .told", ".traceback"], nothing),
    "compare": ("#/compare?a=card-1&b=card-2", [".change"], nothing),
    "lineage": ("#/lineage?of=card-2", [".family-row"], nothing),
    "bottleneck": ("#/bottleneck?of=ticket-1", [".critical-panel tr", ".stats-panel tr"], nothing),
    "fork": ("#/workflow?wf=card-1&at=1", [".wrow", ".state .key", "svg.graph .told"], open_fork),
}


def write(file: Path) -> None:
    """Write what is photographed."""
    write_demo(file)
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).map(
        DESK,
        ticket=list(TICKETS),
        message=list(TICKETS.values()),
        map_over=["ticket", "message"],
        workflow_id="tuesday",
        error_handling="continue",
    )
    store.close()
    with closing(sqlite3.connect(file)) as database, database:
        folder = (
            f"{Path(hypergraph.__file__).parent.parent}/"  # no picture tells of the machine it was made on
        )
        database.execute("UPDATE steps SET extra = replace(extra, ?, '')", (folder,))


def make(folder: Path, names: list[str]) -> None:
    """Photograph views into a folder."""
    with tempfile.TemporaryDirectory() as place:
        write(database := Path(place) / "demo.db")
        with serving(database, *APP) as served, launched() as browser:
            for scheme in ("light", "dark"):
                for name in names:
                    with looking_at(browser, served, color_scheme=scheme, viewport=SIZE) as page:
                        _photograph(page, name, folder / f"ui-{name}-{scheme}.png")
            for width, size in NARROW.items() if "workflow" in names else ():
                with looking_at(browser, served, viewport=size) as page:
                    _photograph(page, "workflow", folder / f"ui-workflow-{width}.png")


def _photograph(page: Page, name: str, file: Path) -> None:
    address, parts, prepare = VIEWS[name]
    page.evaluate("address => { location.hash = address }", address)
    for part in parts:
        page.locator(part).first.wait_for()
    prepare(page)
    page.screenshot(path=file, animations="disabled", caret="hide")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    make(FOLDER, sys.argv[1:] or list(VIEWS))
