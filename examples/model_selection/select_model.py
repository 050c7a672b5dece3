"""Try every model with every scaling and setting on every fold, then fit the best combination on everything.

What is done is stored: after an interruption, start again, and only what is missing is fitted.
"""

import argparse
import csv
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from statistics import mean
from typing import NamedTuple

from trials import FOLDS, final, trial

from hypergraph import RunResult, RunStatus, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

MODELS = ["logistic", "tree", "neighbours", "bayes"]
SCALINGS = ["standard", "0 to 1"]
SETTINGS = [1, 5, 1000]
GRID = {"model": MODELS, "scaling": SCALINGS, "setting": SETTINGS, "fold": list(range(FOLDS))}


class Row(NamedTuple):
    """One combination, over all folds."""

    model: str
    scaling: str
    setting: int
    accuracy: float | None
    error: str

    def __str__(self) -> str:
        outcome = f"{self.accuracy:.4f}" if self.accuracy else self.error
        return f"{self.model:<11} {self.scaling:<9} {self.setting:>4}  {outcome}"


def try_all(runner: SyncRunner, at_most: int | None) -> list[RunResult]:
    """Return the results of the trials in the order of the grid, at most so many."""
    trials = runner.map_iter(
        trial,
        GRID,
        map_over=list(GRID),
        map_mode="product",
        error_handling="continue",
        workflow_id="trials",
    )
    results = dict(islice(trials, at_most))
    counts = Counter(map(outcome, results.values()))
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return [results[index] for index in sorted(results)]


def outcome(result: RunResult) -> str:
    if result.status is RunStatus.FAILED:
        return "failed"
    return "restored" if all(step.status == "skipped" for step in result.log.steps) else "fitted"


def table(results: list[RunResult]) -> list[Row]:
    """Return a row per combination, the best one first and those that do not work last."""
    rows = []
    for place, combination in enumerate(product(MODELS, SCALINGS, SETTINGS)):
        folds = results[place * FOLDS : (place + 1) * FOLDS]
        errors = [str(result.error) for result in folds if result.error]
        accuracy = None if errors else mean(result["accuracy"] for result in folds)
        rows.append(Row(*combination, accuracy, errors[0] if errors else ""))
    return sorted(rows, key=lambda row: -(row.accuracy or 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, help="fit in so many processes instead of this one")
    parser.add_argument("--at-most", type=int, metavar="N", help="stop after so many trials")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(options.processes, context) if options.processes else None
    runner = SyncRunner(
        checkpointer=SqliteCheckpointer("runs.db"),
        executor={"fit_and_score": pool} if pool else None,
    )
    results = try_all(runner, options.at_most)
    if len(results) == len(MODELS) * len(SCALINGS) * len(SETTINGS) * FOLDS:
        rows = table(results)
        with open("results.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([Row._fields, *rows])
        print(*rows, sep="\n")
        best = {name: getattr(rows[0], name) for name in ("model", "scaling", "setting")}
        accuracy = runner.run(final, best, workflow_id="final")["accuracy"]
        print(f"the first, fitted on all folds, on data that nobody has seen yet: {accuracy:.4f}")
    if pool:
        pool.shutdown()


if __name__ == "__main__":
    main()
