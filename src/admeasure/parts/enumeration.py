"""The data player's problem on a small domain: the cost of every record, and the least of them.

Exact, and on a domain of some hundred thousand records far faster than an integer program: one
pass over the domain for each distinct set of columns, one more for each perturbation. Everything
here is computed from released results; nothing is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families.explicit import lifted
from admeasure.queries import Query
from admeasure.schema import Zero

MAX_RECORDS = 1 << 20
"""The largest domain whose records are all looked at."""


class Enumeration:
    """Costs of all records of one domain; those that a [[zero]] rules out cost infinitely much."""

    def __init__(self, domain: Domain, zeros: Sequence[Zero]) -> None:
        self.domain = domain
        self._impossible = np.zeros(domain.levels, dtype=bool)
        for zero in zeros:
            self._impossible |= lifted(zero.mask, zero.columns, domain)
        self._asked: frozenset[tuple[Query, float]] | None = None
        self._sums = np.zeros(domain.levels)

    def best(
        self,
        queries: Mapping[Query, float],
        costs: Mapping[str, np.ndarray],
        rng: np.random.Generator | None = None,
    ) -> dict[str, int] | None:
        """The codes of a record of least cost; of several the first, or one drawn by `rng`."""
        total = self._totals(queries)
        if costs:
            columns = [costs.get(c, np.zeros(n)) for c, n in self._levels()]
            total = total + reduce(np.add.outer, columns)
        flat = total.ravel()
        place = int(flat.argmin())
        if not np.isfinite(flat[place]):
            return None
        if rng is not None:
            place = int(rng.choice(np.flatnonzero(flat <= flat[place] + 1e-9)))
        codes = np.unravel_index(place, self.domain.levels)
        return {c: int(code) for c, code in zip(self.domain.columns, codes, strict=True)}

    def _levels(self) -> Sequence[tuple[str, int]]:
        return list(zip(self.domain.columns, self.domain.levels, strict=True))

    def _totals(self, queries: Mapping[Query, float]) -> np.ndarray:
        """Σ w q(x) for every record x. Kept: FEM asks it of the same queries again and again."""
        asked = frozenset(queries.items())
        if asked != self._asked:
            tables: dict[Columns, np.ndarray] = {}
            for query, weight in queries.items():
                part = query.spread(np.asarray(float(weight)), self.domain)
                tables[query.columns] = tables.get(query.columns, 0.0) + part
            sums = np.where(self._impossible, np.inf, 0.0)
            for columns, table in tables.items():
                sums += lifted(table, columns, self.domain)
            self._asked, self._sums = asked, sums
        return self._sums
