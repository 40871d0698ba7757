"""Which public table to use, if any: best-mixture errors of candidates, for a small budget.

Released: one noisy number for each candidate, its best-mixture error (`privacy.best_mixture` has
its sensitivity), and the noisy number of rows where that is private. A screening is a run as a fit
is: charged before noise is drawn, with a journal, and where it has a folder it can be resumed after
a kill. All of its budget stays charged if it ends without a result: how far it came depends on the
table.

The noise of k candidates at ρ is sqrt(k) (m + τ) / sqrt(2 ρ) rows each. It is about ranks as much
as about values: two candidates are tied where their difference is within the noise of both.

A large workload is screened on a part of its marginals, drawn without looking at any table. That
makes F smaller, and leaves its sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError
from scipy.special import ndtri

from admeasure.domain import Domain
from admeasure.errors import ReleaseError, UsageError
from admeasure.planning import counting
from admeasure.privacy.best_mixture import BestMixtureError
from admeasure.privacy.cost import Cost, budget_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.events import Event
from admeasure.privacy.journal import without_values
from admeasure.privacy.scores.score import GRID
from admeasure.privacy.statistic import NoisyStatistic
from admeasure.public.read import check_apart, read_public
from admeasure.public.table import PublicTable
from admeasure.queries import Marginal, Query
from admeasure.release import store
from admeasure.request import ChargeTo, Request
from admeasure.run import Run
from admeasure.sources.open import held, open_source
from admeasure.terminal.console import log
from admeasure.unit import Unit
from admeasure.untrusted import read_json
from admeasure.verbs.given import GivenSchema, GivenWorkload, schema_of, workload_of
from admeasure.workload import Workload

FILE = "screening.json"

ROWS_SHARE = Fraction(1, 10)

Advice = Literal["use", "unclear", "do not use"]


@dataclass(frozen=True)
class Candidate:
    """A public table and what was learned of it; errors in shares of the rows."""

    name: str
    error: float
    noise: float
    """The scale of the noise in `error`."""
    low: float
    high: float
    verdict: Advice
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
    log: tuple[Event, ...] = ()
    """What was announced and drawn, as a release has it."""

    def to_json(self) -> dict[str, Any]:
        """All but the log, as plain data."""
        return {name: value for name, value in asdict(self).items() if name != "log"}

    def save(self, path: str | Path, *, scratch: Path | None = None) -> Path:
        """Write it as a folder with one file, whole or not at all."""
        store.write_folder(Path(path), {}, asdict(self), scratch, called=FILE)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Screening:
        """Read it back; a damaged file is a `ReleaseError`."""
        raw = read_json(Path(path) / FILE, ReleaseError)
        known = {k: v for k, v in raw.items() if k in cls.__dataclass_fields__}
        try:
            return TypeAdapter(cls).validate_python(known)
        except ValidationError:
            raise ReleaseError(f"{path} holds no screening. Restore it.") from None


@dataclass(frozen=True, kw_only=True)
class ScreeningRequest(Request):
    """Public tables to be compared on some of the workload's marginals."""

    public: Mapping[str, PublicTable]
    marginals: int

    gives_back: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "screen"

    @property
    def options(self) -> dict[str, Any]:
        facts = {name: table.facts() for name, table in self.public.items()}
        return {"marginals": self.marginals, "public": facts}


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
    out: str | Path | None = None,
    charge_to: ChargeTo | None = None,
    seed: int | None = None,
    resume: bool = False,
) -> Screening:
    """Rank public tables by how well their best reweighting could answer the workload.

    `candidates` are public tables by name: paths, frames or dicts of columns. `fit_epsilon` is the
    budget of the fit to come, with which a candidate is compared; at most `marginals` queries are
    judged by.

    Released: one noisy number for each candidate (and the noisy number of rows where it is
    private), at a total cost of (epsilon, delta). Nothing is charged before every public table has
    been read and found usable. `time_limit`: seconds for one candidate; a screening that reaches it
    releases nothing more, and stays charged in full.

    With `out` the result is written to that folder, and a screening that was killed on its way
    there goes on with `resume`; nothing is charged twice.
    """
    if not candidates:
        raise UsageError("Name at least one public table: --public DATA.")
    if not 0 < confidence < 1 or marginals < 1:
        raise UsageError("The confidence lies between 0 and 1, and at least one marginal is used.")
    if not time_limit > 0:
        raise UsageError(f"The time limit must be positive; it is {time_limit:g}.")
    schema = schema_of(schema)
    workload = workload_of(workload, schema)
    for table in candidates.values():
        check_apart(data, table)
    request = ScreeningRequest(
        schema=schema,
        workload=workload,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        charge_to=charge_to,
        public={name: read_public(table, schema, name=name) for name, table in candidates.items()},
        marginals=marginals,
    )
    notes = {name: t.check(schema.domain, schema.zeros) for name, t in request.public.items()}
    fit_budget = budget_of(fit_epsilon, delta)
    run = Run(request, None if out is None else Path(out), resume=resume)
    log("planned", **request.planned(), resumed=resume)
    if run.written:
        return run.complete(Screening.load)
    with held(open_source(data, schema)) as source, run as journal:
        curator = Curator(source, run.ledger, request.noise(), journal)
        total = counting.believed(curator.rows(curator.budget * ROWS_SHARE))
        measured = _measured(curator, request, total, time_limit)
        alternative = _alternative(schema.domain, workload, schema.unit, fit_budget, total)
        reach = float(ndtri(0.5 + confidence / 2))
        scale = next(iter(measured.values())).sigma / GRID / total  # the same for all
        errors = {name: float(noisy.values) / GRID / total for name, noisy in measured.items()}
        found = Screening(
            candidates=_ranked(errors, scale, reach, alternative, request.public, notes),
            alternative=alternative,
            resolution=reach * math.sqrt(2) * scale,
            rho=float(run.ledger.spent),
            epsilon=epsilon,
            delta=delta,
            marginals=len(_some(workload, marginals)),
            of_marginals=len(workload),
            private=seed is None,
            log=tuple(map(without_values, journal.events)),
        )
        run.finish(found)
        log("released", rho_spent=float(run.ledger.spent))
    return found


