"""Plans that cannot be run are refused before anything runs, in one line that says why."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.studies.plan import load_plan

ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(admeasure.__file__).parent / "demo"
SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
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
epsilons = [0.5, 1]
seeds = 3
workloads = ["all-1way", "all-2way"]
[[table]]
name = "toy"
data = "toy.csv"
schema = "schema.toml"
[[mechanism]]
name = "mst"
options = {max-megabytes = [1, 80]}
[[mechanism]]
name = "independent"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.csv").write_text("sex,smoker\nf,true\nm,false\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "mine.toml").write_text('[[marginal]]\ncolumns = ["sex"]\n')
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_the_jobs_are_the_whole_grid_with_the_seed_changing_slowest(folder: Path) -> None:
    jobs = load_plan(folder / "plan.toml").jobs
    assert len(jobs) == len({job.key for job in jobs}) == 3 * 2 * 3 * 2
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {job.label for job in jobs} == {
        "mst max-megabytes=1",
        "mst max-megabytes=80",
        "independent",
    }


def test_paths_begin_at_the_plan_wherever_the_command_is_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('"all-1way"', '"mine.toml"'))
    (elsewhere := folder / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    assert len(load_plan("../plan.toml").jobs) == 36


def test_a_table_may_have_workloads_of_its_own(folder: Path) -> None:
    text = PLAN.replace('name = "toy"', 'name = "toy"\nworkloads = ["target:sex:2way"]')
    (folder / "plan.toml").write_text(text)
    jobs = load_plan(folder / "plan.toml").jobs
    assert {job.workload for job in jobs} == {"target:sex:2way"}


def test_a_public_table_goes_to_the_mechanisms_that_learn_from_one(folder: Path) -> None:
    (folder / "public.csv").write_text("sex,smoker\nf,false\nm,false\n")
    text = PLAN.replace("schema =", 'public = "public.csv"\nschema =')
    (folder / "plan.toml").write_text(text + '[[mechanism]]\nname = "pmw-pub"\n')
    with_public = {job.mechanism: job.place.public for job in load_plan(folder / "plan.toml").jobs}
    expected = str(folder / "public.csv")
    assert with_public == {"mst": None, "independent": None, "pmw-pub": expected}


def test_the_plans_of_the_documentation_hold_for_the_bundled_table(tmp_path: Path) -> None:
    for name in ("schema.toml", "workload.toml"):
        (tmp_path / name).write_bytes((DEMO / name).read_bytes())
    (tmp_path / "adult.csv").write_bytes(gzip.decompress((DEMO / "adult.csv.gz").read_bytes()))
    page = ROOT / "docs" / "how-to" / "studies.md"
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    sizes = []
    for block in blocks:
        (tmp_path / "plan.toml").write_text(block)
        sizes.append(len(load_plan(tmp_path / "plan.toml").jobs))
    assert sizes == [3 * 3 * 3, 5 * 3]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "mst"', 'name = "mts"', "Did you mean mst?"),
        ('"toy.csv"', '"nowhere.csv"', "nowhere.csv"),
        ('"schema.toml"', '"nowhere.toml"', "nowhere.toml"),
        ('"all-1way"', '"nowhere.toml"', "nowhere.toml"),
        ('"all-1way"', '"all-3ways"', "all-3ways"),
        ("[0.5, 1]", "[0.5, 0]", "epsilon"),
        ("[0.5, 1]", "[0.5, -1]", "epsilon"),
        ("[0.5, 1]", "[]", "epsilons"),
        ("[0.5, 1]", "0.5", "epsilons"),
        ("[0.5, 1]", '["one"]', "epsilons"),
        ("seeds = 3", "seeds = 0", "seeds"),
        ("seeds = 3", "seeds = [1, -1]", "seeds"),
        ("seeds = 3", "seeds = true", "seeds"),
        ("seeds = 3", "seed = 3", "'seed'"),
        ("seeds = 3", "delta = 2", "delta"),
        ("seeds = 3", 'delta = "1/n"', "delta"),
        ("seeds = 3", 'conversion = "exact"', "conversion"),
        ("seeds = 3", 'judge = "row"', "judge"),
        ("seeds = 3", "seconds = 0", "time"),
        ("seeds = 3", "megabytes = -5", "memory"),
        ("max-megabytes = [1, 80]", "max-megabytes = []", "empty"),
        ("max-megabytes = [1, 80]", "max-megabyte = 1", "max-megabyte"),
        ("max-megabytes = [1, 80]", 'max-megabytes = "big"', "a number"),
        ('schema = "schema.toml"', "", "no schema"),
        ("[study]", "[studies]", "studies"),
        ("[[table]]", "[table]", "[[table]]"),
        ("[study]", "[study", "TOML"),
    ],
)
def test_a_plan_with_a_mistake_is_refused_before_anything_runs(
    folder: Path, capsys: Any, old: str, new: str, said: str
) -> None:
    assert old in PLAN
    (folder / "plan.toml").write_text(PLAN.replace(old, new))
    out = folder / "r.jsonl"
    assert run(["study", str(folder / "plan.toml"), "--out", str(out)]) in (2, 3)
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error:")]
    assert said in line
    assert not out.exists()


@pytest.mark.parametrize("text", ["", "[study]\nepsilons = [1]\nworkloads = ['all-1way']\n"])
def test_an_empty_plan_is_refused(folder: Path, capsys: Any, text: str) -> None:
    (folder / "plan.toml").write_text(text)
    assert run(["study", str(folder / "plan.toml"), "--out", str(folder / "r.jsonl")]) == 2
    assert "The plan has no [" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--jobs", "0"], "--jobs"),
        (["--measure", "errors"], "errors"),
        (["--export", "r.xlsx"], "r.xlsx"),
        (["--picture", "r.txt"], "r.txt"),
        (["--ray", "127.0.0.1:1"], "no Ray cluster"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    folder: Path, capsys: Any, extra: list[str], said: str
) -> None:
    if "--ray" in extra:
        pytest.importorskip("ray")
    out = folder / "r.jsonl"
    assert run(["study", str(folder / "plan.toml"), "--out", str(out), *extra]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_without_ray_the_error_names_the_extra(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "ray" else found(name, *a)
    )
    command = ["study", str(folder / "plan.toml"), "--out", str(folder / "r.jsonl")]
    assert run([*command, "--ray", "auto"]) == 2
    assert "admeasure[cluster]" in capsys.readouterr().err
