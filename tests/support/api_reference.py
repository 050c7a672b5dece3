"""The reference of the Python API, written from signatures, docstrings and the comments beside fields.

`HYPERGRAPH_REGOLD=1 pytest tests/docs/test_api_reference.py` writes it anew.
"""

import ast
import asyncio
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ForwardRef, is_typeddict

from support.api_names import PAGES, Members, contents, hints, homes, loaded, parsed

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
GIVEN = {  # made by the package; who gets one need not know how
    *("NodeContext", "RunHandle", "MapHandle", "RunIterator", "AsyncRunIterator", "Submitted", "Worker"),
    *("PauseExecution", "GateNode", "HyperNode", "END", "NodeStop", "RunDebugger", "AsyncRunDebugger"),
}


OVERVIEW = "api.md"
PATHS = [OVERVIEW, *(f"api/{page}.md" for page in PAGES)]


@lru_cache
def pages() -> dict[str, str]:
    """Return all pages, by their path below the reference."""
    return {path: overview() if path == OVERVIEW else written(Path(path).stem) for path in PATHS}


def overview() -> str:
    parts = [
        "# The Python API",
        "Every public name: where to import it from, and what it is. The pages behind the names\n"
        "are written from signatures and docstrings; `help(name)` says the same.",
    ]
    for page, things in contents().items():
        rows = ["| Name | Import it from | |", "|---|---|---|"]
        for name, thing in things.items():
            modules = ", ".join(f"`{module}`" for module in homes().get(name, [])) or "need not be imported"
            rows.append(f"| [`{name}`](api/{place(name)}) | {modules} | {cell(summary(name, thing))} |")
        parts += [f"## hypergraph.{page}", "\n".join(rows)]
    types = [f"| `{name}` | {meaning} |" for name, meaning in sorted(types_named_in_signatures().items())]
    parts += ["## Types that signatures name", "\n".join(["| Type | |", "|---|---|", *types])]
    return "\n\n".join(parts) + "\n"


def types_named_in_signatures() -> dict[str, str]:
    """Return by name what the types of this package are that are not public themselves."""
    found: dict[str, str] = {}
    for call in public_calls():
        function = inspect.unwrap(call.__init__ if inspect.isclass(call) else call)
        to_do = [(signature("", call), function.__module__ or call.__module__)]
        while to_do:
            text, module = to_do.pop()
            for word in re.findall(r"(?<![\w.'\"])[A-Z]\w+", text):
                thing = getattr(sys.modules[module], word, None)
                if word in found or word in public_names():
                    continue
                if inspect.isclass(thing) and thing.__module__.startswith("hypergraph"):
                    found[word] = cell(summary(word, thing))
                elif definition := defined(word, module):
                    found[word] = f"`{cell(definition[0])}`"
                    to_do.append(definition)
    return found


@lru_cache
def public_names() -> set[str]:
    return {name for things in contents().values() for name in things}


