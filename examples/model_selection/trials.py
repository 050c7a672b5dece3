"""Two graphs: `trial` tries one combination on one fold, `final` fits the best one on everything.

Rows are named by numbers and models by names, so little travels to the processes of a pool, and the store
keeps results instead of data and fitted models.
"""

from functools import cache
from typing import Any

import numpy
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from hypergraph import Graph, node

FOLDS = 5
Array = numpy.ndarray[Any, Any]


@cache  # once per process
def data() -> tuple[Array, Array]:
    rows, diagnosis = load_breast_cancer(return_X_y=True)
    return numpy.asarray(rows), numpy.asarray(diagnosis)


@cache
def held_out() -> tuple[Array, Array]:
    """Return the rows to choose with, and those nobody looks at before the end."""
    _, diagnosis = data()
    choosing, final = train_test_split(
        numpy.arange(len(diagnosis)), test_size=0.2, stratify=diagnosis, random_state=0
    )
    return numpy.asarray(choosing), numpy.asarray(final)


@node(output_name="pipeline", persist=False)  # made anew in no time
def build(model: str, scaling: str, setting: int) -> Pipeline:
    """Every model has one number to set: strength, depth, neighbours or smoothing."""
    scalers = {"standard": StandardScaler, "0 to 1": MinMaxScaler}
    models: dict[str, ClassifierMixin] = {
        "logistic": LogisticRegression(C=setting, max_iter=1000),
        "tree": DecisionTreeClassifier(max_depth=setting, random_state=0),
        "neighbours": KNeighborsClassifier(n_neighbors=setting),
        "bayes": MultinomialNB(alpha=setting),
    }
    return make_pipeline(scalers[scaling](), models[model])


@node(output_name=("training", "validation"), persist=False)
def cut(fold: int) -> tuple[Array, Array]:
    choosing, _ = held_out()
    _, diagnosis = data()
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(choosing, diagnosis[choosing])
    training, validation = list(folds)[fold]
    return choosing[training], choosing[validation]


@node(output_name="accuracy")
def fit_and_score(pipeline: Pipeline, training: Array, validation: Array) -> float:
    values, diagnosis = data()
    with threadpool_limits(1):  # small data: threads of numpy would only be in each other's way
        pipeline.fit(values[training], diagnosis[training])
        return float(pipeline.score(values[validation], diagnosis[validation]))


trial = Graph([build, cut, fit_and_score], name="trial")

final = Graph([build, node(held_out, output_name=("training", "validation")), fit_and_score], name="final")
