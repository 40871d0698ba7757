"""The encoder pushed down to PostgreSQL and the in-memory encoder give every value the same level
or the same refusal.

As for files (tests/behaviours/test_duckdb_agreement.py, whose schemas and values are used): each
table has a column `row` of distinct codes, so that the marginal of `row` and a column shows the
level of every single value.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import spellings
from admeasure.domain import canonical
from admeasure.errors import DataError
from admeasure.schema.check import check
from admeasure.schema.grid import RealGrid
from admeasure.schema.model import Schema
from admeasure.sources.memory import MemorySource
from admeasure.sources.warehouse.source import find_problems, open_warehouse

ROWS = 24
many = settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)


def assert_agreement(
    frame: dict[str, list], schema: Schema, url: str, schema_of: Callable[..., Schema]
) -> None:
    expected = check(frame, schema)
    assert {str(p) for p in find_problems(url, schema)} == {str(p) for p in expected}
    if expected:
        with pytest.raises(DataError) as caught:
            open_warehouse(url, schema)
        assert all(str(p) in str(caught.value) for p in expected)
    refused = {p.column for p in expected}
    schema = schema_of(*(c for c in schema.columns if c.name not in refused | {"row"}))
    marginals = [canonical(("row", name)) for name in schema.names]
    found = open_warehouse(url, schema).counts(marginals)
    true = MemorySource(frame, schema).counts(marginals)
    for marginal, array, expected_array in zip(marginals, found, true, strict=True):
        assert (array == expected_array).all(), marginal


def storable(text: str | None) -> str | None:
    """PostgreSQL's texts hold no NUL."""
    return None if text is None else text.replace("\0", "0")


@pytest.mark.slow
@many
@given(data=st.data())
def test_texts_get_the_levels_they_have_in_memory(
    data: st.DataObject, server: Any, fuzz: ModuleType, make_table: Callable[..., str]
) -> None:
    schema = fuzz.schema_of(*(data.draw(fuzz.columns(name)) for name in "abc"))
    size = data.draw(st.integers(1, ROWS))
    frame: dict[str, list] = {"row": [str(i) for i in range(size)]}
    types = [("row", "text")]
    for name in "abc":
        kind = data.draw(st.sampled_from(["text", "varchar", "citext", "char(9)", "text"]))
        drawn = data.draw(st.lists(st.none() | fuzz.wild_texts, min_size=size, max_size=size))
        texts = [storable(v) for v in drawn]
        if kind == "char(9)":  # the padding is no part of a value, so neither are spaces at its end
            texts = [None if v is None else v[:9].rstrip(" ") for v in texts]
        frame[name] = texts
        types.append((name, kind))
    table = make_table(types, list(zip(*frame.values(), strict=True)))
    assert_agreement(frame, schema, server.url(table), fuzz.schema_of)


def test_every_spelling_gets_the_level_it_has_in_memory(
    server: Any, make_table: Callable[..., str], fuzz: ModuleType
) -> None:
    frame, schema = spellings.frame(), spellings.schema()
    types = [(name, "integer" if name == "row" else "text") for name in frame]
    table = make_table(types, list(zip(*frame.values(), strict=True)))
    assert_agreement(frame, schema, server.url(table), lambda *_: schema)


