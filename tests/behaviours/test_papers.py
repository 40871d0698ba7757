"""The registry of the papers' experiments: complete, runnable, resumable; its formulas by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm

from admeasure.mechanisms import build

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FIGURES = {
    "aim": [f"fig{i}" for i in ("1", "2", "3", "4ab", "4c", "5", "6", "7")] + ["table2", "table3"],
    "pmw-pub": [*(f"fig{i}" for i in range(4, 9)), "table3"],
    "gem": ["fig1", "fig2a", "fig2b", *(f"fig{i}" for i in range(3, 13))],
    "rap": [f"fig{i}" for i in range(1, 16)],
}


@pytest.fixture(scope="module")
def papers() -> Any:
    """The package, imported as its program does."""
    pytest.importorskip("matplotlib")
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from papers import command, page, pieces, rap

        return {"command": command, "page": page, "pieces": pieces, "rap": rap}
    finally:
        sys.path[:] = before


def test_every_figure_and_table_is_there_once(papers: Any) -> None:
    names = [e.name for e in papers["command"].EXPERIMENTS]
    assert len(names) == len(set(names))
    missing = {f"{p}/{f}" for p, figures in FIGURES.items() for f in figures} - set(names)
    assert not missing


def test_every_job_names_a_mechanism_with_options_that_it_takes(papers: Any) -> None:
    asked = {
        (case.mechanism, case.options)
        for e in papers["command"].EXPERIMENTS
        for scale in ("reduced", "full")
        for case in e.cases(scale)
    }
    assert len(asked) > 200
    for mechanism, options in asked:
        build(mechanism, dict(options))


def test_an_experiment_is_run_or_says_why_not_and_a_claim_without_runs_is_not_judged(
    papers: Any,
) -> None:
    without_data = ("aim/table2", "gem/fig12", "rap/fig11")  # judged by the tables themselves
    for e in papers["command"].EXPERIMENTS:
        jobs = len(list(e.cases("reduced")))
        assert bool(e.impossible) != bool(jobs or e.claims), e.name
        if e.name not in without_data:
            assert all(claim.judge(no_runs(papers)) is None for claim in e.claims), e.name


def no_runs(papers: Any) -> Any:
    return papers["pieces"].Runs(())


def test_a_killed_run_goes_on_with_the_jobs_that_have_no_whole_file(
    papers: Any, tmp_path: Path
) -> None:
    store = papers["pieces"].Pieces(tmp_path)
    cases = list(papers["command"].EXPERIMENTS[1].cases("reduced"))[:3]
    store.write(cases[0], {"workload_error": 0.5}, "code")
    store.write(cases[1], {"failure": "time limit", "error": "not finished"}, "code")
    store.path(cases[2]).write_text('{"case": {"table": "ad')  # as a kill would leave another file
    assert store.missing(cases) == [cases[2]]
    assert store.missing(cases, retry=True) == cases[1:]
    (known,) = store.runs(cases).records
    assert known["workload_error"] == 0.5
    assert [r["failure"] for r in store.failures(cases)] == ["time limit"]
    assert json.loads(store.path(cases[0]).read_text())["code"] == "code"


def test_the_page_says_what_was_not_run(papers: Any, tmp_path: Path) -> None:
    page, store = papers["page"], papers["pieces"].Pieces(tmp_path / "pieces")
    chosen = [e for e in papers["command"].EXPERIMENTS if e.name in ("aim/fig1", "rap/fig14")]
    page.write([page.show(e, store, "reduced") for e in chosen], tmp_path / "out", "reduced")
    text = (tmp_path / "out" / "index.md").read_text()
    assert "**not run**" in text
    assert "**not possible here: " in text
    assert "mean 8.4, most 118" in text  # the printed number stands there all the same
    assert (tmp_path / "out" / "index.html").read_text().count("<tr>") == text.count("\n| ") - 1


def test_the_gaussian_baseline_is_the_median_of_the_largest_of_many_noises(
    papers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rap = papers["rap"]

    class Table:
        rows = 1000

    monkeypatch.setattr(rap, "table_of", lambda name: Table())
    for queries in (1, 7, 100_000):
        error = rap.gaussian_error("any", queries, 0.5)
        rho = rap.rho_of_loose(0.5, 1e-6)
        sigma = (queries / (2 * rho)) ** 0.5 / 1000
        below = 1 - 2 * norm.sf(error / sigma)
        assert below**queries == pytest.approx(0.5, rel=1e-6)


def test_holm_and_bonferroni_by_hand(papers: Any) -> None:
    # 0.01 * 3, then 0.02 * 2, then 0.04 * 1 raised to the one before
    assert papers["rap"].holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert papers["rap"].holm([0.9, 0.8]) == [1.0, 1.0]


def searched(papers: Any, errors: dict[tuple[int, int], list[float]]) -> Any:
    """Runs of RAP's grid on one workload size, with these errors by seed."""
    rap = papers["rap"]
    records = []
    for (t, k), found in errors.items():
        for seed, error in enumerate(found):
            rule = f"random:4:3way:seed={seed}"
            case = rap.case("adult-rap", rule, "rap", 0.1, seed, rounds=t, queries=k)
            records.append({**case.to_json(), "case": case.to_json(), "max_error": error})
    return papers["pieces"].Runs(tuple(records))


def test_of_a_search_over_t_and_k_the_least_mean_is_shown_with_its_pair(papers: Any) -> None:
    """By mean over seeds, not by the best seed; a pair with fewer seeds does not take part."""
    runs = searched(papers, {(1, 4): [0.1, 0.5], (4, 16): [0.2, 0.3], (16, 4): [0.01]})
    (panel,) = papers["rap"].present_panels(runs)
    (point,) = panel.lines["RAP"]
    assert (point.x, point.y) == (4, pytest.approx(0.25))
    assert panel.notes == {"RAP": ["(4, 16)"]}


def test_every_t_and_k_has_its_field_in_a_map_of_errors(papers: Any, tmp_path: Path) -> None:
    errors = {(16, 4): [0.2], (4, 4): [0.4], (4, 16): [0.3], (64, 16): [0.6]}
    (panel,) = papers["rap"].heat("size", "epsilon")(searched(papers, errors))
    assert list(panel.lines) == ["T = 4", "T = 16", "T = 64"]  # by number, not by name
    fields = {
        (int(name.split()[-1]), p.x): p.y for name, points in panel.lines.items() for p in points
    }
    assert fields == {pair: found[0] for pair, found in errors.items()}
    papers["page"].draw([panel], "a map", tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_what_is_measured_without_choices_is_told_apart(papers: Any) -> None:
    cases = papers["rap"].marginals("reduced")
    assert {papers["rap"].line(c.to_json()) for c in cases} == {
        "RAP", "RAP, not adaptive", "RAP, whole marginals", "GM, run", "All-0",
    }  # fmt: skip
