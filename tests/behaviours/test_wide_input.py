"""Tables of thousands of columns, columns of a million levels, files that name a million marginals:
used as far as they fit, or refused in one line, with nothing charged and no memory filled."""

from __future__ import annotations

import math
from itertools import combinations, islice
from pathlib import Path

import pytest

from admeasure.domain import Domain
from admeasure.errors import AdmeasureError, ResourceError, SchemaError
from admeasure.limits import Limits, peak, resident
from admeasure.mechanisms import REGISTRY, build
from admeasure.planning.mechanism import LearnsFromPublic
from admeasure.privacy.book import Book
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.plan import plan
from admeasure.workload import Workload


def of_width(columns: int) -> Schema:
    return Schema.coded("wide", {f"c{i:04}": 2 for i in range(columns)})


EVERY_PAIR = ("mst", "privmrf", "privsyn")
"""Those whose plan goes through all pairs; a quarter of the columns takes them a second."""
MEGABYTES = 600
"""What none of this may add to the process."""
WIDE = of_width(2000)
PLANNED = sorted(name for name, kind in REGISTRY.items() if not issubclass(kind, LearnsFromPublic))


@pytest.mark.parametrize("name", PLANNED)
def test_2000_columns_are_planned_or_refused_in_one_line(name: str) -> None:
    columns = 500 if name in EVERY_PAIR else 2000
    wide = of_width(columns)
    before = peak()
    try:
        found = plan(wide, workload="all-3way", epsilon=1, mechanism=name, rows=1000)
    except AdmeasureError as error:
        refused = str(error)
    else:
        refused = ""
        assert found.plan.megabytes < 10**6
        assert any(f"{math.comb(columns, 3):,}" in note for note in found.plan.notes)
    assert "\n" not in refused
    assert peak() - before < MEGABYTES


LEVELS = {
    "texts": f'type = "string"\nenum = {[f"x{i}" for i in range(100_000)]}'.replace("'", '"'),
    "numbers": 'type = "number"\nminimum = 0\nmaximum = 1\nbins = 1000000',
}


@pytest.mark.parametrize("kind", LEVELS)
def test_too_many_levels_are_refused_with_what_to_do(kind: str) -> None:
    head = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
    advice = {"texts": 'enum = "private"', "numbers": "bins"}[kind]
    with pytest.raises(SchemaError, match=rf"'code' would have 1,?0+,000 levels.*{advice}"):
        Schema.loads(f'{head}[[column]]\nname = "code"\n{LEVELS[kind]}\n')


def test_a_plan_counts_what_reading_a_wide_file_takes() -> None:
    """2,000 columns of 5,000 rows took 1,571 MB to read, and independent holds next to nothing."""
    made = plan(of_width(2000), workload="all-2way", epsilon=1, rows=5000, mechanism="independent")
    assert 1571 / 2 < made.plan.megabytes < 1571 * 2


def test_a_run_without_room_for_all_its_pairs_is_refused_and_not_charged(tmp_path: Path) -> None:
    """124,750 pairs took 240 MB, and their cells 20; a run with less was charged a third."""
    wide = of_width(500)
    book = Book.create(tmp_path / "book.db", "toy", epsilon=10, delta=1e-6)
    with pytest.raises(ResourceError, match=r"mst would take about .* Nothing is charged"):
        fit(
            {name: [0, 1] for name in wide.names},
            wide,
            workload="all-2way",
            mechanism=build("mst"),
            epsilon=1,
            delta=1e-9,
            out=tmp_path / "out",
            charge_to=ChargeTo(tmp_path / "book.db", "toy"),
            limits=Limits(megabytes=resident() + 150),
        )
    assert book.history("toy") == ()
    assert list(tmp_path.glob("out*")) == []


def test_a_million_whole_numbers_enter_by_bins_that_are_bought() -> None:
    schema = Schema.coded("t", {"code": 1_000_000, "sex": 2})
    (item, *_) = plan(schema, workload="all-2way", epsilon=1, rows=10_000).plan.items
    assert "code" in item.what
    assert schema.domain["code"] < 1000


def test_a_file_that_names_more_than_a_million_marginals_is_refused(tmp_path: Path) -> None:
    names = WIDE.domain.columns
    path, book = tmp_path / "workload.toml", tmp_path / "book.db"
    entry = '[[marginal]]\ncolumns = ["{}", "{}"]\n'
    path.write_text("".join(entry.format(*c) for c in islice(combinations(names, 2), 1_000_001)))
    Book.create(book, "t", epsilon=1, delta=1e-9)
    before = peak()
    with pytest.raises(ResourceError, match=r"names 1,000,001 queries.*such as all-3way"):
        fit(
            {column: [0, 1] for column in names},
            WIDE,
            workload=path,
            epsilon=1,
            delta=1e-9,
            charge_to=ChargeTo(book, "t"),
        )
    assert not Book.open(book).account("t").spent
    assert peak() - before < MEGABYTES


@pytest.mark.parametrize("table", ["[[marginal]]", '[["marginal"]]', " [[ marginal ]]"])
def test_what_a_file_names_is_counted_before_it_is_parsed(table: str) -> None:
    text = f"{table}\n" * 1_000_001  # not even valid
    with pytest.raises(ResourceError, match="1,000,001"):
        Workload.loads(text, domain=Domain.of({"a": 2}))
