"""The questions that must be answered well, each with a weight.

A workload is a set: the same query named twice is one query with the sum of the weights, the
order of naming does not matter, and two workloads with the same queries and weights are equal. It
is public, and chosen without looking at the private table.

A workload by rule may have more marginals than are ever listed (`rule.py`). Its queries are then a
sample of them, with weights that make every sum over the workload right in the mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from random import Random
from typing import Any, Self, cast

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError, WorkloadError
from admeasure.queries import Marginal, Targets, WorkloadQuery, record
from admeasure.queries.query import check_columns
from admeasure.queries.record import fields_of, kind_of
from admeasure.workload.files import check_weight, read_workload, write_entries, write_rule
from admeasure.workload.rule import MOST_WRITTEN, KWay, draw

Weighted = tuple[WorkloadQuery, float]

MOST_SUBSETS = 2**24
"""The most sets, those that several marginals share counted for each, that a closure is made of."""
MOST_CERTIFIED = 2**12
"""The errors of 16,384 triples of 200 columns took 41 of the 109 CPU seconds of a run."""


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
    rule: KWay | None
    """Where there are more marginals than a list is made of: what they are."""

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
        merged = ((query, check_weight(math.fsum(parts))) for query, parts in weights.items())
        object.__setattr__(self, "entries", tuple(sorted(merged, key=_order)))
        object.__setattr__(self, "rule", None)

    @classmethod
    def by_rule(cls, rule: KWay) -> Self:
        """What is looked at of a rule's marginals, each of which counts alike. Few of them are the
        list that they are."""
        made = cls.__new__(cls)
        each = rule.each
        entries = tuple((Marginal(columns), each) for columns in rule.marginals())
        object.__setattr__(made, "entries", entries)
        few = rule.count <= MOST_WRITTEN and not rule.sampled
        object.__setattr__(made, "rule", None if few else rule)
        return made

    @classmethod
    def loads(cls, text: str, *, name: str = "workload", domain: Domain | None = None) -> Self:
        """The workload of a TOML text (`admeasure.workload.files`), its columns checked against
        the domain where one is given; `name` is what errors call the text."""
        found = read_workload(text, name=name, domain=domain)
        return cls.by_rule(found) if isinstance(found, KWay) else cls(found)

    def dumps(self) -> str:
        """The workload as TOML: `Workload.loads(workload.dumps()) == workload`."""
        return write_entries(self.entries) if self.rule is None else write_rule(self.rule)

    @cached_property
    def queries(self) -> tuple[WorkloadQuery, ...]:
        """Those that are looked at."""
        return tuple(query for query, _ in self.entries)

    @property
    def sampled(self) -> bool:
        """Whether the queries are a sample of what is asked."""
        return self.rule is not None and self.rule.sampled

    @property
    def asked(self) -> int:
        """How many marginals there are, looked at or not."""
        return len(self.marginals()) if self.rule is None else self.rule.count

    @property
    def looked_at(self) -> str:
        """What part of the marginals is looked at, as a sentence; empty where it is all."""
        return "" if self.rule is None else self.rule.in_words()

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
        return self._marginals

    @cached_property
    def _marginals(self) -> tuple[Columns, ...]:
        if self.rule is not None:
            return tuple(query.columns for query in self.queries)  # in this order already
        # Nearly in this order already, which is sorted faster than a set.
        return tuple(sorted(dict.fromkeys(q.columns for q in self.queries), key=_size_then_name))

    @cached_property
    def certified(self) -> Workload:
        """What a certificate of accuracy is of: all marginals, or a sample drawn without the table,
        which says nearly as well how good a release is. Whoever reads a release draws the same
        sample: it keeps the errors, and of what a hash alone."""
        marginals = self.marginals()
        if len(marginals) <= MOST_CERTIFIED:
            return self
        drawn = set(draw(marginals, MOST_CERTIFIED, Random(0)))
        return Workload((query, w) for query, w in self.entries if query.columns in drawn)

    def of_errors(self, count: int) -> Workload:
        """What so many stated errors are of: older releases state those of all marginals."""
        return self if count == len(self.marginals()) else self.certified

    def weights_by_columns(self) -> dict[Columns, float]:
        """What the queries that read the same columns weigh together, in the order of queries."""
        found: dict[Columns, float] = {}
        for query, weight in self.entries:
            found[query.columns] = found.get(query.columns, 0.0) + weight
        return found

    def marginal_weights(self) -> list[Fraction]:
        """What each of these weighs: all that asks for it, exactly."""
        found: dict[Columns, Fraction] = {}
        for query, weight in self.entries:
            part, known = Fraction(weight), found.get(query.columns)
            found[query.columns] = part if known is None else known + part
        return [found[columns] for columns in self.marginals()]

    @property
    def weighs_alike(self) -> bool:
        """Whether all of these weigh the same."""
        if len(self.entries) == len(self.marginals()):  # each is asked for once
            return len({weight for _, weight in self.entries}) == 1
        return len(set(self.marginal_weights())) == 1

    def closure(self) -> tuple[Columns, ...]:
        """Those column sets and all their subsets but the empty one, by size and then by name; of
        a rule that is looked at by a sample, all smaller sets that are few enough to be listed."""
        return self._closure

    @cached_property
    def _closure(self) -> tuple[Columns, ...]:
        subsets = sum(2**size * n for size, n in Counter(map(len, self.marginals())).items())
        if subsets > MOST_SUBSETS:
            widest = len(self.marginals()[-1])
            raise ResourceError(
                f"The workload's marginals, of up to {widest} columns, have more than "
                f"{MOST_SUBSETS:,} subsets. Ask for marginals of fewer columns, or for fewer."
            )
        if self.rule is not None:
            return tuple(self.rule.closure())
        found: set[Columns] = set()
        for columns in self.marginals():
            for size in range(1, len(columns) + 1):
                found.update(combinations(columns, size))
        return tuple(sorted(found, key=_size_then_name))

    def candidates(self) -> Sequence[Columns]:
        """What a mechanism that chooses what to measure chooses among."""
        return self.closure() if self.rule is None else self.rule.candidates()

    @cached_property
    def columns(self) -> frozenset[str]:
        """Those that some query reads."""
        if self.rule is not None:
            return frozenset(self.rule.columns)
        return frozenset(c for columns in self.marginals() for c in columns)

    def reading(self, sets: Sequence[Columns]) -> list[float]:
        """For each set of columns, what the queries weigh that read all of it; of a rule, all of
        its marginals and not only those that are looked at.

        >>> Workload([Marginal(["a", "b"]), Marginal(["b", "c"])]).reading([("b",), ("a", "b")])
        [2.0, 1.0]
        """
        if self.rule is not None:
            return [self.rule.reading(columns) for columns in sets]
        found: dict[Columns, list[float]] = {columns: [] for columns in sets}
        widest = max(map(len, sets), default=0)
        for query, weight in self.entries:
            for size in range(1, min(len(query.columns), widest) + 1):
                for subset in combinations(query.columns, size):
                    if subset in found:
                        found[subset].append(weight)
        return [math.fsum(found[columns]) for columns in sets]

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
        check_columns(tuple(sorted(self.columns)), domain)


def _order(entry: Weighted) -> tuple[Any, ...]:
    query, kind = entry[0], kind_of(entry[0])
    described = (getattr(query, field) for field in fields_of(kind))
    return record.IN_WORKLOADS.index(kind), len(query.columns), *described


def _size_then_name(columns: Columns) -> tuple[int, Columns]:
    return len(columns), columns
