"""What a publishable report says, gathered from a release alone.

Everything here is a function of the release and of public facts, so it costs no budget and may be
published as the release may. Long lists are cut to what a page can show; what is left out is
counted, so that a report can say so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

import numpy as np

from admeasure.bounds import Evidence, share
from admeasure.domain import Columns, canonical
from admeasure.errors import UsageError
from admeasure.joints import batches
from admeasure.privacy.cost import read_cost
from admeasure.published import Published
from admeasure.queries import Cell, from_record
from admeasure.reporting.charts import HeatCell
from admeasure.reporting.columns import ColumnFacts, Grade, grade, known_columns, levels_of
from admeasure.workload import Question

COLUMNS_SHOWN = 60
OPEN = 8
"""So many columns are unfolded when the page is opened, the worst known ones."""
RANKED = 3000
"""The most marginals of a workload that are ranked; of a larger one every n-th is."""
RANKED_SHOWN = 60
LOOKED_AT = 15
"""Marginals of several columns from whose cells the smallest count to trust is judged."""
CORRELATIONS_SHOWN = 30
PAIRED = 40
"""The most columns in the map of pairs."""
ROUNDS_SHOWN = 200
BATCH_CELLS = 1 << 21


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
    smallest_together: float | None
    """The same of one cell of a marginal of several columns of the workload."""

    @property
    def grades(self) -> dict[Grade, list[Ranked]]:
        found: dict[Grade, list[Ranked]] = {"good": [], "fair": [], "poor": []}
        for marginal in reversed(self.ranked):
            found[marginal.grade].append(marginal)
        return found


def gather(release: Published, *, confidence: float = 0.95) -> Facts:
    """Everything that the publishable report shows."""
    evidence = release.evidence
    known, silent = known_columns(release, evidence, confidence)
    columns = []
    for c in known[:COLUMNS_SHOWN]:
        shown, histogram = levels_of(release, evidence, c.name, confidence)
        columns.append(replace(c, shown=shown, histogram=histogram))
    halves = [(v.high - v.low) / 2 for c in columns for v in c.known]
    ranked = rank(release, evidence, confidence)
    return Facts(
        rows=release.rows,
        columns=tuple(columns),
        more_columns=tuple(known[COLUMNS_SHOWN:]),
        silent=silent,
        ranked=ranked,
        marginals=release.workload.asked,
        pairs=pairs(release, evidence),
        rounds=rounds(release.log, release.certificate.rho),
        smallest=float(np.median(halves)) if halves else None,
        smallest_together=together(release, evidence, [r.columns for r in ranked], confidence),
    )


def together(
    release: Published, evidence: Evidence, ranked: Sequence[Columns], confidence: float
) -> float | None:
    """Of marginals from the best known to the worst, the largest cell of each: the median of half
    of their intervals. None where the workload has no marginal of several columns."""
    asked = evenly([columns for columns in ranked if len(columns) > 1], LOOKED_AT)
    if not asked:
        return None
    questions = []
    for columns, counts in zip(asked, release.model.marginals(asked), strict=True):
        cell = map(int, np.unravel_index(int(np.argmax(counts)), counts.shape))
        questions.append(Question(" × ".join(columns), Cell(columns, tuple(cell))))
    answers = evidence.answers(questions, confidence)
    return float(np.median([(a.high - a.low) / 2 for a in answers]))


def rank(release: Published, evidence: Evidence, confidence: float) -> tuple[Ranked, ...]:
    """The workload's marginals by their bounds, worst first."""
    weights = release.workload.weights_by_columns()
    found, looked_at = [], drawn(release.workload.marginals(), RANKED)
    for batch in batches(looked_at, release.schema.domain.cells, BATCH_CELLS):
        bounds = evidence.bounds(batch, confidence)
        found += [
            Ranked(c, share(b.error, release.rows), b.kind, weights[c]) for c, b in bounds.items()
        ]
    return tuple(sorted(found, key=lambda r: (-r.error, r.columns)))


def drawn(marginals: Sequence[Columns], most: int) -> list[Columns]:
    """All, or `most` of them by a public draw, in their order: each as likely as any other, so that
    a mean over them is right in the mean, whatever the order of the list says of its marginals."""
    if len(marginals) <= most:
        return list(marginals)
    return [marginals[i] for i in sorted(random.Random(0).sample(range(len(marginals)), most))]


def evenly(marginals: Sequence[Columns], most: int) -> list[Columns]:
    """All, or `most` of them at even distances."""
    if len(marginals) <= most:
        return list(marginals)
    return [marginals[i * len(marginals) // most] for i in range(most)]


def pairs(release: Published, evidence: Evidence) -> Association:
    """Cramér's V of every two columns in the release's own belief."""
    shown = release.schema.names if len(release.schema.names) <= PAIRED else strongest(release)

    def cell(key: Columns) -> HeatCell:
        try:
            (table,) = release.model.marginals([key])
        except UsageError:
            return HeatCell(None)
        return HeatCell(cramers_v(table), evidence.estimate(key) is None)

    return associated(shown, cell, left_out=len(release.schema.names) - len(shown))


def strongest(release: Published) -> Columns:
    """Of many columns those of the most dependent pairs that were measured together, in the order
    of the schema; the first of the others where these are few."""
    names = release.schema.names
    measured = {pair for m in release.measurements for pair in combinations(m.query.columns, 2)}
    found: list[tuple[float, Columns]] = []
    looked_at = drawn(sorted(measured), RANKED)
    for batch in batches(looked_at, release.schema.domain.cells, BATCH_CELLS):
        found += zip(map(cramers_v, release.model.marginals(batch)), batch, strict=True)
    ranked = chain.from_iterable(pair for _, pair in sorted(found, reverse=True))
    known = set(names)
    chosen = [c for c in dict.fromkeys(chain(ranked, names)) if c in known]
    return tuple(sorted(chosen[:PAIRED], key=names.index))


def associated(names: Columns, cell: Callable[[Columns], HeatCell], left_out: int) -> Association:
    """The map of every two of these columns."""
    pairs = combinations(enumerate(names), 2)
    cells = {(row, column): cell(canonical((a, b))) for (column, a), (row, b) in pairs}
    return Association(names, cells, left_out)


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
