"""The reference of JSON answers, written from the typed dicts and the comments beside their fields.

`HYPERGRAPH_REGOLD=1 pytest tests/views/test_schemas.py` writes it anew.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from typing import get_type_hints, is_typeddict

from hypergraph.views.schemas import SCHEMAS, full_name

INTRODUCTION = """\
# JSON answers

With `--json` every command answers with one document, with `--jsonl` with one line for each of its `items`.
The web page and agents get the same documents. `hypergraph schema NAME` prints the JSON schema of one.

- `schema` says what a document is, as in `hypergraph.steps/1`.
- As long as the number after the slash stays, fields are added, and never changed or taken away: ignore what
  you do not know. A change that breaks this gets the next number.
- Every field of a table is always there, unless it says otherwise; what does not apply is `null`.
- Times are ISO 8601 in UTC, durations milliseconds.
- What can be long is paged: pass `next_cursor` as `--cursor` to get the next page, until it is `null`.
  Elsewhere `left_out` counts what found no place.
- What cannot be answered is `{"error": {"code", "message", "hint", "matches"}}`. The code is `not_found`,
  `ambiguous`, `usage`, `store` or `refused`; `matches`, which may be missing, lists what may have been meant.
"""

WORDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "None": "null",
    "Any": "any",
}


def reference() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, "## Documents\n"]
    inner: dict[str, type] = {}
    for name, kind in SCHEMAS.items():
        parts.append(f"### {full_name(name)}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n{table(kind)}")
        inner |= dict(kinds_inside(kind))
    parts.append("## Their parts\n")
    parts += [
        f"### {name}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n{table(kind)}"
        for name, kind in sorted(inner.items())
    ]
    return "\n".join(parts)


def kinds_inside(kind: type) -> Iterator[tuple[str, type]]:
    """Yield the typed dicts that a typed dict refers to, however deep."""
    to_do, seen = [kind], {kind}
    while to_do:
        for hint in get_type_hints(to_do.pop()).values():
            for found in typed_dicts(hint):
                if found not in seen:
                    seen.add(found)
                    to_do.append(found)
                    yield found.__name__, found


def typed_dicts(hint: object) -> Iterator[type]:
    if is_typeddict(hint):
        yield hint
    for part in getattr(hint, "__args__", ()):
        yield from typed_dicts(part)


def table(kind: type) -> str:
    rows = ["| Field | Type | Meaning |", "|---|---|---|"]
    for name, text, comment in fields(kind):
        rows.append(f"| `{name}` | {text} | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and comment of each field, those of what it extends first."""
    found: dict[str, tuple[str, str, str]] = {}
    for base in reversed([kind, *bases(kind)]):
        lines = inspect.getsource(base).splitlines()
        for node in ast.parse("\n".join(lines)).body[0].body:
            if isinstance(node, ast.AnnAssign):
                comment = re.search(r"  # (.*)$", lines[node.end_lineno - 1])
                name = node.target.id
                found[name] = (name, words(node.annotation), comment[1] if comment else "")
    yield from found.values()


def bases(kind: type) -> Iterator[type]:
    """Yield what a typed dict extends; at run time it does not know."""
    module = sys.modules[kind.__module__]
    for base in ast.parse(inspect.getsource(kind)).body[0].bases:
        found = getattr(module, ast.unparse(base), None)
        if is_typeddict(found):
            yield found
            yield from bases(found)


def words(node: ast.expr) -> str:
    """Return a type in words of JSON."""
    if isinstance(node, ast.BinOp):
        return f"{words(node.left)} or {words(node.right)}"
    if isinstance(node, ast.Subscript):
        holder, args = ast.unparse(node.value), node.slice
        if holder == "list":
            return f"list of {words(args)}"
        if holder == "dict":
            return f"object of {words(args.elts[1])}"
        return f"{words(args)}, may be missing"  # NotRequired
    text = ast.unparse(node)
    return WORDS.get(text) or f"[{text}](#{text.lower()})"


if __name__ == "__main__":
    sys.stdout.write(reference())
