"""MWEM with relaxed projection (McKenna et al. 2022, appendix F): MWEM+PGM but for the model."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
from admeasure.errors import UsageError, WorkloadError
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.planning.mechanism import Outcome
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import parse_workload

LEVELS = {"a": 2, "b": 3, "c": 4, "d": 3}


def codes(rows: int = 3000) -> dict[str, np.ndarray]:
    """Columns that depend on a hidden one."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 100, rows)
    return {
        c: np.where(rng.random(rows) < 0.7, hidden, rng.integers(0, 100, rows)) % n
        for c, n in LEVELS.items()
    }


def run(name: str, rho: Fraction, **options: Any) -> tuple[Outcome, Curator]:
    schema = Schema.coded("toy", LEVELS)
    source = MemorySource.from_codes(codes(), schema)
    curator = Curator(source, Ledger(rho), SeededNoise(0))
    mechanism = build(name, {k: str(v) for k, v in options.items()})
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    mechanism.check(task)
    return mechanism.run(task, curator), curator


def test_it_asks_chooses_and_pays_as_mwem_pgm_does() -> None:
    """The same events at the same costs; what is chosen may differ, since the models do."""
    charged = []
    for name in ("mwem-pgm", "mwem-rp"):
        _, curator = run(name, Fraction(1, 3), rounds=5)
        events = curator.journal.events
        charged.append([(e["event"], e.get("epsilon"), e.get("sigma"), e["rho"]) for e in events
                        if e["event"] in ("choose", "measure")])  # fmt: skip
        assert curator.ledger.remaining.rho == 0
    assert charged[0] == charged[1]
    assert sum(event == "choose" for event, *_ in charged[0]) == 5


def test_a_large_budget_answers_what_was_measured_nearly_exactly() -> None:
    outcome, curator = run("mwem-rp", Fraction(10**6), rounds=12, **{"product-rows": 200})
    measured = {tuple(e["query"]["columns"]) for e in curator.journal.events
                if e["event"] == "measure"} - {()}  # fmt: skip
    assert len(measured) >= 5
    rows = codes()
    for pair in measured:
        counts = np.zeros([LEVELS[c] for c in pair])
        np.add.at(counts, tuple(rows[c] for c in pair), 1)
        (believed,) = outcome.model.marginals([pair])
        assert np.abs(believed - counts).sum() < 0.02 * 3000


def test_what_it_cannot_serve_is_refused() -> None:
    with pytest.raises(UsageError, match="rounds"):
        build("mwem-rp", {"rounds": "0"})
    with pytest.raises(UsageError, match="at most"):
        build("mwem-rp", {"product-rows": "1000000"})
    schema = Schema.coded("wide", dict.fromkeys("abcdefg", 2))
    with pytest.raises(WorkloadError, match="up to 6 columns"):
        build("mwem-rp").check(Task.of(schema, parse_workload("all-7way", schema.domain)))
