"""How values are spelled: days against `datetime.strptime`, moments against `fromisoformat`,
numbers against Python's own reading of what was spelled, and all of them in files as in memory."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
import spellings
from admeasure.analyses import Mean
from admeasure.domain import canonical
from admeasure.errors import SchemaError
from admeasure.schema import Refusal, Schema, values
from admeasure.schema.check import check
from admeasure.schema.clock import ClockForm
from admeasure.schema.days import DateColumn
from admeasure.schema.forms import THOUSANDS, DayForm, LetterForm, NumberForm
from admeasure.sources.files.source import DuckDBSource
from admeasure.sources.memory import MemorySource

FORMATS = spellings.FORMATS
days = st.dates(datetime.date(1969, 1, 1), datetime.date(2068, 12, 31))  # two digits of a year
times = st.times()


def strptime(text: str, form: str) -> datetime.date | None:
    try:
        return datetime.datetime.strptime(text, form).date()
    except ValueError:
        return None


def read(text: str, form: str) -> datetime.date | None:
    standard = DayForm(form).standard(text)
    return None if standard is None else values.date_from_text(standard)


@settings(max_examples=300)
@given(st.sampled_from(FORMATS), days, times)
def test_what_strftime_writes_is_read_as_strptime_does(form: str, day, time):
    text = datetime.datetime.combine(day, time).strftime(form)
    assert read(text, form) == strptime(text, form) == day
    assert read(text.upper(), form) in (None, day)  # a literal letter keeps its case
    assert DayForm(form).spelled(day) == datetime.datetime.combine(day, datetime.time()).strftime(
        form
    )


@settings(max_examples=300)
@given(st.sampled_from([f for f in FORMATS if "%d%m" not in f and "%m%d" not in f]), days, times)
def test_a_first_zero_may_be_left_out_where_no_digit_follows(form: str, day, time):
    moment = datetime.datetime.combine(day, time)
    pieces = {"%d": str(day.day), "%m": str(day.month), "%M": str(time.minute)}
    short = form
    for directive, text in pieces.items():
        after = form.partition(directive)[2]
        if not after.startswith("%"):
            short = short.replace(directive, text)
    text = moment.strftime(short)
    assert read(text, form) == strptime(text, form) == day


@settings(max_examples=400)
@given(st.sampled_from(FORMATS), st.sampled_from([t for t in spellings.TEXTS if t]) | st.text())
def test_nothing_is_read_that_strptime_reads_otherwise(form: str, text: str):
    found = read(text, form)
    assert found is None or found == strptime(text, form)


def test_every_day_of_the_list_is_read_by_the_forms_that_strptime_reads_it_by():
    """Except where it is laxer: spaces, letters of the format in another case, digits that run
    together, digits of other scripts."""
    laxer = {"5/ 1/2020", "٥/1/2020", "05/01/2020 ", "5/1/2020\n", "5/1/2020\t", "1012020"}
    tried = 0
    for text in spellings.DAYS.split("|"):
        for form in FORMATS:
            if text not in laxer:
                assert read(text, form) == strptime(text, form), (text, form)
                tried += read(text, form) is not None
    assert tried >= 25


@settings(max_examples=300)
@given(
    st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31)),
    st.none() | st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["T", " "]),
    st.sampled_from(["auto", "minutes", "seconds", "milliseconds"]),
)
def test_a_moment_in_a_text_counts_as_its_day_in_utc(moment, offset, separator, digits):
    if offset is not None:
        zone = datetime.timezone(datetime.timedelta(minutes=offset))
        moment = moment.replace(tzinfo=zone)
    text = moment.isoformat(separator, digits)
    assert datetime.datetime.fromisoformat(text).date() == moment.date()
    in_utc = moment if offset is None else moment.astimezone(datetime.UTC)
    assert values.date_from_text(text) == in_utc.date()
    assert values.date_from_text(text.replace("+00:00", "Z")) == in_utc.date()


@settings(max_examples=300)
@given(
    st.integers(-(10**12), 10**12) | st.floats(-1e12, 1e12),
    st.sampled_from([".", ","]),
    st.sampled_from([None, *THOUSANDS]),
)
def test_a_number_is_read_as_it_was_spelled(number: float, decimal: str, thousands: str | None):
    if thousands == decimal:
        return
    form = NumberForm(decimal, thousands)
    text = form.spelled(number)
    standard = form.standard(text)
    assert standard is not None
    assert float(standard) == number
    if thousands is None:
        assert text == str(number).replace(".", decimal)
    else:
        whole = text.lstrip("-").split(decimal)[0].split("e")[0]
        groups = whole.split(thousands)
        assert [len(g) for g in groups[1:]] == [3] * (len(groups) - 1)


@settings(max_examples=300)
@given(st.sampled_from(spellings.CLOCKS), times)
def test_a_time_of_the_day_is_the_minutes_that_strptime_reads(form: str, time):
    text = time.strftime(form)
    minutes = 60 * time.hour + time.minute
    assert ClockForm(form).standard(text) == str(minutes)
    whole = datetime.time(time.hour, time.minute)
    assert ClockForm(form).spelled(minutes) == whole.strftime(form)


def test_times_of_the_list_are_read_as_strptime_reads_them_or_not_at_all():
    """It reads besides: hours without their zero before digits, other digits and spaces."""
    for form in spellings.CLOCKS:
        for text in filter(None, spellings.TEXTS):
            standard = ClockForm(form).standard(text)
            try:
                moment = datetime.datetime.strptime(text, form)
            except ValueError:
                assert standard is None, (form, text)
                continue
            assert standard in (None, str(60 * moment.hour + moment.minute)), (form, text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('format = "%H"', "no time of the day"),
        ('format = "%H:%M %p"', "no time of the day"),
        ('format = "%I:%M"', "no time of the day"),
        ('format = "%d/%m/%Y"', "`%d` in its format"),
        ('format = "%H:%M:%M"', "%M twice"),
        ('format = "%H:%M"\nthousands = ","', "both format and a spelling of numbers"),
    ],
)
def test_a_format_that_is_no_time_of_the_day_says_why(fields: str, said: str):
    with pytest.raises(SchemaError, match=re.escape(said)):
        clock(f"{fields}\nminimum = 0\nmaximum = 1439")


@pytest.mark.parametrize(
    "bounds", ["minimum = 0\nmaximum = 1440", "edges = [-1, 60]", "enum = [9999]"]
)
def test_levels_of_times_are_minutes_of_the_day(bounds: str):
    with pytest.raises(SchemaError, match="outside 0 to 1439"):
        clock(f'format = "%H:%M"\n{bounds}')
    with pytest.raises(SchemaError, match="without bounds"):
        clock('format = "%H:%M"\nbins = "private"')


def clock(fields: str) -> Schema:
    head = '[table]\nname = "t"\n[privacy]\nunit = "person"\n[[column]]\nname = "at"\n'
    return Schema.loads(f'{head}type = "integer"\n{fields}\n')


def test_times_are_labelled_asked_for_stored_and_sampled_as_times(tmp_path: Path):
    schema = clock('format = "%H:%M"\nminimum = 0\nmaximum = 1439\nbins = 24\nclamp = true')
    column = schema.column("at")
    assert column.labels[:2] == ("00:00 to 00:59", "01:00 to 01:59")
    assert column.code_of("13:59") == 13
    assert column.codes_of({"from": "08:00", "to": "09:59"}).tolist() == [8, 9]
    table = {"at": ["08:30", "23:59", "00:00"] * 100}
    release = admeasure.fit(
        table, schema, workload="all-1way", epsilon=100, delta=1e-9, mechanism=admeasure.aim()
    )
    sampled = release.sample(300, seed=1)["at"]
    assert {int(text[:2]) for text in sampled} == {0, 8, 23}
    assert check({"at": list(sampled)}, schema) == []
    found = release.mean("at")
    true = (60 * 8 + 30 + 24 * 60 - 1) / 3
    [inferred] = admeasure.infer(release, Mean("at"))
    ends = (
        (found.low, found.value, found.high),
        (inferred.noise[0], inferred.value, inferred.noise[1]),
    )
    for low, value, high in ends:
        assert low <= f"{int(true // 60):02}:{int(true % 60):02}" <= high
        assert low <= value <= high


def test_stored_times_are_read_as_their_texts_in_files_and_frames(tmp_path: Path):
    import polars

    schema = clock('format = "%H:%M:%S"\nminimum = 0\nmaximum = 1439\nbins = 24')
    at = [datetime.time(8, 30), datetime.time(8, 59, 59), datetime.time(23, 0)]
    frame = polars.DataFrame({"at": at})
    frame.write_parquet(tmp_path / "t.parquet")
    found = [
        source.counts([("at",)])[0]
        for source in (
            MemorySource(frame, schema),
            MemorySource(frame.to_pandas(), schema),
            DuckDBSource(str(tmp_path / "t.parquet"), schema),
        )
    ]
    for counts in found:
        assert (counts[8], counts[23], counts.sum()) == (2, 1, 3)
    texts = tmp_path / "last-year.csv"
    texts.write_text("at\n" + "".join(f"{h}:{m:02}\n" for h in range(24) for m in range(60)))
    public = admeasure.draft(str(tmp_path / "t.parquet"), public=texts)
    assert 'type = "integer"\nminimum = 0\nmaximum = 1439\nbins = 24\nformat = "%H:%M"\n' in public
    drafted = admeasure.draft(str(tmp_path / "t.parquet"))
    filled = Schema.loads(drafted.replace('unit = "TODO"', 'unit = "person"'))
    assert filled.column("at") == schema.column("at")


@pytest.mark.parametrize(
    ("text", "decimal", "thousands", "number"),
    [
        ("1.234,5", ",", ".", 1234.5),
        ("1.5", ",", ".", None),  # a point where three digits must follow: not fifteen
        ("1,5", ".", ",", None),
        ("1,500", ".", ",", 1500.0),
        ("12 345 678", ".", " ", 12345678.0),
        ("1'000.5", ".", "'", 1000.5),
        ("1.000.00", ",", ".", None),
        ("1.0000", ",", ".", None),
        ("-,5", ",", None, -0.5),
        ("1234,5", ",", ".", 1234.5),
        ("", ",", ".", None),
    ],
)
def test_numbers_by_hand(text: str, decimal: str, thousands: str, number: float | None):
    standard = NumberForm(decimal, thousands).standard(text)
    assert (None if standard is None else float(standard)) == number


@given(st.lists(st.text(max_size=8), max_size=8), st.text(max_size=8), st.booleans())
def test_texts_are_the_same_that_differ_in_case_alone(listed: list[str], text: str, strip: bool):
    """Letter by letter: what becomes two letters in lower case is left as it is."""
    form = LetterForm.of(listed, strip=strip, ignore_case=True)

    def plainly(one: str) -> str:
        one = one.strip(" ") if strip else one
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in one)

    for one in listed:
        assert (form.standard(one) == form.standard(text)) == (plainly(one) == plainly(text))


def assert_same_levels(source: object, frame: dict, schema: Schema) -> None:
    joints = [canonical(("row", name)) for name in schema.names if name != "row"]
    found = source.counts(joints)  # type: ignore[attr-defined]
    for joint, table, true in zip(
        joints, found, MemorySource(frame, schema).counts(joints), strict=True
    ):
        assert (table == true).all(), joint


def csv_field(value: object) -> str:
    return "" if value is None else '"' + str(value).replace('"', '""') + '"'


def test_every_spelling_has_the_level_in_a_file_that_it_has_in_memory(tmp_path: Path):
    frame, schema = spellings.frame(), spellings.schema()
    lines = [",".join(map(csv_field, row)) for row in zip(*frame.values(), strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(frame), *lines]) + "\n", encoding="utf-8", newline="")
    assert_same_levels(DuckDBSource(path, schema), frame, schema)


def date_schema(form: str) -> str:
    return f"""
