"""What synthetic rows are worth for learning: train on them, test on real ones. NOT PRIVATE.

Half of the table's rows, drawn at random, are for testing. The same learner, gradient boosting of
scikit-learn at its own defaults, is trained on synthetic rows, on the other half, and on a part of
it, and each predicts the column's level in the rows for testing from all other columns, as codes. A
release was made of the whole table, rows for testing included; how much of one person can be in it
its epsilon says.

NOT PRIVATE: every number here is computed from true rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from admeasure.domain import canonical
from admeasure.errors import UsageError
from admeasure.extras import need
from admeasure.queries.query import unknown_column
from admeasure.schema import Schema
from admeasure.sources import Source

PART = 10
"""The smaller training set is one in so many of the real rows for training."""
MOST_ROWS = 200_000
"""Rows for training and for testing, each."""
MOST_LEVELS = 50
"""Of the column that is predicted: the learner keeps trees for each."""


@dataclass(frozen=True)
class Learned:
    """How well rows of one kind teach: the share of levels predicted right, the mean of that over
    the levels that occur, and the area under the ROC curve where there are two levels."""

    trained_on: str
    rows: int
    accuracy: float
    balanced_accuracy: float
    auc: float | None


@dataclass(frozen=True)
class Prediction:
    """NOT PRIVATE. `commonest` is the accuracy of always naming the commonest level."""

    column: str
    tested_on: int
    commonest: float
    learned: tuple[Learned, ...]


def check_predicted(column: str, schema: Schema) -> None:
    """Refuse before the table is read."""
    need("sklearn", "learn", "--predict")
    if column not in schema.domain:
        raise UsageError(unknown_column(column, schema.domain.columns))
    if schema.domain[column] > MOST_LEVELS or len(schema.domain) < 2:
        raise UsageError(
            f"--predict {column}: it needs a column of at most {MOST_LEVELS} levels, and another "
            "one to predict it from."
        )


def predict(
    column: str, truth: Source, synthetic: Mapping[str, np.ndarray] | Source, seed: int | None
) -> Prediction:
    """Synthetic rows, real rows and a part of them, as teachers of one column."""
    columns, rng = canonical(truth.schema.domain.columns), np.random.default_rng(seed)
    real = _rows(truth, rng)
    if len(real) < 2 * PART:
        raise UsageError(f"--predict needs at least {2 * PART} rows. Leave it out.")
    half = len(real) // 2
    test, train = real[:half][:MOST_ROWS], real[half:][:MOST_ROWS]
    if isinstance(synthetic, Mapping):
        made = np.stack([np.asarray(synthetic[c], np.int64) for c in columns], axis=1)
        made = made[rng.permutation(len(made))]
    else:
        made = _rows(synthetic, rng)
    place = columns.index(column)
    teachers = {
        "synthetic rows": made[: len(train)],
        "real rows": train,
        f"1 in {PART} of the real rows": train[: max(1, len(train) // PART)],
    }
    levels = np.bincount(test[:, place])
    return Prediction(
        column,
        len(test),
        float(levels.max() / len(test)),
        tuple(_taught(name, rows, test, place) for name, rows in teachers.items()),
    )


def _rows(source: Source, rng: np.random.Generator) -> np.ndarray:
    """The rows of a table as codes, columns in alphabetical order, in random order."""
    (found,) = source.sparse([canonical(source.schema.domain.columns)])
    rows = np.repeat(found.codes.astype(np.int64), found.counts, axis=0)
    return rows[rng.permutation(len(rows))]


def _taught(name: str, rows: np.ndarray, test: np.ndarray, place: int) -> Learned:
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = np.delete(test, place, axis=1), test[:, place]
    seen = np.unique(rows[:, place])
    if len(seen) == 1:  # nothing to learn
        shares = np.ones((len(test), 1))
    else:
        learner = HistGradientBoostingClassifier(random_state=0)
        learner.fit(np.delete(rows, place, axis=1), rows[:, place])
        shares = learner.predict_proba(x)
    right = seen[shares.argmax(axis=1)] == y
    occurring = np.unique(y)
    balanced = float(np.mean([right[y == level].mean() for level in occurring]))
    return Learned(name, len(rows), float(right.mean()), balanced, area(shares, seen, y))


def area(shares: np.ndarray, seen: np.ndarray, y: np.ndarray) -> float | None:
    """How often a row of the higher level gets the higher share (ties count half)."""
    levels = np.unique(y)
    if len(levels) != 2:
        return None
    held = np.flatnonzero(seen == levels[1])
    score = shares[:, held[0]] if len(held) else np.zeros(len(y))
    from scipy.stats import rankdata

    high = y == levels[1]
    ranks = rankdata(score)[high].sum() - high.sum() * (high.sum() + 1) / 2
    return float(ranks / (high.sum() * (~high).sum()))
