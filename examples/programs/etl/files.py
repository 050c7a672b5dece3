"""The files to load: sales of many shops, some of them broken in one of two ways."""

from __future__ import annotations

from pathlib import Path

ROWS = 20


def content(number: int, kind: str = "good") -> str:
    price = "twelve" if kind == "wrong price" else f"{number % 7 + 0.5}"
    lines = [f"{day},item-{day % 3},{day + number % 5},{price}" for day in range(ROWS)]
    header = "day,item" if kind == "wrong header" else "day,item,amount,price"
    return "\n".join([header, *lines]) + "\n"


def write_files(folder: Path, count: int) -> list[str]:
    """Write `count` files, of which 3 in 100 are broken, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        kind = {7: "wrong header", 40: "wrong price", 83: "wrong price"}.get(number % 100, "good")
        path = folder / f"shop-{number:04}.csv"
        path.write_text(content(number, kind))
        paths.append(str(path))
    return paths


def repair(path: str) -> None:
    Path(path).write_text(content(int(Path(path).stem.removeprefix("shop-"))))
