"""The estimator obeys scikit-learn's rules, charges each fit, and gives what `fit` gives."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import admeasure
from admeasure.errors import BudgetError, UsageError
from admeasure.integrations.scikit_learn import ReleaseEstimator

SCHEMA = admeasure.Schema.coded("people", {"age": 4, "sex": 2, "ill": 2})
ASKED = {"epsilon": 2.0, "delta": 1e-9, "mechanism": "mst", "seed": 7}


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 4, 4000)
    ill = (rng.random(4000) < 0.1 + 0.2 * age).astype(int)
    return pd.DataFrame({"age": age, "sex": rng.integers(0, 2, 4000), "ill": ill})


def test_parameters_are_kept_as_given_read_back_set_and_cloned():
    asked = ReleaseEstimator(SCHEMA, **ASKED)
    assert {k: asked.get_params()[k] for k in ASKED} == ASKED
    assert asked.get_params()["schema"] is SCHEMA
    other = clone(asked.set_params(epsilon=0.5))
    assert other is not asked
    assert other.epsilon == 0.5
    assert not hasattr(clone(asked.fit({"age": [0], "sex": [1], "ill": [0]})), "release_")
    with pytest.raises(ValueError, match="Invalid parameter"):
        asked.set_params(epsilom=1)


def test_it_releases_what_fit_releases(table):
    made = ReleaseEstimator(SCHEMA, **ASKED).fit(table)
    there = admeasure.fit(
        table, SCHEMA, workload="all-2way", **{**ASKED, "mechanism": admeasure.mst()}
    )
    asked = {"age": 3, "ill": 1}
    assert made.release_.answer(asked) == there.answer(asked)
    assert list(made.feature_names_in_) == ["age", "sex", "ill"]
    assert made.n_features_in_ == 3


def test_rows_come_in_the_type_of_the_table_and_a_learner_learns_from_them(table):
    made = ReleaseEstimator(SCHEMA, **ASKED).fit(table).sample(5000)
    assert isinstance(made, pd.DataFrame)
    assert list(made.columns) == ["age", "sex", "ill"]
    learner = LogisticRegression().fit(made[["age", "sex"]], made["ill"])
    assert learner.coef_[0][0] > 0.5  # the older, the iller: about 0.9 in the table


def test_it_stands_in_a_pipeline_and_says_when_it_is_not_fitted(table):
    steps = Pipeline([("rows", ReleaseEstimator(SCHEMA, **ASKED))])
    with pytest.raises(NotFittedError):
        steps["rows"].sample(3)
    steps.set_params(rows__epsilon=1.0).fit(table)
    assert steps["rows"].release_.certificate.epsilon == 1.0
    with pytest.raises(TypeError, match="score"):
        GridSearchCV(steps["rows"], {"epsilon": [1, 2]}).fit(table)


def test_an_array_is_taken_in_the_order_of_the_schema_and_no_other(table):
    made = ReleaseEstimator(SCHEMA, **ASKED).fit(table.to_numpy())
    assert made.release_.certificate.epsilon == 2.0
    for wrong in (table.to_numpy()[:, :2], table["age"].to_numpy()):
        with pytest.raises(UsageError, match="in their order"):
            ReleaseEstimator(SCHEMA, **ASKED).fit(wrong)


def test_each_fit_is_charged_and_the_book_refuses_what_passes_its_total(table, tmp_path):
    path = tmp_path / "book.db"
    admeasure.Book.create(path, "people", epsilon=1, delta=1e-9)
    to = admeasure.ChargeTo(path, "people")
    asked = ReleaseEstimator(SCHEMA, epsilon=0.8, delta=1e-9, mechanism="independent", charge_to=to)
    asked.fit(table)
    with pytest.raises(BudgetError, match="Nothing was charged"):
        clone(asked).fit(table)
    assert len(admeasure.Book.open(path).history("people")) == 1


def test_its_text_holds_no_password(monkeypatch):
    to = admeasure.ChargeTo("postgres://ann:hunter2@db.example/people", "people")
    asked = ReleaseEstimator(SCHEMA, epsilon=1, delta=1e-9, charge_to=to)
    shown = io.StringIO()
    print(asked, asked._repr_html_(), file=shown)
    assert "hunter2" not in shown.getvalue()
