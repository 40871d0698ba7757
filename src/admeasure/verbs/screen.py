"""Which public table to use, if any: best-mixture errors of candidates, for a small budget.

What is released, for each candidate S: the smallest largest error, in rows, that a reweighting of
S could have (Liu et al. 2021; `mixture`), with discrete Gaussian noise:

    F_N(D) = min over distributions μ on S of max over queries q of |q(D) - N q(μ)|.

N, the believed number of rows, is fixed beforehand: public, or bought from the same budget.

Sensitivity (Lemma A.2). For a fixed μ each |q(D) - N q(μ)| moves by no more than q(D) does: at most
m, the rows of one person, under add/remove as well as replace, since every q counts rows. A maximum
and a minimum of functions that move by at most m move by at most m. What is computed is a value in
[F, F + τ], τ = `TOLERANCE` rows by the certificate of `best_mixture`, so it moves by at most m + τ;
rounding to the grid adds one unit. Nothing is released without that certificate: a value from a
computation that was cut short, by clock or by a number of steps, would have no such bound, since
how far it got depends on the table. `time_limit` therefore ends the screening with an error, all of
the budget charged; that it was reached is a fact about the table that no budget covers.

The noise of k candidates at ρ is sqrt(k) (m + τ) / sqrt(2 ρ) rows each. It is about ranks as much
as about values: two candidates are tied where their difference is within the noise of both.

A large workload is screened on a part of its marginals, drawn without looking at any table. That
makes F smaller, and leaves its sensitivity.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.families.support import SupportModel
from admeasure.privacy.book import Book, refuse_unless_private
from admeasure.privacy.bookfile import UNUSABLE
from admeasure.privacy.cost import Cost, budget_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import ExactNoise, SeededNoise
from admeasure.privacy.scores.score import GRID
from admeasure.public.mixture import best_mixture
from admeasure.public.read import check_apart, read_public
from admeasure.queries import Marginal, Query
from admeasure.run import ChargeTo
from admeasure.sources.open import held, open_source
from admeasure.unit import Unit
from admeasure.verbs.given import GivenSchema, GivenWorkload, schema_of, workload_of
from admeasure.workload import Workload

TOLERANCE = 0.1
"""Rows by which a computed best-mixture error may be too high."""

ROWS_SHARE = Fraction(1, 10)

Verdict = Literal["use", "unclear", "do not use"]


@dataclass(frozen=True, eq=False)
class BestMixtureError:
    """F_N of one candidate, in units of 1/GRID rows."""

    name: str
    support: SupportModel
    queries: Sequence[Query]
    seconds: float = math.inf

    def __str__(self) -> str:
        return f"best-mixture error of {self.name}"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [q.columns for q in self.queries]

    def l2_squared(self, unit: Unit) -> int:
        return math.ceil((unit.max_rows + TOLERANCE) * GRID + 1) ** 2

    def of(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        answers = [q.answer(t) for q, t in zip(self.queries, tables, strict=True)]
        found = best_mixture(
            self.support, self.queries, answers, gap=TOLERANCE, seconds=self.seconds
        )
        if found.gap > TOLERANCE:
            raise ResourceError(
                f"The {self} was not certified in {self.seconds:g} seconds. Nothing is released, "
                "and the whole budget of the screening is charged. Raise --time-limit, or lower "
                "--marginals."
            )
        return np.array(round(found.error * GRID), dtype=np.int64)


@dataclass(frozen=True)
class Candidate:
    """A public table and what was learned of it; errors in shares of the rows."""

    name: str
    error: float
    noise: float
    """The scale of the noise in `error`."""
    low: float
    high: float
    verdict: Verdict
    records: int
    rank: int
    """One more than the number of candidates that are better by more than the noise."""
    tied_with: tuple[str, ...] = ()
    """Candidates that the noise does not tell from this one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Screening:
    """Candidates by noisy error; the order of tied ones says nothing."""

    candidates: tuple[Candidate, ...]
    alternative: float
    """The largest error that measuring every marginal, without public data, would be expected to
    have at the budget of the fit."""
    resolution: float
    """The smallest difference of two errors, in shares, that the noise does not hide."""
    rho: float
    epsilon: float
    delta: float
    marginals: int
    of_marginals: int
    private: bool


