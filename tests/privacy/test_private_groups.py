"""Levels of a hierarchy that are bought: the recoding, the charge, the resumed run, neighbours, and
questions about codes inside levels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.auditing.release import audit_release
from admeasure.errors import AdmeasureError, SchemaError
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.planning.groups import level_variances
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp, budget_of
from admeasure.release import Release
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.schema.categorical import StringColumn
from admeasure.sources.coarser import AddedUp
from admeasure.sources.files.source import DuckDBSource
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours
from bought_domains import (
    HEADER,
    asked,
    neighbours_agree,
    planned_and_paid,
    small,
    stopped_and_resumed,
)

CODES = [f"{chapter}{block}{code}" for chapter in "AB" for block in "012" for code in "01234"]
GROUPS = {code: code[:2] for code in CODES} | {code[:2]: code[0] for code in CODES}
LEVELS_OF = "levels_of = {" + ", ".join(f'{a} = "{b}"' for a, b in GROUPS.items()) + "}\n"
TEXT = (
    HEADER
    + '[[column]]\nname = "icd"\ntype = "string"\nmissing_values = ["?"]\n'
    + LEVELS_OF
    + '[[column]]\nname = "sex"\ntype = "string"\nenum = ["f", "m"]\n'
)
OPEN = Schema.loads(TEXT)
MARGINALS = [(), ("icd",), ("sex",), ("icd", "sex")]


def frame(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    skewed = rng.dirichlet(np.full(len(CODES) + 1, 0.2))
    return {
        "icd": rng.choice([*CODES, "?"], rows, p=skewed),
        "sex": rng.choice(["f", "m"], rows),
    }


def some_cut(seed: int) -> Schema:
    icd = OPEN.column("icd")
    assert isinstance(icd, StringColumn)
    assert icd.hierarchy is not None
    counts = np.random.default_rng(seed).integers(0, 9, len(icd.hierarchy.leaves)).astype(float)
    return OPEN.with_columns({"icd": icd.cut(icd.hierarchy.cut(counts, seed % 30))})


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(0, 200), seed=st.integers(0, 10**6), dense=st.sampled_from([0, 1 << 22]))
def test_codes_add_up_to_what_the_levels_themselves_would_count(rows, seed, dense):
    """Against the encoder, which reads every code anew by the schema with levels."""
    table, coarse = frame(rows, seed), some_cut(seed)
    fine, plain = MemorySource(table, OPEN.as_read), MemorySource(table, coarse)
    for view in (fine.by(coarse), AddedUp(fine, coarse, dense_cells=dense)):
        for found, expected in zip(view.counts(MARGINALS), plain.counts(MARGINALS), strict=True):
            assert np.array_equal(found, expected)


def test_a_file_is_recoded_as_a_frame_is(tmp_path):
    table, coarse = frame(300, 3), some_cut(3)
    lines = ["icd,sex", *(f"{a},{b}" for a, b in zip(*table.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    path, expected = str(tmp_path / "t.csv"), MemorySource(table, coarse).counts(MARGINALS)
    for source in (DuckDBSource(path, OPEN.as_read).by(coarse), DuckDBSource(path, coarse)):
        found = source.counts(MARGINALS)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_a_fit_finds_levels_charges_for_them_and_releases_a_schema_that_has_them(name, tmp_path):
    book = Book.create(tmp_path / "book.db", "stays", epsilon=1, delta=1e-6)
    out = tmp_path / "out"
    release = admeasure.fit(
        frame(20_000, 1),
        OPEN,
        **asked(
            mechanism=build(name, {}),
            out=out,
            charge_to=ChargeTo(tmp_path / "book.db", "stays"),
        ),
    )
    assert not release.schema.open_columns
    icd = release.schema.column("icd")
    assert isinstance(icd, StringColumn)
    assert icd.levels_of == GROUPS
    assert 2 <= icd.regular <= len(CODES)
    paid = {line.what: line.rho for line in release.certificate.charges}
    share = float(budget_of(1, 1e-6) / 10)
    assert paid["counts of a tree over icd, for its levels"] == pytest.approx(share)
    assert any("hierarchies" in note for note in release.certificate.notes)
    assert audit_release(out).holds
    assert book.account("stays").left.rho == 0
    loaded = Release.load(out)
    assert loaded.schema == release.schema
    assert np.array_equal(loaded.inside["icd"].shares, release.inside["icd"].shares)
    rows = loaded.sample_columns(500, seed=1)
    assert set(rows["icd"]) <= {*CODES, "?"}
    assert np.array_equal(rows["icd"], release.sample_columns(500, seed=1)["icd"])
    loaded.report(tmp_path / "report.html")


def test_a_plan_says_what_the_levels_cost_and_the_run_pays_just_that():
    notes = planned_and_paid(OPEN, frame(500, 2))
    assert any("levels_of" in line for line in notes)


def test_a_run_that_was_killed_after_its_levels_were_bought_goes_on_with_the_same(tmp_path):
    assert len(stopped_and_resumed(OPEN, frame(2000, 4), tmp_path, stop_at=2)) == 1


def test_a_public_table_is_refused_before_anything_is_charged(tmp_path):
    book = Book.create(tmp_path / "book.db", "stays", epsilon=1, delta=1e-6)
    with pytest.raises(AdmeasureError):
        admeasure.fit(
            frame(100, 1),
            OPEN,
            **asked(
                out=tmp_path / "out",
                charge_to=ChargeTo(tmp_path / "book.db", "stays"),
                public=frame(100, 9),
                mechanism=build("pmw-pub", {}),
            ),
        )
    assert book.account("stays").spent.rho == 0
    assert not list(tmp_path.glob("*out*"))


def test_a_code_that_the_hierarchy_does_not_have_is_refused_without_being_named():
    table = frame(100, 1)
    table["icd"][3] = "SECRET"
    with pytest.raises(AdmeasureError) as refused:
        admeasure.fit(table, OPEN, **asked(mechanism=build("mst", {}), seed=1))
    assert "'icd'" in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_rule_that_needs_the_levels_is_refused_until_they_are_known():
    zero = '[[zero]]\ncolumns = ["icd", "sex"]\nwhere = {icd = "A", sex = "m"}\n'
    with pytest.raises(SchemaError, match="names a column whose levels are private"):
        Schema.loads(TEXT + zero)
    given_levels = TEXT.replace("missing_values", 'enum = ["A", "B"]\nmissing_values', 1)
    (zeros,) = Schema.loads(given_levels + zero).zeros
    assert zeros.mask.tolist() == [[False, True], [False, False], [False, False]]


# Neighbours: whatever levels one table would have got, nothing but noised numbers differs.


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("name", ["mst", "independent"])
def test_neighbours_differ_only_in_what_is_noised(name, relation, tally, times):
    """One person may bring the only code of a chapter, the only missing value, an unknown code."""
    fields = f'type = "string"\nmissing_values = ["?"]\nother = true\n{LEVELS_OF}'
    seen = neighbours_agree(
        relation,
        times(8, 100),
        fields,
        st.sampled_from(CODES[:6]),
        new=st.sampled_from([*CODES, "?", "unknown"]),
        event="statistic",
        name=name,
        budget=Fraction(1),
        often=3,
    )
    tally(f"pairs of neighbours, levels of a hierarchy bought, {name}", seen)


def test_the_noise_pays_for_all_levels_of_the_hierarchy():
    """Codes, blocks and chapters."""
    for relation, rows, expected in (
        ("add-remove", 1, 3),
        ("add-remove", 3, 27),
        ("replace", 1, 6),
        ("replace", 3, 54),
    ):
        schema = small(rows, relation, f'type = "string"\n{LEVELS_OF}')
        (item,), left = bought.divide(schema, Zcdp(Fraction(1)))
        assert item.sigma == pytest.approx((expected / (2 * float(item.cost))) ** 0.5)
        assert item.cost + left == Zcdp(Fraction(1))


def test_the_variance_of_a_level_is_that_of_least_squares():
    """Against the inverse of the normal equations, by numpy."""
    found = some_cut(17).column("icd")
    assert isinstance(found, StringColumn)
    assert found.hierarchy is not None
    assert found.of_held is not None
    levels, leaves = found.hierarchy.levels, len(CODES)
    nodes = [
        (np.arange(leaves) >= low) & (np.arange(leaves) < high)
        for first in levels
        for low, high in zip(first, [*first[1:], leaves], strict=True)
    ]
    a = np.array(nodes, dtype=float)
    inverse = np.linalg.inv(a.T @ a)
    chosen = found.of_held == np.arange(found.regular)[:, None]
    expected = [float(w @ inverse @ w) for w in chosen.astype(float)]
    assert level_variances(levels, found.of_held) == pytest.approx(expected)


# Questions.


def released(epsilon: float = 1.0) -> Release:
    return admeasure.fit(
        frame(20_000, 5), OPEN, **asked(mechanism=build("mst", {}), seed=3) | {"epsilon": epsilon}
    )


def test_questions_about_codes_add_up_to_their_groups_and_hold_what_levels_allow():
    release = released()
    icd = release.schema.column("icd")
    codes = {code: release.answer({"icd": code, "sex": "f"}) for code in CODES}
    for group in {*GROUPS.values()}:
        mine = [codes[code].value for code in CODES if code.startswith(group)]
        whole = release.answer({"icd": group, "sex": "f"})
        assert sum(mine) == pytest.approx(whole.value)
    for code, answer in codes.items():
        assert answer.low <= answer.value <= answer.high
        label = icd.labels[icd.code_of(code)]
        if label != code:  # anything between nothing and the level
            (level,) = answer.query.codes[0]  # type: ignore[attr-defined]
            others = [c for c in CODES if icd.code_of(c) == level]
            all_of_it = release.answer({"icd": others, "sex": "f"}, confidence=0.975)
            assert answer.low == 0
            assert answer.high == pytest.approx(all_of_it.high)


def test_a_question_about_codes_counts_the_levels_that_it_covers_as_sure():
    release = released(epsilon=20.0)
    icd = release.schema.column("icd")
    largest = max(CODES, key=lambda code: release.answer({"icd": code}).value)
    assert icd.labels[icd.code_of(largest)] == largest
    inside = next(code for code in CODES if icd.labels[icd.code_of(code)] != code)
    alone, both = release.answer([{"icd": largest}, {"icd": [largest, inside]}])
    assert both.low > 0.9 * alone.low > 0
    assert both.value >= alone.value
    with pytest.raises(AdmeasureError, match="confidence"):
        release.answer({"icd": inside}, confidence=-0.5)


def test_a_query_file_may_ask_for_codes_where_all_conditions_must_hold(tmp_path):
    release = released()
    icd = release.schema.column("icd")
    inside = next(code for code in CODES if icd.labels[icd.code_of(code)] != code)
    path = tmp_path / "q.toml"
    path.write_text(f'[[query]]\nname = "one"\nwhere = {{icd = "{inside}"}}\n')
    (found,) = release.answer(path)
    assert found.value == release.answer({"icd": inside}).value
    path.write_text(
        f'[[query]]\nname = "one"\nat_least = 1\nof = {{icd = "{inside}", sex = "f"}}\n'
    )
    with pytest.raises(AdmeasureError, match="part of the level"):
        release.answer(path)
    with pytest.raises(AdmeasureError, match="part of the level"):
        release.sample(5, where={"icd": inside})
    rows = release.sample(50, where={"icd": "A"}, seed=1)
    assert {code[0] for code in rows["icd"]} == {"A"}


def test_shares_that_do_not_fit_the_hierarchy_are_refused(tmp_path):
    out = tmp_path / "out"
    release = released()
    good = release.inside["icd"]
    for spoilt in (
        replace(good, shares=good.shares[:-1], starts=good.starts[:-1], counts=None),
        replace(good, shares=-good.shares - 1),
        replace(good, starts=good.starts + 1),
        replace(good, starts=good.starts.astype(float)),
    ):
        replace(release, inside={"icd": spoilt}).save(out, overwrite=True)
        with pytest.raises(AdmeasureError, match="does not fit"):
            Release.load(out)
