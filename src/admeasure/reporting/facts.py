"""What a publishable report says, gathered from a release alone.

Everything here is a function of the release and of public facts, so it costs no budget and may be
published as the release may. Long lists are cut to what a page can show; what is left out is
counted, so that a report can say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from admeasure.bounds import Evidence
from admeasure.domain import Columns, Domain
from admeasure.errors import UsageError
from admeasure.privacy.cost import read_cost
from admeasure.published import Published
from admeasure.queries import Cell, from_record
from admeasure.reporting.charts import HeatCell
from admeasure.workload import Question

LEVELS_SHOWN = 12
COLUMNS_SHOWN = 60
RANKED = 3000
"""The most marginals of a workload that are ranked; of a larger one every n-th is."""
RANKED_SHOWN = 60
PAIRED = 40
"""The most columns in the map of pairs."""
ROUNDS_SHOWN = 200
BATCH_CELLS = 1 << 21
GOOD, FAIR = 0.1, 0.4
"""A bound on the L1 distance, in shares, up to which an answer is called good or fair."""

Grade = Literal["good", "fair", "poor"]


@dataclass(frozen=True)
class Level:
    """One level of a column: the release's count and an interval for the true one."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ColumnFacts:
    """One column; `error` bounds the L1 distance of its shares, None where it is not answered."""

    name: str
    title: str
    type: str
    levels: int
    error: float | None
    kind: str
    shown: tuple[Level, ...]

    @property
    def left_out(self) -> int:
        return self.levels - len(self.shown)

    @property
    def most(self) -> float:
        return max([level.high for level in self.shown], default=0.0)

    @property
    def grade(self) -> Grade:
        return grade(self.error, self.kind)


@dataclass(frozen=True)
class Ranked:
    """A marginal of the workload with its bound, in shares."""

    columns: Columns
    error: float
    kind: str
    weight: float

    @property
    def grade(self) -> Grade:
        return grade(self.error, self.kind)


@dataclass(frozen=True)
class DrawFacts:
    """One private draw: what it was, its noise in rows, its cost in rho and as a share."""

    what: str
    sigma: float | None
    rho: float
    share: float


@dataclass(frozen=True)
class RoundFacts:
    """A choice and what was measured after it. Number 0 is what was measured before any choice."""

    number: int
    steps: tuple[DrawFacts, ...]
    spent: float
    """The part of the budget that was spent when the round ended."""


@dataclass(frozen=True)
class Association:
    """Association of columns in the release: Cramér's V, 0 to 1."""

    names: Columns
    cells: dict[tuple[int, int], HeatCell]
    left_out: int


@dataclass(frozen=True)
class Facts:
    rows: int
    columns: tuple[ColumnFacts, ...]
    """Those that are drawn, worst known first."""
    more_columns: tuple[ColumnFacts, ...]
    """The others, without their levels."""
    silent: Columns
    """Columns that the release does not answer."""
    ranked: tuple[Ranked, ...]
    """Worst first."""
    marginals: int
    pairs: Association
    rounds: tuple[RoundFacts, ...]
    smallest: float | None
    """Half of a typical interval of one level, in rows: smaller counts drown in the noise."""

    @property
    def grades(self) -> dict[Grade, list[Ranked]]:
        found: dict[Grade, list[Ranked]] = {"good": [], "fair": [], "poor": []}
        for marginal in reversed(self.ranked):
            found[marginal.grade].append(marginal)
        return found


def grade(error: float | None, kind: str) -> Grade:
    """How well something is known, from its bound."""
    if error is None or kind == "trivial" or error > FAIR:
        return "poor"
    return "good" if error <= GOOD else "fair"


def gather(release: Published, *, confidence: float = 0.95) -> Facts:
    """Everything that the publishable report shows."""
    evidence = release.evidence
    known, silent = _known_columns(release, evidence, confidence)
    drawn = known[:COLUMNS_SHOWN]
    columns = tuple(_column(release, evidence, n, e, k, confidence) for n, e, k in drawn)
    halves = [(v.high - v.low) / 2 for c in columns for v in c.shown]
    return Facts(
        rows=release.rows,
        columns=columns,
        more_columns=tuple(_bare(release, n, e, k) for n, e, k in known[COLUMNS_SHOWN:]),
        silent=silent,
        ranked=rank(release, evidence, confidence),
        marginals=len(release.workload.marginals()),
        pairs=pairs(release, evidence),
        rounds=rounds(release.log, release.certificate.rho),
        smallest=float(np.median(halves)) if halves else None,
    )


def _known_columns(
    release: Published, evidence: Evidence, confidence: float
) -> tuple[list[tuple[str, float, str]], Columns]:
    known, silent = [], []
    for column in release.schema.columns:
        key = (column.name,)
        try:
            bound = evidence.bounds([key], confidence)[key]
        except UsageError:  # answers only, and this column was not asked about
            silent.append(column.name)
            continue
        known.append((column.name, share(bound.error, release.rows), bound.kind))
    return sorted(known, key=lambda item: (-item[1], item[0])), tuple(silent)


def share(error: float, rows: int) -> float:
    """An L1 distance in rows as one of shares; 2 says nothing."""
    return min(2.0, error / max(1, rows))


