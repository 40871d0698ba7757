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
from typing import Any, Self, cast

from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.queries import Marginal, Targets, WorkloadQuery, record, to_record
from admeasure.queries.query import check_columns
from admeasure.queries.record import kind_of
from admeasure.workload.files import check_weight, read_entries, write_entries

Weighted = tuple[WorkloadQuery, float]


@dataclass(frozen=True, init=False)
class Workload:
    """Marginals and thresholds with positive weights.

    >>> workload = Workload([Marginal(["b", "a"]), Marginal(["a", "b"]), Marginal(["c"])])
    >>> [(str(query), workload.weight(query)) for query in workload]
    [('marginal (c)', 1.0), ('marginal (a, b)', 2.0)]
    >>> workload.closure()
    (('a',), ('b',), ('c',), ('a', 'b'))
    """

    entries: tuple[Weighted, ...]

    def __init__(
        self,
        queries: Iterable[WorkloadQuery | Weighted] | Mapping[WorkloadQuery, float],
    ) -> None:
        """Queries, pairs of query and weight, or a mapping; a query alone weighs 1."""
        given = queries.items() if isinstance(queries, Mapping) else queries
        weights: dict[WorkloadQuery, list[float]] = {}
        for item in given:
            query, weight = cast("Weighted", item if isinstance(item, tuple) else (item, 1.0))
            if kind_of(query) not in record.IN_WORKLOADS:
                held = " and ".join(f"{kind}s" for kind in record.IN_WORKLOADS)
                raise WorkloadError(f"A workload holds {held}, not {type(query).__name__}.")
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

    @cached_property
    def targets(self) -> list[Targets]:
        """The queries, each once (a k-of-k threshold is the marginal of its columns), for a
        mechanism that chooses among their single targets."""
        found: dict[tuple[Columns, int], Targets] = {}
        for query in self.queries:
            if not isinstance(query, Targets):
                raise WorkloadError(
                    f"The {query} is not answered target by target, as this mechanism asks. Use "
                    "one that measures whole marginals, such as aim."
                )
            whole = query.at_least == len(query.columns)
            found[query.columns, query.at_least] = Marginal(query.columns) if whole else query
        return list(found.values())

    def validate(self, domain: Domain) -> None:
        """Raise `WorkloadError` unless every column is in the domain."""
        for columns in self.marginals():
            check_columns(columns, domain)


def _order(entry: Weighted) -> tuple[int, int, list[Any]]:
    kind, *described = to_record(entry[0]).values()
    return record.IN_WORKLOADS.index(kind), len(entry[0].columns), described


def _size_then_name(columns: Columns) -> tuple[int, Columns]:
    return len(columns), columns
