"""Examples that compute: they do what their README says, and what matters is true afterwards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from readmes import follow

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
