"""Intervals without contradictions, the certificate of accuracy: docs/explanations/bounds.md."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from admeasure.bounds import Evidence
from admeasure.domain import Columns, canonical
from admeasure.errors import WorkloadError
from admeasure.families.products.family import BoxModel
from admeasure.measurement import Measurement
from admeasure.mechanisms import REGISTRY, Mechanism, build
from admeasure.planning import certified
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import (
    AtLeast,
    Marginal,
    Predicate,
    Query,
    Threshold,
    ThresholdCell,
    Where,
    from_record,
)
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.verbs.fit import fit
from admeasure.workload import Question, Workload, parse_workload

LEVELS = {"a": 2, "b": 3, "c": 5, "d": 4}
SCHEMA = Schema.coded("toy", LEVELS)
ANSWERS_ONLY = ("gaussian", "residual")
QUICK = ("aim", "aim-plus", "mst", "privbayes", *ANSWERS_ONLY, "independent", "mwem", "all-zero")
MECHANISMS = tuple(REGISTRY) if os.environ.get("ADMEASURE_AUDIT") == "full" else QUICK


def table_of(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 60, rows)
    rate = {"a": 0.9, "b": 0.7, "c": 0.5, "d": 0.95}
    return {
        c: np.where(rng.random(rows) < rate[c], hidden, rng.integers(0, 60, rows)) % n
        for c, n in LEVELS.items()
    }


TRIPLES = parse_workload("all-3way", SCHEMA.domain)
SOURCE = MemorySource.from_codes(table_of(2000), SCHEMA)


def evidence_of(
    mechanism: Mechanism, rho: Fraction, seed: int, share: Fraction, workload: Workload = TRIPLES
) -> Evidence:
    """What a run with a certificate leaves, from the curator's own record."""
    curator = Curator(SOURCE, Ledger(rho), SeededNoise(seed))
    outcome = certified.run(mechanism, Task.of(SCHEMA, workload), curator, share)
    events = [e for e in curator.journal.events if e["event"] == "measure"]
    return Evidence(
        SCHEMA.domain,
        outcome.model,
        tuple(
            Measurement(from_record(e["query"]), unpack(e["values"]), e["sigma"]) for e in events
        ),
        outcome.selections,
        any(e["event"] in ("choose", "flip") for e in curator.journal.events),
        (),
        outcome.errors,
        [float(Fraction(e["rho"]) / rho) for e in events],
    )


def random_where(rng: np.random.Generator, most: int) -> dict[str, set[int]]:
    columns = rng.permutation(list(LEVELS))[: rng.integers(1, most + 1)]
    return {
        str(c): {int(k) for k in np.flatnonzero(rng.random(LEVELS[c]) < 0.6)} or {0}
        for c in columns
    }


def weaker(rng: np.random.Generator, where: dict[str, set[int]]) -> dict[str, set[int]]:
    """Conditions that follow from these: some dropped, some with more levels."""
    kept = {c: set(v) for c, v in where.items() if rng.random() < 0.7} or dict(where)
    return {
        c: v | {int(k) for k in np.flatnonzero(rng.random(LEVELS[c]) < 0.3)}
        for c, v in kept.items()
    }


def asked(where: dict[str, set[int]]) -> Question:
    return Question("q", Where(list(where), list(where.values())))


