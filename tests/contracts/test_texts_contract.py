"""What every source says of the texts of a column whose levels are sought (`OpenTable.texts`).

Expected counts come from a loop over the rows, in plain Python.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admeasure.errors import DataError
from admeasure.schema import Schema
from admeasure.sources import Source
from admeasure.sources.open import open_to_buy
from admeasure.sources.texts import OpenTable, texts_of
from factories import sources

Values = dict[str, list[Any]]
Make = Callable[[Values, Schema], Source]

TEXT = """
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "drug"
type = "string"
enum = "private"
missing_values = ["?", "n'a"]
[[column]]
name = "member"
type = "boolean"
"""
PLAIN = Schema.loads(TEXT)
UNITS = Schema.loads(
    TEXT.replace('unit = "person"', 'unit = "person"\nunit_column = "id"\nmax_rows_per_unit = 2', 1)
)
FOLDED = Schema.loads(
    UNITS.dumps().replace('enum = "private"', 'enum = "private"\nstrip = true\nignore_case = true')
)
TEXTS = [
    "flu",
    "Flu",
    "FLU ",
    "\tflu",
    "É",
    "\u0130",
    "\u212a",
    "\U00010400",
    "\u1e9e",
    "N'A",
    "é",
    "e\u0301",
    "it's",
    'a "b"',
    "a|b",
    " flu",
    "日本",
    "😀",
    "?",
    "n'a",
    None,
]


def is_slow(one: Any) -> bool:
    return any(mark.name == "spark" for mark in one.marks)


@pytest.fixture(params=sources())
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda values, schema: request.param(values, schema, tmp_path)


@pytest.fixture(params=[one for one in sources() if not is_slow(one)])
def make_soon(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda values, schema: request.param(values, schema, tmp_path)


def people(count: int, *, whole: bool = False) -> Values:
    rng = np.random.default_rng(count)
    texts: list[Any] = [*TEXTS, "x" * 128, "x" * 129, *(f"t{i}" for i in range(20))]
    picked = rng.integers(0, len(texts), count)
    return {
        "drug": [int(i) for i in picked] if whole else [texts[i] for i in picked],
        "member": [bool(b) for b in rng.integers(0, 2, count)],
        "id": [f"p{i}" for i in rng.integers(0, count // 5 + 1, count)],
    }


def expected(values: Values, schema: Schema) -> list[tuple[str, int]]:
    """By the words of `OpenTable.texts`."""
    held = defaultdict(set)
    for row, (drug, person) in enumerate(zip(values["drug"], values["id"], strict=True)):
        text = None if drug is None else str(drug)
        if text is not None and schema is FOLDED:
            text = "".join(t.lower() if len(t.lower()) == 1 else t for t in text.strip(" "))
        if text is not None and text not in ("?", "n'a") and len(text) <= 128:
            held[row if schema is PLAIN else person].add(text)
    counted: Counter[str] = Counter()
    for unit, texts in held.items():

        def place(text: str, unit: Any = unit) -> tuple[str, bytes]:
            return hashlib.md5(f"{unit}|{text}".encode()).hexdigest(), text.encode()

        most = schema.privacy.max_rows_per_unit
        counted.update(sorted(texts, key=place)[:most])
    return sorted(counted.items(), key=lambda pair: pair[0].encode())


def found(source: Source, values: Values) -> list[tuple[str, int]]:
    blocks = list(texts_of(source, values, ["drug"])("drug"))
    return [(text, int(n)) for b in blocks for text, n in zip(b.texts, b.counts, strict=True)]


def test_texts_are_counted_by_the_units_that_hold_them(make: Make):
    values = people(400)
    source = make(values, UNITS.as_read)
    assert found(source, values) == expected(values, UNITS)
    source.close()


def test_texts_that_are_the_same_but_for_spaces_and_case_are_one(make: Make):
    """A unit that spells a text in several ways holds it once, and has room for another."""
    values = people(400)
    source = make(values, FOLDED.as_read)
    assert found(source, values) == expected(values, FOLDED)
    source.close()


@pytest.mark.parametrize("whole", [False, True])
def test_without_units_texts_are_counted_by_rows_and_numbers_are_their_digits(
    make_soon: Make, whole: bool
):
    values = people(200, whole=whole)
    source = make_soon(values, PLAIN.as_read)
    assert found(source, values) == expected(values, PLAIN)
    source.close()


@pytest.mark.parametrize("kind", ["memory-lists", "parquet", "postgres"])
def test_a_column_of_fractions_has_no_texts(kind: str, tmp_path: Path):
    values = {**people(5), "drug": [0.5, 1.5, 2.5, 0.25, 1.0]}
    (factory,) = (one.values[0] for one in sources() if one.id == kind)
    source = factory(values, PLAIN.as_read, tmp_path)
    with pytest.raises(DataError, match="cannot be found"):
        texts_of(source, values, ["drug"])
    source.close()


def test_a_table_is_read_again_by_the_levels_that_were_found(tmp_path: Path):
    values = people(300)
    source = open_to_buy(values, UNITS)
    assert isinstance(source, OpenTable)
    (before,) = source.counts([("drug",)])
    assert before.tolist()[0] + before.tolist()[1] == before.sum()
    column = UNITS.column("drug").model_copy(update={"enum": ("flu", "é"), "other": True})
    again = source.by(UNITS.with_columns({"drug": column}))
    (after,) = again.counts([("drug",)])
    assert after.shape == (4,)
    assert after.sum() == before.sum()
    assert after[3] <= before[1] + 300
    source.close()