[table]
name = "t"
[privacy]
unit = "person"
[[column]]
name = "seen"
type = "date"
format = "{form}"
minimum = 2020-01-01
maximum = 2020-12-31
"""


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%d/%m", "no year"),
        ("%Y-%m-%d %Y", "%Y twice"),
        ("%d/%m/%y %Y", "more than one year"),
        ("%-d/%m/%Y", "%d reads one digit"),
        ("%d/%m/%Y %Z", "`%Z`"),
        ("%d/%m/%Y%", "`%`"),
        ("[%d/%m/%Y]", "'['"),
        ("%dth%B%Y", "letters stand beside a name"),
    ],
)
def test_a_format_that_cannot_be_read_says_why(form: str, said: str):
    with pytest.raises(SchemaError, match="Column 'seen'") as caught:
        Schema.loads(date_schema(form))
    assert said in str(caught.value)


def test_a_text_of_another_form_is_refused_and_not_guessed():
    column = Schema.loads(date_schema("%d/%m/%Y")).column("seen")
    assert column.code_of("05/03/2020") == 31 + 29 + 4
    assert column.code_of(datetime.date(2020, 3, 5)) == 31 + 29 + 4
    assert column.code_of("2020-03-05") == Refusal.UNREADABLE
    assert column.code_of("03/25/2020") == Refusal.UNREADABLE


def test_a_listed_missing_text_is_read_as_the_table_spells_it():
    column = DateColumn(
        name="x",
        type="date",
        format="%d/%m/%Y",
        minimum=datetime.date(2020, 1, 1),
        maximum=datetime.date(2020, 12, 31),
        bins=12,
        missing_values=("05/03/2020",),
    )
    missing: Callable[[object], bool] = lambda v: column.code_of(v) == Refusal.MISSING  # noqa: E731
    assert missing("05/03/2020")
    assert missing("5/3/2020")
    assert missing(datetime.date(2020, 3, 5))
    assert not missing(datetime.date(2020, 5, 3))


def messy(fields: str) -> Schema:
    return Schema.loads(
        f'[table]\nname = "t"\n[privacy]\nunit = "person"\n[[column]]\nname = "x"\n{fields}\n'
    )


@pytest.mark.parametrize(
    ("fields", "value", "field"),
    [
        ('type = "date"\nminimum = 2020-01-01\nmaximum = 2020-12-31', "5/1/2020", "format"),
        ('type = "number"\nminimum = 0\nmaximum = 9\nbins = 3', "1,5", "decimal"),
        ('type = "integer"\nminimum = 0\nmaximum = 9', "1.000", "thousands"),
        ('type = "boolean"', "oui", "true_values"),
    ],
)
def test_a_wrong_spelling_is_never_answered_by_the_advice_of_other(fields, value, field):
    """That advice emptied a column, and the budget was spent."""
    frame = {"x": [value, value + "!"]}
    (problem,) = check(frame, messy(fields))
    assert field in str(problem)
    assert "other" not in str(problem)
    assert value not in str(problem)


def test_a_question_names_a_value_as_the_table_spells_it_or_by_the_standard():
    column = messy(
        'type = "date"\nformat = "%d/%m/%Y"\nminimum = 2020-01-01\nmaximum = 2020-12-31'
    ).column("x")
    expected = [31 + 29 + 4]
    for one in ("05/03/2020", "2020-03-05", datetime.date(2020, 3, 5)):
        assert column.codes_of(one).tolist() == expected
        assert column.codes_of({"from": one, "to": one}).tolist() == expected
    member = messy('type = "boolean"\ntrue_values = ["Yes"]\nfalse_values = ["No"]').column("x")
    for one in ("Yes", "true", "1", True):
        assert member.codes_of(one).tolist() == [1]
    amount = messy('type = "integer"\nminimum = 0\nmaximum = 2000\nthousands = "."').column("x")
    for one in ("1.234", "1234", 1234):
        assert amount.codes_of(one).tolist() == [1234]


def test_a_schema_with_spellings_comes_back_from_its_file():
    schema = spellings.schema()
    assert Schema.loads(schema.dumps()) == schema
