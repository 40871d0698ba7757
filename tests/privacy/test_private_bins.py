"""A domain that is bought: the fine grid, the cut, the recoding, the charge, the resumed run."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
import admeasure.limits
from admeasure.auditing.release import audit_release
from admeasure.errors import AdmeasureError, SchemaError
from admeasure.limits import COUNTED_CELLS
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp, budget_of
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.schema.fields import MOST_BINS
from admeasure.schema.ordered import Ordered
from admeasure.schema.private_bins import cut
from admeasure.sources.coarser import AddedUp
from admeasure.sources.files.source import DuckDBSource
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours
from bought_domains import (
    HEADER,
    asked,
    neighbours_agree,
    planned_and_paid,
    small,
    stopped_and_resumed,
)

TEXT = (
    HEADER
    + """
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = "private"
missing_values = ["?"]
[[column]]
name = "cost"
type = "number"
minimum = -0.1
maximum = 12.7
bins = "private"
clamp = true
[[column]]
name = "day"
type = "date"
minimum = 2020-01-01
maximum = 2025-12-31
bins = "private"
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
"""
)
OPEN = Schema.loads(TEXT)
FIRST_DAY = datetime.date(2020, 1, 1)


def frame(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 100, rows).astype(object)
    ages[rng.random(rows) < 0.1] = None
    edges = OPEN.as_read.column("cost").grid.edges  # type: ignore[union-attr]
    costs = np.where(rng.random(rows) < 0.5, rng.choice(edges, rows), rng.normal(6, 9, rows))
    days = [FIRST_DAY + datetime.timedelta(days=int(d)) for d in rng.integers(0, 2192, rows)]
    return {"age": ages, "cost": costs, "day": days, "sex": rng.choice(["f", "m"], rows)}


def some_cut(seed: int) -> Schema:
    rng = np.random.default_rng(seed)
    found = {}
    for column in OPEN.open_columns:
        assert isinstance(column, Ordered)
        size = OPEN.as_read.column(column.name).regular
        begins = rng.choice(np.arange(1, size), int(rng.integers(0, 20)), replace=False)
        found[column.name] = cut(column, [0, *sorted(begins.tolist())])
    return OPEN.with_columns(found)


MARGINALS = [(), ("age",), ("cost",), ("day",), ("age", "sex"), ("age", "cost"), ("cost", "day")]


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(0, 300), seed=st.integers(0, 10**6), dense=st.sampled_from([0, 1 << 22]))
def test_fine_cells_add_up_to_what_the_bins_themselves_would_count(rows, seed, dense):
    """Against the encoder, which reads every value anew by the schema with bins; half of the costs
    lie on edges of the fine grid."""
    table, coarse = frame(rows, seed), some_cut(seed)
    fine, plain = MemorySource(table, OPEN.as_read), MemorySource(table, coarse)
    for view in (fine.by(coarse), AddedUp(fine, coarse, dense_cells=dense, pass_cells=dense)):
        for found, expected in zip(view.counts(MARGINALS), plain.counts(MARGINALS), strict=True):
            assert np.array_equal(found, expected)
        for found, expected in zip(view.sparse(MARGINALS), plain.sparse(MARGINALS), strict=True):
            assert np.array_equal(found.codes, expected.codes)
            assert np.array_equal(found.counts, expected.counts)


@pytest.mark.parametrize("memory_megabytes", [None, 0.0])
def test_a_file_is_recoded_as_a_frame_is(memory_megabytes, tmp_path):
    table, coarse = frame(200, 3), some_cut(3)
    lines = ["age,cost,day,sex"]
    for age, cost, day, sex in zip(*table.values(), strict=True):
        lines.append(f"{'?' if age is None else age},{float(cost)!r},{day},{sex}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    source = DuckDBSource(str(tmp_path / "t.csv"), OPEN.as_read, memory_megabytes=memory_megabytes)
    assert source.in_memory == (memory_megabytes is None)
    found = source.by(coarse).counts(MARGINALS)
    expected = MemorySource(table, coarse).counts(MARGINALS)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_many_columns_with_private_bins_are_counted_by_their_bins_and_not_by_their_leaves():
    """Pairs of the leaves have 2^28 cells together, of which no table is counted."""
    names = [f"c{i:02}" for i in range(13)]
    day = 'type = "date"\nminimum = 2020-01-01\nmaximum = 2025-06-30\nbins = "private"\n'
    columns = "".join(f'[[column]]\nname = "{name}"\n{day}' for name in names)
    schema = Schema.loads(f'[table]\nname = "t"\n[privacy]\nunit = "person"\n{columns}')
    leaves, pairs = schema.as_read.domain[names[0]], len(names) * (len(names) - 1) // 2
    assert pairs * leaves**2 > COUNTED_CELLS
    rng = np.random.default_rng(0)
    days = [FIRST_DAY + datetime.timedelta(days=int(d)) for d in rng.integers(0, leaves, 500)]
    table = dict.fromkeys(names, days)
    given = {"workload": "all-2way", "mechanism": build("gaussian", {}), "epsilon": 1.0}
    release = admeasure.fit(table, schema, **given, delta=1e-6, seed=1)
    assert len(release.measurements) >= pairs


def test_an_open_schema_is_written_and_read_back_and_says_how_large_it_may_become():
    assert Schema.loads(OPEN.dumps()) == OPEN
    assert OPEN.domain["age"] == MOST_BINS + 1
    assert OPEN.domain["cost"] == MOST_BINS
    every_value, hundredths, every_day = 101, 4000, 2192  # -0.1 to 12.7, each twice
    assert OPEN.as_read.domain.levels == (every_value, hundredths, every_day, 2)
    found = some_cut(1)
    assert not found.open_columns
    assert Schema.loads(found.dumps()) == found


def test_a_column_of_one_value_has_one_bin():
    one = Schema.loads(TEXT.replace("maximum = 99", "maximum = 0"))
    age = one.column("age")
    assert isinstance(age, Ordered)
    assert cut(age, [0]).regular == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("maximum = 99\n", "maximum = -1\n"), "minimum that is not at most its maximum"),
        (("maximum = 12.7", "maximum = -0.1"), "minimum that is not below its maximum"),
        (('bins = "private"\nclamp', 'bins = 4\nscale = "log"\nclamp'), "only private bins"),
        (("maximum = 2025-12-31", 'scale = "log"'), "days have none"),
        (('bins = "private"\nclamp', 'bins = "privat"\nclamp'), "whole number"),
        (('bins = "private"\nmissing', 'edges = [0, 99]\nbins = "private"\nmissing'), "both bins"),
    ],
)
def test_an_open_column_that_cannot_be_read_is_refused(change, said):
    with pytest.raises(SchemaError, match=said):
        Schema.loads(TEXT.replace(*change, 1))


def test_a_zero_of_an_open_column_is_refused():
    zero = '[[zero]]\ncolumns = ["age", "sex"]\nwhere = {age = 0, sex = "m"}\n'
    with pytest.raises(SchemaError, match=r"\[\[zero\]\] names a column whose bins are private"):
        Schema.loads(TEXT + zero)


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_a_fit_finds_bins_charges_for_them_and_releases_a_schema_that_has_them(name, tmp_path):
    book = Book.create(tmp_path / "book.db", "stays", epsilon=1, delta=1e-6)
    release = admeasure.fit(
        frame(3000, 1),
        OPEN,
        **asked(
            mechanism=build(name, {}),
            out=tmp_path / "out",
            charge_to=ChargeTo(tmp_path / "book.db", "stays"),
        ),
    )
    assert not release.schema.open_columns
    assert 4 < release.schema.domain["age"] <= MOST_BINS + 1
    paid = {line.what: line.rho for line in release.certificate.charges}
    share = float(budget_of(1, 1e-6) / 10 / 3)
    for column in ("age", "cost", "day"):
        assert paid[f"counts of a tree over {column}, for its bins"] == pytest.approx(share)
    assert any("bins" in note for note in release.certificate.notes)
    assert audit_release(tmp_path / "out").holds
    assert book.account("stays").left.rho == 0
    rows = admeasure.Release.load(tmp_path / "out").sample_columns(50, seed=1)
    assert set(rows) == {"age", "cost", "day", "sex"}


def test_a_plan_says_what_the_bins_cost_and_the_run_pays_just_that():
    planned_and_paid(OPEN, frame(500, 2))


def test_a_run_that_was_killed_after_its_bins_were_bought_goes_on_with_the_same_bins(tmp_path):
    # three columns' bins, and the first measurement on them
    assert len(stopped_and_resumed(OPEN, frame(2000, 4), tmp_path, stop_at=4)) == 3


def test_a_run_that_has_paid_for_everything_is_not_refused_for_the_room_that_it_took(monkeypatch):
    """What it holds by then leaves less room than it asked for before it began."""
    there = [1e6]
    monkeypatch.setattr(admeasure.limits, "available_megabytes", lambda: there[0])

    def take_all(event: Any) -> None:
        there[0] = 0.0

    release = admeasure.fit(frame(500, 1), OPEN, **asked(listeners=(take_all,)))
    assert not release.schema.open_columns
    assert there == [0.0]


@pytest.mark.parametrize(
    "more",
    [
        {"public": frame(100, 9), "mechanism": build("pmw-pub", {})},
        {"mechanism": build("mwem", {})},  # the domain of the most bins is too large for it
    ],
)
def test_what_cannot_be_done_with_open_columns_is_refused_before_anything_is_charged(
    more, tmp_path
):
    book = Book.create(tmp_path / "book.db", "stays", epsilon=1, delta=1e-6)
    many = TEXT + "".join(
        f'[[column]]\nname = "x{i}"\ntype = "integer"\nminimum = 0\nmaximum = 9\nbins = "private"\n'
        for i in range(4)
    )
    with pytest.raises(AdmeasureError):
        admeasure.fit(
            frame(100, 1) | {f"x{i}": np.zeros(100, int) for i in range(4)},
            Schema.loads(many),
            **asked(
                out=tmp_path / "out",
                charge_to=ChargeTo(tmp_path / "book.db", "stays"),
                **more,
            ),
        )
    assert book.account("stays").spent.rho == 0
    assert not list(tmp_path.glob("*out*"))


# Neighbours: whatever bins one table would have got, nothing but noised numbers tells them apart.


BOUNDED = 'type = "integer"\nminimum = 0\nmaximum = 30\nbins = "private"'
INSIDE = st.integers(0, 30)
WITHOUT_BOUNDS = 'type = "number"\nmissing_values = []\nother = true'
ANYWHERE = st.sampled_from([0.0, 3.5, 12.0, 1e300, -1e300, 5e-324, math.inf, math.nan])
CLAMPED = BOUNDED + "\nclamp = true\nmissing_values = []"
OUTSIDE = st.sampled_from([0.0, 30.0, 31.0, -5.0, 1e9, -math.inf, math.nan])


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize(
    ("name", "fields", "value"),
    [
        ("mst", BOUNDED, INSIDE),
        ("independent", BOUNDED, INSIDE),
        ("independent", WITHOUT_BOUNDS, ANYWHERE),
        ("independent", CLAMPED, OUTSIDE),
    ],
)
def test_neighbours_differ_only_in_what_is_noised(name, fields, value, relation, tally):
    """One person may lie outside of every bound, or bring the only missing value."""
    seen = neighbours_agree(
        relation,
        12,
        fields,
        value,
        new=value,
        event="statistic",
        name=name,
        budget=Fraction(1),
    )
    tally(f"pairs of neighbours, bins bought, {name}", seen)


def test_the_noise_of_a_tree_pays_for_all_its_levels():
    """31 values: leaves, 8 nodes of four, 2 of sixteen."""
    for relation, rows, expected in (
        ("add-remove", 1, 3),
        ("add-remove", 3, 27),
        ("replace", 1, 6),
        ("replace", 3, 54),
    ):
        schema = small(rows, relation, BOUNDED)
        (item,), left = bought.divide(schema, Zcdp(Fraction(1)))
        assert item.sigma == pytest.approx((expected / (2 * float(item.cost))) ** 0.5)
        assert item.cost + left == Zcdp(Fraction(1))
