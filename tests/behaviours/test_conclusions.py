"""Conclusions that must hold: read strictly, judged with the confidence they claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import admeasure
from admeasure.cli.run import run
from admeasure.conclusions import check, check_all, parse_conclusions
from admeasure.errors import WorkloadError
from admeasure.release import Release
from admeasure.schema import Schema

SCHEMA = Schema.loads("""
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "region"
type = "string"
enum = ["north", "south", "west"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 59
bins = 6
[[column]]
name = "smoker"
type = "boolean"
""")

TEXT = """
[[conclusion]]
name = "most live in the north"
share = {region = "north"}
above = 0.4

[[conclusion]]
name = "few smoke"
share = {smoker = true}
above = 0.1
below = 0.3

[[conclusion]]
name = "of the old, most smoke"
share = {smoker = true}
of = {age = {from = 50}}
above = 0.5

[[conclusion]]
name = "smokers of the north outnumber those of the west"
larger = {region = "north", smoker = true}
than = {region = "west", smoker = true}

[[conclusion]]
name = "regions by size"
ordering = [{region = "north"}, {region = "south"}, {region = "west"}]

[[conclusion]]
name = "more meet two of these than live in the west"
larger = {at_least = 2, of = {region = "north", smoker = true, age = {to = 29}}}
than = {region = "west"}
"""


def table(rows: int = 600, seed: int = 1) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "region": [("north", "south", "west")[i] for i in rng.choice(3, rows, p=[0.45, 0.3, 0.25])],
        "age": [int(a) for a in rng.integers(0, 60, rows)],
        "smoker": [bool(x) for x in rng.random(rows) < 0.25],
    }


def truth(data: dict[str, list[Any]]) -> dict[str, bool]:
    """The same statements, by counting rows."""
    rows = list(zip(data["region"], data["age"], data["smoker"], strict=True))

    def count(test: Any) -> int:
        return sum(map(bool, (test(*row) for row in rows)))

    n = len(rows)
    north, south, west = (count(lambda r, a, s, k=k: r == k) for k in ("north", "south", "west"))
    smokers = count(lambda r, a, s: s)
    old = count(lambda r, a, s: a >= 50)
    two = count(lambda r, a, s: (r == "north") + s + (a <= 29) >= 2)
    return {
        "most live in the north": north > 0.4 * n,
        "few smoke": 0.1 * n < smokers < 0.3 * n,
        "of the old, most smoke": count(lambda r, a, s: a >= 50 and s) > 0.5 * old,
        "smokers of the north outnumber those of the west": count(
            lambda r, a, s: r == "north" and s
        )
        > count(lambda r, a, s: r == "west" and s),
        "regions by size": north > south > west,
        "more meet two of these than live in the west": two > west,
    }


def fitted(data: dict[str, list[Any]], epsilon: float, seed: int, workload: str) -> Release:
    return admeasure.fit(
        data,
        SCHEMA,
        workload=workload,
        mechanism=admeasure.gaussian(),
        epsilon=epsilon,
        delta=1e-9,
        seed=seed,
    )


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_to_speak_of_every_verdict_is_the_truth(seed: int) -> None:
    data = table(seed=seed)
    release = fitted(data, 5000.0, seed, "all-3way")
    verdicts = check_all(release, parse_conclusions(TEXT, SCHEMA))
    known = truth(data)
    assert {v.name: v.verdict for v in verdicts} == {
        name: "holds" if so else "does not hold" for name, so in known.items()
    }
    assert all(v.in_release == known[v.name] for v in verdicts)


@pytest.mark.statistical
@pytest.mark.parametrize("workload", ["all-3way", "all-2way", "all-1way"])
def test_a_verdict_is_wrong_no_more_often_than_it_says(workload: str) -> None:
    """At 80% confidence each of the six conclusions is judged wrongly with probability at most
    0.2. Over 60 independent releases more than `most` wrong verdicts on one conclusion have a
    probability below 1e-5 each, below 1e-4 over all 18 that are judged here."""
    data = table()
    known, stated = truth(data), parse_conclusions(TEXT, SCHEMA)
    wrong = dict.fromkeys(known, 0)
    times = 60
    for seed in range(times):
        release = fitted(data, 0.8, seed, workload)
        for conclusion in stated:
            verdict = check(release, conclusion, confidence=0.8)
            told = {"holds": True, "does not hold": False}.get(verdict.verdict)
            wrong[verdict.name] += told is not None and told != known[verdict.name]
    most = int(binom.isf(5e-6, times, 0.2))
    assert all(count <= most for count in wrong.values()), wrong


def test_groups_that_were_measured_together_share_their_noise() -> None:
    """north - west on one measured marginal has noise of scale σ √2 and no more, in whole rows."""
    release = fitted(table(), 1.0, 0, "all-1way")
    (conclusion,) = parse_conclusions(
        '[[conclusion]]\nname = "x"\nlarger = {region = "north"}\nthan = {region = "west"}',
        SCHEMA,
    )
    verdict = check(release, conclusion, confidence=0.9)
    (margin,) = verdict.margins
    sigma = next(m.sigma for m in release.measurements if m.query.columns == ("region",))
    widest = 2 * norm.isf(0.1 / 4) * sigma * np.sqrt(2)
    assert margin.high - margin.low <= widest + 2


def test_sure_is_the_confidence_up_to_which_the_verdict_stands() -> None:
    release = fitted(table(), 1.0, 3, "all-2way")
    for conclusion in parse_conclusions(TEXT, SCHEMA):
        verdict = check(release, conclusion)
        if verdict.sure is None or verdict.sure > 0.999:
            continue
        wanted = "holds" if verdict.in_release else "does not hold"
        gap = 1 - verdict.sure
        assert check(release, conclusion, confidence=1 - 1.01 * gap).verdict == wanted
        looser = check(release, conclusion, confidence=min(1 - 1e-12, 1 - gap / 1.3))
        assert looser.verdict == "cannot be told"


def test_what_a_release_does_not_answer_cannot_be_told() -> None:
    release = fitted(table(), 1.0, 0, "all-1way")
    verdicts = {v.name: v for v in check_all(release, parse_conclusions(TEXT, SCHEMA))}
    verdict = verdicts["smokers of the north outnumber those of the west"]
    assert verdict.verdict == "cannot be told"
    assert "answers for measured marginals only" in verdict.note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[conclusion]]\nshare = {smoker = true}\nabove = 0.2", "has no name"),
        ('[[conclusion]]\nname = "x"\nshare = {smoker = true}', "no bound"),
        ('[[conclusion]]\nname = "x"\nshare = {smoker = true}\nabove = 20', "from 0 to 1"),
        ('[[conclusion]]\nname = "x"\nabove = 0.2', "it needs one of"),
        ('[[conclusion]]\nname = "x"\nlarger = {smoker = true}', "than"),
        ('[[conclusion]]\nname = "x"\nordering = [{smoker = true}]', "two or more"),
        ('[[conclusion]]\nname = "x"\nshare = {smoke = true}\nabove = 0.1', "no column"),
        ('[[conclusion]]\nname = "x"\nshare = {region = "east"}\nabove = 0.1', "'east'"),
        (
            '[[conclusion]]\nname = "x"\nshare = {region = "west"}\nof = {region = "north"}\n'
            "above = 0.1",
            "no row can meet both",
        ),
        ('[[query]]\nname = "x"', "Use [[conclusion]]"),
        ("", "has no conclusion"),
    ],
)
def test_a_wrong_statement_is_refused_with_its_name_and_what_to_do(text: str, said: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse_conclusions(text, SCHEMA)
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_the_command_line_answers_conclusions_and_queries_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted(table(), 2.0, 0, "all-2way").save(tmp_path / "release")
    (tmp_path / "c.toml").write_text(TEXT)
    (tmp_path / "q.toml").write_text('[[query]]\nname = "smokers"\nwhere = {smoker = true}\n')
    given = ["answer", str(tmp_path / "release")]
    assert run([*given, "--conclusions", str(tmp_path / "c.toml"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in alone["conclusions"]] == list(truth(table()))
    assert alone["answers"] == []
    both = [*given, str(tmp_path / "q.toml"), "--conclusions", str(tmp_path / "c.toml")]
    assert run(both) == 0
    printed = capsys.readouterr().out
    assert "smokers" in printed
    assert "regions by size" in printed
    assert run(given) == 2