@lru_cache
def defined(name: str, module: str) -> tuple[str, str] | None:
    """Return what a type alias means in a module, and in which one it was written; None if it is not ours."""
    for node in parsed(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if target is not None and ast.unparse(target) == name:
            return None if "TypeVar" in ast.unparse(node.value) else (ast.unparse(node.value), module)
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return defined(name, node.module) if node.module.startswith("hypergraph") else None
    return None


def public_calls() -> Iterator[Any]:
    """Yield every public function, class that users make, and method."""
    for things in contents().values():
        for name, thing in things.items():
            if inspect.isclass(thing):
                if (
                    thing.__name__ == name
                    and is_made_by_users(name, thing)
                    and inspect.isfunction(thing.__init__)
                ):
                    yield thing
                yield from Members(thing).methods.values()
            elif inspect.isroutine(thing):
                yield thing


def is_made_by_users(name: str, kind: type) -> bool:
    is_protocol = getattr(kind, "_is_protocol", False)
    return not (name in GIVEN or issubclass(kind, enum.Enum) or is_typeddict(kind) or is_protocol)


def written(page: str) -> str:
    modules, guides = PAGES[page]
    links = ", ".join(f"[{title(guide)}](../{guide}.md)" for guide in guides)
    doc = inspect.cleandoc(loaded(modules[0]).__doc__ or "").partition("\n\n")[0]
    parts = [f"# hypergraph.{page}", doc, f"Guides: {links}. All names: [the Python API](../api.md)."]
    for name, thing in contents()[page].items():
        parts += [f"## {name}", *entry(name, thing, page)]
    return "\n\n".join(parts) + "\n"


@lru_cache
def title(guide: str) -> str:
    text = (REFERENCE / f"{guide}.md").read_text(encoding="utf-8")
    return text.partition("\n")[0].lstrip("# ").partition(":")[0]


@lru_cache
def place(name: str) -> str:
    """Return where a name stands, as a link from the folder of the pages."""
    page = next(page for page, things in contents().items() if name in things)
    return f"{page}.md#{name.lower()}"


def link(name: str, page: str) -> str:
    target = place(name)
    return f"[`{name}`]({target.removeprefix(f'{page}.md')})"


def summary(name: str, thing: Any) -> str:
    """Return the first sentence about a thing."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return f"the type `{alias(thing)}`"
    if thing.__name__ != name:
        return f"another name of `{thing.__name__}`"
    paragraph = " ".join(inspect.cleandoc(thing.__doc__).partition("\n\n")[0].split())
    return re.split(r"(?<=[.;]) |: ", paragraph)[0].rstrip(".;")


def alias(thing: Any) -> str:
    return re.sub(r"\b(typing|hypergraph(\.\w+)*)\.", "", str(thing))


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def entry(name: str, thing: Any, page: str) -> Iterator[str]:
    modules = ", ".join(f"`{module}`" for module in homes().get(name, []))
    lead = f"From {modules}." if modules else "Calls take or return it; you do not need to import it."
    if inspect.isclass(thing) and thing.__name__ != name:
        yield f"{lead} Another name of {link(thing.__name__, page)}."
    elif inspect.isclass(thing):
        yield from class_entry(name, thing, page, lead)
    elif inspect.isroutine(thing):
        yield from (lead, signature(name, thing), *prose(thing))
    else:
        yield f"{lead} The type `{alias(thing)}`."


def class_entry(name: str, kind: type, page: str, lead: str) -> Iterator[str]:
    members = Members(kind)
    above = members.public_bases
    nearest = [base for base in above if not any(base in other.__mro__[1:] for other in above)]
    if nearest:
        lead += f" Has all that {', '.join(link(base.__name__, page) for base in nearest)} has."
    yield lead
    if name in homes() and is_made_by_users(name, kind):
        yield signature(name, kind)
    yield from prose(kind)
    if members.attributes:
        head = "| Member | Value |" if issubclass(kind, enum.Enum) else "| Attribute | Type | Meaning |"
        yield "\n".join([head, "|---|---|---|"[: 4 * head.count("|") - 3], *attribute_rows(kind, members)])
    tests = [f"- `{method}`" for method in sorted(dir(kind)) if method.startswith("test_")]
    if tests:
        yield "What it tests:\n\n" + "\n".join(tests)
    groups = {base: [*own_methods(base, members)] for base in members.own}
    for base, methods in groups.items():
        if base is not kind and len(methods) > 4:
            yield f"**{inspect.cleandoc(base.__doc__ or '').partition(chr(10))[0]}**"
        for method in methods:
            yield f"### {name}.{method}"
            yield signature(method, members.methods[method])
            yield from prose(members.methods[method])


def own_methods(base: type, members: Members) -> Iterator[str]:
    for name in vars(base):
        first = next((each for each in members.own if name in vars(each)), None)
        if name in members.methods and first is base and not name.startswith("test_"):
            yield name


def attribute_rows(kind: type, members: Members) -> Iterator[str]:
    for attribute in members.attributes:
        middle = f" `{cell(attribute.type)}` |" if attribute.type else " |"
        meaning = "" if issubclass(kind, enum.Enum) else f" {cell(attribute.meaning or '')} |"
        yield f"| `{attribute.name}` |{middle}{meaning}"


def prose(thing: Any) -> Iterator[str]:
    """Yield a docstring as Markdown; what parameters mean and what is raised become tables."""
    text = inspect.getdoc(thing) or ""  # a method without one has that of its base class
    for section in re.split(r"\n\n(?=(?:Args|Raises|Example):\n)", text):
        heading, _, rest = section.partition(":\n")
        if heading not in ("Args", "Raises"):
            shown = f"{textwrap.dedent(rest)}\n" if heading == "Example" else section
            text = re.sub(
                r"(?m)(^>>> .*\n(?:.+\n?)*)", lambda lines: f"```text\n{lines[0].rstrip()}\n```\n", shown
            )
            yield text.rstrip() if heading == "Example" else text
            continue
        items = re.findall(r"^(\S.*?): (.*(?:\n +.*)*)", textwrap.dedent(rest), re.MULTILINE)
        head = "| Parameter | Meaning |" if heading == "Args" else "| Raises | When |"
        yield "\n".join([head, "|---|---|", *(f"| `{name}` | {cell(text)} |" for name, text in items)])


def signature(name: str, call: Any) -> str:
    found, written = inspect.signature(call), hints(call)
    parameters = [each for each in found.parameters.values() if each.name != "self"]
    texts = list(parameter_texts(parameters, written))
    has_result = not inspect.isclass(call) and found.return_annotation is not found.empty
    returned = f" -> {annotation(found.return_annotation, written.get('return'))}" if has_result else ""
    prefix = "await " if asyncio.iscoroutinefunction(inspect.unwrap(call)) else ""
    line = f"{prefix}{name}({', '.join(texts)}){returned}"
    if len(line) > 100:
        line = f"{prefix}{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){returned}"
    return f"```text\n{line}\n```"


def parameter_texts(parameters: list[inspect.Parameter], written: dict[str, str]) -> Iterator[str]:
    """Yield parameters as they would be written, with the marks between the kinds of them."""
    starred = False
    for number, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            text += f": {annotation(parameter.annotation, written.get(parameter.name))}"
        if parameter.default is not parameter.empty:
            text += f" = {default(parameter.default)}"
        yield text
        following = parameters[number + 1 :]
        if parameter.kind is parameter.POSITIONAL_ONLY and (
            not following or following[0].kind is not parameter.POSITIONAL_ONLY
        ):
            yield "/"


def annotation(given: Any, written: str | None = None) -> str:
    if isinstance(given, ForwardRef):  # of a field of a NamedTuple
        return given.__forward_arg__
    return given if isinstance(given, str) else written or inspect.formatannotation(given)


def default(value: Any) -> str:
    if inspect.isclass(value) or inspect.isroutine(value):
        return str(value.__name__)
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, tuple) and value and all(map(inspect.isclass, value)):
        return f"({', '.join(each.__name__ for each in value)},)"
    text = repr(value)
    return "..." if text.startswith("<") else text  # made afresh, or not to be passed
