"""What the tests of bought domains share: neighbours by whole people, and a run that is stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.auditing.replay import NeighbourComparison, compare
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.planning.division import Task
from admeasure.planning.mechanism import Mechanism, Outcome
from admeasure.privacy.book import Book
from admeasure.privacy.journal import without_values
from admeasure.privacy.noise import SeededNoise
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.sources.open import open_to_buy
from admeasure.unit import Neighbours
from admeasure.workload import parse_workload

Person = list[tuple[Any, bool]]
"""The rows of one person: a value of the open column `a`, and of the boolean `b`."""

HEADER = """
[table]
name = "stays"
[privacy]
unit = "person"
"""
SMALL = """
[table]
name = "toy"
[privacy]
unit = "person"
unit_column = "id"
max_rows_per_unit = {rows}
neighbours = "{relation}"
[[column]]
name = "a"
{fields}
[[column]]
name = "b"
type = "boolean"
"""


def small(rows: int, relation: Neighbours | str, fields: str) -> Schema:
    """A schema of an open column `a` with these fields, and of `b`."""
    return Schema.loads(SMALL.format(rows=rows, relation=Neighbours(relation).value, fields=fields))


def asked(**more: Any) -> dict[str, Any]:
    """What most runs of these tests ask for."""
    return {"workload": "all-2way", "epsilon": 1, "delta": 1e-6, **more}


@dataclass(frozen=True)
class BoughtDomain:
    """A mechanism on a domain that it buys, as the replay runs mechanisms."""

    mechanism: Mechanism
    schema: Schema

    def run(self, task: Task, curator: Any) -> Outcome:
        return bought.run(self.mechanism, curator, task.workload, self.schema)[1]


def opened(people: list[Person], schema: Schema) -> Any:
    cells = [(*row, f"p{i}") for i, own in enumerate(people) for row in own]
    columns = zip(*cells, strict=True)
    return open_to_buy(dict(zip(("a", "b", "id"), map(list, columns), strict=True)), schema)


def replayed(
    pair: list[list[Person]], schema: Schema, seed: int, name: str, budget: Any
) -> NeighbourComparison:
    one, other = (opened(people, schema) for people in pair)
    workload = parse_workload("all-2way", schema.domain)
    mechanism: Any = BoughtDomain(build(name, {}), schema)
    return compare(mechanism, workload, one, other, budget, SeededNoise(seed))


def neighbours_agree(
    relation: Neighbours,
    examples: int,
    fields: str,
    value: st.SearchStrategy[Any],
    *,
    new: st.SearchStrategy[Any],
    event: str,
    name: str,
    budget: Any,
    often: int = 1,
) -> int:
    """Random pairs of tables that differ by a person, whose values are `new`; nothing but noised
    numbers may tell them apart. How many were looked at."""
    seen = 0

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        database=None,
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal seen
        rows = data.draw(st.integers(1, 3))
        schema = small(rows, relation, fields)
        person = st.lists(st.tuples(value, st.booleans()), min_size=1, max_size=rows + 1)
        others = data.draw(st.lists(person, min_size=1, max_size=8)) * often
        one = st.lists(st.tuples(new, st.booleans()), min_size=1, max_size=rows + 2)
        pair = [others, [*others, data.draw(one)]]
        if relation is Neighbours.REPLACE:
            pair[0] = [*others, data.draw(one)]
        found = replayed(pair, schema, rows, name, budget)
        assert not found.faults
        assert any(move.event["event"] == event for move in found.moves)
        seen += 1

    check()
    return seen


def stopping(heard: list[dict[str, Any]], at: int) -> Callable[[dict[str, Any]], None]:
    """A listener that keeps what it hears and stops the run at so many events."""

    def stop(event: dict[str, Any]) -> None:
        heard.append(event)
        if len(heard) == at:
            raise KeyboardInterrupt

    return stop


def planned_and_paid(schema: Schema, table: dict[str, Any]) -> tuple[str, ...]:
    """A plan names every charge of the run with its scale of noise, and the run makes just those.
    The notes of the plan."""
    mechanism = build("independent", {})
    made = admeasure.plan(schema, **asked(mechanism=mechanism))
    release = admeasure.fit(table, schema, **asked(mechanism=mechanism, seed=1))
    planned: Counter[str] = Counter()
    for item in made.plan.items:
        planned[str(item.cost.rho)] += item.times
    results = [e for e in release.log if e["event"] != "intent"]
    assert Counter(e["rho"] for e in results) == planned
    assert {e["sigma"] for e in results} == {item.sigma for item in made.plan.items}
    return tuple(made.plan.notes)


def stopped_and_resumed(
    schema: Schema, table: dict[str, Any], folder: Path, stop_at: int
) -> list[str]:
    """A run that is stopped after so many results goes on with what it bought, and its book is
    charged once. The digests of what was bought."""
    Book.create(folder / "book.db", "stays", epsilon=1, delta=1e-6)
    run = asked(
        mechanism=build("mst", {}),
        out=folder / "out",
        charge_to=ChargeTo(folder / "book.db", "stays"),
    )
    heard: list[dict[str, Any]] = []
    with pytest.raises(KeyboardInterrupt):
        admeasure.fit(table, schema, **run, listeners=(stopping(heard, stop_at),))
    release = admeasure.fit(table, schema, **run, resume=True)
    first = [without_values(e)["sha256"] for e in heard if e["event"] == "statistic"]
    assert first == [e["sha256"] for e in release.log if e["event"] == "statistic"]
    assert Book.open(folder / "book.db").account("stays").left.rho == 0
    return first
