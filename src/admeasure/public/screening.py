"""Which public table to use, if any: best-mixture errors of candidates, for a small budget.

What is released, for each candidate S: the smallest largest error, in rows, that a reweighting of
S could have (Liu et al. 2021; `mixture`), with discrete Gaussian noise:

    F_N(D) = min over distributions μ on S of max over queries q of |q(D) - N q(μ)|.

N, the believed number of rows, is fixed beforehand: public, or bought from the same budget.

Sensitivity (Lemma A.2). For a fixed μ each |q(D) - N q(μ)| moves by no more than q(D) does: at most
m, the rows of one person, under add/remove as well as replace, since every q counts rows. A maximum
and a minimum of functions that move by at most m move by at most m. What is computed is a value in
[F, F + τ], τ = `TOLERANCE` rows by the certificate of `best_mixture`, so it moves by at most m + τ;
rounding to the grid adds one unit. The computation always ends with that certificate: it has no
limit of time that a table could make it reach.

A large workload is screened on a part of its marginals, drawn without looking at any table. That
makes F smaller, and leaves its sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from admeasure.domain import Columns, Domain
from admeasure.errors import DataError, UsageError
from admeasure.families.support import SupportModel
from admeasure.privacy.book import Book, refuse_unless_private
from admeasure.privacy.convert import rho_of
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import ExactNoise, SeededNoise
from admeasure.privacy.score import GRID
from admeasure.privacy.unit import Unit
from admeasure.public.mixture import best_mixture
from admeasure.public.read import read_public
from admeasure.queries import Marginal, Query
from admeasure.run import ChargeTo
from admeasure.schema import Schema
from admeasure.sources.open import open_source
from admeasure.workload import Workload, parse_workload

TOLERANCE = 1.0
"""Rows by which a computed best-mixture error may be too high."""

ROWS_SHARE = Fraction(1, 10)

Verdict = Literal["use", "unclear", "do not use"]


@dataclass(frozen=True, eq=False)
class BestMixtureError:
    """F_N of one candidate, in units of 1/GRID rows."""

    name: str
    support: SupportModel
    queries: Sequence[Query]

    def __str__(self) -> str:
        return f"best-mixture error of {self.name}"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [q.columns for q in self.queries]

    def l2_squared(self, unit: Unit) -> int:
        return math.ceil((unit.max_rows + TOLERANCE) * GRID + 1) ** 2

    def of(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        answers = [q.answer(t) for q, t in zip(self.queries, tables, strict=True)]
        found = best_mixture(self.support, self.queries, answers, gap=TOLERANCE)
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
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Screening:
    """Candidates, the best first."""

    candidates: tuple[Candidate, ...]
    alternative: float
    """The largest error that measuring every marginal, without public data, would be expected to
    have at the budget of the fit."""
    rho: float
    epsilon: float
    delta: float
    marginals: int
    of_marginals: int
    private: bool


def screen(
    data: Any,
    candidates: Mapping[str, Any],
    schema: Schema,
    *,
    workload: Workload | str,
    epsilon: float,
    delta: float,
    fit_epsilon: float = 1.0,
    marginals: int = 256,
    confidence: float = 0.95,
    charge_to: ChargeTo | None = None,
    seed: int | None = None,
) -> Screening:
    """Rank public tables by how well their best reweighting could answer the workload.

    Released: one noisy number for each candidate (and the noisy number of rows where it is
    private), at a total cost of (epsilon, delta). Nothing is charged before every public table has
    been read and found usable.
    """
    if not candidates:
        raise UsageError("Name at least one public table: --public DATA.")
    if not 0 < confidence < 1 or marginals < 1:
        raise UsageError("The confidence lies between 0 and 1, and at least one marginal is used.")
    if charge_to is not None:
        refuse_unless_private(seed is None)
    if not isinstance(workload, Workload):
        workload = parse_workload(workload, schema.domain)
    workload.validate(schema.domain)
    rho, fit_rho = Fraction(rho_of(epsilon, delta)), Fraction(rho_of(fit_epsilon, delta))
    queries = _some(workload, marginals)
    public = {name: read_public(table, schema, name=name) for name, table in candidates.items()}
    notes = {name: table.check(schema.domain, schema.zeros) for name, table in public.items()}
    source = open_source(data, schema)
    if not int(source.counts([()])[0]):
        raise DataError("The table has no rows. Check that the right file was given.")

    noise = ExactNoise() if seed is None else SeededNoise(seed)
    curator = Curator(source, Ledger(rho), noise)
    with _charged(charge_to, curator.ledger, epsilon, delta):
        total = max(1.0, float(curator.rows(rho * ROWS_SHARE).values))
        each = curator.remaining / len(public)
        measured = {
            name: curator.statistic(
                BestMixtureError(name, table.start(total, schema.zeros), queries), each
            )
            for name, table in public.items()
        }
    alternative = _alternative(schema.domain, workload, schema.unit, fit_rho, total)
    reach = float(norm.ppf(0.5 + confidence / 2))
    found = []
    for name, noisy in measured.items():
        error, scale = float(noisy.values) / GRID / total, noisy.sigma / GRID / total
        low, high = max(0.0, error - reach * scale), max(0.0, error + reach * scale)
        verdict: Verdict = "use" if high < alternative else "unclear"
        verdict = "do not use" if low >= alternative else verdict
        records = public[name].records
        kept = max(0.0, error)
        found.append(Candidate(name, kept, scale, low, high, verdict, records, notes[name]))
    return Screening(
        tuple(sorted(found, key=lambda c: c.error)),
        alternative,
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
    domain: Domain, workload: Workload, unit: Unit, rho: Fraction, total: float
) -> float:
    """The expected largest error, in shares, of Gaussian noise on every marginal: σ sqrt(2 log Q)
    for Q numbers, with the budget divided evenly."""
    columns = workload.marginals()
    cells = sum(domain.cells(c) for c in columns)
    l2_squared = max(Marginal(c).sensitivity(domain, unit).l2_squared for c in columns)
    sigma = sigma_for(rho / len(columns), l2_squared)
    return min(1.0, sigma * math.sqrt(2 * math.log(max(2, cells))) / total)


@contextmanager
def _charged(
    charge_to: ChargeTo | None, ledger: Ledger, epsilon: float, delta: float
) -> Iterator[None]:
    """Take the whole budget out of the book first, and give back what was not spent."""
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
        book.fail(entry, ledger.spent)
        raise
    book.settle(entry, ledger.spent)
