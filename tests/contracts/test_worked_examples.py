"""The worked examples of CONTRIBUTING.md, run as they stand there.

A kind of query, a mechanism, a verb, a chart, a source and a column type that the package does not
know are added by their own files and their lines in the registries. What everything else makes of
them is compared with sums written out over the rows.
"""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import math
import random
import re
import sqlite3
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pytest

import admeasure
from admeasure.errors import WorkloadError
from admeasure.mechanisms import REGISTRY
from admeasure.queries import Marginal, record
from admeasure.reporting import charts, html
from admeasure.schema import Privacy, Schema, Table
from admeasure.sources import kinds
from admeasure.sources.address import printable
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source

LEVELS = {"a": 3, "b": 4}
SCHEMA = '[table]\nname = "t"\n[privacy]\nunit = "row"\n' + "".join(
    f'[[column]]\nname = "{name}"\ntype = "integer"\nminimum = 0\nmaximum = {n - 1}\n'
    for name, n in LEVELS.items()
)
WORKLOAD = '[[cumulated]]\ncolumns = ["a", "b"]\n\n[[marginal]]\ncolumns = ["a"]\n'


CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example(holds: str, **known: object) -> ModuleType:
    """The code block of CONTRIBUTING.md that holds this, as a module that knows these names too."""
    blocks = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if holds in block]
    name = f"example_{holds.split()[-1]}"
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(known)
    exec(compile(block, f"CONTRIBUTING.md, {holds}", "exec", dont_inherit=True), vars(module))
    return module


Cumulated = example("class Cumulated").Cumulated


@pytest.fixture(autouse=True)
def known(monkeypatch) -> None:
    """The lines that the examples add."""
    monkeypatch.setitem(sys.modules, "admeasure.mechanisms.chain", example("class Chain"))
    monkeypatch.setitem(REGISTRY.homes, "chain", "chain.Chain")
    monkeypatch.setitem(record._KINDS, "cumulated", (Cumulated, ("columns",)))
    monkeypatch.setitem(record._NAMES, Cumulated, "cumulated")
    monkeypatch.setattr(record, "IN_WORKLOADS", ("marginal", "threshold", "cumulated"))


@pytest.fixture
def rows() -> list[tuple[int, int]]:
    chance = random.Random(5)
    return [(chance.randrange(3), min(3, int(chance.expovariate(0.8)))) for _ in range(2_000)]


@pytest.fixture
def table(rows, tmp_path) -> Path:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b"), *rows])
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return path


def fit(table: Path, mechanism: str, out: Path | None = None) -> admeasure.Release:
    return admeasure.fit(
        table,
        table.with_name("schema.toml"),
        workload=table.with_name("workload.toml"),
        mechanism=REGISTRY[mechanism](),
        epsilon=1_000,
        delta=1e-9,
        seed=1,
        out=out,
    )


@pytest.mark.parametrize("mechanism", ["chain", "aim", "mst", "independent", "mwem", "pep"])
def test_a_mechanism_answers_a_kind_of_query_that_is_new(mechanism, table, rows, tmp_path):
    fit(table, mechanism, tmp_path / "release")
    release = admeasure.Release.load(tmp_path / "release")
    query = Cumulated(["a", "b"])
    assert query in release.workload
    (counts,) = release.model.marginals([query.columns])
    below = {
        (a, b): sum(x <= a and y <= b for x, y in rows)
        for a, b in itertools.product(range(3), range(4))
    }
    rough = 250 if mechanism == "independent" else 30
    for cell, true in below.items():
        assert query.answer(counts)[cell] == pytest.approx(true, abs=rough)


def test_a_file_of_a_workload_has_it_and_its_order_is_fixed():
    workload = admeasure.Workload.loads(WORKLOAD)
    assert workload.queries == (Marginal(["a"]), Cumulated(["a", "b"]))
    assert admeasure.Workload.loads(workload.dumps()) == workload


@pytest.mark.parametrize("mechanism", ["dualquery", "fem", "rap", "rap-box", "rap-softmax"])
def test_a_mechanism_that_asks_for_targets_refuses_it_by_name(mechanism, table):
    with pytest.raises(WorkloadError, match=r"cumulated \(a, b\).* such as aim"):
        fit(table, mechanism)


def test_its_errors_are_judged(table, capsys):
    from admeasure.cli.run import run

    fit(table, "aim", table.with_name("release"))
    given = ["--schema", table.with_name("schema.toml"), "--workload"]
    asked = [
        "evaluate",
        table.with_name("release"),
        table,
        *given,
        table.with_name("workload.toml"),
    ]
    assert run([str(part) for part in asked]) == 0
    assert "cumulated" in capsys.readouterr().out


def test_the_new_mechanism_spends_what_it_planned(table, capsys):
    from admeasure.cli.run import run

    asked = ["--schema", table.with_name("schema.toml"), "--workload", "all-2way"]
    asked += ["--epsilon", "1", "--delta", "1e-9", "--mechanism", "chain"]
    assert run([str(part) for part in ("plan", *asked, "--json")]) == 0
    planned = json.loads(capsys.readouterr().out)["items"]
    out = table.with_name("chained")
    assert run([str(part) for part in ("fit", table, *asked, "--out", out)]) == 0
    spent = admeasure.Release.load(out).certificate
    assert [item["what"] for item in planned] == ["links"]
    assert spent.rho_spent == pytest.approx(spent.rho)


