"""`hypergraph skill`: instructions for coding agents, of this very version."""

from __future__ import annotations

import os
from pathlib import Path

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.display import jsonable
from hypergraph.views.doctor import version
from hypergraph.views.problems import REFUSED, STORE, Problem
from hypergraph.views.texts import SkillText

_SOURCE = Path(__file__).parents[1] / "SKILL.md"
_PLACE = os.path.join(".claude", "skills", "hypergraph", "SKILL.md")

skill_options = (
    Option("--install", f"write it to a file: FILE, or - for {_PLACE}", "FILE"),
    Option("--force", "overwrite an existing file"),
)


def skill(call: Call) -> Reply:
    """Print the instructions for coding agents, or install them in a project."""
    number = version()["version"]
    text = _SOURCE.read_text(encoding="utf-8").replace("{version}", number)
    place = call.options.install
    if place is None:
        if not (call.options.json or call.options.jsonl):
            print(text, end="")
        return Reply(SkillText(schema="hypergraph.skill/1", version=number, text=text))
    path = Path(_PLACE if place == "-" else place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if call.options.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        hint = "To replace it: --force"
        raise Problem(REFUSED, f"{path} already exists", hint) from None
    except OSError as error:
        raise Problem(STORE, f"Cannot write {path}: {error.strerror}") from None
    document = SkillText(schema="hypergraph.skill/1", version=number, file=jsonable(str(path)))
    return Reply(document, tuple, [f"Installed the skill of hypergraph {number} in {path}"])
