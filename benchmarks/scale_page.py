"""The figures of docs/explanation/scale.md, all of them from one run: `python -m benchmarks.scale_page`.

`python -m benchmarks.dbos --json benchmarks/measured.json` measures. This program then writes the parts of
the page that stand between `<!-- measured: NAME -->` and `<!-- end -->`, and leaves the rest as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.queue_model import HEADS, MEASURED, figures, measured, settings

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "scale.md"
_PART = re.compile(r"(<!-- measured: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_DAY = 86_400
_MANY = 10**9

Found = dict[str, Any]


def page(text: str, found: Found) -> str:
    """Return the page with the figures of a run. Raises KeyError for a part without a writer."""
    return _PART.sub(lambda part: part[1] + _PARTS[part[2]](found) + part[3], text)


def machine(found: Found) -> str:
    """Say what was measured, where and when."""
    about = found["machine"]
    return (
        f"Measured on {about['date']} by one run of `python -m benchmarks.dbos`: Python {about['python']}, "
        f"PostgreSQL {about['postgres']},\none machine of {about['cores']} cores, which had a load of "
        f"{about['load']:.1f} before; the server waits for its disk. Look at the ratios, and run it on yours."
    )


def costs(found: Found) -> str:
    """Say what runs, nodes and bytes cost."""
    cost, sizes, (one, many) = found["cost"], found["bytes"], found["commits a second"]
    bare, step = cost["bare row"], found["step of DBOS"]
    return _table(
        ("What", "Measured", "Beside it"),
        [
            ("a bare `INSERT` and `COMMIT` of one row", _ms(bare), ""),
            ("a node of a run on a worker, stored", _ms(cost["node"]), _times(cost["node"], bare)),
            ("a node as a step of DBOS", _ms(step), f"{_times(step, bare)}: that is why nodes are none"),
            (
                "a run of one node, from submitting to its result",
                _ms(cost["run"]),
                "includes waiting for the next look into the queue (`polling`, 0.1 s)",
            ),
            (
                f"a run of one node among {found['short runs']}",
                _ms(cost["one of many short runs"]),
                "the work to submit, take, begin, end and answer",
            ),
            ("bare commits a second, one client", f"{one:,.0f}", _days(one)),
            (
                "bare commits a second, eight clients",
                f"{many:,.0f}",
                f"{_days(many)}; a server writes the commits of many together",
            ),
            (
                "bytes of a step with a small value, indexes included",
                f"{cost['bytes per step']:.0f}",
                f"10^9 steps take {cost['bytes per step']:.0f} GB",
            ),
            (
                "bytes of a run beside its steps",
                f"{cost['bytes per run']:,.0f}",
                f"{cost['bytes per run of ours']:,.0f} of them ours, the rest in the tables of DBOS",
            ),
            *((name, f"{value:.2f}", _NOTES[name.rpartition(" of ")[2]]) for name, value in sizes.items()),
        ],
    )


def losses(found: Found) -> str:
    """Say what became of runs whose workers were killed."""
    kills = found["kills"]
    return _table(
        ("What", "Measured"),
        [
            ("runs that completed", f"{kills['completed']} of 200"),
            ("steps recorded", f"{kills['steps recorded']:,}, {kills['steps recorded twice']} of them twice"),
            (
                "workers killed",
                f"{kills['kills']}, with {kills['nodes in flight at a kill']} nodes under way in all",
            ),
            (
                "functions that were called again",
                f"{kills['bodies repeated']}, at most one for each node under way",
            ),
            ("slowest takeover", f"{kills['slowest takeover']:.2f} s, with a look every 0.5 s"),
            ("runs of sleeping nodes a second, two workers", f"{found['speed-up']:.1f} times those of one"),
        ],
    )


def queues(found: Found) -> str:
    """Say what the model makes of it."""
    return _table(("", *HEADS), (figures(setting) for setting in settings(measured(found))))


_NOTES = {
    "random text": "values of 64 KB",
    "prose": "the server compresses what repeats itself",
    "random bytes": "in JSON they are written as base64",
}
_PARTS: dict[str, Callable[[Found], str]] = {part.__name__: part for part in (machine, costs, losses, queues)}


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def _times(value: float, base: float) -> str:
    return f"{value / base:.1f} times the bare row"


def _days(commits: float) -> str:
    return f"10^9 of them take {_MANY / commits / _DAY:.1f} days"


def main() -> int:
    """Write the figures of the last run into the page."""
    PAGE.write_text(page(PAGE.read_text(), json.loads(MEASURED.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
