"""Hooks of mkdocs: files beside docs/ become part of the site, and llms.txt lists all pages.

Pages link to files of the repository by their path, as it works in a clone and on a code host. In the site
these files are below project/.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = [
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md")),
    "LICENSE",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for folder in ("examples", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".md", ".py", ".ipynb") and not any(part.startswith(".") for part in path.parts)
    ),
]
LINK = re.compile(r"(\]\(\s*<?|(?:href|src|srcset)=\")([^)\s>\"]+)")
CELL_CODE = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_pages: list[tuple[str, str, str]] = []  # address, title, first paragraph


def on_config(config: Any) -> Any:
    """Make anchors as code hosts do, so that one link works in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify
    _pages.clear()
    return config


def slugify(text: str, separator: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_files(files: Files, config: Any) -> Files:
    """Add files of the repository that pages link to."""
    wanted = _linked()
    for path in OUTSIDE:
        if path in wanted:
            source = (ROOT / path).read_bytes()
            files.append(File.generated(config, _address(path), content=source))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links between docs/ and the rest of the repository into links within the site."""
    own = page.file.src_uri
    real = own.removeprefix("project/") if own.startswith("project/") else f"docs/{own}"
    first = next((part for part in markdown.split("\n\n")[1:] if part[:1].isalnum()), "")
    _pages.append((page.file.url, page.title or own, " ".join(first.split())))
    return LINK.sub(lambda found: found[1] + _moved(found[2], real, own), markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Show a pipe in the code of a table without the backslash that code hosts need before it."""
    return CELL_CODE.sub(lambda found: found[0].replace(r"\|", "|"), html)


def on_post_build(config: Any) -> None:
    """Write llms.txt: every page with its address and its first paragraph."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines += [f"- [{title}]({address}): {text}" for address, title, text in sorted(_pages)]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _linked() -> set[str]:
    """Return the paths of files beside docs/ that pages reach by links, directly or through one another."""
    found: set[str] = set()
    to_read = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    to_read += ["CONTRIBUTING.md", "CHANGELOG.md"]
    found.update(("CONTRIBUTING.md", "CHANGELOG.md"))
    while to_read:
        page = to_read.pop()
        for _, target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
            if path in OUTSIDE and path not in found:
                found.add(path)
                to_read += [path] if path.endswith(".md") else []
    return found


def _address(path: str) -> str:
    """Return where a file of the repository is in the site; a README is the index of its folder."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"project/{path}" if path != "README.md" else "project/about.md"


def _moved(target: str, real: str, own: str) -> str:
    path, mark, anchor = target.partition("#")
    if not path or re.match(r"[a-z][a-z0-9+.-]*:", target):
        return target
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(real), path))
    if meant not in OUTSIDE and not meant.startswith("docs/"):
        return target
    return posixpath.relpath(_address(meant), posixpath.dirname(own) or ".") + mark + anchor
