"""Columns that are modelled by their difference from another, and computed back in rows."""

from __future__ import annotations

import csv
import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.errors import DataError, SchemaError, UsageError, WorkloadError
from admeasure.public.read import read_public
from admeasure.queries import Marginal
from admeasure.schema import Schema, encode_frame
from admeasure.schema.rows import rows
from admeasure.sources.files.source import DuckDBSource
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source
from admeasure.verbs.check import check
from admeasure.workload import Workload

HEAD = '[table]\nname = "visits"\n[privacy]\nunit = "person"\n'
START = datetime.date(2023, 1, 1)
BOOKED = (
    '[[column]]\nname = "booked"\ntype = "date"\nminimum = 2023-01-01\nmaximum = 2024-12-31\n'
    'bins = 24\nmissing_values = ["never"]\n'
)
WAIT = (
    '[[column]]\nname = "wait"\ntype = "integer"\nedges = [0, 1, 2, 8, 31, 366]\n'
    "missing_values = []\n"
)
DIFFERENCE = '[[difference]]\ncolumn = "wait"\nof = "seen"\nminus = "booked"\n'
SEX = '[[column]]\nname = "sex"\ntype = "string"\nenum = ["F", "M"]\n'
TEXT = HEAD + BOOKED + SEX + WAIT + DIFFERENCE


def after(days: int) -> datetime.date:
    return START + datetime.timedelta(days)


def visits(count: int, same_day: float = 0.31) -> dict[str, list]:
    rng = np.random.default_rng(3)
    booked = rng.integers(0, 600, count)
    wait = np.where(rng.random(count) < same_day, 0, rng.integers(1, 100, count))
    return {
        "booked": [after(int(b)) for b in booked],
        "seen": [after(int(b + w)) for b, w in zip(booked, wait, strict=True)],
        "sex": rng.choice(["F", "M"], count).tolist(),
    }


def fitted(schema: Schema, table: dict[str, list]) -> admeasure.Release:
    return admeasure.fit(
        table,
        schema,
        workload="all-2way",
        mechanism=admeasure.aim(),
        epsilon=10,
        delta=1e-9,
        seed=1,
    )


def test_rows_keep_the_share_of_the_same_day_and_none_is_before_its_booking():
    """The noise of a count is below 100 rows of 4,000 but with probability 1e-9 at epsilon 10; the
    seed is fixed."""
    rows = fitted(Schema.loads(TEXT), visits(4000)).sample(4000, seed=2)
    assert set(rows) == {"booked", "sex", "seen"}
    pairs = [(b, s) for b, s in zip(rows["booked"], rows["seen"], strict=True) if b and s]
    assert len(pairs) > 3900
    assert all(b <= s <= b + datetime.timedelta(366) for b, s in pairs)
    assert abs(np.mean([b == s for b, s in pairs]) - 0.31) < 0.04


def test_a_release_is_asked_about_what_it_models():
    release = fitted(Schema.loads(TEXT), visits(500))
    assert release.answer({"wait": 0}).value == pytest.approx(155, abs=60)
    with pytest.raises(SchemaError, match="'seen' is computed in rows, as 'booked' plus 'wait'"):
        release.answer({"seen": {"from": "2023-02-01"}})
    with pytest.raises(SchemaError, match="Name these, or count sampled rows"):
        release.marginal(["seen", "sex"])
    domain = release.schema.domain
    read = Workload.loads('[[marginal]]\ncolumns = ["seen", "sex"]\n', name="w", domain=domain)
    assert list(read) == [Marginal(["booked", "sex", "wait"])]
    with pytest.raises(WorkloadError, match="'seen' is computed from 'booked', 'wait'"):
        Workload([Marginal(["seen"])]).validate(domain)


def expected(schema: Schema, form: str, booked: str, seen: str) -> int | None:
    """The code of one row, from the words of docs/reference/schema.md; None where it is refused."""
    days = []
    for text in (seen, booked):
        text = text.strip(" ")
        if text in ("", "never"):
            return schema.column("wait").missing_code
        try:
            days.append(datetime.datetime.strptime(text, form).toordinal())
        except ValueError:
            days.append(None)
    if None in days:
        return schema.column("wait").other_code
    code = schema.column("wait").code_of(days[0] - days[1])
    return schema.column("wait").other_code if code < 0 else code


TEXTS = st.one_of(
    st.integers(0, 800).map(after),
    st.sampled_from(["never", "", " 2023-05-05 ", "05/06/23", "2023-02-30", "9999-12-31", "x"]),
)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30),
    st.sampled_from(["%Y-%m-%d", "%d/%m/%Y"]),
    st.booleans(),
    st.booleans(),
)
def test_files_and_memory_read_a_difference_by_the_same_rule(
    tmp_path_factory, given_rows, form, other, clamp
):
    rows = [
        tuple(v if isinstance(v, str) else v.strftime(form) for v in pair) for pair in given_rows
    ]
    text = (
        HEAD
        + BOOKED
        + f'other = true\nformat = "{form}"\n'
        + WAIT
        + f"clamp = {str(clamp).lower()}\n"
    )
    text += f"other = {str(other).lower()}\n" + DIFFERENCE
    schema = Schema.loads(text)
    table = {"booked": [r[0] for r in rows], "seen": [r[1] for r in rows]}
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("seen", "wait", "booked"), *((s, "7", b) for b, s in rows)])
    codes = [expected(schema, form, *row) for row in rows]
    if None in codes:
        with pytest.raises(DataError, match="'wait'"):
            encode_frame(table, schema)
        with pytest.raises(DataError, match="'wait'"):
            DuckDBSource(str(path), schema)
        return
    assert encode_frame(table, schema)["wait"].tolist() == codes
    counts = MemorySource(table, schema).counts([("booked", "wait")])[0]
    assert (DuckDBSource(str(path), schema).counts([("booked", "wait")])[0] == counts).all()