def _measured(
    curator: Curator, request: ScreeningRequest, total: float, time_limit: float
) -> dict[str, NoisyStatistic]:
    """The best-mixture error of each candidate, with noise; what is left, divided evenly."""
    queries, zeros = _some(request.workload, request.marginals), request.schema.zeros
    each = curator.remaining / len(request.public)
    return {
        name: curator.statistic(
            BestMixtureError(name, table.start(total, zeros), queries, time_limit), each
        )
        for name, table in request.public.items()
    }


def _ranked(
    errors: Mapping[str, float],
    scale: float,
    reach: float,
    alternative: float,
    public: Mapping[str, PublicTable],
    notes: Mapping[str, tuple[str, ...]],
) -> tuple[Candidate, ...]:
    """Candidates by noisy error: noise of this scale, and intervals that reach so many scales."""
    resolution = reach * math.sqrt(2) * scale
    found = []
    for name, error in sorted(errors.items(), key=lambda item: item[1]):
        low, high = max(0.0, error - reach * scale), max(0.0, error + reach * scale)
        verdict: Advice = "use" if high < alternative else "unclear"
        found.append(
            Candidate(
                name,
                max(0.0, error),
                scale,
                low,
                high,
                "do not use" if low >= alternative else verdict,
                records=public[name].records,
                rank=1 + sum(error - other > resolution for other in errors.values()),
                tied_with=tuple(
                    n for n, e in errors.items() if n != name and abs(e - error) <= resolution
                ),
                notes=notes[name],
            )
        )
    return tuple(found)


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
