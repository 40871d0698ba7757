"""The chart helpers: true to their numbers, safe with any name, readable by everybody."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats.contingency import association

from admeasure.reporting import charts
from admeasure.reporting.charts import Dot, HeatCell
from admeasure.reporting.facts import cramers_v

# XML has no way to write control characters; browsers ignore them.
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"]), min_size=1, max_size=60)
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a" * 500, "עברית", "]]>"]
PARTS = st.floats(0, 1)


def drawn(markup: str) -> ET.Element:
    return ET.fromstring(str(markup))


def heat(names: list[str]) -> str:
    cells = {
        (b, a): HeatCell(0.5 if (a + b) % 3 else None, uncertain=bool(a % 2))
        for a, b in combinations(range(len(names)), 2)
    }
    return charts.heat_map(names, cells, title="Pairs", description="All.", measure="strength")


@given(st.lists(NAMES, min_size=2, max_size=6))
def test_every_name_in_a_heat_map_is_text_and_nothing_else(names: list[str]) -> None:
    root = drawn(heat(names))
    allowed = {"svg", "desc", "g", "rect", "path", "circle", "text", "title"}
    assert {e.tag for e in root.iter()} <= allowed
    titles = [t.find("title").text for t in root.iter("text")]  # pyright: ignore[reportOptionalMemberAccess]
    assert sorted(titles) == sorted([*names[1:], *names[:-1]])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_adds_no_element_and_no_attribute(name: str) -> None:
    dots = [Dot(0.1, 0.2, name)]
    plain = [Dot(0.1, 0.2, "plain")]
    words = {"x_title": "x", "y_title": "y", "title": "t", "description": "d"}
    for made, usual in (
        (charts.scatter(dots, **words), charts.scatter(plain, **words)),
        (heat([name, "other"]), heat(["plain", "other"])),
        *[
            tuple(
                charts.histogram([0, 1], [(word, 1.0, 0.0, 2.0)], [(0.0, word)], title=word)
                for word in (name, "plain")
            )
        ],
    ):
        shape = [(e.tag, sorted(e.attrib)) for e in drawn(made).iter()]
        assert shape == [(e.tag, sorted(e.attrib)) for e in drawn(usual).iter()]


@given(PARTS, PARTS, PARTS)
def test_a_bar_is_as_long_as_its_share_and_its_whisker_spans_the_interval(
    a: float, b: float, c: float
) -> None:
    low, value, high = sorted((a, b, c))
    root = drawn(charts.interval_bar(value, low, high, 1.0))
    assert float(root.find("rect").attrib["width"]) == pytest.approx(100 * value, abs=0.006)  # pyright: ignore[reportOptionalMemberAccess]
    ends = re.match(r"M([\d.]+) 8H([\d.]+)", root.find("path").attrib["d"])  # pyright: ignore[reportOptionalMemberAccess]
    assert ends is not None
    assert [float(x) for x in ends.groups()] == pytest.approx([100 * low, 100 * high], abs=0.006)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -5.0, 1e300])
def test_no_number_leaves_the_drawing(value: float) -> None:
    for markup in (
        charts.interval_bar(value, value, value, 10),
        charts.plain_bar(value, 10),
        charts.twin_bars(value, value, 10),
        charts.plain_bar(1, value),
    ):
        assert "nan" not in markup
        assert "inf" not in markup
        assert all(0 <= float(r.attrib["width"]) <= 100 for r in drawn(markup).iter("rect"))


@given(
    st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 100)), min_size=2, max_size=12),
)
def test_the_area_of_a_bar_is_its_count_unless_it_is_cut_off(
    bins: list[tuple[float, float]],
) -> None:
    edges = np.cumsum([0.0, *(w for w, _ in bins)]).tolist()
    told = [("x", count, count / 2, 2 * count) for _, count in bins]
    root = drawn(charts.histogram(edges, told, [(0.0, "0")], title="t"))
    paths = [p.attrib["d"] for p in root.iter("path") if p.get("class") == "c-bar"]
    assert len(paths) == len(bins)
    areas = []
    for path in paths:
        found = re.fullmatch(r"M[\d.]+ ([\d.]+)V([\d.]+)h([\d.]+)V[\d.]+z", path)
        assert found is not None
        floor, top, width = map(float, found.groups())
        assert 0 < floor - 96 <= top <= floor
        areas.append((floor - top, width, top > 10.5))
    counts = [count for _, count in bins]
    shown = [
        (height * (width + 0.5), count)
        for (height, width, whole), count in zip(areas, counts, strict=True)
        if whole and width > 6 and count > 1
    ]
    ratios = [area / count for area, count in shown if area > 200]
    assert all(r == pytest.approx(ratios[0], rel=0.05) for r in ratios)


def test_a_spike_is_cut_off_and_leaves_the_others_to_be_seen() -> None:
    bins = [("low", 10.0, 5.0, 15.0), ("spike", 900.0, 890.0, 910.0), ("high", 12.0, 7.0, 17.0)]
    root = drawn(charts.histogram([0, 10, 11, 21], bins, [], title="t"))
    tops = [
        float(re.findall(r"V([\d.]+)", p.attrib["d"])[0])
        for p in root.iter("path")
        if p.get("class") == "c-bar"
    ]
    assert tops[1] < tops[2] < tops[0] < 60  # the floor is at 106


def test_of_few_bars_those_that_hold_nearly_all_rows_are_drawn_whole() -> None:
    """Three of eight: all there is to see."""
    counts = [900.0, 10.0, 800.0, 20.0, 10.0, 5.0, 700.0, 5.0]
    bins = [(f"b{i}", c, c, c) for i, c in enumerate(counts)]
    root = drawn(charts.histogram(list(range(9)), bins, [], title="t"))
    bars = [p.attrib["d"] for p in root.iter("path") if p.get("class") == "c-bar"]
    tops = [float(re.findall(r"V([\d.]+)", bar)[0]) for bar in bars]
    assert tops[0] < tops[2] < tops[6] < tops[3]


@pytest.mark.parametrize("edges", [[-1.7e308, 0, 1, 1.7e308], [0, 5e-324, 1e300], [0, 1e-9, 1e9]])
def test_bins_of_any_width_can_be_drawn(edges: list[float]) -> None:
    bins = [("b", 5.0, 0.0, 9.0)] * (len(edges) - 1)
    markup = charts.histogram(edges, bins, [(edges[0], "first"), (edges[-2], "last")], title="t")
    drawn(markup)
    assert "nan" not in markup
    assert "inf" not in markup


def test_a_stronger_pair_has_a_stronger_shade() -> None:
    values = [0.0, 0.1, 0.4, 0.9, 1.0]
    cells = {(i + 1, 0): HeatCell(v) for i, v in enumerate(values)}
    root = drawn(charts.heat_map(list("abcdef"), cells, title="t", description="d", measure="m"))
    found = [r.attrib["fill-opacity"] for r in root.iter("rect") if r.get("class") == "c-heat"]
    shades = [float(x) for x in found]
    assert len(set(shades)) == len(values)
    assert shades == sorted(shades)
    assert shades[-1] == 1


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=20))
def test_a_point_lies_above_the_diagonal_exactly_where_its_bound_holds(
    points: list[tuple[float, float]],
) -> None:
    dots = [Dot(x, y, str(i)) for i, (x, y) in enumerate(points)]
    words = {"x_title": "x", "y_title": "y", "title": "t", "description": "d"}
    root = drawn(charts.scatter(dots, **words))
    box = next(r for r in root.iter("rect"))
    left, top, size = (float(box.attrib[k]) for k in ("x", "y", "width"))
    for dot, circle in zip(dots, root.iter("circle"), strict=True):
        x = (float(circle.attrib["cx"]) - left) / size
        y = (top + size - float(circle.attrib["cy"])) / size
        assert -1e-3 <= x <= 1.001
        assert -1e-3 <= y <= 1.001
        if abs(dot.x - dot.y) > 0.01:
            assert (y > x) == (dot.y > dot.x)


@given(st.floats(1e-6, 1e6))
def test_marks_on_an_axis_are_round_and_few(most: float) -> None:
    step = charts.nice_step(most)
    assert 1 <= most / step <= 10
    leading = float(f"{step:e}".split("e")[0])
    assert leading in (1, 2, 5)


def test_a_chart_that_stands_alone_says_what_it_is() -> None:
    root = drawn(heat(["a", "b"]))
    assert root.attrib["role"] == "img"
    assert "Pairs" in root.attrib["aria-label"]
    assert "All." in (root.findtext("desc") or "")


def test_nothing_in_a_chart_refers_to_anything_outside() -> None:
    for markup in (heat(["http://a", "b"]), charts.plain_bar(1, 2)):
        for element in drawn(markup).iter():
            assert not {"href", "src", "style"} & {k.split("}")[-1] for k in element.attrib}


@given(
    st.integers(2, 5).flatmap(
        lambda r: st.integers(2, 5).flatmap(
            lambda c: st.lists(st.integers(1, 50), min_size=r * c, max_size=r * c).map(
                lambda v: np.array(v).reshape(r, c)
            )
        )
    )
)
def test_dependence_is_cramers_v(table: np.ndarray) -> None:
    assert cramers_v(table) == pytest.approx(association(table, method="cramer"), abs=1e-9)


def test_an_empty_table_has_no_dependence() -> None:
    assert cramers_v(np.zeros((3, 3))) == 0
    assert cramers_v(np.array([[5.0, 3.0]])) == 0


# Colours: WCAG 2.1, 1.4.3, computed from the style sheet.


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def palettes() -> dict[str, dict[str, str]]:
    text = (files("admeasure.reporting") / "templates" / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    found = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+);", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), found, strict=True))


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_text_has_the_contrast_that_aa_asks_for(name: str) -> None:
    colours = palettes()[name]
    for text in ("ink", "soft", "good", "fair", "poor"):
        for ground in ("paper", "panel"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["on-alarm"], colours["alarm"]) >= 4.5
    assert contrast(colours["paper"], colours["bar"]) >= 4.5, "text of a main button"


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_drawings_have_the_contrast_that_aa_asks_for(name: str) -> None:
    colours = palettes()[name]
    for shape in ("bar", "true", "heat", "whisker", "good", "fair", "poor"):
        assert contrast(colours[shape], colours["paper"]) >= 3, shape
