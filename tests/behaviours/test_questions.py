"""Query files: questions in the words of the schema, answered from one marginal each."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from admeasure.errors import UsageError, WorkloadError
from admeasure.queries import AtLeast, Where
from admeasure.schema import Schema
from admeasure.workload import Question, load_questions, parse_questions

SCHEMA = """
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 20
maximum = 29
[[column]]
name = "sex"
type = "string"
enum = ["Female", "Male"]
[[column]]
name = "region"
type = "string"
enum = ["north", "west", "south"]
missing_values = ["?"]
[[column]]
name = "income"
type = "integer"
minimum = 0
maximum = 99
bins = 10
"""


@pytest.fixture(scope="module")
def schema():
    return Schema.loads(SCHEMA)


QUESTIONS = """
[[query]]
name = "young women"
where = {sex = "Female", age = {from = 20, to = 24}}

[[query]]
name = "some regions"
where = {region = ["north", "south"]}

[[query]]
name = "two of three"
at_least = 2
of = {sex = "Male", region = "west", income = {from = 50}}
"""


def test_questions_come_in_the_order_of_the_file_with_the_codes_of_the_schema(tmp_path, schema):
    path = tmp_path / "q.toml"
    path.write_text(QUESTIONS)

    def codes(column, *values):
        return sorted(int(c) for c in schema.column(column).codes_of(list(values)))

    male, west = codes("sex", "Male"), codes("region", "west")
    rich = [int(c) for c in schema.column("income").codes_of({"from": 50})]
    assert load_questions(path, schema) == [
        Question("young women", Where(["sex", "age"], [codes("sex", "Female"), range(5)])),
        Question("some regions", Where(["region"], [codes("region", "north", "south")])),
        Question("two of three", AtLeast(["sex", "region", "income"], [male, west, rich], 2)),
    ]


def test_answers_are_the_counts_of_rows_that_meet_the_conditions(schema):
    """Rows of raw values are judged by plain Python, and counted through the queries."""
    rng = np.random.default_rng(0)
    everyone = list(product(range(20, 30), ["Female", "Male"], ["north", "west", "south"]))
    rows = [everyone[i] + (int(rng.integers(100)),) for i in rng.integers(0, len(everyone), 500)]
    names = ("age", "sex", "region", "income")
    met = {
        "young women": lambda a, s, r, i: s == "Female" and a <= 24,
        "some regions": lambda a, s, r, i: r in ("north", "south"),
        "two of three": lambda a, s, r, i: (s == "Male") + (r == "west") + (i >= 50) >= 2,
    }
    for question in parse_questions(QUESTIONS, schema):
        columns = question.query.columns
        counts = np.zeros(schema.domain.shape(columns), dtype=np.int64)
        for row in rows:
            raw = dict(zip(names, row, strict=True))
            cell = []
            for column in columns:
                if column == "income":  # ten bins of ten
                    cell.append(raw["income"] // 10)
                else:
                    (code,) = schema.column(column).codes_of(raw[column])
                    cell.append(code)
            counts[tuple(cell)] += 1
        expected = sum(met[question.name](*row) for row in rows)
        assert question.query.answer(counts) == expected


def test_a_missing_value_can_be_asked_for(schema):
    text = '[[query]]\nname = "unknown"\nwhere = {region = {level = "missing"}}'
    (question,) = parse_questions(text, schema)
    assert question.query == Where(["region"], [[schema.column("region").missing_code]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("where = {agee = 20}", "'agee'.*'age'"),
        ("where = {age = 99}", "'age'.*outside"),
        ("where = {sex = 'Femal'}", "'sex'.*Female"),
        ("where = {sex = {from = 'a', to = 'b'}}", "'sex'.*range"),
        ("where = {income = {from = 5, to = 25}}", "'income'.*part of the bin"),
        ("where = {age = []}", "'age'.*empty list"),
        ("where = {}", "where must be a table"),
        ("where = 'age > 3'", "where must be a table"),
        ("", "needs either `where"),
        ("at_least = 1", "needs either `where"),
        ("of = {age = 20}", "needs either `where"),
        ("where = {age = 20}\nat_least = 1", "needs either `where"),
        ("at_least = 2\nof = {age = 20}", "at_least = 2 with 1 columns"),
        ("at_least = 'one'\nof = {age = 20}", "whole number"),
        ("were = {age = 20}", "no key 'were'.*'where'"),
    ],
)
def test_a_faulty_question_is_refused_with_file_name_and_column(tmp_path, schema, body, message):
    path = tmp_path / "q.toml"
    path.write_text(
        f'[[query]]\nname = "first"\nwhere = {{age = 20}}\n[[query]]\nname = "it"\n{body}'
    )
    with pytest.raises(WorkloadError, match=message) as error:
        load_questions(path, schema)
    assert str(error.value).startswith(f"{path}: query 'it': ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no query"),
        ("[[query]]\nwhere = {age = 20}", r"\[\[query\]\] 1 has no name"),
        ('[query]\nname = "a"', "double brackets"),
        ('[[question]]\nname = "a"', "no table 'question'"),
        ("where = {", "not valid TOML"),
        (
            '[[query]]\nname = "a"\nwhere = {age = 20}\n[[query]]\nname = "a"\nwhere = {age = 21}',
            "two queries are named 'a'",
        ),
    ],
)
def test_a_faulty_query_file_is_refused(schema, text, message):
    with pytest.raises(WorkloadError, match=message):
        parse_questions(text, schema, name="q.toml")


def test_a_query_file_that_is_not_there_is_a_usage_error(tmp_path, schema):
    with pytest.raises(UsageError, match="no file"):
        load_questions(tmp_path / "none.toml", schema)
