"""Kinds of nodes: what a failure of each interrupts, and how each is drawn."""

from __future__ import annotations

from typing import NamedTuple


class NodeKind(NamedTuple):
    """A kind of node: what a failure interrupts, and how it is drawn."""

    operation: str  # "execute", "route" or "interrupt"
    brackets: tuple[str, str]  # around its label, in Mermaid
    fill: str  # in Mermaid
    light: tuple[str, str]  # fill and line in SVG, by theme
    dark: tuple[str, str]
    shape: str = "box"  # in SVG; also "hexagon", and "sheets" for a closed box with boxes inside


NODE_KINDS = {  # the first stands for kinds that this release does not know
    "function": NodeKind("execute", ("[", "]"), "#dbeafe", ("#ffffff", "#7c93b5"), ("#1b2430", "#56708f")),
    "gate": NodeKind(
        "route", ("{", "}"), "#fef3c7", ("#fffbeb", "#d9a441"), ("#2b2413", "#a97c2a"), "hexagon"
    ),
    "interrupt": NodeKind(
        "interrupt", ("{{", "}}"), "#fce7f3", ("#fdf2f8", "#d26ba3"), ("#2c1a26", "#a95583")
    ),
    "graph": NodeKind(
        "execute", ("[[", "]]"), "#ede9fe", ("#f5f3ff", "#8b7fd4"), ("#221f36", "#7469b8"), "sheets"
    ),
}
VALUE_KINDS = ("input", "optional", "bound", "entry", "output")  # boxes that are one value, under its name
