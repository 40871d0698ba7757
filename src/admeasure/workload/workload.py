"""The questions that must be answered well, each with a weight.

A workload is a set: the same query named twice is one query with the sum of the weights, the
order of naming does not matter, and two workloads with the same queries and weights are equal. It
is public, and chosen without looking at the private table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Self

from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.queries import Marginal, Threshold
from admeasure.queries.query import check_columns
from admeasure.workload.files import WorkloadQuery, check_weight, read_entries, write_entries


@dataclass(frozen=True, init=False)
class Workload:
    """Marginals and thresholds with positive weights.

    >>> workload = Workload([Marginal(["b", "a"]), Marginal(["a", "b"]), Marginal(["c"])])
    >>> [(str(query), workload.weight(query)) for query in workload]
    [('marginal (c)', 1.0), ('marginal (a, b)', 2.0)]
    >>> workload.closure()
    (('a',), ('b',), ('c',), ('a', 'b'))
    """

    entries: tuple[tuple[WorkloadQuery, float], ...]

    def __init__(
        self,
        queries: Iterable[WorkloadQuery | tuple[WorkloadQuery, float]]
        | Mapping[WorkloadQuery, float],
    ) -> None:
        """Queries, pairs of query and weight, or a mapping; a query alone weighs 1."""
        given = queries.items() if isinstance(queries, Mapping) else queries
        weights: dict[WorkloadQuery, list[float]] = {}
        for item in given:
            query, weight = item if isinstance(item, tuple) else (item, 1.0)
            if not isinstance(query, Marginal | Threshold):
                raise WorkloadError(
                    f"A workload holds marginals and thresholds, not {type(query).__name__}."
                )
            if not query.columns:
                raise WorkloadError(
                    "A workload's marginal needs at least one column; the number of rows is "
                    "answered by every release."
                )
            weights.setdefault(query, []).append(check_weight(weight))
        if not weights:
            raise WorkloadError("A workload needs at least one query.")
        merged = ((query, math.fsum(parts)) for query, parts in weights.items())
        object.__setattr__(self, "entries", tuple(sorted(merged, key=_order)))

    @classmethod
    def loads(cls, text: str, *, name: str = "workload", domain: Domain | None = None) -> Self:
        """The workload of a TOML text (`admeasure.workload.files`), its columns checked against
        the domain where one is given; `name` is what errors call the text."""
        return cls(read_entries(text, name=name, domain=domain))

    def dumps(self) -> str:
        """The workload as TOML: `Workload.loads(workload.dumps()) == workload`."""
        return write_entries(self.entries)

    @property
    def queries(self) -> tuple[WorkloadQuery, ...]:
        return tuple(query for query, _ in self.entries)

    @cached_property
    def _weights(self) -> dict[WorkloadQuery, float]:
        return dict(self.entries)

    def weight(self, query: WorkloadQuery) -> float:
        return self._weights[query]

    def __iter__(self) -> Iterator[WorkloadQuery]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, query: object) -> bool:
        return query in self._weights

    def marginals(self) -> tuple[Columns, ...]:
        """The different column sets that the queries read, by size and then by name."""
        return tuple(sorted({q.columns for q in self.queries}, key=_size_then_name))

    def closure(self) -> tuple[Columns, ...]:
        """Those column sets and all their subsets but the empty one, by size and then by name."""
        found: set[Columns] = set()
        for columns in self.marginals():
            for size in range(1, len(columns) + 1):
                found.update(combinations(columns, size))
        return tuple(sorted(found, key=_size_then_name))

    def validate(self, domain: Domain) -> None:
        """Raise `WorkloadError` unless every column is in the domain."""
        for columns in self.marginals():
            check_columns(columns, domain)


def _order(entry: tuple[WorkloadQuery, float]) -> tuple[bool, int, Columns, int]:
    query, _ = entry
    at_least = query.at_least if isinstance(query, Threshold) else 0
    return isinstance(query, Threshold), len(query.columns), query.columns, at_least


def _size_then_name(columns: Columns) -> tuple[int, Columns]:
    return len(columns), columns
