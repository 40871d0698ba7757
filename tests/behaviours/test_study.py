"""A study: every job once, whatever interrupts it, and the same result wherever it is run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from admeasure.cli.run import run
from admeasure.evaluation import compare
from admeasure.mechanisms import build
from admeasure.privacy.convert import epsilon_of
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source
from admeasure.studies.jobs import MEASURES
from admeasure.studies.lines import Lines
from admeasure.studies.plan import load_plan
from admeasure.studies.table import summary
from admeasure.verbs.fit import fit
from admeasure.verbs.study import study
from admeasure.workload import parse_workload

SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 5
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
[[column]]
name = "smoker"
type = "boolean"
"""
PLAN = """
[study]
epsilons = [1.0]
seeds = 2
workloads = ["all-2way"]
[[table]]
name = "toy"
data = "toy.csv"
schema = "schema.toml"
[[mechanism]]
name = "independent"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write(tmp_path, PLAN)


@pytest.fixture(scope="module")
def rows_of_the_plan(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The rows of PLAN, which do not depend on where it lies."""
    plan = write(tmp_path_factory.mktemp("study"), PLAN)
    out = plan.with_name("r.jsonl")
    study(plan, out, jobs=2)
    return out.read_bytes()


@pytest.fixture
def ran(plan: Path, rows_of_the_plan: bytes) -> Path:
    """Where the plan's rows are already."""
    out = plan.with_name("r.jsonl")
    out.write_bytes(rows_of_the_plan)
    return out


