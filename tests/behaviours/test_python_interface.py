"""What a person sees who uses the package from Python."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import admeasure
from admeasure import Release, Schema
from admeasure.errors import UsageError, WorkloadError
from admeasure.mechanisms import REGISTRY

SCHEMA = """
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 10
[[column]]
name = "sex"
type = "string"
enum = ["Female", "Male"]
"""


@pytest.fixture(scope="module")
def release() -> Release:
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(0, 100, 500).tolist(),
        "sex": rng.choice(["Female", "Male"], 500).tolist(),
    }
    return admeasure.fit(
        table,
        Schema.loads(SCHEMA),
        workload="all-2way",
        mechanism=admeasure.independent(),
        epsilon=5,
        delta=1e-6,
        seed=0,
    )


def test_every_name_is_listed_and_can_be_had() -> None:
    assert set(admeasure.__all__) <= set(dir(admeasure))
    for name in admeasure.__all__:
        assert getattr(admeasure, name) is not None
    assert {name.replace("-", "_") for name in REGISTRY} <= set(admeasure.__all__)


def test_every_verb_is_a_function_of_the_package_and_a_command_that_calls_it() -> None:
    package = Path(admeasure.__file__).parent
    verbs = {path.stem for path in (package / "verbs").glob("*.py")} - {"__init__", "given"}
    assert verbs <= set(admeasure.__all__)
    for verb in verbs:
        assert (getattr(admeasure, verb).__doc__ or "").count("\n") > 1, verb
        command = ast.walk(ast.parse((package / "cli" / f"{verb}.py").read_text()))
        imported = {node.module for node in command if isinstance(node, ast.ImportFrom)}
        assert f"admeasure.verbs.{verb}" in imported


def test_a_type_checker_is_told_every_name() -> None:
    source = ast.parse(Path(admeasure.__file__).read_text())
    blocks = [node for node in source.body if isinstance(node, ast.If)]
    (told,) = (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    names = [a.asname for node in told.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert sorted(names, key=str) == sorted(admeasure.__all__)


def test_a_type_checker_knows_the_options_of_a_mechanism(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import admeasure\nadmeasure.aim(rounds=3)\n")
    bad.write_text("import admeasure\nadmeasure.aim(roundz=3)\nadmeasure.aimm()\n")
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("pyright is not installed beside this Python")
    checker = [str(pyright), "--pythonpath", sys.executable]
    assert subprocess.run([*checker, str(good)], capture_output=True, check=False).returncode == 0
    found = subprocess.run([*checker, str(bad)], capture_output=True, text=True, check=False)
    assert 'No parameter named "roundz"' in found.stdout
    assert '"aimm" is not a known attribute' in found.stdout


def test_a_release_shows_itself_in_a_few_lines(release: Release) -> None:
    shown = repr(release)
    assert len(shown) < 1000
    assert shown.startswith("NOT PRIVATE")
    assert "'people' by independent" in shown


def test_a_certificate_shows_itself_in_a_few_lines(release: Release) -> None:
    shown = repr(release.certificate)
    assert release.certificate.promise in shown
    assert "measurement of marginal (age)" in shown
    many = replace(release.certificate, charges=release.certificate.charges * 100)
    assert len(repr(many)) < 1000
    assert "more" in repr(many)


def test_a_plan_shows_itself_in_a_few_lines() -> None:
    planned = admeasure.plan(Schema.loads(SCHEMA), workload="all-2way", epsilon=1, mechanism="mst")
    assert repr(planned).startswith("Plan of mst: epsilon 1 at delta 1e-09")
    largest = max(planned.plan.items, key=lambda item: item.total.ratio(planned.budget))
    assert largest.what in repr(planned)
    many = replace(planned, plan=replace(planned.plan, items=planned.plan.items * 100))
    assert len(repr(many)) < 1000
    assert "more" in repr(many)


def test_a_question_is_a_dict_of_conditions(release: Release) -> None:
    asked = {"sex": "Female", "age": (30, 49)}
    one = release.answer(asked)
    counts = np.asarray(release.marginal(["age", "sex"]))
    assert one.value == pytest.approx(counts[3:5, 0].sum())
    assert [a.value for a in release.answer([asked, {"sex": ["Female", "Male"]}])] == [
        one.value,
        pytest.approx(counts.sum()),
    ]


def test_a_range_may_be_open(release: Release) -> None:
    counts = np.asarray(release.marginal(["age"]))
    assert release.answer({"age": (None, 19)}).value == pytest.approx(counts[:2].sum())
    assert release.answer({"age": (80, None)}).value == pytest.approx(counts[8:].sum())


def test_a_query_file_is_answered(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "queries.toml"
    path.write_text('[[query]]\nname = "women"\nwhere = {sex = "Female"}\n')
    (found,) = release.answer(path)
    assert (found.name, found.value) == ("women", release.answer({"sex": "Female"}).value)


def test_a_range_with_three_ends_is_refused(release: Release) -> None:
    with pytest.raises(WorkloadError, match="two ends"):
        release.answer({"age": (1, 2, 3)})


@pytest.mark.parametrize(
    ("as_", "module"), [("pandas", "pandas"), ("polars", "polars"), ("arrow", "pyarrow")]
)
def test_rows_come_in_the_frame_that_is_asked_for(
    release: Release, as_: str, module: str, tmp_path: Path
) -> None:
    release.save(tmp_path / "saved")
    loaded = Release.load(tmp_path / "saved")
    frame = loaded.sample(7, seed=1, as_=as_)  # pyright: ignore[reportArgumentType]
    assert type(frame).__module__.startswith(module)
    assert len(frame) == 7
    columns = loaded.sample(7, seed=1)
    assert [str(v) for v in frame["sex"]] == [str(v) for v in columns["sex"]]


def test_an_unknown_kind_of_frame_is_refused(release: Release) -> None:
    with pytest.raises(UsageError, match="pandas, polars, arrow"):
        release.sample(3, as_="excel")  # pyright: ignore[reportArgumentType]


def test_a_release_takes_the_place_of_another_only_when_told(
    release: Release, tmp_path: Path
) -> None:
    target = release.save(tmp_path / "saved")
    with pytest.raises(UsageError, match="exists already"):
        release.save(target)
    release.save(target, overwrite=True)
    assert Release.load(target).rows == release.rows
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


def test_nothing_but_a_release_is_replaced(release: Release, tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter1.txt").write_text("…")
    target = release.save(tmp_path / "saved")
    (target / "notes.txt").write_text("…")
    for place in (mine, target):
        before = sorted(p.name for p in place.iterdir())
        with pytest.raises(UsageError, match="not replaced"):
            release.save(place, overwrite=True)
        assert sorted(p.name for p in place.iterdir()) == before


def test_the_verbs_are_plain_functions(release: Release, tmp_path: Path) -> None:
    """What the command line does, without it: from a header to answers."""
    table = tmp_path / "people.csv"
    table.write_text("age,sex\n30,Female\n41,Male\n")
    written = tmp_path / "schema.toml"
    written.write_text(SCHEMA)
    assert 'name = "age"' in admeasure.draft(str(table))
    assert admeasure.check(str(table), written) == []
    table.write_text("age,sex\n30,Female\n410,Male\n")
    (problem,) = admeasure.check(str(table), written)
    assert (problem.column, "410" in str(problem)) == ("age", False)

    planned = admeasure.plan(written, workload="all-2way", epsilon=1, mechanism="mst", rows=500)
    assert sum(item.total.rho for item in planned.plan.items) == planned.budget.rho
    assert planned.to_json()["mechanism"] == "mst"

    saved = release.save(tmp_path / "release")
    assert admeasure.answer(saved, {"sex": "Male"}) == release.answer({"sex": "Male"})
    assert len(admeasure.sample(saved, 5)["age"]) == 5


TABLE = {"age": [20, 40, 60] * 20, "sex": ["Female", "Male", "Male"] * 20}


def small_fit(**more: Any) -> Release:
    return admeasure.fit(
        TABLE,
        Schema.loads(SCHEMA),
        workload="all-1way",
        mechanism=admeasure.independent(),
        epsilon=1,
        delta=1e-9,
        **more,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_fit_says_nothing_where_nobody_looks_unless_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small_fit()
    small_fit(progress=False)
    assert capsys.readouterr() == ("", "")
    small_fit(progress=True)
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "spending the budget" in heard.err


@pytest.mark.parametrize("progress", [None, True, False])
def test_a_fit_on_a_terminal_shows_a_bar_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, progress: bool | None
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    small_fit(progress=progress)
    shown = cast(Terminal, sys.stderr).getvalue()
    assert ("spending the budget" in shown, "100%" in shown) == (progress is not False,) * 2


def test_a_fit_in_a_notebook_shows_a_bar_without_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel as IPython makes one known; `examples/` are run in a real one."""
    drawn: list[str] = []
    handle = types.SimpleNamespace(update=lambda shown: drawn.append(shown._repr_html_()))
    shell = types.SimpleNamespace(kernel=object())
    for name, holds in (
        ("IPython", {"get_ipython": lambda: shell}),
        ("IPython.display", {"display": lambda shown, display_id: handle}),
    ):
        module = types.ModuleType(name)
        vars(module).update(holds)
        monkeypatch.setitem(sys.modules, name, module)
    small_fit()
    assert any("<progress" in html and "spending the budget" in html for html in drawn)
    assert drawn[-1] == "", "bars go away when the work is done"
    drawn.clear()
    small_fit(progress=False)
    assert not drawn