def implied_pairs(
    rng: np.random.Generator, count: int, most: int
) -> list[tuple[Question, Question]]:
    found = []
    for _ in range(count):
        where = random_where(rng, most)
        stronger, other = asked(where), asked(weaker(rng, where))
        if len(where) > 1 and rng.random() < 0.2:  # all of the conditions, and all but one
            columns, codes = list(where), list(where.values())
            other = Question("q", AtLeast(columns, codes, len(columns) - 1))
        found.append((stronger, other))
    return found


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 20)], ids=["plain", "certified"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_answer_lies_above_that_of_a_weaker_condition(
    mechanism, share, times, tally, small, served
):
    pairs = times(40, 500)
    # Models of single precision answer the same question on more columns a little differently.
    close = 1e-6 if mechanism in QUICK else 1.0
    rng = np.random.default_rng(len(mechanism))
    made = small(mechanism, SCHEMA)
    for seed in range(2):
        evidence = evidence_of(made, Fraction(1, 30), seed, share, served(made, SCHEMA))
        # Answers without a model are of what was measured together, two columns at the most.
        drawn = implied_pairs(rng, pairs // 2, 2 if mechanism in ANSWERS_ONLY else 4)
        answers = evidence.answers([q for pair in drawn for q in pair], 0.95)
        for first, second in zip(answers[::2], answers[1::2], strict=True):
            assert first.low <= first.value <= first.high
            assert first.high <= second.high + close
    tally("intervals: pairs of answers of which one implies the other", pairs)


def test_answers_that_sum_to_more_than_all_rows_are_lowered_to_what_can_be():
    """Of rows in a box, whose levels need not sum to 1: all cells of four columns together."""
    boxed = BoxModel(SCHEMA.domain, np.full((sum(LEVELS.values()), 3), 0.9, np.float32), 2000.0)
    counted = Measurement(Marginal(()), np.asarray(2000), 10.0)
    evidence = Evidence(SCHEMA.domain, boxed, (counted,), ())
    everybody = [Where(c, [range(LEVELS[k]) for k in c]) for c in (("a", "b", "c", "d"), ("b",))]
    assert boxed.marginals([("a", "b", "c", "d")])[0].sum() > 50_000
    first, second = evidence.answers([Question("q", q) for q in everybody], 0.95)
    assert 2000 < first.high <= second.high < 2100
    assert first.low <= first.value <= first.high


COUNTS: list[Query] = [
    Where(("a", "b"), [{0}, {1}]),
    Where(("b", "c", "d"), [{0, 1}, {1, 2, 3}, {0}]),
    ThresholdCell(("a", "c", "d"), 2, (1, 0, 2)),
    AtLeast(("b", "c", "d"), [{0}, {1, 2}, {0, 1}], 2),
    Where(("c",), [{4, 2}]),
    Where(("a", "c", "d"), [{1}, {0}, {3}]),
]


@cache
def truths() -> tuple[dict, dict]:
    marginals = TRIPLES.closure()
    tables = dict(zip(marginals, SOURCE.counts(marginals), strict=True))
    return tables, {q: float(q.answer(tables[canonical(q.columns)])) for q in COUNTS}


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("rho", [Fraction(1, 200), Fraction(2)], ids=float)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_certified_bounds_and_intervals_hold_as_often_as_stated(
    mechanism, rho, times, tally, small, served
):
    """Six counts (single cells, sums, thresholds), the L1 bound of every marginal from both sides
    and the mean error, at 80%, each over all runs. False alarms: below 1e-7 for each, so below
    1e-5 in all."""
    runs = times(2 if mechanism in ("mwem", "aim-plus") else 6, 28)
    made = small(mechanism, SCHEMA)
    workload = served(made, SCHEMA) if mechanism not in QUICK else TRIPLES
    tables, counts = truths()
    missed: dict[object, int] = dict.fromkeys([*tables, *counts, "mean"], 0)
    for seed in range(runs):
        evidence = evidence_of(made, rho, 1000 + seed, Fraction(1, 10), workload)
        believed = dict(zip(tables, evidence.model.marginals(list(tables)), strict=True))
        errors = {r: float(np.abs(tables[r] - believed[r]).sum()) for r in tables}
        for r, bound in evidence.bounds(list(tables), 0.8).items():
            missed[r] += not bound.low <= errors[r] + 1e-9 <= bound.error + 2e-9
        for a in evidence.answers([Question(str(q), q) for q in COUNTS], 0.8):
            missed[a.query] += not a.low - 1e-9 <= counts[a.query] <= a.high + 1e-9
        assert evidence.errors is not None
        mean, true = (
            evidence.mean_error(0.8),
            np.mean([errors[r] for r in evidence.errors.marginals]),
        )
        assert mean is not None
        missed["mean"] += not mean.low <= true <= mean.high
    for what, times_missed in missed.items():
        assert times_missed <= binom.isf(1e-7, runs, 0.2), what
    tally("intervals: simulated releases whose coverage was held to its claim", runs)


def test_bounds_are_had_for_any_columns_and_any_query():
    """Any marginal of the closure and beyond, a whole threshold, a count, a predicate; each holds
    in a release with little noise, and says something."""
    release = fit(
        table_of(2000), SCHEMA, workload="all-3way", epsilon=20, delta=1e-6, seed=0, certify=0.1
    )
    sets: list[Columns] = [("a", "c"), ("a", "b", "c", "d"), ("b", "c")]
    truth = {r: SOURCE.counts([r])[0] for r in sets}
    for columns in (("a", "c"), ("d", "b", "a", "c")):
        r = canonical(columns)
        error = np.abs(truth[r] - release.model.marginals([r])[0]).sum()
        assert error <= release.bounds(columns, confidence=0.999).error < 2 * 2000 + 100
    whole = Threshold(("b", "c"), 1)
    believed = release.model.marginals([("b", "c")])[0]
    error = np.abs(whole.answer(truth["b", "c"]) - whole.answer(believed)).sum()
    assert error <= release.bounds(whole, confidence=0.999).error < whole.answer(believed).sum()
    levels = {c: np.arange(n) for c, n in LEVELS.items()}
    same = Predicate(("b", "c"), lambda row: row["b"] == row["c"], "the same", levels)
    for query in (same, Where(("b", "c"), [[0], [1]])):
        true, found = float(query.answer(truth["b", "c"])), release.answer(query, confidence=0.999)
        assert found.low <= true <= found.high
        assert abs(found.value - true) <= release.bounds(query, confidence=0.999).error < 200
    with pytest.raises(WorkloadError, match="no column"):
        release.bounds(["a", "zz"])


def test_a_release_without_a_certificate_has_no_mean_error():
    assert evidence_of(build("mst"), Fraction(1), 0, Fraction(0)).mean_error(0.95) is None


def test_every_subset_of_a_certified_marginal_is_bounded_by_it():
    evidence = evidence_of(build("independent"), Fraction(1, 10), 0, Fraction(1, 2))
    for r, bound in evidence.bounds(TRIPLES.closure(), 0.95).items():
        assert bound.kind == ("supported" if len(r) == 1 else "certified")
        assert bound.error < evidence.model.total
