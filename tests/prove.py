"""Run the suites of proofs and print what came of each.

python tests/prove.py                             every suite at full size, two to three hours on two cores
python tests/prove.py --only model --seed 7       one of them, on other cases
python tests/prove.py --scale 10                  ten times as many cases
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import proofs
from proofs import on_postgres
from proofs.outcome import Outcome

Suite = ModuleType | on_postgres.OnPostgres


def suites() -> dict[str, ModuleType]:
    """Return the suites there are, by the names of their modules."""
    names = sorted(
        found.name for found in pkgutil.iter_modules(proofs.__path__) if not found.name.startswith("test_")
    )
    modules = {name: importlib.import_module(f"proofs.{name}") for name in names}
    return {name: each for name, each in modules.items() if hasattr(each, "NAME") and hasattr(each, "prove")}


def find_modules() -> None:
    """Let programs that suites start find the package of this checkout, and shared modules."""
    tests = Path(__file__).resolve().parent
    given = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tests.parent / "src"), str(tests), *given])


def proven(suite: Suite, scale: float, seed: int) -> Outcome:
    """Run a suite; if it breaks down, that is its failure."""
    outcome = Outcome(suite.NAME)
    with outcome.timed():
        try:
            found: Outcome = suite.prove(scale=scale, seed=seed)
            return found
        except Exception:
            outcome.count(f"seed {seed}, scale {scale}:\n{traceback.format_exc()}")
    return outcome


def line(name: str, cases: object, failures: object, seconds: object) -> str:
    """Return one line of the table."""
    return f"{name!s:<44} {cases!s:>9} {failures!s:>9} {seconds!s:>8}"


def told(outcome: Outcome) -> str:
    """Return the line of a suite."""
    if outcome.skipped is not None:
        return line(outcome.name, "skipped", "-", "-") + f"  {outcome.skipped}"
    told = line(outcome.name, f"{outcome.cases:,}", len(outcome.failures), f"{outcome.seconds:.1f}")
    return f"{told}  {outcome.note}" if outcome.note else told


def total(outcomes: Iterable[Outcome]) -> Outcome:
    """Return all outcomes as one."""
    whole = Outcome("all")
    for each in outcomes:
        whole.cases += each.cases
        whole.failures += each.failures
        whole.seconds += each.seconds
    return whole


def main() -> int:
    """Do what the command line says; return the exit code."""
    found: dict[str, Suite] = {**suites(), **on_postgres.SUITES}
    parser = argparse.ArgumentParser(description="Prove what is promised of stored runs.")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is full size, 0.05 that of `make test`")
    parser.add_argument("--seed", type=int, default=0, help="other seeds make other cases")
    parser.add_argument("--only", metavar="NAME", choices=found, help=f"one suite: {', '.join(found)}")
    asked = parser.parse_args()
    find_modules()
    outcomes = []
    print(line("suite", "cases", "failures", "seconds"))
    for name in [asked.only] if asked.only else found:
        outcomes.append(proven(found[name], asked.scale, asked.seed))
        print(told(outcomes[-1]), flush=True)
    whole = total(outcomes)
    print(told(whole))
    for outcome in outcomes:
        for failure in outcome.failures:
            print(f"\n{outcome.name}: {failure}", file=sys.stderr)
    return 1 if whole.failures else 0


if __name__ == "__main__":
    sys.exit(main())