def screen(
    data: Any,
    candidates: Mapping[str, Any],
    schema: GivenSchema,
    *,
    workload: GivenWorkload,
    epsilon: float,
    delta: float,
    fit_epsilon: float = 1.0,
    marginals: int = 256,
    confidence: float = 0.95,
    time_limit: float = math.inf,
    charge_to: ChargeTo | None = None,
    seed: int | None = None,
) -> Screening:
    """Rank public tables by how well their best reweighting could answer the workload.

    `candidates` are public tables by name: paths, frames or dicts of columns. `fit_epsilon` is the
    budget of the fit to come, with which a candidate is compared; at most `marginals` queries are
    judged by.

    Released: one noisy number for each candidate (and the noisy number of rows where it is
    private), at a total cost of (epsilon, delta). Nothing is charged before every public table has
    been read and found usable. `time_limit`: seconds for one candidate; see the top of the file.
    """
    if not candidates:
        raise UsageError("Name at least one public table: --public DATA.")
    if not 0 < confidence < 1 or marginals < 1:
        raise UsageError("The confidence lies between 0 and 1, and at least one marginal is used.")
    if not time_limit > 0:
        raise UsageError(f"The time limit must be positive; it is {time_limit:g}.")
    if charge_to is not None:
        refuse_unless_private(seed is None)
    schema = schema_of(schema)
    workload = workload_of(workload, schema)
    budget, fit_budget = budget_of(epsilon, delta), budget_of(fit_epsilon, delta)
    queries = _some(workload, marginals)
    for table in candidates.values():
        check_apart(data, table)
    public = {name: read_public(table, schema, name=name) for name, table in candidates.items()}
    notes = {name: table.check(schema.domain, schema.zeros) for name, table in public.items()}
    with held(open_source(data, schema)) as source:
        noise = ExactNoise() if seed is None else SeededNoise(seed)
        curator = Curator(source, Ledger(budget), noise)
        with _charged(charge_to, curator.ledger, epsilon, delta):
            total = max(1.0, float(curator.rows(budget * ROWS_SHARE).values))
            each = curator.remaining / len(public)
            measured = {
                name: curator.statistic(
                    BestMixtureError(name, table.start(total, schema.zeros), queries, time_limit),
                    each,
                )
                for name, table in public.items()
            }
    alternative = _alternative(schema.domain, workload, schema.unit, fit_budget, total)
    reach = float(ndtri(0.5 + confidence / 2))
    errors = {name: float(noisy.values) / GRID / total for name, noisy in measured.items()}
    scale = next(iter(measured.values())).sigma / GRID / total  # the same for all
    resolution = reach * math.sqrt(2) * scale
    found = []
    for name, error in sorted(errors.items(), key=lambda item: item[1]):
        low, high = max(0.0, error - reach * scale), max(0.0, error + reach * scale)
        verdict: Verdict = "use" if high < alternative else "unclear"
        found.append(
            Candidate(
                name,
                max(0.0, error),
                scale,
                low,
                high,
                "do not use" if low >= alternative else verdict,
                public[name].records,
                1 + sum(error - other > resolution for other in errors.values()),
                tuple(n for n, e in errors.items() if n != name and abs(e - error) <= resolution),
                notes[name],
            )
        )
    return Screening(
        tuple(found),
        alternative,
        resolution,
        float(curator.ledger.spent),
        epsilon,
        delta,
        len(queries),
        len(workload),
        seed is None,
    )


def _some(workload: Workload, most: int) -> Sequence[Query]:
    """The workload's queries, or as many of them as are asked for, drawn at random."""
    queries = list(workload.queries)
    return queries if len(queries) <= most else sorted(Random(0).sample(queries, most), key=str)


def _alternative(
    domain: Domain, workload: Workload, unit: Unit, budget: Cost, total: float
) -> float:
    """The expected largest error, in shares, of Gaussian noise on every marginal: σ sqrt(2 log Q)
    for Q numbers, with the budget divided evenly."""
    columns = workload.marginals()
    cells = sum(domain.cells(c) for c in columns)
    l2_squared = max(Marginal(c).sensitivity(domain, unit).l2_squared for c in columns)
    sigma = (budget / len(columns)).sigma(l2_squared)
    return min(1.0, sigma * math.sqrt(2 * math.log(max(2, cells))) / total)


@contextmanager
def _charged(
    charge_to: ChargeTo | None, ledger: Ledger, epsilon: float, delta: float
) -> Iterator[None]:
    """Take the whole budget out of the book first. All of it stays charged where nothing is
    released: how far a screening came depends on the table."""
    if charge_to is None:
        yield
        return
    book = Book.open(charge_to.book)
    entry = book.reserve(
        charge_to.dataset,
        ledger.total,
        mechanism="screen",
        release="screening of public tables",
        epsilon=epsilon,
        delta=delta,
    )
    try:
        yield
    except BaseException:
        with suppress(*UNUSABLE):  # it is charged in full, whether the book hears of it or not
            book.fail(entry)
        raise
    try:
        book.settle(entry, ledger.spent)
    except UNUSABLE as blocked:  # the result is paid for, and would be lost
        warnings.warn(f"{blocked} The screening is charged in full, and that stands.", stacklevel=3)
