"""Nothing is charged for a run that cannot succeed.

Every registered mechanism, asked for too much in several ways: either the request is refused, and
book and folder are as before, or the run ends with a release. What the machine has is made up, so
that nothing here depends on it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import admeasure.limits
from admeasure.errors import AdmeasureError, ResourceError
from admeasure.limits import COUNTED_CELLS, Limits, resident
from admeasure.mechanisms import REGISTRY, Mechanism, build
from admeasure.planning.division import Task
from admeasure.planning.mechanism import LearnsFromPublic, StartsLibraries
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp
from admeasure.public import PublicTable
from admeasure.queries import Marginal
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.plan import plan
from admeasure.workload import Workload, parse_workload

NAMES = sorted(REGISTRY)
QUICK = {
    "gem": {"hidden": "16,16", "product-rows": "32", "steps": "5", "rounds": "2"},
    "gem-pub": {
        "hidden": "16,16",
        "product-rows": "32",
        "steps": "5",
        "rounds": "2",
        "pretrain-steps": "5",
    },
    "rap": {"rounds": "2", "queries": "2", "product-rows": "32", "steps": "5"},
    "rap-softmax": {"rounds": "2", "queries": "2", "product-rows": "32", "steps": "5"},
    "rap-box": {"rounds": "2", "queries": "2", "product-rows": "32", "steps": "5"},
    "fem": {"rounds": "2", "samples": "2", "solver": "highs"},
    "dualquery": {"rounds": "2", "samples": "2", "solver": "highs"},
    "mwem-pgm": {"rounds": "2"},
    "mwem-rp": {"rounds": "2", "product-rows": "32", "steps": "5"},
    "pmw-pub": {"rounds": "2"},
    "pep-pub": {"rounds": "2"},
}

OVERSIZED = {
    "three columns of 60,000 levels": ({"a": 60_000, "b": 60_000, "c": 60_000}, "all-2way"),
    "one large pair among small ones": (
        {"a": 60_000, "b": 60_000, "c": 2, "d": 3},
        "all-2way",
    ),
    "a triple beyond what is counted": (dict.fromkeys("abc", 700), "all-3way"),
}
assert COUNTED_CELLS < 700**3

STREAMED = {"rap", "rap-softmax", "rap-box"}
"""They look at billions of single queries one block at a time: it takes minutes, and no room."""


def ready(name: str, schema: Schema, codes: dict[str, np.ndarray]) -> Mechanism:
    mechanism = build(name, QUICK.get(name))
    if isinstance(mechanism, LearnsFromPublic):
        return mechanism.with_public(PublicTable.from_codes(codes, schema.domain))
    return mechanism


@pytest.mark.parametrize("setting", OVERSIZED)
@pytest.mark.parametrize("name", NAMES)
def test_too_much_is_refused_before_the_book_is_asked_or_done(
    name: str, setting: str, tmp_path: Path
) -> None:
    levels, asked = OVERSIZED[setting]
    schema = Schema.coded("large", levels)
    codes = {c: np.arange(20) % n for c, n in levels.items()}
    mechanism = ready(name, schema, codes)
    workload = parse_workload(asked, schema.domain)
    task = Task.of(schema, workload)
    if name in STREAMED and mechanism.needs(task) < 1000:
        mechanism.check(task)
        return
    book = Book.create(tmp_path / "book.db", "large", epsilon=10, delta=1e-6)
    refusal = None
    try:
        release = fit(
            codes,
            schema,
            workload=workload,
            mechanism=mechanism,
            epsilon=1.0,
            delta=1e-6,
            out=tmp_path / "release",
            charge_to=ChargeTo(tmp_path / "book.db", "large"),
        )
    except AdmeasureError as error:
        refusal = error
    else:
        (entry,) = book.history("large")
        assert entry.status == "released"
        assert float(entry.cost.rho) == pytest.approx(release.certificate.rho_spent)
    if refusal is not None:
        assert refusal.exit_code in (2, 3, 5), refusal
        assert book.history("large") == ()
        assert [p.name for p in tmp_path.iterdir()] == ["book.db"]


@pytest.mark.parametrize("name", NAMES)
def test_a_domain_of_more_cells_than_a_float_can_say_is_judged_like_any_other(name: str) -> None:
    levels = {f"c{i:03}": 4 for i in range(520)}
    schema = Schema.coded("wide", levels)
    mechanism = ready(name, schema, {c: np.arange(4) for c in levels})
    task = Task.of(schema, parse_workload("random:9:2way", schema.domain))
    refusal = None
    try:
        mechanism.check(task)
    except AdmeasureError as error:
        refusal = error
    assert refusal is None or refusal.exit_code in (2, 5)
    if refusal is None:
        assert mechanism.needs(task) < math.inf
        mechanism.plan(task, Zcdp(Fraction(1)), None)


def test_mst_measures_the_pairs_that_fit_and_leaves_the_other_columns_apart(tmp_path: Path) -> None:
    """13,107 cells: one pair of 100 by 100, and the third column by itself."""
    levels = dict.fromkeys("abc", 100)
    schema = Schema.coded("toy", levels)
    codes = {c: np.arange(500) % n for c, n in levels.items()}
    mechanism = build("mst", {"max-megabytes": "0.1"})
    workload = parse_workload("all-2way", schema.domain)
    release = fit(codes, schema, workload=workload, mechanism=mechanism, epsilon=1.0, delta=1e-6)
    measured = [m.query.columns for m in release.measurements if len(m.query.columns) > 1]
    assert len(measured) == 1
    assert release.facts["model_megabytes"] < 0.1
    with pytest.raises(ResourceError, match="no pair of columns fits"):
        build("mst", {"max-megabytes": "0.05"}).check(Task.of(schema, workload))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_run_needs_grows_with_what_is_asked_and_is_held_against_the_room(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least room that a request passes in is what the mechanism says that it needs."""
    levels = {f"c{i}": 40 for i in range(4)}
    schema = Schema.coded("toy", levels)
    codes = {c: np.arange(20) % n for c, n in levels.items()}
    mechanism = ready(name, schema, codes)
    workload = parse_workload("all-2way", schema.domain)
    needs = mechanism.needs(Task.of(schema, workload))
    assert 0 <= needs < math.inf
    fewer = Workload(Marginal(r) for r in list(combinations(sorted(levels), 2))[:2])
    assert mechanism.needs(Task.of(schema, fewer)) <= needs
    book = Book.create(tmp_path / "book.db", "toy", epsilon=10, delta=1e-6)
    monkeypatch.setattr(admeasure.limits, "available_megabytes", lambda: 0.99 * needs)
    if not needs:
        return
    with pytest.raises(ResourceError, match="Nothing is charged"):
        fit(
            codes,
            schema,
            workload=workload,
            mechanism=mechanism,
            epsilon=1.0,
            delta=1e-6,
            charge_to=ChargeTo(tmp_path / "book.db", "toy"),
        )
    assert book.history("toy") == ()


