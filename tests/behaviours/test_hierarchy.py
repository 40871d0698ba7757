"""A column with a hierarchy (`levels_of`): its tree, its levels, what is read, selected, drawn."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from admeasure.errors import SchemaError, UsageError
from admeasure.schema import Schema
from admeasure.schema.categorical import StringColumn
from admeasure.schema.decode import decode_column
from admeasure.schema.hierarchy import MOST_CUT, MOST_TOPS, Hierarchy, draw_leaves, parts_of_levels
from admeasure.schema.load import loads
from admeasure.schema.model import Privacy, Table
from admeasure.schema.problems import Refusal
from admeasure.schema.select import portion_of

HEAD = '[table]\nname = "stays"\n[privacy]\nunit = "person"\n[[column]]\nname = "code"\n'
ICD = {
    "A00": "gut",
    "A01": "gut",
    "A02": "gut",
    "B00": "skin",
    "B01": "skin",
    "gut": "I",
    "skin": "I",
    "C00": "II",
    "C01": "II",
}


def column(enum: Any = "private", **more: Any) -> StringColumn:
    return StringColumn(name="code", type="string", enum=enum, levels_of=ICD, **more)


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> Hierarchy:
    """Any forest without names that stand alone."""
    size = draw(st.integers(2, most))
    above = {i: draw(st.none() | st.integers(i + 1, size - 1)) for i in range(size - 1)}
    above[0] = size - 1 if all(p is None for p in above.values()) else above[0]
    order = draw(st.permutations(range(size)))
    return Hierarchy({f"n{i}": f"n{above[i]}" for i in order if above.get(i) is not None})


def under(tree: Hierarchy, name: str) -> set[str]:
    """The leaves in a name, by walking upwards from each."""
    return {leaf for leaf in tree.leaves if name in upwards(tree, leaf)}


def upwards(tree: Hierarchy, name: str) -> list[str]:
    found = [name]
    while found[-1] in tree.parents:
        found.append(tree.parents[found[-1]])
    return found


@given(trees())
def test_the_codes_of_a_group_are_side_by_side_and_every_level_is_a_partition_of_them(tree):
    groups = set(tree.parents.values())
    assert set(tree.leaves) == tree.parents.keys() - groups
    assert set(tree.depths) == tree.parents.keys() | groups
    for name, (first, end) in tree.spans.items():
        assert set(tree.leaves[first:end]) == under(tree, name)
        assert tree.depths[name] == len(upwards(tree, name)) - 1
    for deep, level in enumerate(tree.levels):
        paths = [upwards(tree, leaf)[::-1] for leaf in tree.leaves]
        nodes = [path[min(deep, len(path) - 1)] for path in paths]
        begins = [i for i, node in enumerate(nodes) if i == 0 or node != nodes[i - 1]]
        assert level.tolist() == begins
    assert tree.levels[-1].tolist() == list(range(len(tree.leaves)))


@settings(deadline=None)
@given(trees(), st.data())
def test_the_cut_is_the_one_that_every_name_agrees_with(tree, data):
    """Against all sets of names: the right one has a name if and only if what is left of it holds
    enough, or is anything at all where it is in no group."""
    leaves = len(tree.leaves)
    counts = data.draw(st.lists(st.integers(0, 9), min_size=leaves, max_size=leaves))
    least = data.draw(st.integers(0, 20))
    held = dict(zip(tree.leaves, counts, strict=True))

    def agrees(name: str, chosen: set[str]) -> bool:
        left = [
            leaf
            for leaf in under(tree, name)
            if not chosen & set(upwards(tree, leaf)[: upwards(tree, leaf).index(name)])
        ]
        enough = name not in tree.parents or sum(held[leaf] for leaf in left) > least
        return (name in chosen) == (bool(left) and enough)

    names = list(tree.depths)
    sets = (set(c) for k in range(len(names) + 1) for c in combinations(names, k))
    (expected,) = [chosen for chosen in sets if all(agrees(name, chosen) for name in names)]
    found = tree.cut(np.array(counts, dtype=float), float(least))
    assert set(found) == expected
    of_leaves = tree.of_leaves(found)
    for leaf, level in zip(tree.leaves, of_leaves, strict=True):
        assert found[level] == next(name for name in upwards(tree, leaf) if name in expected)
    assert sorted(set(of_leaves.tolist())) == list(range(len(found)))


def test_a_column_with_a_hierarchy_is_open_until_it_has_levels_and_written_and_read_back():
    open_column = column()
    assert open_column.is_open
    assert not open_column.is_sought
    assert not open_column.other
    assert StringColumn(name="code", type="string", levels_of=ICD) == open_column
    read = open_column.as_read()
    assert isinstance(read, StringColumn)
    assert set(read.listed) == {"A00", "A01", "A02", "B00", "B01", "C00", "C01"}
    assert read.levels_of is None
    for enum in ("private", ("gut", "I", "C00", "II")):
        fields = column(enum, missing_values=("?",))
        schema = Schema(table=Table(name="t"), privacy=Privacy(unit="person"), columns=(fields,))
        assert loads(schema.dumps()) == schema


def test_the_most_levels_are_bounded_by_the_codes_and_by_what_a_run_finds():
    assert column().levels == 7
    many = {f"c{i}": f"g{i % 3}" for i in range(5000)}
    assert StringColumn(name="x", type="string", levels_of=many).levels == MOST_CUT + 3


def test_a_code_has_the_level_of_the_nearest_group_that_is_one():
    found = column(("I", "A01", "II", "gut"))
    level = {text: found.code_of(text) for text in found.held}
    assert level == {"A00": 3, "A01": 1, "A02": 3, "B00": 0, "B01": 0, "C00": 2, "C01": 2}
    assert found.code_of("gut") == Refusal.NOT_IN_ENUM  # a table holds codes
    assert found.labels == ("I (rest)", "A01", "II", "gut (rest)")


def test_codes_are_read_in_the_spellings_that_the_column_allows():
    loose = column(("I", "A01", "II"), strip=True, ignore_case=True, missing_values=("n/a",))
    assert [loose.code_of(text) for text in (" a01", "b00 ", "N/A")] == [1, 0, Refusal.MISSING]
    assert loose.codes_of(" a01 ").tolist() == [1]
    assert column(("I", "II")).code_of(7) == Refusal.NOT_IN_ENUM
    tree = {"7": "g", "8": "g", "8.0": "h"}
    numbers = StringColumn(name="x", type="string", enum=("h", "g"), levels_of=tree)
    assert [numbers.code_of(v) for v in (7, "7", 9)] == [1, 1, Refusal.NOT_IN_ENUM]
    by_code = StringColumn(name="x", type="string", levels_of=tree).as_read()
    assert by_code.code_of(8.0) == by_code.code_of("8")  # the first that reads as the number
    assert numbers.code_of(8.0) == numbers.code_of("8") == 1


def test_a_selection_names_codes_and_groups_and_must_be_whole_levels_of_a_mask():
    found = column(("I", "A01", "II"), missing_values=())
    assert found.codes_of("I").tolist() == [0, 1]
    assert found.codes_of("A01").tolist() == [1]
    assert found.codes_of(["C00", "C01", {"level": "missing"}]).tolist() == [2, 3]
    with pytest.raises(SchemaError, match=re.escape("a part of the level 'I (rest)'")):
        found.codes_of("gut")
    with pytest.raises(SchemaError, match="did you mean 'A0"):
        found.codes_of("A0O")
    with pytest.raises(SchemaError, match="empty list"):
        found.codes_of([])


def test_a_portion_says_what_it_touches_covers_and_has_of_each_level():
    found = column(("I", "A01", "II"))
    portion = portion_of(found, ["gut", "C00"])
    assert portion.touched.tolist() == [0, 1, 2]
    assert portion.covered.tolist() == [1]
    assert portion.shares(None) == pytest.approx([2 / 4, 1, 1 / 2])


class Even:
    """Draws that lie evenly between 0 and 1."""

    def random(self, size: int) -> np.ndarray:
        return (np.arange(size) + 0.5) / size


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_leaves_are_drawn_by_their_parts_of_the_level(shares, data):
    order = data.draw(st.permutations(range(len(shares))))
    of_leaves = np.array([i % 2 for i in order]) if len(shares) > 1 else np.array([0])
    parts = parts_of_levels(of_leaves, np.array(shares, dtype=float))
    for level in set(of_leaves.tolist()):
        mine = of_leaves == level
        assert parts[mine].sum() == pytest.approx(1)
        codes = np.full(1000, level)
        drawn = draw_leaves(of_leaves, parts, codes, cast(np.random.Generator, Even()))
        counts = np.bincount(drawn, minlength=len(shares))
        assert np.abs(counts - 1000 * parts * mine).max() <= 1
        if not np.array(shares)[mine].any():
            assert parts[mine] == pytest.approx(1 / mine.sum())


def test_rows_have_codes_of_their_level_and_the_other_levels_stay_what_they_are():
    found = column(("I", "A01", "II"), other=True, missing_values=())
    codes = np.repeat(np.arange(found.levels), 200)
    values = decode_column(found, codes, np.random.default_rng(1))
    again = [{"other": 3, None: 4}.get(v, found.code_of(v)) for v in values]
    assert again == codes.tolist()
    assert set(values[:200]) == {"A00", "A02", "B00", "B01"}


# Files beside the schema.


def from_file(folder: Any, text: str, fields: str = "") -> StringColumn:
    (folder / "icd.csv").write_text(text)
    path = folder / "schema.toml"
    path.write_text(HEAD + f'type = "string"\nlevels_of = "icd.csv"\n{fields}')
    found = Schema.load(path).column("code")
    assert isinstance(found, StringColumn)
    return found


def test_a_file_names_codes_then_groups_from_finer_to_coarser(tmp_path):
    lines = ["code,block,chapter", "A00,gut,I", "A01,gut,I", "A02,gut,I", "B00,skin,I"]
    found = from_file(tmp_path, "\n".join([*lines, "B01,skin,I", "C00,,II", "C01,,II"]))
    assert found.levels_of == ICD
    pairs = "\n".join(["value,group", *(f"{one},{group}" for one, group in ICD.items())])
    assert from_file(tmp_path, pairs).levels_of == ICD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A00,gut\nA01,gut", "does not name its columns"),
        ("code\nA00", "does not name its columns"),
        ("", "does not name its columns"),
        ("code,block\nA00,gut\nA01,", "whose line 3 has no group"),
        ("code,block,chapter\n,gut,I", "whose line 2 has no code"),
        ("code,block\nA00,gut\nA00,skin", "lines 2 and 3 put the same into two groups"),
        ("code,block,chapter\nA00,gut,I\nA01,gut,II", "lines 2 and 3 put the same into two groups"),
        ("code,block,chapter\nA0,A,I\nA00,A0,I", "a group in line 3 is a code too"),
        ('code,block\n"A00,gut', "a quote that is not closed"),
        ("code,block\nA00,A00", "(line 2 of 'icd.csv') above itself"),
    ],
)
def test_a_file_that_is_no_hierarchy_is_refused_with_what_to_do(text, said, tmp_path):
    with pytest.raises(SchemaError, match=re.escape(said)):
        from_file(tmp_path, text)


def test_a_file_that_is_not_there_or_cannot_be_looked_for_is_refused(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(HEAD + 'type = "string"\nlevels_of = "icd.csv"\n')
    with pytest.raises((SchemaError, UsageError), match=r"levels_of of column 'code' .*icd\.csv"):
        Schema.load(path)
    with pytest.raises(SchemaError, match="beside a schema file"):
        loads(path.read_text())
    with pytest.raises(SchemaError, match="unknown field"):
        loads(HEAD + 'type = "integer"\nenum = [1]\nlevels_of = {a = "b"}')


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("levels_of = {}", "empty levels_of"),
        ('levels_of = {a = "b", b = "c", c = "a"}', "above itself"),
        ('levels_of = {a = ""}', "empty text in levels_of"),
        ('levels_of = {a = "g", b = "g"}\nenum = ["g", "x"]', "'x' in enum, which is neither"),
        ('levels_of = {a = "g", b = "h"}\nenum = ["g"]', "the code 'b' in levels_of, and neither"),
        ('levels_of = {a = "g", b = "g"}\nenum = ["g", "a", "b"]', "every code of it is in"),
        ('levels_of = {a = "g", A = "g"}\nignore_case = true', "levels_of that repeats a value"),
        ('levels_of = {a = "A", b = "A"}\nignore_case = true', "levels_of that repeats a value"),
        ('levels_of = {a = "g"}\nmissing_values = ["a"]', "both levels_of and missing_values"),
        ('levels_of = {a = "g"}\nmissing_values = ["g"]', "both levels_of and missing_values"),
        ("levels_of = 7", "`levels_of = 7`"),
        ("levels_of = {a = 7}", "levels_of"),
    ],
)
def test_a_hierarchy_that_contradicts_itself_is_refused_with_what_to_do(fields, said):
    with pytest.raises(SchemaError, match=re.escape(said)):
        loads(HEAD + f'type = "string"\n{fields}\n')


def test_a_hierarchy_that_is_too_large_or_too_deep_is_refused():
    def refused(levels_of: dict[str, str]) -> str:
        with pytest.raises(ValidationError) as found:
            StringColumn(name="x", type="string", levels_of=levels_of)
        return str(found.value)

    assert f"limit is {MOST_TOPS}" in refused({f"c{i}": f"g{i}" for i in range(MOST_TOPS + 1)})
    assert "more than 8 groups" in refused({f"n{i}": f"n{i + 1}" for i in range(20_000)})
    assert "the limit is 65,534" in refused({f"c{i}": "g" for i in range(70_000)})