def _bare(release: Published, name: str, error: float, kind: str) -> ColumnFacts:
    column = release.schema.column(name)
    return ColumnFacts(name, column.title or "", str(column.type), column.levels, error, kind, ())


def _column(
    release: Published, evidence: Evidence, name: str, error: float, kind: str, confidence: float
) -> ColumnFacts:
    column, key = release.schema.column(name), (name,)
    (counts,) = release.model.marginals([key])
    largest = sorted(range(column.levels), key=lambda code: (-float(counts[code]), code))
    # A column with an order keeps it; one more level is as short as the line that leaves it out.
    codes = sorted(largest[: LEVELS_SHOWN if column.levels > LEVELS_SHOWN + 1 else None])
    questions = [Question(column.labels[code], Cell(key, (code,))) for code in codes]
    answers = evidence.answers(questions, confidence)
    levels = tuple(Level(a.name, a.value, a.low, a.high) for a in answers)
    return ColumnFacts(
        name, column.title or "", str(column.type), column.levels, error, kind, levels
    )


def rank(release: Published, evidence: Evidence, confidence: float) -> tuple[Ranked, ...]:
    """The workload's marginals by their bounds, worst first."""
    weights: dict[Columns, float] = {}
    for query in release.workload:
        weights[query.columns] = weights.get(query.columns, 0.0) + release.workload.weight(query)
    found = []
    for batch in batches(evenly(release.workload.marginals(), RANKED), release.schema.domain):
        bounds = evidence.bounds(batch, confidence)
        found += [
            Ranked(c, share(b.error, release.rows), b.kind, weights[c]) for c, b in bounds.items()
        ]
    return tuple(sorted(found, key=lambda r: (-r.error, r.columns)))


def evenly(marginals: Sequence[Columns], most: int) -> list[Columns]:
    """All, or `most` of them at even distances."""
    if len(marginals) <= most:
        return list(marginals)
    return [marginals[i * len(marginals) // most] for i in range(most)]


def batches(marginals: Sequence[Columns], domain: Domain) -> Iterator[list[Columns]]:
    """Marginals in groups of a bounded number of cells."""
    batch: list[Columns] = []
    cells = 0
    for columns in marginals:
        size = domain.cells(columns)
        if batch and cells + size > BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(columns)
        cells += size
    if batch:
        yield batch


def pairs(release: Published, evidence: Evidence) -> Association:
    """Cramér's V of every two columns in the release's own belief."""
    names = release.schema.names[:PAIRED]
    places = {name: i for i, name in enumerate(names)}
    cells: dict[tuple[int, int], HeatCell] = {}
    for a, b in combinations(names, 2):
        key = (a, b) if a < b else (b, a)
        row, column = max(places[a], places[b]), min(places[a], places[b])
        try:
            (table,) = release.model.marginals([key])
        except UsageError:
            cells[row, column] = HeatCell(None)
            continue
        cells[row, column] = HeatCell(cramers_v(table), evidence.estimate(key) is None)
    return Association(names, cells, len(release.schema.names) - len(names))


def cramers_v(table: np.ndarray) -> float:
    """Cramér's V of a table of counts: 0 for independent columns, 1 where one decides the other.

    >>> round(cramers_v(np.array([[5, 0], [0, 5]])), 6), round(cramers_v(np.ones((2, 3))), 6)
    (1.0, 0.0)
    """
    counts = np.maximum(np.asarray(table, dtype=float), 0.0)
    total = counts.sum()
    if total <= 0:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    inside = expected > 0
    chi_squared = float((np.square(counts - expected)[inside] / expected[inside]).sum())
    used = min(int((counts.sum(axis=i) > 0).sum()) for i in (0, 1))
    return float(np.sqrt(max(0.0, chi_squared) / (total * (used - 1)))) if used > 1 else 0.0


def rounds(log: Sequence[dict[str, Any]], rho: float) -> tuple[RoundFacts, ...]:
    """The private draws of a log, grouped: a round begins with a choice."""
    found: list[list[DrawFacts]] = []
    spent = 0.0
    ends: list[float] = []
    chosen = True
    for event in log:
        if event["event"] == "intent":
            continue
        choice = event["event"] in ("choose", "flip")
        if not found or (choice and not chosen):
            found.append([])
            ends.append(0.0)
        chosen = choice
        found[-1].append(_step(event, rho))
        spent += float(read_cost(event))
        ends[-1] = spent / rho if rho else 0.0
    start = 1 if found and found[0][0].sigma is None else 0
    return tuple(
        RoundFacts(i, tuple(steps), end)
        for i, (steps, end) in enumerate(zip(found, ends, strict=True), start=start)
    )


def _step(event: dict[str, Any], rho: float) -> DrawFacts:
    cost = float(read_cost(event))
    part = cost / rho if rho else 0.0
    match event["event"]:
        case "measure":
            query = from_record(event["query"])
            return DrawFacts(str(query), float(event["sigma"]), cost, part)
        case "choose" | "flip":
            return DrawFacts(
                f"private choice among {event['candidates']:,} candidates", None, cost, part
            )
    return DrawFacts(str(event.get("what", event["event"])), event.get("sigma"), cost, part)