NUMERICS = [Decimal(x) for x in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400")]
EDGES = [
    *(Decimal(2**1024 - 2**970), Decimal(2**1024 - 2**970 - 1), Decimal(2**1024)),
    *(Decimal("4.9e-324"), Decimal("2.4e-324"), Decimal("2.5e-324"), Decimal("-2.4e-324")),
    *(Decimal(2**63), Decimal(-(2**63)), Decimal(2**63 - 1), Decimal("0.1"), Decimal("1e-7")),
]


def kinds(fuzz: ModuleType) -> list[tuple[str, st.SearchStrategy]]:
    decimals = fuzz.decimals(38, 10) | st.sampled_from(NUMERICS + EDGES)
    return [
        ("text", fuzz.wild_texts.map(storable)),
        ("boolean", st.booleans()),
        ("smallint", st.integers(-(2**15), 2**15 - 1) | st.integers(-12, 12)),
        ("integer", st.integers(-(2**31), 2**31 - 1) | st.integers(-12, 12)),
        ("bigint", st.integers(-(2**63), 2**63 - 1) | st.integers(-12, 12)),
        ("real", st.floats(width=32) | st.integers(-12, 12).map(float)),
        ("float8", st.floats() | fuzz.small_reals | st.integers(-24, 24).map(lambda i: i / 2)),
        ("numeric(6, 2)", fuzz.decimals(6, 2)),
        ("numeric", decimals | st.integers(-12, 12).map(Decimal)),
        ("date", fuzz.days | st.dates()),
        ("timestamp", fuzz.moments | st.datetimes()),
        ("timestamptz", fuzz.moments.map(lambda m: m.replace(tzinfo=datetime.UTC))),
        ("time", st.times()),
        ("bytea", st.binary(max_size=4)),
        ("integer[]", st.lists(st.integers(0, 3), max_size=2)),
    ]


@pytest.mark.slow
@many
@given(data=st.data())
def test_values_of_every_type_get_the_levels_they_have_in_memory(
    data: st.DataObject, server: Any, fuzz: ModuleType, make_table: Callable[..., str]
) -> None:
    schema = fuzz.schema_of(*(data.draw(fuzz.columns(name)) for name in "abc"))
    size = data.draw(st.integers(1, ROWS))
    frame: dict[str, list] = {"row": list(range(size))}
    types = [("row", "integer")]
    for name in "abc":
        kind, values = data.draw(st.sampled_from(kinds(fuzz)))
        frame[name] = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
        types.append((name, kind))
    table = make_table(types, list(zip(*frame.values(), strict=True)))
    assert_agreement(frame, schema, server.url(table), fuzz.schema_of)


@given(st.floats(-1e300, 1e300), st.floats(0, 1e300), st.integers(1, 300), st.data())
@settings(max_examples=200)
def test_comparing_with_the_starts_of_a_grid_is_placing(
    low: float, span: float, bins: int, data: st.DataObject
) -> None:
    high = low + span
    if not low < high or not (grid := RealGrid.equal(low, high, bins, clamp=False)).is_resolved:
        return
    starts = grid.starts
    inside = np.array([low, high, *data.draw(st.lists(st.floats(low, high), max_size=5))])
    around = np.concatenate([starts, np.nextafter(starts, -np.inf), inside])
    tried = around[(around >= low) & (around <= high)]
    placed = np.searchsorted(starts, tried, side="right") - 1
    assert (placed == grid.place_all(tried)).all()


LONG_TEXTS = [
    *(
        "1" * 50_000,
        "0." + "0" * 40_000 + "1",
        "1" + "0" * 400 + "e-400",
        "0." + "0" * 400 + "1e401",
    ),
    *(
        "1e99999999999999999999",
        "-1e99999999999999999999",
        "1e-99999999999999999999",
        "0e99999999999",
    ),
    *("1.7976931348623158e308", "1.7976931348623159e308", "-1.797693134862315908e308"),
    *("2.4703282292062327e-324", "2.4703282292062328e-324", "5e-324", "-5e-324", "2e-308"),
    *("0" * 70_000 + "3", "1." + "0" * 70_000, "9" * 45),
]


def test_texts_of_numbers_far_beyond_doubles_are_read_and_fail_nothing(
    server: Any, make_table: Callable[..., str], fuzz: ModuleType
) -> None:
    schema = fuzz.schema_of(
        fuzz.NumberColumn(
            name="a",
            type="number",
            edges=(-1.7e308, -1.0, -5e-324, 0.0, 5e-324, 1e-323, 1.0, 3.5, 1.7976931348623157e308),
            other=True,
        ),
        fuzz.IntegerColumn(name="b", type="integer", minimum=0, maximum=9, other=True),
        fuzz.StringColumn(name="c", type="string", enum=("1", "3"), other=True),
    )
    texts = [text for text in LONG_TEXTS if len(text) < 200_000]
    frame = {"row": list(range(len(texts))), "a": texts, "b": texts, "c": texts}
    types = [("row", "integer"), ("a", "text"), ("b", "text"), ("c", "text")]
    table = make_table(types, list(zip(*frame.values(), strict=True)))
    assert_agreement(frame, schema, server.url(table), fuzz.schema_of)
