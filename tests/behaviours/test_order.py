"""Columns in an order, and conditions of which one holds: exact in rows and in answers."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.errors import SchemaError
from admeasure.schema import Schema
from admeasure.schema.zeros import level_ends
from admeasure.verbs.check import check

HEAD = '[table]\nname = "visits"\n[privacy]\nunit = "person"\n'
DAY = datetime.date(2024, 1, 1)


def column(name: str, kind: str, edges: list, more: str = "") -> str:
    return f'[[column]]\nname = "{name}"\ntype = "{kind}"\nedges = {edges}\n{more}\n'


def order(*names: str) -> str:
    return f"[[order]]\ncolumns = {list(names)}\n"


def written(kind: str, edges: list[int]) -> list:
    """Edges in the type's own values; days without quotes, as TOML has them."""
    if kind == "number":
        return [e / 3 for e in edges]
    return edges if kind == "integer" else [str(DAY + datetime.timedelta(e)) for e in edges]


def edges() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True).map(sorted)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["integer", "number", "date"]),
    st.lists(edges(), min_size=3, max_size=3),
    st.integers(0, 2**32),
)
def test_rows_of_possible_levels_get_values_of_their_levels_that_ascend(kind, three, seed):
    names = "abc"
    text = HEAD + "".join(
        column(n, kind, written(kind, e), "missing_values = []")
        for n, e in zip(names, three, strict=True)
    )
    schema = Schema.loads(text)
    ends = [level_ends(schema.column(n)) for n in names]
    lows, tops = [e[0][0] for e in ends], [e[1][-1] for e in ends]
    if lows[0] > min(tops[1:]) or lows[1] > tops[2]:
        with pytest.raises(SchemaError, match="can never hold"):
            Schema.loads(text + order("a", "b") + order("b", "c"))
        return
    schema = Schema.loads(text + order("a", "b") + order("b", "c"))
    shape = schema.domain.shape(names)
    possible = np.ones(shape, bool)
    for zero in schema.zeros:
        axes = [shape[i] if n in zero.columns else 1 for i, n in enumerate(names)]
        possible &= ~zero.mask.reshape(axes)
    codes = dict(zip(names, np.nonzero(possible), strict=True))
    rows = schema.decode(codes, np.random.default_rng(seed))
    for n in names:
        found = [schema.column(n).code_of(v) for v in rows[n]]
        regular = codes[n] < schema.column(n).regular
        assert np.array_equal(np.array(found)[regular], codes[n][regular])
        assert all(v is None for v in rows[n][~regular])
    for a, b in (("a", "b"), ("b", "c"), ("a", "c")):
        for x, y in zip(rows[a], rows[b], strict=True):
            assert x is None or y is None or x <= y


@pytest.mark.parametrize("more", ["", "decimals = 2", "decimals = 0"])
def test_numbers_ascend_where_rounding_would_put_one_past_the_next(more):
    # Levels that share so little that only the least values ascend.
    text = HEAD + column("a", "number", [0.0026, 1e6], more) + column("b", "number", [0.0, 0.0031])
    schema = Schema.loads(text + order("a", "b"))
    rows = schema.decode(dict.fromkeys("ab", np.zeros(20, int)), np.random.default_rng(0))
    assert all(0.0026 <= x <= y <= 0.0031 for x, y in zip(rows["a"], rows["b"], strict=True))


@settings(max_examples=60, deadline=None)
@given(edges(), edges())
def test_a_pair_of_levels_is_ruled_out_if_no_two_values_ascend(first, second):
    """Against every pair of whole numbers."""
    text = HEAD + column("b", "integer", first) + column("a", "integer", second)
    ends = range(first[0], first[-1] + 1), range(second[0], second[-1] + 1)
    schema = Schema.loads(text)
    expected = np.ones(schema.domain.shape(("a", "b")), bool)
    for x, y in itertools.product(*ends):
        if x <= y:
            expected[schema.column("a").code_of(y), schema.column("b").code_of(x)] = False
    if expected.all():
        with pytest.raises(SchemaError, match="can never hold"):
            Schema.loads(text + order("b", "a"))
        return
    found = Schema.loads(text + order("b", "a")).zeros
    assert sum(zero.mask.sum() for zero in found) == expected.sum()
    assert all((zero.mask == expected).all() for zero in found)


def after(days: int) -> datetime.date:
    return DAY + datetime.timedelta(days)


def visits(count: int) -> dict[str, list]:
    rng = np.random.default_rng(5)
    start = rng.integers(0, 300, count)
    days = [start, start + rng.integers(0, 40, count), start + rng.integers(40, 60, count)]
    smokes = rng.random(count) < 0.5
    return {
        **{n: [after(int(d)) for d in row] for n, row in zip("abc", days, strict=True)},
        "smokes": smokes.tolist(),
        "drinks": (~smokes | (rng.random(count) < 0.2)).tolist(),
    }


