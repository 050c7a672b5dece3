"""Examples that compute: they do what their README says, and what matters is true afterwards."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cli import ENVIRONMENT
from readmes import EXAMPLES, follow

from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow


def test_questions_are_answered_and_old_answers_stay_explained(tmp_path: Path) -> None:
    with follow("question_answering", tmp_path) as type_:
        before = type_("hypergraph state monday/item-0 --key retrieved")
        assert "index found in the cache" in type_('python ask.py "How high is the saddle?"')
        assert before.count("'chain.txt'") == 2

        (type_.folder / "bicycles" / "chain.txt").unlink()
        said = type_("python ask.py --id tuesday")
        assert "38 passages of 19 documents, index built" in said
        assert "came first 19/21" in said
        assert "a step made other values" in type_("hypergraph diff monday/item-0 tuesday/item-0")
        assert type_("hypergraph state monday/item-0 --key retrieved") == before


KILLED_IN_FIT_41 = """
import os, select_model, sklearn.pipeline
fit, calls = sklearn.pipeline.Pipeline.fit, iter(range(40))
def fit_or_die(*args):
    return os.kill(os.getpid(), 9) if next(calls, None) is None else fit(*args)
sklearn.pipeline.Pipeline.fit = fit_or_die
select_model.main()
"""


def test_models_are_fitted_once_whatever_interrupts_and_wherever_they_are_fitted(tmp_path: Path) -> None:
    with follow("model_selection", tmp_path) as type_:
        table = (type_.folder / "results.csv").read_text(encoding="utf-8")
        assert (table.count("\n"), table.count("Negative values")) == (1 + 24, 3)

        (type_.folder / "workflows.db").unlink()
        (type_.folder / "killed.py").write_text(KILLED_IN_FIT_41, encoding="utf-8")
        type_("python killed.py", code=137)
        assert "25 failed, 55 fitted, 40 restored\n" in type_("python select_model.py --processes 2")
        assert (type_.folder / "results.csv").read_text(encoding="utf-8") == table
        trials = SqliteCheckpointer(type_.folder / "workflows.db").workflows(parent="trials", limit=None)
        fits = [step for trial in trials for step in trial.steps if step.node_name == "fit_and_score"]
        assert Counter(step.status.value for step in fits) == {"completed": 95, "failed": 25}


KILLED_AFTER_ORDER = """
import os, agent, chat
order = agent.Shop.place_order
def order_and_die(shop, part: str, quantity: int) -> str:
    order(shop, part, quantity)
    os.kill(os.getpid(), 9)
agent.TOOLS["place_order"] = order_and_die
chat.main()
"""


def test_an_agent_is_held_back_asked_limited_and_killed(tmp_path: Path) -> None:
    with follow("agent_with_tools", tmp_path) as type_:
        assert type_("python chat.py 'The price of a tyre?' --limit 1") == "I stop here: the limit is 1.\n"
        assert "refused" in type_("MODEL_URL=http://127.0.0.1:1 python chat.py 'Cost of a tyre'", code=1)
        assert "One tyre costs 29.00 EUR." in type_("python chat.py")
        type_("python chat.py 'Order a saddle'")
        assert "May I? place_order(part='saddle', quantity=1)" in type_("python chat.py")
        assert type_("python chat.py --no") == "One saddle costs 42.00 EUR. This was not allowed.\n"
        messages = SqliteCheckpointer(type_.folder / "workflows.db").state("ann")["messages"]
        said = [message["content"] for message in messages if message["role"] == "user"]
        assert said[2:] == ["The price of a tyre?", "Cost of a tyre", "Order a saddle"]


def test_an_order_of_an_agent_that_is_killed_is_placed_once(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "agent_with_tools", tmp_path / "agent")
    shop = runpy.run_path(str(folder / "shop_server.py"))
    (folder / "killed.py").write_text(KILLED_AFTER_ORDER, encoding="utf-8")
    with shop["serving"]() as url:

        def run(*words: str) -> int:
            command = [sys.executable, *words]
            return subprocess.run(
                command, cwd=folder, env=ENVIRONMENT | {"MODEL_URL": url}, check=False
            ).returncode

        assert run("chat.py", "Order a chain") == 0
        assert run("killed.py", "--yes") == -9
        assert len(shop["orders"]) == 1
        assert run("chat.py") == 0
    assert len(shop["orders"]) == 1
    answer = SqliteCheckpointer(folder / "workflows.db").state("ann")["messages"][-1]["content"]
    assert answer == "One chain costs 18.50 EUR. Order 1 is on its way."
