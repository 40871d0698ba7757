"""A user's own condition on a row, as a counting query (Liu, Vietri and Wu 2021, appendix B.3).

The function is given a dict of decoded values, one for each of its columns, and says whether the
row counts. A column in bins gives the middle of the row's bin, `missing` gives None. Rows with the
same codes are one to it, so it is evaluated once for each distinct combination of codes.

Sensitivity: a row counts or does not, so one person moves the count by at most `max_rows` under
both neighbouring relations, if the function is what it should be: the same answer for the same row,
and nothing kept of the rows that it sees. It runs inside the steward's process and is trusted to
that extent. It is tried on made-up rows first, where an error shows; a row of the table for which
it fails does not count, since an error would say that there is such a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import UsageError, WorkloadError
from admeasure.queries.query import OneCount, arrange, as_counts, check_columns
from admeasure.sparse import SparseCounts

TRIED = 200
"""Made-up rows on which a function is tried."""


@dataclass(frozen=True, init=False)
class Predicate(OneCount):
    """How many rows a function says yes to. Two are the same if columns and name are.

    >>> Predicate(["age", "hours"], lambda row: row["hours"] > row["age"], "works more than old")
    Predicate(columns=('age', 'hours'), name='works more than old')
    """

    columns: Columns
    name: str
    function: Callable[[Mapping[str, Any]], object] | None = field(
        default=None, compare=False, repr=False
    )
    levels: Mapping[str, np.ndarray] | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        columns: Iterable[str],
        function: Callable[[Mapping[str, Any]], object] | None = None,
        name: str = "predicate",
        levels: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """`levels`: the value of each code, by column; `fit` fills it in from the schema."""
        names, _ = arrange(columns)
        if not names:
            raise WorkloadError(f"The predicate {name!r} needs at least one column.")
        for attribute, value in zip(
            ("columns", "name", "function", "levels"), (names, name, function, levels), strict=True
        ):
            object.__setattr__(self, attribute, value)

    def __str__(self) -> str:
        return f"count where {self.name} ({', '.join(self.columns)})"

    def holds(self, codes: np.ndarray) -> np.ndarray:
        """For each line of codes (rows, columns) whether the row counts."""
        distinct, back = np.unique(codes, axis=0, return_inverse=True)
        found = np.fromiter((self._says(row) for row in distinct), bool, len(distinct))
        return found[back.reshape(-1)]

    def _says(self, codes: np.ndarray) -> bool:
        function, row = self._function(), self._row(codes)
        try:
            return bool(function(row))
        except Exception:  # must not tell that there is a row for which it fails
            return False

    def _function(self) -> Callable[[Mapping[str, Any]], object]:
        if self.function is None or self.levels is None:
            raise UsageError(
                f"The predicate {self.name!r} was read from a file, which does not hold its "
                "function. Evaluate it on sampled rows instead."
            )
        return self.function

    def _row(self, codes: np.ndarray) -> dict[str, Any]:
        levels = self.levels or {}
        return {c: levels[c][code] for c, code in zip(self.columns, codes.tolist(), strict=True)}

    def tried(self, domain: Domain) -> None:
        """Raise a clear error where the function fails on made-up rows."""
        rng = np.random.default_rng(0)
        rows = rng.integers(0, domain.shape(self.columns), (TRIED, len(self.columns)))
        function = self._function()
        for codes in rows:
            try:
                bool(function(self._row(codes)))
            except Exception as error:
                raise UsageError(
                    f"The predicate {self.name!r} raises {type(error).__name__} for a row that the "
                    "schema allows. Let it answer for every row; missing values are None."
                ) from error

    def of_sparse(self, found: SparseCounts) -> np.ndarray:
        """The exact count, from the cells that occur of the marginal on `columns`."""
        held = self.holds(found.codes) if len(found.counts) else np.zeros(0, bool)
        return np.asarray(found.counts[held].sum(), np.int64)

    def answer(self, counts: np.ndarray) -> np.ndarray:
        counts = as_counts(counts, len(self.columns))
        return np.asarray((counts * self._mask(counts.shape)).sum())

    def _mask(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.holds(np.argwhere(np.ones(shape, bool))).reshape(shape)

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        return self._mask(domain.shape(self.columns)) * values

    def validate(self, domain: Domain) -> None:
        check_columns(self.columns, domain)