def write(folder: Path, text: str) -> Path:
    """A plan beside a small table in which sex and smoker depend on each other."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 300)
    smoker = (rng.random(300) < 0.2 + 0.5 * sex).astype(int)
    rows = zip(rng.integers(0, 100, 300), sex, smoker, strict=True)
    lines = [f"{age},{'fm'[s]},{('false', 'true')[x]}" for age, s, x in rows]
    (folder / "toy.csv").write_text("\n".join(["age,sex,smoker", *lines]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def measures(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    return {row["key"]: [row.get(name) for name in MEASURES] for row in rows}


def test_a_row_holds_the_errors_of_the_very_fit_it_names(plan: Path, ran: Path) -> None:
    rows = Lines(ran).read()
    schema = Schema.load(plan.with_name("schema.toml"))
    workload = parse_workload("all-2way", schema.domain)
    data = plan.with_name("toy.csv")
    truth = open_source(data, schema)
    assert sorted(row["seed"] for row in rows) == [0, 1]
    for row in rows:
        mechanism = build(row["mechanism"])
        budget = {"epsilon": row["epsilon"], "delta": row["delta"], "seed": row["seed"]}
        release = fit(data, schema, workload=workload, mechanism=mechanism, **budget)
        errors = compare(truth.counts, release.model.marginals, workload, schema.domain)
        assert [row[name] for name in MEASURES] == [getattr(errors, name) for name in MEASURES]
        assert row["stamp"].startswith("NOT PRIVATE")
        assert row["seconds"] > 0
        assert row["peak_megabytes"] > 10


def test_rows_are_judged_where_the_plan_says_so(plan: Path) -> None:
    plan.write_text(PLAN.replace("[study]", '[study]\njudge = "rows"').replace("= 2", "= [3]"))
    (row,) = study(plan, plan.with_name("r.jsonl"), jobs=1).rows
    schema = Schema.load(plan.with_name("schema.toml"))
    workload = parse_workload("all-2way", schema.domain)
    data = plan.with_name("toy.csv")
    given = {"workload": workload, "mechanism": build("independent")}
    release = fit(data, schema, epsilon=1.0, delta=1e-9, seed=3, **given)
    codes = release.sample_codes(seed=3)
    drawn = MemorySource.from_codes(codes, schema)
    errors = compare(open_source(data, schema).counts, drawn.counts, workload, schema.domain)
    assert row["workload_error"] == errors.workload_error


def test_a_mechanism_without_rows_is_judged_by_its_answers_beside_the_others(plan: Path) -> None:
    text = PLAN.replace("[study]", '[study]\njudge = "rows"').replace("= 2", "= [3]")
    plan.write_text(text + '[[mechanism]]\nname = "gaussian"\n')
    rows, answers = study(plan, plan.with_name("r.jsonl"), jobs=1).rows
    assert (rows["judged"], answers["judged"]) == ("rows", "answers")
    schema, data = Schema.load(plan.with_name("schema.toml")), plan.with_name("toy.csv")
    workload = parse_workload("all-2way", schema.domain)
    given = {"workload": workload, "mechanism": build("gaussian")}
    release = fit(data, schema, epsilon=1.0, delta=1e-9, seed=3, **given)
    truth = open_source(data, schema).counts
    errors = compare(truth, release.model.marginals, workload, schema.domain)
    assert answers["workload_error"] == errors.workload_error


def test_delta_of_the_tables_rows_and_the_loose_conversion_spend_what_they_say(plan: Path) -> None:
    rule = '[study]\ndelta = "1/n^2"\nconversion = "loose"'
    plan.write_text(PLAN.replace("[study]", rule).replace("= 2", "= [3]"))
    (row,) = study(plan, plan.with_name("r.jsonl"), jobs=1).rows
    assert (row["delta"], row["conversion"]) == (1 / 300**2, "loose")
    # rho + 2 sqrt(rho log(1/delta)) = 1 by bisection, not by the closed form
    low, high = 0.0, 1.0
    for _ in range(80):
        rho = (low + high) / 2
        below = rho + 2 * math.sqrt(rho * math.log(300**2)) < 1
        low, high = (rho, high) if below else (low, rho)
    schema, data = Schema.load(plan.with_name("schema.toml")), plan.with_name("toy.csv")
    workload = parse_workload("all-2way", schema.domain)
    given = {"workload": workload, "mechanism": build("independent")}
    asked = epsilon_of(low, 1 / 300**2)
    assert asked < 1
    release = fit(data, schema, epsilon=asked, delta=1 / 300**2, seed=3, **given)
    assert release.certificate.rho == pytest.approx(low, rel=1e-9)
    truth = open_source(data, schema).counts
    errors = compare(truth, release.model.marginals, workload, schema.domain)
    assert row["workload_error"] == pytest.approx(errors.workload_error, rel=1e-9)


@pytest.mark.slow
def test_results_are_the_same_with_one_process_and_with_two(plan: Path) -> None:
    single = PLAN.replace("seeds = 2", "seeds = 1")
    plan.write_text(single + '[[mechanism]]\nname = "mst"\n')
    read = load_plan(plan)
    one = study(read, plan.with_name("one.jsonl"), jobs=1).rows
    two = study(read, plan.with_name("two.jsonl"), jobs=2).rows
    assert len(one) == 2
    assert measures(one) == measures(two)


@pytest.mark.slow
def test_results_are_the_same_on_a_ray_cluster(plan: Path) -> None:
    pytest.importorskip("ray")
    single = PLAN.replace("seeds = 2", "seeds = 1")
    plan.write_text(single + '[[mechanism]]\nname = "pmw-pub"\n')
    read = load_plan(plan)
    here = study(read, plan.with_name("here.jsonl"), jobs=1).rows
    there = study(read, plan.with_name("there.jsonl"), jobs=2, ray="local").rows
    assert measures(here) == measures(there)
    reasons = [[row["error"] for row in rows if "failure" in row] for rows in (here, there)]
    assert reasons[0] == reasons[1]
    assert len(reasons[0]) == 1, "both sides record the run that cannot be"


def test_more_seeds_add_only_the_new_jobs(plan: Path, ran: Path) -> None:
    before = ran.read_bytes()
    heard: list[int] = []
    plan.write_text(PLAN.replace("seeds = 2", "seeds = 3"))
    rows = study(plan, ran, jobs=2, hear=lambda row: heard.append(row["seed"])).rows
    assert heard == [2]
    assert ran.read_bytes().startswith(before)
    assert [row["seed"] for row in rows] == [0, 1, 2]


def test_the_same_run_under_another_name_or_spelling_is_not_run_again(
    plan: Path, ran: Path
) -> None:
    plan.with_name("toy.csv").rename(plan.with_name("renamed.csv"))
    plan.write_text(PLAN.replace('"toy"', '"people"').replace("toy.csv", "renamed.csv"))
    heard: list[Any] = []
    rows = study(plan, ran, jobs=2, hear=heard.append).rows
    assert not heard
    assert {row["table"] for row in rows} == {"people"}


def test_a_table_that_has_changed_is_another_job(plan: Path) -> None:
    before = {job.key for job in load_plan(plan).jobs}
    with plan.with_name("toy.csv").open("a") as file:
        file.write("5,f,true\n")
    assert not before & {job.key for job in load_plan(plan).jobs}


def test_an_option_that_equals_the_default_is_the_same_job(plan: Path) -> None:
    default = build("mst").max_megabytes  # type: ignore[attr-defined]
    extra = f'[[mechanism]]\nname = "mst"\noptions = {{max-megabytes = [{default}, 1]}}\n'
    plan.write_text(PLAN + '[[mechanism]]\nname = "mst"\n' + extra)
    jobs = [job for job in load_plan(plan).jobs if job.mechanism == "mst" and job.seed == 0]
    assert sorted(job.options["max_megabytes"] for job in jobs) == [1, default]


def test_a_job_that_fails_is_a_row_and_is_run_again_only_when_asked(plan: Path) -> None:
    plan.write_text(PLAN.replace("seeds = 2", "seeds = 1") + '[[mechanism]]\nname = "pmw-pub"\n')
    out = plan.with_name("r.jsonl")
    good, bad = study(plan, out, jobs=2).rows
    assert "failure" not in good
    assert bad["failure"] == "error"
    assert "public" in bad["error"]
    assert bad["stamp"].startswith("NOT PRIVATE")
    heard: list[Any] = []
    study(plan, out, jobs=2, hear=heard.append)
    assert not heard
    study(plan, out, jobs=2, retry=True, hear=heard.append)
    assert [row["key"] for row in heard] == [bad["key"]]


def test_a_job_that_takes_too_long_is_recorded_as_such(plan: Path) -> None:
    text = PLAN.replace("[study]", "[study]\nseconds = 0.05").replace("seeds = 2", "seeds = 1")
    plan.write_text(text)
    (row,) = study(plan, plan.with_name("r.jsonl"), jobs=1).rows
    assert row["failure"] == "time limit"
    assert "0.05 s" in row["error"]


@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_stopped(plan: Path, rows_of_the_plan: bytes) -> None:
    plan.write_text(PLAN.replace("seeds = 2", "seeds = 5"))
    out = plan.with_name("r.jsonl")
    command = [sys.executable, "-m", "admeasure", "study", str(plan), "--out", str(out)]
    process = subprocess.Popen([*command, "--jobs", "2"], start_new_session=True)
    end = time.monotonic() + 120
    while not (out.exists() and out.read_bytes().count(b"\n") >= 1):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    whole, _, _ = out.read_bytes().rpartition(b"\n")
    assert whole.count(b"\n") + 1 < 5, "it was killed too late to test anything"
    with out.open("ab") as file:
        file.write(b'{"stamp": "NOT PRIV')  # what a kill in the middle of a line leaves

    assert subprocess.run([*command, "--json"], capture_output=True, check=True).returncode == 0
    assert out.read_bytes().startswith(whole + b"\n")
    keys = [row["key"] for row in Lines(out).read()]
    assert len(keys) == len(set(keys)) == 5
    assert set(keys) == {job.key for job in load_plan(plan).jobs}
    plan.with_name("whole.jsonl").write_bytes(rows_of_the_plan)
    undisturbed = study(plan, plan.with_name("whole.jsonl"), jobs=2).rows
    assert measures(Lines(out).read()) == measures(undisturbed)


def test_means_and_deviations_are_over_the_seeds_that_did_not_fail() -> None:
    setting = {"table": "t", "workload": "w", "label": "m", "epsilon": 1.0}
    values = [0.1, 0.4, 0.7, 0.9]
    costs = {"seconds": 1.0, "cpu_seconds": 2.0, "peak_megabytes": 3.0}
    rows: list[dict[str, Any]] = [{**setting, **costs, "rmse": value} for value in values]
    rows.append({**setting, "failure": "time limit", "error": "not finished"})
    (cell,) = summary(rows, "rmse")
    assert cell.mean == pytest.approx(np.mean(values))
    assert cell.deviation == pytest.approx(np.std(values, ddof=1))
    assert cell.failures == ("time limit: not finished",)


def test_the_command_shows_exports_and_draws(plan: Path, capsys: Any) -> None:
    names = {name: str(plan.with_name(name)) for name in ("r.jsonl", "r.csv", "r.parquet", "r.png")}
    command = ["study", str(plan), "--out", names["r.jsonl"], "--jobs", "2"]
    assert run([*command, "--export", names["r.csv"], "--picture", names["r.png"]]) == 0
    shown = capsys.readouterr()
    assert "NOT PRIVATE" in shown.out
    assert "NOT PRIVATE" in shown.err.splitlines()[0]
    assert "independent" in shown.out
    assert plan.with_name("r.png").read_bytes().startswith(b"\x89PNG")
    assert run([*command, "--export", names["r.parquet"], "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["jobs"], facts["run"], facts["failed"]) == (2, 0, 0)
    expected = [(row["seed"], row["rmse"]) for row in Lines(Path(names["r.jsonl"])).read()]
    for name in ("r.csv", "r.parquet"):
        found = duckdb.sql(f"SELECT seed, rmse, stamp FROM '{names[name]}' ORDER BY seed")
        rows = found.fetchall()
        assert [row[:2] for row in rows] == sorted(expected)
        assert all(row[2].startswith("NOT PRIVATE") for row in rows)


def test_a_file_that_is_no_table_of_results_is_refused_and_kept(plan: Path, capsys: Any) -> None:
    for text in ("age,sex\n1,f\n", '{"age": 1}\n'):
        out = plan.with_name("other.jsonl")
        out.write_text(text)
        assert run(["study", str(plan), "--out", str(out)]) in (2, 3)
        assert "Line 1" in capsys.readouterr().err
        assert out.read_text() == text
