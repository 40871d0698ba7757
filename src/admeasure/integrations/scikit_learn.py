"""`fit` as an estimator of scikit-learn: parameters in the constructor, the table in `fit`.

Released, and charged: what `admeasure.fit` releases, at its (epsilon, delta), each time that `fit`
is called. A cross-validation fits many times, and the costs add up; `charge_to` names a budget
book, which refuses what would pass the total of the data set. There is no `score`: it would be a
number about the private table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from admeasure.errors import UsageError
from admeasure.mechanisms import Mechanism
from admeasure.mechanisms.auto import Auto
from admeasure.request import ChargeTo
from admeasure.verbs.fit import fit
from admeasure.verbs.given import GivenSchema, GivenWorkload, mechanism_of, schema_of


class ReleaseEstimator(BaseEstimator):
    """Learns a table under differential privacy, and samples rows like it.

    Parameters are those of `admeasure.fit`; `mechanism` may be a name. `seed` makes the noise
    repeatable and the release NOT PRIVATE.

    After `fit`: `release_`, the release; `feature_names_in_` and `n_features_in_`, the columns.

    >>> from sklearn.base import clone
    >>> from admeasure import Schema
    >>> schema = Schema.coded("people", {"sex": 2, "smokes": 2})
    >>> asked = ReleaseEstimator(schema, epsilon=1, delta=1e-9, mechanism="independent")
    >>> made = clone(asked).fit({"sex": [0, 1] * 50, "smokes": [0, 0] * 50})
    >>> made.release_.certificate.epsilon, list(made.sample(3))
    (1.0, ['sex', 'smokes'])
    """

    def __init__(
        self,
        schema: GivenSchema,
        *,
        epsilon: float,
        delta: float,
        workload: GivenWorkload = "all-2way",
        mechanism: Mechanism | Auto | str | None = None,
        public: Any = None,
        charge_to: ChargeTo | None = None,
        certify: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.workload = workload
        self.mechanism = mechanism
        self.public = public
        self.charge_to = charge_to
        self.certify = certify
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> ReleaseEstimator:
        """Learn a frame, a dict of columns, a file, or an array in the order of the schema's
        columns. `y` is ignored: a target is a column like the others."""
        schema = schema_of(self.schema)
        names = schema.stored_names
        self.release_ = fit(
            _named(X, names) if isinstance(X, np.ndarray) else X,
            schema,
            workload=self.workload,
            mechanism=mechanism_of(self.mechanism),
            epsilon=self.epsilon,
            delta=self.delta,
            public=self.public,
            charge_to=self.charge_to,
            certify=self.certify,
            seed=self.seed,
            progress=False,
        )
        self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def sample(self, n_samples: int | None = None) -> Any:
        """Synthetic rows in the type of the table that was fitted; they cost nothing. Conditions
        and more are methods of `release_`."""
        check_is_fitted(self)
        return self.release_.sample(n_samples)


def _named(table: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    if table.ndim != 2 or table.shape[1] != len(names):
        wanted = f"An array needs the schema's {len(names)} columns in their order."
        raise UsageError(f"{wanted} Give a frame instead.")
    return dict(zip(names, table.T, strict=True))
