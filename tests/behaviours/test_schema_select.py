"""Selections: which levels a value, a list or a range stands for, and structural zeros."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import SchemaError
from admeasure.schema import Schema

HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
AGE = '[[column]]\nname = "age"\ntype = "integer"\nminimum = 0\nmaximum = 99\nbins = 10\n'
SEX = '[[column]]\nname = "sex"\ntype = "string"\nenum = ["F", "M"]\nmissing_values = ["?"]\n'


def column(fields: str):
    return Schema.loads(f'{HEAD}[[column]]\nname = "x"\n{fields}\n').column("x")


def refused(fields: str, selection: object) -> str:
    with pytest.raises(SchemaError) as caught:
        column(fields).codes_of(selection)
    assert "\n" not in str(caught.value)
    return str(caught.value)


TENS = 'type = "integer"\nminimum = 0\nmaximum = 99\nbins = 10'
SINGLE = 'type = "integer"\nminimum = 0\nmaximum = 9\nmissing_values = ["-9"]\nother = true'
REAL = 'type = "number"\nminimum = 0\nmaximum = 1\nbins = 10'
WORDS = 'type = "string"\nenum = ["Private", "State-gov"]\nmissing_values = ["?"]\nother = true'
MONTHS = 'type = "date"\nedges = [2020-01-01, 2020-02-01, 2020-03-01]\nclamp = true'


@pytest.mark.parametrize(
    ("fields", "selection", "expected"),
    [
        (SINGLE, 3, [3]),
        (SINGLE, "3", [3]),
        (SINGLE, [5, 3, 3], [3, 5]),
        (SINGLE, {"from": 3, "to": 5}, [3, 4, 5]),
        (SINGLE, {"from": 8}, [8, 9]),
        (SINGLE, {"to": 1}, [0, 1]),
        (SINGLE, {"from": -50, "to": 50}, list(range(10))),
        (SINGLE, [1, {"from": 8}, {"level": "other"}], [1, 8, 9, 10]),
        (SINGLE, {"level": "missing"}, [11]),
        (SINGLE, -9, [11]),
        (TENS, {"from": 20, "to": 39}, [2, 3]),
        (TENS, {"from": 20, "to": 200}, list(range(2, 10))),
        ('type = "integer"\nenum = [5, 7]', [7, 5], [0, 1]),
        (REAL, {"from": 0.3, "to": 0.6}, [3, 4, 5]),
        (REAL, {"to": 0.7}, list(range(7))),
        (REAL, {"from": 0.9, "to": 1}, [9]),
        (WORDS, "State-gov", [1]),
        (WORDS, "?", [3]),
        (WORDS, ["Private", {"level": "other"}], [0, 2]),
        ('type = "boolean"', True, [1]),
        ('type = "boolean"', ["false", 1], [0, 1]),
        (MONTHS, {"from": datetime.date(2020, 1, 1), "to": "2020-01-31"}, [0]),
        (MONTHS, {"from": "2020-02-01"}, [1]),
    ],
)
def test_a_selection_stands_for_whole_levels(fields, selection, expected):
    found = column(fields).codes_of(selection)
    assert found.tolist() == expected
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("fields", "selection", "message"),
    [
        (TENS, 25, "a value that takes only a part of the bin 20 to 29"),
        (TENS, {"from": 20, "to": 35}, "a range that takes only a part of the bin 30 to 39"),
        (REAL, 0.25, "a value that takes only a part of the bin [0.2, 0.3)"),
        (REAL, {"from": 0.25, "to": 0.5}, "only a part of the bin [0.2, 0.3)"),
        (REAL, {"from": 2, "to": 3}, "a range that holds no level"),
        (SINGLE, 10, "the value 10. It is outside [0, 9]"),
        (SINGLE, 2.5, "the value 2.5"),
        (SINGLE, {"from": 5, "to": 3}, "a range that is empty"),
        (SINGLE, {"from": "x"}, "the end 'x' of a range"),
        (SINGLE, {"form": 3}, "a table it cannot read"),
        (SINGLE, {}, "a table it cannot read"),
        (SINGLE, "3..5", "Write a range as { from = 3, to = 5 }"),
        (REAL, "0.2 to 0.5", "Write a range as { from = 0.2, to = 0.5 }"),
        (SINGLE, "three", "It is not a level of this column, whose type is integer"),
        (SINGLE, [], "an empty list"),
        (SINGLE, {"level": "rest"}, "the level 'rest'"),
        (TENS, {"level": "other"}, "which it does not have. Declare `other = true`"),
        (TENS, {"level": "missing"}, "Declare `missing_values = […]`"),
        (MONTHS, "2020-01-15", "only a part of the bin 2020-01-01 to 2020-01-31"),
        (MONTHS, "2021-01-01", "a value that holds no level"),
        (WORDS, "private", "did you mean 'Private'?"),
        (WORDS, {"from": "A"}, "Type string takes a value or a list"),
        ('type = "boolean"', "maybe", "the value 'maybe'"),
    ],
)
def test_a_selection_of_anything_else_is_refused_with_public_words(fields, selection, message):
    said = refused(fields, selection)
    assert message in said
    assert said.startswith("Column 'x'")
    assert said[-1] in ".?"
    assert said[-2] not in ".?"


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-50, 50), st.integers(1, 60), st.integers(1, 60), st.integers(-70, 130), st.data()
)
def test_a_range_of_integers_is_covered_or_refused_as_brute_force_says(
    low, span, bins, start, data
):
    bins = min(bins, span)
    end = data.draw(st.integers(start, 140))
    x = column(f'type = "integer"\nminimum = {low}\nmaximum = {low + span - 1}\nbins = {bins}')
    code = {v: (v - low) * bins // span for v in range(low, low + span)}
    inside = {v for v in code if start <= v <= end}
    touched = {code[v] for v in inside}
    whole = all(v in inside for v in code if code[v] in touched)
    if touched and whole:
        assert x.codes_of({"from": start, "to": end}).tolist() == sorted(touched)
    else:
        with pytest.raises(SchemaError):
            x.codes_of({"from": start, "to": end})


def test_a_zero_is_the_product_of_its_selections_in_canonical_order():
    schema = Schema.loads(
        HEAD
        + SEX
        + AGE
        + '[[zero]]\ncolumns = ["sex", "age"]\n'
        + 'where = {sex = ["M", {level = "missing"}], age = {to = 19}}\n'
    )
    (zero,) = schema.zeros
    assert zero.columns == ("age", "sex")
    expected = np.zeros((10, 3), dtype=bool)
    expected[:2, 1:] = True
    assert (zero.mask == expected).all()
    assert not zero.mask.flags.writeable


@pytest.mark.parametrize(
    ("zero", "message"),
    [
        ('columns = ["age"]\nwhere = {age = {to = 5}}', "only a part of the bin 0 to 9"),
        ('columns = ["aeg"]\nwhere = {aeg = 5}', "no column 'aeg'. Did you mean 'age'?"),
        ('columns = ["age", "sex"]\nwhere = {age = {to = 9}}', "does not give each of its columns"),
        ('columns = ["age"]\nwhere = {age = {to = 9}, sex = "F"}', "does not give each"),
        ('columns = ["sex", "sex"]\nwhere = {sex = "F"}', "names a column twice"),
        ('columns = ["age"]\nwhere = {age = {to = 99}}', "rules out every combination"),
        ('columns = "age"\nwhere = {age = 5}', "must be a list"),
    ],
)
def test_a_zero_that_makes_no_sense_is_refused(zero: str, message: str):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(f"{HEAD}{AGE}{SEX}[[zero]]\n{zero}\n")
    assert message in str(caught.value)
