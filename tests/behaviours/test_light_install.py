"""The base install alone: what works without the extras, and what is said where one is missing."""

from __future__ import annotations

import importlib
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


def loaded_by(*argv: str) -> set[str]:
    """The modules that a command has loaded when it ends well."""
    done = run_bare("print(*sys.modules, sep=chr(10), file=sys.stderr); sys.exit(code)", *argv)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


HEAVY = {
    *("duckdb", "jinja2", "narwhals", "rich", "scipy", "scipy.optimize", "scipy.special"),
    *("scipy.stats", "sqlite3", "cProfile"),
}
"""What takes long to import: half of a second together, where a verb itself takes as long."""


UNUSED = {
    *("admeasure.cli.fit", "admeasure.conclusions.check", "admeasure.reporting.text"),
    "admeasure.families.graphical.estimation.estimate",
}
"""Of our own: other verbs, what fits, and what reports, which no answer and no row needs."""


def test_a_verb_imports_what_it_needs(demo: Path, tmp_path: Path) -> None:
    """The time of these verbs is mostly that of imports. `duckdb` reads and writes tables, `scipy`
    fits graphical models, a run may have a book (`sqlite3`)."""
    release, rows = str(demo / "release"), str(tmp_path / "rows.csv")
    public = ("--schema", str(demo / "schema.toml"), "--workload", "all-1way", "--epsilon", "1")
    told = ("--delta", "1e-9", "--mechanism", "independent", "--out", str(tmp_path / "release"))
    for verb, needed in {
        ("answer", release, str(demo / "questions.toml"), "--json"): set(),
        ("sample", release, "-n", "10", "-o", rows): {"duckdb"},
        ("plan", *public, "--mechanism", "independent"): {"sqlite3"},
        ("fit", str(demo / "adult.csv"), *public, *told): {"duckdb", "scipy", "sqlite3"},
    }.items():
        loaded = loaded_by(*verb)
        assert HEAVY & loaded == needed, verb[0]
        papers = {name for name in loaded if name.startswith("admeasure.mechanisms.")}
        asked = {"admeasure.mechanisms.auto", "admeasure.mechanisms.independent"}
        assert papers == (asked if needed & {"sqlite3"} else set()), verb[0]
        if verb[0] in ("answer", "sample"):
            assert not UNUSED & loaded, verb[0]


@pytest.mark.parametrize(
    ("registry", "called"),
    [("admeasure.mechanisms.REGISTRY", "name"), ("admeasure.families.registry.MODELS", "kind")],
)
def test_a_registry_knows_by_name_what_it_has_not_imported(registry: str, called: str) -> None:
    module, _, name = registry.rpartition(".")
    members = getattr(importlib.import_module(module), name)
    assert {known: getattr(member, called) for known, member in members.items()} == {
        known: known for known in members
    }
