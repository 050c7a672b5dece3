"""The page in a real browser: Chromium of the system, by Playwright, which downloads nothing.

A page that logs an error, breaks its content security policy or asks another machine for something fails the
test that opened it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, sync_playwright

from support.ui_serving import Served

PATIENCE_MS = 120_000  # a busy machine is not a bug
# The first needs about half the time of the others.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


def chromium() -> str:
    """Return where the browser is; the variable CHROMIUM says so if it has another name."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.fail("There is no Chromium: apt-get install chromium, or say where it is with CHROMIUM=/path")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """Start a browser without windows. An event loop runs in this thread for as long as it lives."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a file."""
    with launched() as started:
        yield started


def apart(story: Coroutine[Any, Any, None]) -> None:
    """Await something in another thread: in this one Playwright's event loop may be running."""
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, story).result()


@contextmanager
def looking_at(browser: Browser, served: Served, *, but: str = "\n", **context: Any) -> Iterator[Page]:
    """Open the page of a server; fail if anything went wrong in it meanwhile `but` errors with this text.

    Pages of one server share a context with the files that the browser keeps; the rest is removed.
    """
    opened = _context_of(browser, served, context)
    page = opened.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles: list[str] = []

    def is_error(said: Any) -> bool:
        return said.type == "error" and but not in said.text

    page.on("console", _noting(troubles, is_error, lambda said: said.text))
    page.on("pageerror", _noting(troubles, lambda error: True, str))
    page.on("request", _noting(troubles, lambda sent: _leaves(sent.url, served), lambda sent: sent.url))
    try:
        page.goto(served.address)
        yield page
    finally:
        _empty(opened, served)
    assert troubles == [], troubles


_SIZE = {"width": 1280, "height": 800}


def _context_of(browser: Browser, served: Served, more: dict[str, Any]) -> BrowserContext:
    """Return the context of the pages of a server, of which no page is open."""
    known = _contexts.setdefault(browser, {})
    key = f"{served.address} {sorted(more.items())}"
    if key not in known:
        known[key] = browser.new_context(**{"viewport": _SIZE, "locale": "en-GB", **more})
    return known[key]


_contexts: weakref.WeakKeyDictionary[Browser, dict[str, BrowserContext]] = weakref.WeakKeyDictionary()


def _empty(context: BrowserContext, served: Served) -> None:
    """Close the pages of a context, and forget what they have kept; a broken one is not used again."""
    try:
        for page in context.pages:
            if page.url.startswith(f"http://127.0.0.1:{served.port}/"):
                page.evaluate("() => localStorage.clear()")
            page.close()
    except Error:
        for known in _contexts.values():
            for key in [key for key, each in known.items() if each is context]:
                del known[key]
        context.close()


def _noting(troubles: list[str], is_one: Callable[[Any], bool], words: Callable[[Any], str]) -> Any:
    return lambda event: troubles.append(words(event)) if is_one(event) else None


def _leaves(address: str, served: Served) -> bool:
    return not address.startswith((f"http://127.0.0.1:{served.port}/", "data:"))


def open_workflow(page: Page, address: str) -> None:
    """Go to a workflow, as a link does, and wait until it is drawn."""
    page.evaluate("address => { location.hash = address }", f"#/workflow?{address}")
    page.locator(".title .badge").wait_for()
