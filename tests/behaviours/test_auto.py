"""`auto`: which mechanism public facts choose, and that the release says so."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.mechanisms import NAMES, auto, build
from admeasure.mechanisms.auto import Auto
from admeasure.queries import Marginal, Predicate
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.given import choice_of, mechanism_of
from admeasure.verbs.plan import plan
from admeasure.workload import parse_workload

LEVELS = {"a": 3, "b": 2, "c": 4}
fitted = partial(fit, epsilon=1.0, delta=1e-6, seed=5)


def schema() -> Schema:
    return Schema.coded("toy", LEVELS)


def table(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {c: rng.integers(0, n, 300) for c, n in LEVELS.items()}


def chosen(workload: str, public: object = None) -> str:
    known = schema()
    return choice_of(None, parse_workload(workload, known.domain), public).mechanism.name


@pytest.mark.parametrize(
    "workload", ["all-1way", "all-3way", "target:a:2way", "threshold:2of3:1:seed=0"]
)
def test_any_workload_of_marginals_and_thresholds_is_served_by_the_best(workload):
    assert chosen(workload) == "aim-plus"


@pytest.mark.parametrize("missing", [(), ("jax",), ("optax",)])
def test_a_public_table_is_learned_from(missing, monkeypatch):
    there = auto.find_spec
    monkeypatch.setattr(auto, "find_spec", lambda name: None if name in missing else there(name))
    expected = "gem-pub" if there("jax") and there("optax") and not missing else "pmw-pub"
    assert chosen("all-3way", public=table(1)) == expected


def test_predicates_are_learned_by_gem_and_with_a_public_table_by_none():
    queries = [Marginal(("a", "b")), Predicate(["a", "b"], lambda row: row["a"] > row["b"], "more")]
    assert choice_of(None, queries, None).mechanism.name == "gem"
    with pytest.raises(UsageError, match="Leave one of them"):
        choice_of(None, queries, table())


def test_a_named_mechanism_is_taken_without_a_word():
    named = build("mst")
    found = choice_of(named, parse_workload("all-1way", schema().domain), None)
    assert found.mechanism is named
    assert found.notes == ()


def test_the_choice_does_not_see_the_table():
    """It is made where there is none."""
    for given in (None, "auto", Auto()):
        planned = plan(schema(), workload="all-2way", mechanism=given, epsilon=1)
        assert planned.mechanism.name == "aim-plus"
        assert planned.plan.notes[0].startswith("auto chose aim-plus: ")
        assert "\n" not in planned.plan.notes[0]


def test_a_release_has_the_mechanism_that_was_chosen_and_why(tmp_path):
    given = [(None, None), (admeasure.auto(), None), (admeasure.aim_plus(), 0.05)]
    releases = [
        fitted(table(), schema(), workload="all-2way", mechanism=m, certify=share)
        for m, share in given
    ]
    measured = [[m.values.tolist() for m in r.measurements] for r in releases]
    assert measured[0] == measured[1] == measured[2]
    assert all(r.certificate.accuracy.startswith("Mean error") for r in releases)
    assert {r.certificate.mechanism for r in releases} == {"aim-plus"}
    assert [len(r.certificate.notes) for r in releases] == [1, 1, 0]
    folder = releases[0].save(tmp_path / "release")
    stored = admeasure.Release.load(folder).certificate
    assert stored.notes == releases[0].certificate.notes
    assert stored.notes[0].startswith("auto chose aim-plus: ")


def test_a_certificate_is_bought_where_nothing_is_named_and_only_there():
    named = fitted(table(), schema(), workload="all-2way", mechanism=admeasure.aim_plus())
    without = fitted(table(), schema(), workload="all-2way", certify=0)
    assert named.errors is None
    assert without.errors is None
    plans = [
        admeasure.plan(schema(), workload="all-2way", epsilon=1.0, mechanism=name).plan.items
        for name in (None, "aim-plus")
    ]
    said = [any(item.what.startswith("errors of") for item in items) for items in plans]
    assert said == [True, False]


def test_a_public_table_is_used_by_what_was_chosen(monkeypatch):
    monkeypatch.setattr(auto, "find_spec", lambda name: None)
    release = fitted(table(), schema(), workload="all-2way", public=table(1))
    assert release.certificate.mechanism == "pmw-pub"
    assert "sha256" in json.dumps(release.certificate.options)


def test_options_belong_to_a_mechanism_and_not_to_auto():
    for name in (None, "auto"):
        with pytest.raises(UsageError, match=r"auto has no option --rounds\. Name the mechanism"):
            mechanism_of(name, {"rounds": "5"})


def test_auto_is_among_the_names_and_no_mechanism():
    assert NAMES[0] == "auto"
    with pytest.raises(UsageError, match="Name one here: aim-plus"):
        build("auto")
    with pytest.raises(UsageError, match=r"Did you mean auto\? There are: auto, aim-plus"):
        mechanism_of("autoo")


@pytest.mark.parametrize("named", [[], ["--mechanism", "auto"]])
def test_the_command_line_chooses_where_nothing_is_named(named, tmp_path, capsys):
    text = schema().dumps()
    (tmp_path / "schema.toml").write_text(text)
    rows = table()
    lines = [",".join(LEVELS), *(",".join(map(str, r)) for r in zip(*rows.values(), strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    common = ["--schema", str(tmp_path / "schema.toml"), "--workload", "all-2way", "--epsilon", "1"]
    assert run(["plan", *common, *named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == "aim-plus"
    out = ["--out", str(tmp_path / "release"), "--json"]
    assert run(["fit", str(tmp_path / "table.csv"), *common, *named, *out]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["mechanism"] == "aim-plus"
    assert made["notes"][0].startswith("auto chose aim-plus: ")
