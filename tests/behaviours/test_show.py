"""`--show`: values of the table on a terminal, for whoever holds it, and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from admeasure.cli.run import run
from admeasure.schema import Schema
from admeasure.schema.look import look

HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
SECRET = "31/12/1999"
SCHEMA = (
    HEAD
    + """
[[column]]
name = "seen"
type = "date"
minimum = 1990-01-01
maximum = 2020-12-31
bins = 12
other = true
[[column]]
name = "cost"
type = "number"
minimum = 0
maximum = 100
bins = 4
clamp = true
other = true
[[column]]
name = "ward"
type = "string"
enum = ["A", "B", "C"]
"""
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f'{SECRET if i else "2000-01-01"},"{i},50",{"AB"[i % 2]},x' for i in range(40)]
    (tmp_path / "data.csv").write_text("seen,cost,ward,extra\n" + "\n".join(rows) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHECK = ["check", "data.csv", "--schema", "schema.toml"]
FIT = ["fit", *CHECK[1:], "--workload", "all-1way", "--epsilon", "1", "--out", "release"]


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_check_shows_no_value_unless_asked(place: Path, capsys: pytest.CaptureFixture[str]):
    assert run(CHECK) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "leaves out 1 columns of the table: 'extra'" in said.out


@pytest.mark.parametrize("command", [CHECK, [*CHECK, "--json"], FIT])
def test_values_are_shown_on_a_terminal_alone(place: Path, capsys, command: list[str]):
    assert run([*command, "--show"]) == 2
    said = capsys.readouterr()
    assert "terminal" in said.err
    assert SECRET not in said.out + said.err
    assert not (place / "release").exists()


def test_on_a_terminal_values_are_shown_and_marked(place: Path, capsys, monkeypatch):
    on_a_terminal(monkeypatch)
    assert run([*CHECK, "--show"]) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out
    assert "NOT PRIVATE" in said.err
    assert f"39 of 40 rows (98%) not of the type: '{SECRET}' (39)" in said.err
    assert 'format = "%d/%m/%Y"' in said.err
    assert 'decimal = ","' in said.err
    assert "1 of 3 levels never occur: 'C'" in said.err
    assert run([*CHECK, "--show", "--json"]) == 2


def test_a_fit_that_may_look_stops_before_it_spends_on_a_mistake(place: Path, capsys, monkeypatch):
    """Without --show it may not look, and the exit code tells nothing of the table."""
    on_a_terminal(monkeypatch)
    book = ["--ledger", "book.db", "--dataset", "d"]
    assert run(["ledger", "create", "book.db", "--dataset", "d", "--epsilon", "9"]) == 0
    capsys.readouterr()
    assert run([*FIT, *book, "--show"]) == 3
    assert "Nothing is charged" in capsys.readouterr().err
    assert not (place / "release").exists()
    assert run(["ledger", "show", "book.db"]) == 0
    assert "release" not in capsys.readouterr().out
    assert run([*FIT, *book, "--mechanism", "independent"]) == 0


def column(text: str):
    return Schema.loads(f'{HEAD}[[column]]\nname = "x"\n{text}\n').column("x")


@pytest.mark.parametrize(
    ("text", "values", "said", "is_likely"),
    [
        (
            'type = "integer"\nminimum = 0\nmaximum = 1000',
            [(3, 5), (9, 5)],
            "values go from 3 to 9, and the bounds are [0, 1000]",
            False,
        ),
        (
            'type = "integer"\nminimum = 0\nmaximum = 9\nclamp = true',
            [(3, 5), (99, 5)],
            "5 of 10 rows (50%) outside [0, 9]: 99 (5). They are clamped.",
            True,
        ),
        (
            'type = "boolean"\nother = true',
            [("Yes", 4), ("No", 5), ("true", 1)],
            "`true_values` and `false_values`",
            True,
        ),
        (
            'type = "string"\nenum = ["a", "b"]\nother = true',
            [("A ", 2), ("b", 20)],
            "`strip = true` or `ignore_case = true`",
            True,
        ),
        (
            'type = "string"\nenum = ["a", "b"]\nother = true',
            [("z", 1), ("b", 20), ("a", 20)],
            "1 of 41 rows (2%) not in enum: 'z' (1). They are taken for `other`.",
            False,
        ),
        (
            'type = "number"\nminimum = 0\nmaximum = 100\nbins = 10',
            [(float(i % 5), 10) for i in range(99)] + [(95.0, 1)],
            "(100%) in the level '[0, 10)'",
            False,
        ),
        (
            'type = "integer"\nminimum = 0\nmaximum = 9',
            [(None, 4), (3, 1)],
            "4 of 5 rows (80%) missing: empty. They are refused.",
            False,
        ),
        *(
            (
                'type = "number"\nminimum = 0\nmaximum = 100\nbins = 4',
                [(text.format(i), 1) for i in range(10, 20)],
                "A sign or a unit stands beside the number: take it out of the table.",
                False,
            )
            for text in ("{}%", "€{}.50", "-{} kg", "EUR 1,2{}.00")
        ),
    ],
)
def test_what_is_found_in_a_column(text: str, values: list, said: str, is_likely: bool):
    findings = look(column(text), values)
    assert any(said in f.text and f.is_likely == is_likely for f in findings), findings


def test_a_column_whose_levels_the_run_finds_is_no_mistake(place: Path, capsys, monkeypatch):
    on_a_terminal(monkeypatch)
    found = column('type = "string"\nenum = "private"')
    assert look(found, [("a", 3), ("b", 4)]) == []
    (missing,) = look(found, [("a", 3), (None, 4)])
    assert "missing" in missing.text
    (place / "schema.toml").write_text(
        f'{HEAD}[[column]]\nname = "ward"\ntype = "string"\nenum = "private"\n'
    )
    assert run([*FIT, "--show", "--delta", "1e-6"]) == 0
    assert "Nothing stands out" in capsys.readouterr().err


def test_a_sound_column_has_nothing_to_say():
    values = [(i, 3) for i in range(10)]
    assert look(column('type = "integer"\nminimum = 0\nmaximum = 9'), values) == []
