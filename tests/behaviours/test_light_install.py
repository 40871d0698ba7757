"""The base install alone: what works without the extras, and what is said where one is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXTRAS = (
    *("jax", "jaxlib", "optax", "opendp", "pandas", "polars", "pyarrow", "ortools", "starlette"),
    *("uvicorn", "pyspark", "ibis", "sqlglot", "psycopg", "ray", "matplotlib", "mpmath", "sklearn"),
)
"""Modules of extras and of development: a module that is None cannot be imported."""

BARE = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
RUN = "from admeasure.cli.run import run\ncode = run(sys.argv[1:])\n"


def run_bare(after: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has the base install alone; then `after` is executed."""
    command = [sys.executable, "-c", BARE + RUN + after, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare") / "demo"
    done = run_bare("sys.exit(code)", "demo", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_whole_path_needs_no_extra(demo: Path) -> None:
    for made in ("report.html", "synthetic.csv", "release/release.json"):
        assert (demo / made).stat().st_size > 0


@pytest.mark.parametrize("mechanism", ["rap", "rap-softmax", "gem"])
def test_a_mechanism_that_needs_an_extra_names_it_and_charges_nothing(
    demo: Path, mechanism: str, tmp_path: Path
) -> None:
    book, out = demo / "budget.db", tmp_path / "release"
    before = book.read_bytes()
    done = run_bare(
        "sys.exit(code)",
        *("fit", str(demo / "adult.csv"), "--schema", str(demo / "schema.toml")),
        *("--workload", "all-1way", "--epsilon", "0.01", "--delta", "1e-9"),
        *("--mechanism", mechanism, "--out", str(out)),
        *("--ledger", str(book), "--dataset", "adult"),
    )
    assert done.returncode == 2
    assert "pip install 'admeasure[gradient]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert book.read_bytes() == before


def test_answering_and_sampling_import_little(demo: Path, tmp_path: Path) -> None:
    """Their time is mostly that of imports; these took most of it."""
    late = "late = {'scipy.stats', 'duckdb', 'jinja2'} & set(sys.modules)\n"
    leave = late + "sys.exit(code or ', '.join(late) or None)"
    questions = str(demo / "questions.toml")
    done = run_bare(leave, "answer", str(demo / "release"), questions, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    leave = leave.replace("'duckdb', ", "")  # it writes the rows
    written = str(tmp_path / "rows.csv")
    done = run_bare(leave, "sample", str(demo / "release"), "-n", "10", "-o", written)
    assert done.returncode == 0, done.stderr
