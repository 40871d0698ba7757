"""With the same randomness, nothing but noised answers and scores differs between neighbours.

Every registered mechanism, both neighbouring relations, one and several rows a person, random small
tables; and every deliberately broken mechanism of broken/ is caught, by the check that should.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admeasure.auditing.replay import compare
from admeasure.mechanisms import REGISTRY
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours
from factories import loaded, sources

LEVELS = {"a": 3, "b": 2, "c": 2}
SCHEMA = Schema.coded("toy", LEVELS)
UNITS = [(relation, rows) for relation in Neighbours for rows in (1, 2, 3)]
BROKEN = sorted(Path(__file__).parent.glob("broken/*.py"))
EXAMPLES = 60
FRAGILE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def schema_of(relation: Neighbours, max_rows: int) -> Schema:
    schema = Schema.coded("toy", LEVELS)
    changes = {
        "neighbours": relation.value,
        "max_rows_per_unit": max_rows,
        "unit_column": "id",
    }
    privacy = schema.privacy.model_copy(update=changes)
    return schema.model_copy(update={"privacy": privacy})


def source(people: list[list[tuple[int, ...]]], schema: Schema) -> MemorySource:
    rows = [(*row, person) for person, own in enumerate(people) for row in own]
    columns = list(zip(*rows, strict=True))
    frame = {name: np.array(columns[i]) for i, name in enumerate((*LEVELS, "id"))}
    return MemorySource(frame, schema)


@st.composite
def neighbours(draw) -> tuple[MemorySource, MemorySource]:
    """Two tables that differ in one person. Some people have more rows than may count."""
    relation, max_rows = draw(st.sampled_from(UNITS))
    schema = schema_of(relation, max_rows)
    row = st.tuples(*(st.integers(0, n - 1) for n in LEVELS.values()))
    some = st.lists(row, min_size=1, max_size=max_rows + 1)
    alike = row.map(lambda r: [r] * max_rows)
    person = some | alike
    others = draw(st.lists(person, min_size=1, max_size=8))
    if relation is Neighbours.ADD_REMOVE:
        pair = (others, [*others, draw(person)])
    else:
        pair = ([*others, draw(person)], [*others, draw(person)])
    tables = [source(people, schema) for people in pair]
    first, second = tables if draw(st.booleans()) else tables[::-1]
    return first, second


VARIANTS = (
    "aim-plus in batches",
    "rap without choices",
    "gaussian by cells",
    "privbayes of conditionals",
)


@pytest.mark.parametrize("name", [*REGISTRY, *VARIANTS])
def test_neighbours_differ_only_in_what_is_noised_and_by_no_more_than_declared(
    name, small, served, tally, times
):
    mechanism = small(name, SCHEMA)
    examples = times(20, EXAMPLES) if name in VARIANTS else EXAMPLES
    seeds, seen = count(), {"pairs": 0, "measurements": 0, "choices": 0}

    @settings(max_examples=examples, deadline=None, suppress_health_check=FRAGILE, database=None)
    @given(neighbours(), st.sampled_from([Fraction(1, 50), Fraction(1), Fraction(20)]))
    def over_random_tables(pair, rho):
        workload = served(mechanism, pair[0].schema)
        found = compare(mechanism, workload, *pair, rho, SeededNoise(next(seeds)))
        assert found.faults == ()
        seen["pairs"] += 1
        seen["measurements"] += found.measurements
        seen["choices"] += found.choices

    over_random_tables()
    for what, times in seen.items():
        tally(f"neighbour replay: {what} compared", times)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("relation", Neighbours)
def test_a_broken_mechanism_is_caught_by_the_check_that_should(path, relation, served, tally):
    """On a fixed pair of tables in which the fault shows; no luck is involved."""
    module = loaded(path)
    schema = schema_of(relation, max_rows=2)
    # The added (or other) person has a level that nobody else has, in two rows that are alike, and
    # brings the table nearer to a model that believes in b = 0 and c = 0 in one and not the other.
    others = [[(0, 0, 0)], [(1, 1, 1), (1, 0, 1)], [(0, 1, 0)]]
    before = [*others, [(1, 1, 0)]] if relation is Neighbours.REPLACE else others
    tables = [source(people, schema) for people in (before, [*others, [(2, 0, 1)] * 2])]
    workload = served(REGISTRY["independent"](), schema)
    failed: set[str] = set()
    for first, second in (tables, tables[::-1]):
        found = compare(module.Broken(), workload, first, second, Fraction(1), SeededNoise(3))
        failed |= found.failed
    assert failed >= module.CAUGHT_BY
    tally("neighbour replay: broken mechanisms caught", 1)


def test_every_kind_of_fault_that_is_known_has_a_broken_mechanism():
    assert {path.stem for path in BROKEN} >= {
        "monotone",
        "uncharged_rows",
        "wrong_sensitivity",
        "wrong_score_sensitivity",
        "categories_from_data",
        "renoised_history",
        "padding_in_a_race",
        "offer_from_data",
    }


@pytest.mark.parametrize("factory", sources())
def test_no_source_lets_one_person_move_a_count_further_than_the_unit_says(
    factory, tmp_path, request, times, tally
):
    """Whatever a person's rows and whatever their number: the source keeps at most max_rows."""
    folders = count()
    slow = request.node.get_closest_marker("spark") is not None
    examples = times(2, 8) if slow else 8

    @settings(max_examples=examples, deadline=None, suppress_health_check=FRAGILE, database=None)
    @given(st.data())
    def over_random_tables(data):
        relation, max_rows = data.draw(st.sampled_from([u for u in UNITS if u[1] > 1]))
        schema = schema_of(relation, max_rows)
        row = st.tuples(*(st.integers(0, n - 1) for n in LEVELS.values()))
        person = st.lists(row, min_size=1, max_size=6)
        people = data.draw(st.lists(person, min_size=2, max_size=6))
        other = [*people[:-1], data.draw(person)]
        if relation is Neighbours.ADD_REMOVE:
            other = people[:-1]
        marginals = [(), ("a",), ("a", "b"), ("a", "b", "c")]
        counts = []
        for these in (people, other):
            rows = [(*r, i) for i, own in enumerate(these) for r in own]
            values = {n: [int(r[j]) for r in rows] for j, n in enumerate((*LEVELS, "id"))}
            folder = tmp_path / str(next(folders))
            folder.mkdir()
            counts.append(factory(values, schema, folder).counts(marginals))
        for columns, before, after in zip(marginals, *counts, strict=True):
            allowed = Marginal(columns).sensitivity(schema.domain, schema.unit)
            moved = (after - before).ravel()
            assert int(np.square(moved).sum()) <= allowed.l2_squared
            assert int(np.abs(moved).sum()) <= allowed.l1

    over_random_tables()
    tally("neighbour replay: kinds of source compared", 1)