def test_a_new_verb_is_in_the_help_and_prints_what_its_function_gives(table, monkeypatch, capsys):
    from admeasure.cli.app import VERBS
    from admeasure.cli.run import run

    verb = example("-> dict[str, int]")
    monkeypatch.setitem(sys.modules, "admeasure.verbs.columns", verb)
    monkeypatch.setitem(sys.modules, "admeasure.cli.columns", example("release: ReleasePath, *"))
    monkeypatch.setitem(VERBS.homes, "columns", "columns.columns")
    out = table.with_name("release")
    fit(table, "independent", out)
    capsys.readouterr()
    assert run(["columns", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == LEVELS == verb.columns(out)
    assert run(["columns", str(out)]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()][-1] == ["b", "4"]
    assert run(["--help"]) == 0
    assert "How many levels each column has." in capsys.readouterr().out


def test_a_new_chart_is_drawn_by_a_template_and_its_names_are_text(monkeypatch):
    dot_line = example("def dot_line", **vars(charts)).dot_line
    templates = html.environment("admeasure.reporting")
    monkeypatch.setitem(templates.globals, "dot_line", dot_line)
    hostile = "<script>alert(1)</script>"
    dots = [charts.Dot(x, 0, hostile) for x in (0.0, 1.0, 2.0, math.nan)]
    drawn = templates.from_string("{{ dot_line(dots, title=title) }}").render(dots=dots, title="a")
    root = ElementTree.fromstring(drawn)
    assert [title.text for title in root.iter("title")] == [
        f"{hostile}: {x}" for x in ("0", "1", "2", "nan")
    ]
    assert [float(dot.attrib["cx"]) for dot in root.iter("circle")] == [8, 150, 292, 8]


@pytest.fixture
def sqlite(rows, tmp_path, monkeypatch) -> str:
    """An address of the rows in SQLite, with the line that the example adds."""
    kind = example("class _Sqlite").SQLITE
    monkeypatch.setattr(kinds, "KINDS", (kind, *kinds.KINDS))
    monkeypatch.setitem(kinds.SCHEMES, "sqlite", kind.schemes[0])
    with sqlite3.connect(tmp_path / "rows.sqlite") as database:
        database.execute('CREATE TABLE "the people" (a INTEGER, b INTEGER, name TEXT)')
        database.executemany("INSERT INTO \"the people\" VALUES (?, ?, 'ann')", rows)
    database.close()
    return f"sqlite://{tmp_path}/rows.sqlite?table=the people"


def test_a_new_source_is_opened_checked_drafted_from_and_shown(sqlite, rows):
    schema = Schema.loads(SCHEMA)
    (found,) = open_source(sqlite, schema).counts([("a", "b")])
    wanted = np.zeros((3, 4), int)
    np.add.at(wanted, tuple(zip(*rows, strict=True)), 1)
    assert (found == wanted).all()
    assert admeasure.check(sqlite, schema) == []
    narrow = Schema.loads(SCHEMA.replace("maximum = 2", "maximum = 1"))
    assert [problem.column for problem in admeasure.check(sqlite, narrow)] == ["a"]
    assert 'name = "the people"' in admeasure.draft(sqlite)
    assert printable(sqlite) == sqlite
    assert printable(sqlite.replace("sqlite://", "sqlite://ann:p/w@")) == "sqlite:…"


def test_a_new_column_type_has_the_same_levels_in_memory_and_in_files(tmp_path):
    listed = datetime.date(1992, 2, 2)
    column = example("class YearColumn").YearColumn(
        name="born",
        type="year",
        first=1990,
        last=1995,
        other=True,
        missing_values=("?", str(listed)),
    )
    # `AnyColumn` has one type more in the example; here the schema is made without it.
    schema = Schema.model_construct(
        table=Table(name="t"), privacy=Privacy(unit="row"), columns=(column,), zero=()
    )
    chance = random.Random(7)
    start = datetime.date(1988, 1, 1)
    days = [start + datetime.timedelta(chance.randrange(3650)) for _ in range(2_000)]
    days += [listed, datetime.date(1990, 1, 1), datetime.date(1995, 12, 31)]
    wanted = [0] * 8
    for day in days:
        within = day.year - 1990 if 1990 <= day.year <= 1995 else 6
        wanted[7 if day == listed else within] += 1
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (born DATE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(day,) for day in days])
        for path in ("t.csv", "t.parquet"):
            connection.execute(f"COPY t TO '{tmp_path / path}'")
    sources = [open_source(tmp_path / path, schema) for path in ("t.csv", "t.parquet")]
    frames = (days, [str(day) for day in days], np.array(days, "datetime64[D]"))
    sources += [MemorySource({"born": frame}, schema) for frame in frames]
    for source in sources:
        assert source.counts([("born",)])[0].tolist() == wanted
    assert column.codes_of({"from": "1991-01-01", "to": "1992-12-31"}).tolist() == [1, 2]