VISITS = (
    HEAD
    + "".join(
        f'[[column]]\nname = "{n}"\ntype = "date"\nminimum = {DAY}\n'
        f"maximum = {DAY + datetime.timedelta(365)}\nbins = {bins}\n"
        for n, bins in zip("abc", (6, 5, 4), strict=True)
    )
    + "".join(f'[[column]]\nname = "{n}"\ntype = "boolean"\n' for n in ("smokes", "drinks"))
    + order("a", "b", "c")
    + "[[at_least_one]]\nof = {smokes = true, drinks = true}\n"
)


@pytest.mark.parametrize("mechanism", ["aim", "mst", "mwem", "privbayes"])
def test_rules_hold_in_rows_and_answers(mechanism):
    release = admeasure.fit(
        visits(1500),
        Schema.loads(VISITS),
        workload="all-2way",
        mechanism=getattr(admeasure, mechanism)(),
        epsilon=1,
        delta=1e-9,
        seed=2,
    )
    for search in (False, True):
        rows = release.sample(2000, seed=4, search=search)
        assert all(x <= y <= z for x, y, z in zip(*(rows[n] for n in "abc"), strict=True))
        assert (np.asarray(rows["smokes"]) | np.asarray(rows["drinks"])).all()
    none = release.answer({"smokes": False, "drinks": False})
    assert (none.value, none.low, none.high) == (0, 0, 0)
    late = {"from": "2024-11-01"}  # a in its last bin, b in its first
    assert release.answer({"a": late, "b": {"to": "2024-03-14"}}).high == 0


def test_a_row_that_breaks_a_rule_is_counted_and_not_spoken_of():
    """Such a row has a code of its own, as any other; the run goes on, and nothing is different but
    counts that are protected."""
    table = visits(400)
    broken = {**table, "c": [DAY, *table["c"][1:]], "b": [after(300), *table["b"][1:]]}
    for rows in (table, broken):
        release = admeasure.fit(
            rows,
            Schema.loads(VISITS),
            workload="all-2way",
            mechanism=admeasure.aim(),
            epsilon=1,
            delta=1e-9,
            seed=2,
        )
        made = release.sample(300, seed=1)
        assert all(x <= y <= z for x, y, z in zip(*(made[n] for n in "abc"), strict=True))


def test_check_names_the_rule_that_rows_break(tmp_path):
    table, schema = tmp_path / "t.csv", Schema.loads(VISITS)
    good = "2024-01-05,2024-01-05,2024-02-01,true,false\n"
    table.write_text("a,b,c,smokes,drinks\n" + good)
    assert check(str(table), schema) == []
    bad = "2024-12-05,2024-01-05,2024-12-01,false,false\n"
    table.write_text("a,b,c,smokes,drinks\n" + good + bad)
    found = [str(problem) for problem in check(str(table), schema)]
    assert "[[order]] of a, b" in found[0]
    assert "[[at_least_one]] of drinks, smokes" in found[1]


def test_rules_survive_the_round_trip():
    schema = Schema.loads(VISITS)
    assert Schema.loads(schema.dumps()) == schema


WHOLE = column("x", "integer", [0, 5, 9])
OTHER = column("y", "integer", [0, 5, 9])
WORDS = '[[column]]\nname = "w"\ntype = "string"\nenum = ["u", "v"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE + OTHER + order("x", "y") + order("y", "x"), "'x', 'y' are ordered in a circle"),
        (WHOLE + OTHER + order("x", "x"), "names a column twice"),
        (
            "".join(column(f"c{i}", "integer", [0, 9]) for i in range(70))
            + order(*(f"c{i}" for i in range(70))),
            "order 70 columns, and at most 64",
        ),
        (WHOLE + OTHER + order("x", "z"), "has no column 'z'"),
        (WHOLE + WORDS + order("x", "w"), "'w' of type string, whose values have no order"),
        (WHOLE + column("y", "number", [0.0, 1.0]) + order("x", "y"), "types integer and number"),
        (WHOLE + column("y", "integer", [-9, -1]) + order("x", "y"), "can never hold"),
        (WHOLE + order("x"), "wrong: it must have at least 2 entries"),
        (
            WHOLE + column("y", "integer", [0, 9], 'missing_values = ["3"]') + order("x", "y"),
            "whose bins hold a listed missing value",
        ),
        (
            WHOLE + '[[column]]\nname = "y"\ntype = "integer"\nminimum = 0\nmaximum = 9\n'
            'bins = "private"\n' + order("x", "y"),
            "whose bins are private",
        ),
        (
            WHOLE
            + OTHER
            + order("x", "y")
            + '[[zero]]\ncolumns = ["x", "y"]\nwhere = {x = {to = 4}, y = {to = 9}}\n'
            + '[[zero]]\ncolumns = ["x", "y"]\nwhere = {x = {from = 5}, y = {from = 5}}\n',
            "leaves no possible row",
        ),
        (WORDS + '[[at_least_one]]\nof = {w = "z"}\n', "'z'"),
        (WORDS + "[[at_least_one]]\nof = {}\n", "at least"),
        (
            WORDS
            + '[[at_least_one]]\nof = {w = "u"}\n[[zero]]\ncolumns = ["w"]\nwhere = {w = "u"}\n',
            "leaves no possible row",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_read(text, message):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(HEAD + text)
    assert message in str(caught.value)
