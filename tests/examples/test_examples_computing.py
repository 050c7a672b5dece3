"""Examples that compute: they do what their README says, and what matters is true afterwards."""

from __future__ import annotations

import csv
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT
from support.readmes import copy_of, follow

from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow


def run(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Run a program of an example; return how it ended and what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


def test_questions_are_answered_and_old_answers_stay_explained(tmp_path: Path) -> None:
    with follow("question_answering", tmp_path) as type_:
        before = type_("hypergraph state monday/item-0 --key retrieved")
        assert "index found in the cache" in type_('python ask.py "How high is the saddle?"')
        assert before.count("'chain.txt'") == 2

        (type_.folder / "bicycles" / "chain.txt").unlink()
        said = type_("python ask.py --id tuesday")
        assert "38 passages of 19 documents, index built" in said
        assert "came first 19/21" in said
        assert "different outputs" in type_("hypergraph diff monday/item-0 tuesday/item-0")
        assert type_("hypergraph state monday/item-0 --key retrieved") == before


KILLED_IN_FIT_41 = """
import os, select_model, sklearn.pipeline
fit, calls = sklearn.pipeline.Pipeline.fit, iter(range(40))
def fit_or_die(*args):
    return os.kill(os.getpid(), 9) if next(calls, None) is None else fit(*args)
sklearn.pipeline.Pipeline.fit = fit_or_die
select_model.main()
"""


def test_models_are_compared_and_those_that_cannot_work_are_in_the_table_too(tmp_path: Path) -> None:
    with follow("model_selection", tmp_path) as type_:
        rows = list(csv.DictReader((type_.folder / "results.csv").read_text(encoding="utf-8").splitlines()))
    assert Counter(row["error"][:15] for row in rows) == {"": 19, "Negative values": 3, "Expected n_neig": 2}
    accuracies = [float(row["accuracy"]) for row in rows if not row["error"]]
    assert accuracies == sorted(accuracies, reverse=True)


def test_models_are_fitted_once_also_when_a_killed_process_is_followed_by_a_pool(tmp_path: Path) -> None:
    folder = copy_of("model_selection", tmp_path)
    (folder / "killed.py").write_text(KILLED_IN_FIT_41, encoding="utf-8")
    assert run(folder, "killed.py") == (-9, "")
    code, said = run(folder, "select_model.py", "--processes", "2")
    assert (code, said.splitlines()[0]) == (0, "25 failed, 55 fitted, 40 restored")
    trials = SqliteCheckpointer(folder / "runs.db").workflows(parent="trials", limit=None)
    fits = [step for trial in trials for step in trial.steps if step.node_name == "fit_and_score"]
    assert Counter(step.status.value for step in fits) == {"completed": 95, "failed": 25}


KILLED_AFTER_ORDER = """
import os
import agent
import chat
order = agent.Shop.place_order
def order_and_die(shop, part: str, quantity: int) -> str:
    order(shop, part, quantity)
    os.kill(os.getpid(), 9)
agent.TOOLS["place_order"] = order_and_die
chat.main()
"""


def test_an_agent_obeys_its_limit_and_its_person_and_goes_on_when_cut_off(tmp_path: Path) -> None:
    with follow("agent_with_tools", tmp_path) as type_:
        assert type_("python chat.py 'The price of a tyre?' --limit 1") == "I stop here: the limit is 1.\n"
        assert "refused" in type_("MODEL_URL=http://127.0.0.1:1 python chat.py 'Cost of a tyre'", code=1)
        assert "One tyre costs 29.00 EUR." in type_("python chat.py")
        type_("python chat.py 'Order a saddle'")
        assert "May I? place_order(part='saddle', quantity=1)" in type_("python chat.py")
        assert type_("python chat.py --no") == "One saddle costs 42.00 EUR. This was not allowed.\n"
        messages = SqliteCheckpointer(type_.folder / "runs.db").state("ann")["messages"]
        said = [message["content"] for message in messages if message["role"] == "user"]
        assert said[2:] == ["The price of a tyre?", "Cost of a tyre", "Order a saddle"]


def test_an_order_of_an_agent_that_is_killed_is_placed_once(tmp_path: Path) -> None:
    folder = copy_of("agent_with_tools", tmp_path)
    shop = runpy.run_path(str(folder / "shop_server.py"))
    (folder / "killed.py").write_text(KILLED_AFTER_ORDER, encoding="utf-8")
    with shop["serving"]() as url:
        assert run(folder, "chat.py", "Order a chain", SHOP_URL=url)[0] == 0
        assert run(folder, "killed.py", "--yes", SHOP_URL=url)[0] == -9
        assert len(shop["orders"]) == 1
        assert run(folder, "chat.py", SHOP_URL=url)[0] == 0
    assert len(shop["orders"]) == 1
    answer = SqliteCheckpointer(folder / "runs.db").state("ann")["messages"][-1]["content"]
    assert answer == "One chain costs 18.50 EUR. Order 1 is on its way."
