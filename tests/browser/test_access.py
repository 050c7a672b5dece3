"""The token in a browser: where it is kept, who gets it, and a page whose server was started anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from playwright.sync_api import Browser, expect
from support.browsing import looking_at
from support.ui_serving import serving

from browser.conftest import Look, Serve


@contextmanager
def other_port() -> Iterator[tuple[int, list[str]]]:
    """Serve a page of another program on this machine; yield its port and the headers that it received."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(str(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_token_leaves_the_address_and_a_new_tab_has_it(look: Look, serve: Serve) -> None:
    with look("stories") as page:
        expect(page.get_by_role("status")).to_have_text("live")
        assert "token" not in page.url
        page.reload()
        expect(page.get_by_role("status")).to_have_text("live")
        tab = page.context.new_page()
        tab.goto(f"http://127.0.0.1:{serve('stories').port}/")
        expect(tab.get_by_role("status")).to_have_text("live")


def test_a_page_of_another_port_gets_nothing_of_the_token(browser: Browser, look: Look, serve: Serve) -> None:
    with look("stories") as page, other_port() as (port, received):
        expect(page.get_by_role("status")).to_have_text("live")
        assert page.context.cookies() == []
        other = page.context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        kept = other.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")
        assert kept == ["", 0, 0]
        assert received
        assert not [head for head in received if serve("stories").token in head or "Cookie" in head]


def test_a_page_without_the_token_says_what_to_do(browser: Browser, serve: Serve) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{serve('stories').port}/#token=wrong")
    expect(page.get_by_role("alert").first).to_contain_text("Open the address that hypergraph ui printed")
    context.close()


def test_an_open_page_continues_when_the_new_server_is_opened(
    browser: Browser, databases: Path, serve: Serve
) -> None:
    database = databases / "stories.db"
    with serving(database, "--read-only") as first, looking_at(browser, first, but="Failed to load") as page:
        expect(page.get_by_role("status")).to_have_text("live")
        first.stop()
        expect(page.get_by_role("status")).to_have_text("offline")
        key_file = Path(os.environ["XDG_STATE_HOME"]) / "hypergraph" / "ui.key"
        key_file.unlink()  # the token of a server stays the same as long as this file does
        with serving(database, "--read-only", "--port", str(first.port)) as second:
            assert second.token != first.token
            expect(page.locator(".locked")).to_contain_text("it was started anew")
            page.context.new_page().goto(second.address)
            expect(page.get_by_role("status")).to_have_text("live")
            expect(page.locator(".locked")).to_have_count(0)
