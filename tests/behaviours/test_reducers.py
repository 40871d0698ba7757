"""Several runs in one number: by hand."""

from __future__ import annotations

from typing import Any

import pytest

from admeasure.errors import UsageError
from admeasure.studies.budgets import delta_for, read_delta
from admeasure.studies.reducers import best_by, best_of_grid, mean_of
from admeasure.studies.table import StudyCell, best_of_options

RUNS: list[dict[str, Any]] = [
    {"seed": seed, "T": t, "present": present, "future": future}
    for t, seed, present, future in (
        (1, 0, 0.5, 0.4),
        (1, 1, 0.3, 0.8),
        (4, 0, 0.1, 0.7),
        (4, 1, 0.6, 0.9),
        (16, 0, 0.0, 0.0),  # one seed only: not compared with means of two
    )
]


def by_t(run: Any) -> int:
    return run["T"]


def test_the_best_of_a_grid_has_the_smallest_mean_among_settings_with_all_seeds() -> None:
    best = best_of_grid(RUNS, "present", by_t)
    assert best is not None
    assert (best.setting, best.values) == (4, (0.1, 0.6))
    assert best.mean == pytest.approx(0.35)
    assert best.error == pytest.approx(0.25)  # half the difference of two runs
    assert (best.low, best.high) == (0.1, 0.6)
    assert best_of_grid([], "present", by_t) is None


def test_a_setting_chosen_by_one_measure_is_judged_by_another() -> None:
    best = best_by(RUNS, "present", "future", by_t)
    assert best is not None
    assert best.values == (0.7, 0.9)
    omniscient = best_of_grid(RUNS, "future", by_t)
    assert omniscient is not None
    assert omniscient.mean == pytest.approx(0.6)


def test_all_runs_alike() -> None:
    found = mean_of(RUNS[:2], "future")
    assert found is not None
    assert found.mean == pytest.approx(0.6)
    assert mean_of([], "future") is None


def test_the_best_options_of_each_mechanism_at_each_epsilon() -> None:
    def cell(label: str, epsilon: float, *values: float) -> StudyCell:
        return StudyCell("toy", "all-2way", label, epsilon, values, {}, ())

    few, many = cell("mwem-pgm rounds=4", 1.0, 0.3, 0.5), cell("mwem-pgm rounds=8", 1.0, 0.2, 0.4)
    alone = cell("mwem-pgm rounds=16", 1.0, 0.1)  # one run only: the others have two
    other, failed = cell("mst", 1.0, 0.9, 0.9), cell("aim", 1.0)
    later = cell("mwem-pgm rounds=4", 2.0, 0.1, 0.1)
    assert best_of_options([few, many, alone, other, failed, later]) == [many, other, later]


def test_a_delta_by_the_number_of_rows_needs_rows() -> None:
    assert delta_for(read_delta("1/n^2"), 100) == 1e-4
    assert delta_for(read_delta(1e-9), 100) == 1e-9
    with pytest.raises(UsageError, match="at least 2 rows"):
        delta_for("1/n^2", 1)
    with pytest.raises(UsageError, match="delta must be"):
        read_delta(True)
