"""The parts of a workflow's page, by what people see of them."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect
from support.browsing import open_workflow


class Panels:
    """One workflow: the one that is open, or that of an address."""

    def __init__(self, page: Page, address: str = "") -> None:
        self.page = page
        if address:
            open_workflow(page, address)
        self.slider = page.get_by_role("slider", name="Superstep")
        self.rows = page.get_by_role("treegrid", name="Steps")
        self.state = page.get_by_role("tree", name=re.compile("^Values after"))
        self.inputs = page.get_by_role("tree", name="inputs")
        self.outputs = page.get_by_role("tree", name="outputs")
        self.details = page.get_by_role("tabpanel")

    def row(self, name: str, visit: int | None = None) -> Locator:
        """Return the row of a step."""
        text = rf"^\s*[▾▸]?\s*{re.escape(name)}\s*" + (rf"⟳{visit}\s*$" if visit else "")
        cell = self.page.get_by_role("gridcell").filter(has_text=re.compile(text))
        return self.rows.locator(".wrow:not(.row-running)").filter(has=cell)

    def box(self, path: str) -> Locator:
        """Return what stands for a node in the graph."""
        return self.page.locator(f'svg.graph [data-path="{path}"]')

    def value(self, key: str) -> Locator:
        """Return what is shown of a value of the state."""
        return self.page.locator(f'[data-key="{key}"] .v-preview').first

    def shows(self, superstep: int, node: str, row: Locator, **values: str) -> None:
        """Hold all panels to one moment: superstep, chosen node, chosen row and values."""
        expect(self.slider).to_have_value(str(superstep))
        expect(self.page.get_by_text(f"as of superstep {superstep}")).to_be_visible()
        expect(self.box(node)).to_have_attribute("aria-pressed", "true")
        expect(self.page.locator('svg.graph [aria-pressed="true"]')).to_have_count(1)
        expect(row).to_have_attribute("aria-selected", "true")
        expect(self.rows.locator('[aria-selected="true"]')).to_have_count(1)
        for key, text in values.items():
            expect(self.value(key)).to_have_text(text)
