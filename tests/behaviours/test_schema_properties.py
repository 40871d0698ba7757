"""Properties of encoding and decoding, over random columns and values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.schema import Refusal, Schema, encode_frame
from admeasure.schema.categorical import BooleanColumn, StringColumn
from admeasure.schema.column import Column
from admeasure.schema.days import DateColumn
from admeasure.schema.decode import decode
from admeasure.schema.encode import marks
from admeasure.schema.frames import stored_array
from admeasure.schema.model import Privacy, Table
from admeasure.schema.ordered import IntegerColumn, NumberColumn

EPOCH = datetime.date(1970, 1, 1)
ROUGH = st.integers(-40, 40)


def schema_of(column: Column) -> Schema:
    return Schema(table=Table(name="t"), privacy=Privacy(unit="p"), columns=(column,))  # type: ignore[arg-type]


@st.composite
def integer_columns(draw: st.DrawFn) -> IntegerColumn:
    form = draw(st.sampled_from(["single", "bins", "edges", "enum"]))
    base = {"name": "x", "type": "integer", "missing_values": ("-99",)}
    if form == "enum":
        enum = draw(st.lists(ROUGH, min_size=1, max_size=9, unique=True))
        return IntegerColumn(**base, enum=tuple(enum))
    clamp = draw(st.booleans())
    if form == "edges":
        edges = draw(st.lists(ROUGH, min_size=2, max_size=9, unique=True))
        return IntegerColumn(**base, edges=tuple(sorted(edges)), clamp=clamp)
    low, span = draw(ROUGH), draw(st.sampled_from([1, 2, 7, 60, 10**6, 2**52]))
    limit = min(span, 900)
    bins = draw(st.integers(1, limit)) if form == "bins" or span > 900 else None
    return IntegerColumn(**base, minimum=low, maximum=low + span - 1, bins=bins, clamp=clamp)


@st.composite
def number_columns(draw: st.DrawFn) -> NumberColumn:
    base = {"name": "x", "type": "number", "missing_values": ("-99",)}
    clamp = draw(st.booleans())
    if draw(st.booleans()):
        edges = draw(st.lists(ROUGH.map(lambda v: v / 8), min_size=2, max_size=9, unique=True))
        return NumberColumn(**base, edges=tuple(sorted(edges)), clamp=clamp)
    low = draw(st.floats(-40, 40))
    high = low + draw(st.floats(0.001, 1e6))
    return NumberColumn(
        **base, minimum=low, maximum=high, bins=draw(st.integers(1, 400)), clamp=clamp
    )


@st.composite
def date_columns(draw: st.DrawFn) -> DateColumn:
    base = {"name": "x", "type": "date", "missing_values": ("1890-01-01",)}
    low = draw(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)))
    span = draw(st.integers(1, 20_000))
    bins = draw(st.none() | st.integers(1, min(span, 500)))
    return DateColumn(**base, minimum=low, maximum=low + datetime.timedelta(span - 1), bins=bins)


def string_columns() -> st.SearchStrategy[StringColumn]:
    texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
    entry = texts | ROUGH.map(str) | ROUGH.map(lambda v: str(v / 2))
    return st.lists(entry, min_size=1, max_size=9, unique=True).map(
        lambda enum: StringColumn(
            name="x", type="string", missing_values=("never listed",), enum=tuple(enum)
        )
    )


def boolean_columns() -> st.SearchStrategy[BooleanColumn]:
    return st.just(BooleanColumn(name="x", type="boolean", missing_values=()))


ANY = st.one_of(
    integer_columns(), number_columns(), date_columns(), string_columns(), boolean_columns()
)


@settings(max_examples=300, deadline=None)
@given(ANY, st.integers(0, 2**32 - 1))
def test_encoding_undoes_decoding_on_every_level_but_other(column: Column, seed: int):
    rng = np.random.default_rng(seed)
    every = np.arange(column.levels).repeat(3)
    schema = schema_of(column)
    values = decode(schema, {"x": every}, rng)
    assert encode_frame(values, schema)["x"].tolist() == every.tolist()


@settings(max_examples=100, deadline=None)
@given(ANY, st.integers(0, 2**32 - 1))
def test_decoding_survives_a_frame_and_its_types(column: Column, seed: int):
    from admeasure.schema import to_frame

    every = np.arange(column.levels).repeat(2)
    schema = schema_of(column)
    values = decode(schema, {"x": every}, np.random.default_rng(seed))
    frame = to_frame(values, pl.DataFrame())
    assert isinstance(frame, pl.DataFrame)
    assert encode_frame(frame, schema)["x"].tolist() == every.tolist()


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**52), 2**52), st.integers(1, 2**52), st.data())
def test_equal_bins_of_integers_follow_the_formula_exactly(low: int, span: int, data):
    bins = data.draw(st.integers(1, min(span, 5000)))
    high = min(low + span - 1, 2**53)
    span = high - low + 1
    values = data.draw(st.lists(st.integers(low, high), min_size=1))
    column = IntegerColumn(name="x", type="integer", minimum=low, maximum=high, bins=bins)
    found = encode_frame({"x": np.array(values)}, schema_of(column))["x"].tolist()
    assert found == [((v - low) * bins) // span for v in values]


@settings(max_examples=200, deadline=None)
@given(number_columns(), st.lists(st.floats(0, 1), min_size=1))
def test_bins_of_numbers_follow_the_formula(column: NumberColumn, where: list[float]):
    low, high = column.grid.low, column.grid.high
    values = [min(max(low + u * (high - low), low), high) for u in where] + [low, high]
    found = encode_frame({"x": values}, schema_of(column))["x"].tolist()
    if column.edges is None:
        assert column.bins is not None
        width = (high - low) / column.bins
        expected = [min(math.floor((v - low) / width), column.bins - 1) for v in values]
    else:
        inner = column.edges[1:-1]
        expected = [sum(Fraction(e) <= Fraction(v) for e in inner) for v in values]
    assert found == expected


numbers = (
    ROUGH
    | st.sampled_from([-99, 2**63 - 1, -(2**63), 2**53, 10**6, 2**52 - 1])
    | st.integers(-(2**63), 2**63 - 1)
)
floats = st.floats() | ROUGH.map(float) | ROUGH.map(lambda v: v / 8) | st.just(-99.0)
days = st.dates(datetime.date(1800, 1, 1), datetime.date(2200, 1, 1))


@settings(max_examples=300, deadline=None)
@given(
    ANY,
    st.one_of(
        st.lists(numbers).map(lambda v: np.array(v, dtype=np.int64)),
        st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40)).map(
            lambda v: np.array(v, dtype=np.uint64)
        ),
        st.lists(ROUGH).map(lambda v: np.array(v, dtype=np.int8)),
        st.lists(floats).map(lambda v: np.array(v, dtype=np.float64)),
        st.lists(ROUGH).map(lambda v: np.array(v, dtype=np.float32) / 4),
        st.lists(st.booleans()).map(lambda v: np.array(v, dtype=bool)),
        st.lists(days).map(lambda v: np.array(v, dtype="datetime64[D]")),
        st.lists(st.datetimes()).map(lambda v: np.array(v, dtype="datetime64[us]")),
    ),
)
def test_whole_arrays_are_read_as_their_single_values_are(column: Column, values: np.ndarray):
    found = marks(column, stored_array(values))
    assert found.tolist() == [column.code_of(v) for v in values]


texts = (
    st.text(max_size=5)
    | ROUGH.map(str)
    | st.floats().map(str)
    | days.map(str)
    | st.from_regex(r"[ ]?[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?[ ]?", fullmatch=True)
    | st.sampled_from(["true", "FALSE", "-99", " -99.0 ", "", " ", "nan", "1890-01-01"])
)


@settings(max_examples=300, deadline=None)
@given(ANY, st.lists(texts | st.none()), st.booleans())
def test_texts_are_read_or_refused_and_never_crash(column: Column, values: list, other: bool):
    column = type(column).model_validate({**column.model_dump(), "other": other})
    found = marks(column, stored_array(values))
    assert found.tolist() == [column.code_of(v) for v in values]
    assert all(m in set(Refusal) or 0 <= m < column.regular for m in found.tolist())
    if other:
        codes = encode_frame({"x": values}, schema_of(column))["x"]
        assert [int(c) == column.other_code for c in codes] == [m < -1 for m in found.tolist()]


@settings(max_examples=200, deadline=None)
@given(integer_columns() | number_columns(), ROUGH)
def test_a_number_means_the_same_in_every_storage(column: Column, value: int):
    forms = [value, float(value), Decimal(value), str(value), f"{value}.0", np.int16(value)]
    assert len({column.code_of(form) for form in forms}) == 1


def test_draws_fall_everywhere_in_a_bin():
    """Each of ten whole numbers has probability 1/10, 2,000 draws: one is absent with probability
    below 10 * 0.9**2000 < 1e-90."""
    column = IntegerColumn(name="x", type="integer", minimum=0, maximum=19, bins=2)
    drawn = decode(
        schema_of(column), {"x": np.ones(2000, dtype=np.uint8)}, np.random.default_rng(1)
    )
    assert set(drawn["x"].tolist()) == set(range(10, 20))


def test_a_missing_value_inside_a_bin_is_never_drawn():
    column = IntegerColumn(
        name="x", type="integer", minimum=0, maximum=3, bins=2, missing_values=("1", "2")
    )
    drawn = decode(schema_of(column), {"x": np.arange(2).repeat(50)}, np.random.default_rng(1))
    assert drawn["x"].tolist() == [0] * 50 + [3] * 50


def test_other_decodes_to_a_word_in_texts_and_to_nothing_elsewhere():
    text = StringColumn(name="x", type="string", enum=("a",), other=True, missing_values=())
    number = NumberColumn(name="x", type="number", edges=(0.0, 1.0), other=True)
    rng = np.random.default_rng(0)
    assert decode(schema_of(text), {"x": np.arange(3)}, rng)["x"].tolist() == ["a", "other", None]
    assert decode(schema_of(number), {"x": np.array([1])}, rng)["x"].tolist() == [None]


def test_decoding_gives_python_dates_and_plain_storage():
    rng = np.random.default_rng(0)
    day = DateColumn(name="x", type="date", minimum=EPOCH, maximum=EPOCH)
    assert (
        decode(schema_of(day), {"x": np.zeros(2, dtype=np.uint8)}, rng)["x"].tolist() == [EPOCH] * 2
    )
    flag = decode(schema_of(BooleanColumn(name="x", type="boolean")), {"x": np.array([1, 0])}, rng)
    assert flag["x"].dtype == bool
    coded = Schema.coded("t", {"a": 3, "b": 2})
    both = coded.decode({"b": np.array([1]), "a": np.array([2])}, rng)
    assert list(both) == ["a", "b"]
    assert both["a"].dtype == np.int64


def test_codes_outside_the_levels_are_not_decoded():
    with pytest.raises(ValueError, match="outside 0 … 2"):
        Schema.coded("t", {"a": 3}).decode({"a": np.array([3])}, np.random.default_rng(0))


def test_a_changed_copy_of_a_schema_protects_whom_the_copy_names():
    """What was derived before the copy must not outlive the fields that it came from."""
    schema = Schema.coded("people", {"a": 2, "b": 3})
    assert schema.unit.neighbours.value == "add-remove"
    assert schema.domain.columns == ("a", "b")
    privacy = schema.privacy.model_copy(update={"neighbours": "replace", "max_rows_per_unit": 3})
    changed = schema.model_copy(update={"privacy": privacy, "columns": schema.columns[:1]})
    assert (changed.unit.neighbours.value, changed.unit.max_rows) == ("replace", 3)
    assert changed.domain.columns == changed.names == ("a",)