def test_a_plan_says_what_does_not_fit_and_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.coded("toy", {f"c{i}": 40 for i in range(4)})

    def notes(megabytes: float) -> str:
        monkeypatch.setattr(admeasure.limits, "available_megabytes", lambda: megabytes)
        return " ".join(plan(schema, workload="all-2way", epsilon=1, mechanism="mst").plan.notes)

    said = plan(schema, workload="all-2way", epsilon=1, mechanism="mst").plan.megabytes
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    needs = build("mst", {}).needs(task)
    assert 0 < needs < said
    assert "take less" not in notes(2 * said)
    assert "may end without a release" in notes(0.99 * said)
    assert "(independent) take less" in notes(0.99 * said)
    assert "fit would refuse" in notes(0.99 * needs)


def test_a_limit_of_memory_is_held_against_what_a_run_needs() -> None:
    Limits(megabytes=resident() + 1000).require(500, "it")
    with pytest.raises(ResourceError, match="about 2,000 MB"):
        Limits(megabytes=resident() + 1000).require(2000, "it")


LIMITED = """
import resource, sys
from admeasure.limits import status_bytes
from admeasure.cli.run import run
import admeasure.verbs.fit
room = status_bytes("VmSize") + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are counted on Linux")
@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(REGISTRY[n], StartsLibraries)])
def test_under_a_ulimit_a_library_that_would_end_the_process_is_refused_before_the_charge(
    name: str, tmp_path: Path
) -> None:
    schema = Schema.coded("toy", {"a": 3, "b": 2})
    (tmp_path / "schema.toml").write_text(schema.dumps())
    (tmp_path / "data.csv").write_text("a,b\n0,1\n2,0\n")
    (tmp_path / "public.csv").write_text("a,b\n1,1\n0,0\n")
    book = Book.create(tmp_path / "book.db", "toy", epsilon=10, delta=1e-9)
    argv = ["fit", "data.csv", "--schema", "schema.toml", "--workload", "all-2way"]
    argv += ["--epsilon", "1", "--mechanism", name, "--out", "out", "--ledger", "book.db"]
    argv += ["--dataset", "toy", *(["--public", "public.csv"] if name == "gem-pub" else [])]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "900", *argv],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 5, (done.returncode, done.stderr)
    assert "ulimit -v" in done.stderr
    assert book.history("toy") == ()
