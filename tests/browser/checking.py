"""Every view of the page, and what must hold for whatever it shows."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page

_CHECKS = Path(__file__).with_name("checks.js").read_text()


def found(page: Page, *checks: str) -> list[str]:
    """Return what checks find wrong with what is shown now."""
    return [
        f"{check}: {wrong}" for check in checks for wrong in page.evaluate(f"{_CHECKS.strip()}.{check}()")
    ]


def go(page: Page, view: str, shows: str, **params: str) -> None:
    """Go to a view and wait until it shows something."""
    page.evaluate("address => { location.hash = address }", f"#/{view}?{urlencode(params)}")
    page.locator(shows).first.wait_for()