def test_numbers_and_chains_are_computed_back():
    def number(name: str, low: float, high: float) -> str:
        return (
            f'[[column]]\nname = "{name}"\ntype = "number"\nminimum = {low}\nmaximum = {high}\n'
            "bins = 5\n"
        )

    text = HEAD + number("low", 0, 50) + number("more", 0, 20) + number("most", -5, 5)
    text += '[[difference]]\ncolumn = "most"\nof = "top"\nminus = "high"\n'
    text += '[[difference]]\ncolumn = "more"\nof = "high"\nminus = "low"\n'
    schema = Schema.loads(text)
    rng = np.random.default_rng(0)
    low = rng.random(200) * 50
    high = low + rng.random(200) * 20
    table = {"low": low, "high": high, "top": high + rng.random(200) * 10 - 5}
    codes = encode_frame(table, schema)
    assert codes["more"].tolist() == [schema.column("more").code_of(d) for d in high - low]
    rows = schema.decode(codes, rng)
    assert list(rows) == ["low", "high", "top"]
    assert (rows["high"] >= rows["low"]).all()
    assert (np.abs(rows["top"] - rows["high"]) <= 5 + 1e-9).all()
    # what is computed back is read as the same codes again, where rounding is not at an edge
    again = encode_frame(rows, schema)
    assert (again["more"] == codes["more"]).mean() > 0.99


def test_what_is_computed_back_twice_is_spelled_as_what_it_is_computed_from():
    text = TEXT.replace("bins = 24", 'bins = 24\nformat = "%d/%m/%Y"') + WAIT.replace("wait", "w")
    text += '[[difference]]\ncolumn = "w"\nof = "paid"\nminus = "seen"\n'
    schema = Schema.loads(text)
    codes = {"booked": np.array([0, 24]), "sex": [0, 1], "wait": [0, 0], "w": [1, 1]}
    found = rows(schema, codes, np.random.default_rng(0), as_texts=True)
    assert list(found) == ["booked", "sex", "seen", "paid"]
    read = [datetime.datetime.strptime(found[n][0], "%d/%m/%Y") for n in ("seen", "paid")]
    assert found["booked"][0] == found["seen"][0]
    assert read[1] - read[0] == datetime.timedelta(1)
    assert found["booked"][1] == "never"


def test_a_difference_has_one_kind_of_storage_or_is_refused():
    table = visits(5)
    for wrong in ([True] * 5, [1.5] * 5):
        with pytest.raises(DataError, match="'seen' is stored in a form that type date cannot"):
            encode_frame({**table, "seen": wrong}, Schema.loads(TEXT))


def test_a_table_must_have_what_is_subtracted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("booked,sex\n2023-01-01,F\n")
    schema = Schema.loads(TEXT)
    (problem,) = check(str(path), schema)
    assert (problem.column, problem.rule) == ("seen", "is not in the table")
    with pytest.raises(DataError, match="'seen' is not in the table"):
        encode_frame({"booked": [START], "sex": ["F"]}, schema)


@pytest.mark.parametrize("address", ["spark:/nowhere.parquet", "postgres://host/db?table=t"])
def test_other_sources_refuse_before_anything_is_charged(address, monkeypatch):
    monkeypatch.setattr("admeasure.sources.kind.Kind.check_installed", lambda self: None)
    with pytest.raises(UsageError, match="computed for files and tables in memory alone"):
        open_source(address, Schema.loads(TEXT))


def test_a_public_table_is_read_by_the_same_rule():
    schema = Schema.loads(TEXT)
    table = visits(50)
    public = read_public(table, schema)
    assert public.notes == ()
    (counts,) = MemorySource(table, schema).counts([("sex", "wait")])
    codes = encode_frame(table, schema)
    assert counts.sum() == 50
    assert np.array_equal(np.bincount(codes["wait"], minlength=6), counts.sum(axis=0))


def test_the_schema_survives_the_round_trip():
    schema = Schema.loads(TEXT)
    assert Schema.loads(schema.dumps()) == schema
    assert schema.stored_names == ("booked", "sex", "seen")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace('of = "seen"', 'of = "sex"'), "'sex' is described by a [[column]]"),
        (TEXT.replace('minus = "booked"', 'minus = "sex"'), "no integer, number or date between"),
        (TEXT.replace('minus = "booked"', 'minus = "bokked"'), "Did you mean 'booked'"),
        (TEXT.replace('minus = "booked"', 'minus = "wait"'), "subtracted from itself"),
        (TEXT.replace('column = "wait"', 'column = "sex"'), "is of type string"),
        (TEXT + DIFFERENCE, "'seen' has a [[difference]]"),
        (TEXT + DIFFERENCE.replace("seen", "paid"), "is the difference of two columns"),
        (
            TEXT
            + WAIT.replace("wait", "w")
            + '[[difference]]\ncolumn = "w"\nof = "paid"\nminus = "wait"\n',
            "which is a difference itself",
        ),
        (
            TEXT.replace('minus = "booked"', 'minus = "paid"')
            + WAIT.replace("wait", "w")
            + '[[difference]]\ncolumn = "w"\nof = "paid"\nminus = "seen"\n',
            "goes in a circle",
        ),
        (TEXT.replace("366]", "9999999]"), "outside the years 1 to 9999"),
        (TEXT + '[[order]]\ncolumns = ["booked", "seen"]\n', "'seen' is computed in rows"),
        (
            TEXT.replace('"person"', '"person"\nunit_column = "seen"'),
            "'seen' is the unit_column",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_read(text, message):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    assert message in str(caught.value)
