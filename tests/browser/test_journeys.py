"""Every step of the page: a narrow and a wide table, a desk and a phone, light and dark.

At each step the page fits the screen, and axe finds nothing that would keep somebody out. The
meaning of epsilon is checked against the best test there is between two tables.
"""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admeasure.release import Release
from local_page import not_recorded, violations

Open = Callable[..., Any]
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
WIDE = 110


def looked_at(page: Any, step: str, *, axe: bool = True) -> None:
    """The page as it is, on both screens and in both colours."""
    found = []
    for size in (DESK, PHONE):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{step}: {wide} pixels too wide for {size['width']}"
            if axe and (size is DESK) == (scheme == "light"):
                found += [f"{step}, {size['width']}, {scheme}: {v}" for v in violations(page)]
    assert found == []
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")


def ready(page: Any) -> None:
    page.wait_for_selector("body[data-ready]")


def best_guess(epsilon: float, delta: float) -> float:
    """How often the better guess between two tables is right, each as likely as the other, by the
    mechanism that tells most: of all that are (epsilon, delta)-private none is told apart better
    (Kairouz, Oh and Viswanath 2015)."""
    odds = math.exp(epsilon)
    one = (delta, (1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds), 0.0)
    return sum(max(pair) for pair in zip(one, reversed(one), strict=True)) / 2


def answered(page: Any, column: str, values: str) -> None:
    """On a phone: the box for the values is wide enough to be typed into."""
    page.set_viewport_size(PHONE)
    page.select_option("#conditions select", column)
    page.fill("#conditions input", values)
    page.wait_for_selector("#answer b")
    assert page.locator("#conditions input").bounding_box()["width"] > 200
    page.set_viewport_size(DESK)


def test_thirteen_columns_from_table_to_results(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    looked_at(page, "table")
    page.click("#demo")
    page.wait_for_selector("#schema-state.fine")
    assert "TOML" not in page.inner_text("main")
    looked_at(page, "schema")
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    looked_at(page, "workload")
    page.click("#next")
    page.wait_for_url("**/budget")
    ready(page)
    assert page.inner_text("#meaning") == ""
    looked_at(page, "budget, nothing chosen")
    for epsilon, kind in (("0.5", "good"), ("4", "fair"), ("12", "poor")):
        page.fill("#epsilon", epsilon)
        page.wait_for_selector(f"#meaning.{kind}")
    for epsilon in (0.5, 1.0, 2.0):
        page.fill("#epsilon", str(epsilon))
        right = 100 * best_guess(epsilon, 1e-9)
        assert f"at most {right:.0f} times" in page.inner_text("#meaning")
    not_recorded(page)
    looked_at(page, "budget")
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    page.wait_for_selector("#conditions .condition")
    ready(page)
    page.wait_for_selector("#rows-shown td")
    answered(page, "age", "20..39")
    page.select_option("#axis-1", "sex")
    page.wait_for_selector("#marginal tbody tr")
    page.click("#add-statement")
    looked_at(page, "results")
    page.goto(f"{server.root}/book")
    ready(page)
    page.click("text=Keep the book in another place")
    page.fill("#address", "postgres://ann:hunter2@127.0.0.1:1/privacy")
    page.click("text=Use this book")
    page.wait_for_function("() => document.body.innerText.includes('leave the password out')")
    looked_at(page, "book")


KINDS = ("age", "visits", "score", "drug", "booked")


def wide_table(path: Path) -> None:
    """As a steward has it: an identifier, decimal commas, days as they are written at home."""
    rng = random.Random(0)
    names = ["person", *(f"q{i:03}_{KINDS[i % 5]}" for i in range(WIDE - 1))]
    made: dict[str, Callable[[], str]] = {
        "age": lambda: str(rng.randint(0, 99)),
        "visits": lambda: str(rng.randint(0, 5)),
        "score": lambda: f"{rng.uniform(0, 10):.1f}".replace(".", ","),
        "drug": lambda: rng.choice("abcd"),
        "booked": lambda: f"{rng.randint(1, 28):02}.03.2024",
    }
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for i in range(120):
            writer.writerow([i // 2, *(made[n.split("_")[1]]() for n in names[1:])])


def test_a_hundred_and_ten_columns_from_header_to_results(open_tab: Open, server: Any) -> None:
    wide_table(server.start / "wide.csv")
    page = open_tab().page
    page.fill("#data", "wide.csv")
    page.press("#data", "Enter")
    page.wait_for_url("**/schema")
    ready(page)
    page.fill("#unit", "person")
    page.select_option("#unit_column", "person")
    page.fill("#max_rows", "2")
    said = page.locator('details[data-column="person"] summary')
    said.get_by_text("tells whose row it is").wait_for()
    assert "never read" not in said.inner_text()
    page.click("#next")
    page.wait_for_selector("#todo:not([hidden])")
    page.wait_for_function("() => /and 97 more/.test(document.querySelector('#todo').textContent)")
    looked_at(page, "schema, to be filled in")
    kinds = {"age": "integer", "visits": "integer", "score": "number", "drug": "string found"}
    for name, kind in {**kinds, "booked": "date"}.items():
        page.fill("#filter", name)
        assert page.locator("details.column:visible").count() in (21, 22)
        page.select_option("#all-kind", kind)
    page.fill("#filter", "")
    page.wait_for_selector("#schema-state.fine")
    first = page.locator('details[data-column="q002_score"]')
    first.locator("summary").click()
    first.get_by_label("How numbers are written").select_option(label="1234,5")
    day = page.locator('details[data-column="q004_booked"]')
    day.locator("summary").click()
    day.get_by_label("How days are written").select_option("own")
    day.get_by_label("Pattern").fill("%d-%b-%Y")
    day.get_by_label("How days are written").select_option(label="31.12.2024")
    assert day.get_by_label("Pattern").count() == 0
    page.click("#add-order")
    page.wait_for_selector("#orders select >> nth=1")
    page.locator("#orders select").nth(0).select_option("q000_age")
    page.locator("#orders select").nth(1).select_option("q005_age")
    page.wait_for_function(
        "() => /bins are private/.test(document.querySelector('#problems-zero').textContent)"
    )
    page.click("#orders button")
    page.click("aside summary")
    page.wait_for_function(
        """() => { const text = document.querySelector('#toml').value;
            return text.includes('decimal = ","') && text.includes('format = "%d.%m.%Y"')
                && text.includes('enum = "private"') && !text.includes('name = "person"'); }"""
    )
    page.fill("#toml", described())
    with page.expect_navigation():
        page.click("#use-toml")
    page.wait_for_selector("#schema-state.fine")
    page.click("#verify")
    page.wait_for_selector("#verified .fine")
    looked_at(page, "schema", axe=False)
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    page.wait_for_function("() => /5,886/.test(document.querySelector('#preview').textContent)")
    looked_at(page, "workload")
    page.select_option("#rule-kind", "random")
    page.fill("#many", "30")
    page.wait_for_function(
        "() => /random:30:2way/.test(document.querySelector('#code-command').textContent)"
    )
    page.click("#next")
    page.wait_for_url("**/budget")
    ready(page)
    not_recorded(page)
    looked_at(page, "budget", axe=False)
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    page.wait_for_selector("#conditions .condition")
    ready(page)
    page.wait_for_selector("#rows-shown td")
    answered(page, "q001_visits", "0..2")
    looked_at(page, "results")
    run = next(server.folder.glob("tables/wide-*/runs/1"))
    assert len(Release.load(run / "release").schema.names) == WIDE - 1
    assert (run / "report.html").stat().st_size < 2_000_000


def described() -> str:
    """The schema file of the wide table."""
    fields = {
        "age": 'type = "integer"\nminimum = 0\nmaximum = 99\nbins = 10',
        "visits": 'type = "integer"\nminimum = 0\nmaximum = 5',
        "score": 'type = "number"\nminimum = 0\nmaximum = 10\nbins = 5\ndecimal = ","',
        "drug": 'type = "string"\nenum = ["a", "b", "c", "d"]',
        "booked": 'type = "date"\nminimum = 2024-03-01\nmaximum = 2024-03-31\nbins = 4\n'
        'format = "%d.%m.%Y"',
    }
    columns = (
        f'[[column]]\nname = "q{i:03}_{KINDS[i % 5]}"\n{fields[KINDS[i % 5]]}'
        for i in range(WIDE - 1)
    )
    head = '[table]\nname = "wide"\n[privacy]\nunit = "person"\nunit_column = "person"\n'
    return head + "max_rows_per_unit = 2\n" + "\n".join(columns) + "\n"


def test_axe_would_tell(open_tab: Open) -> None:
    """The measure itself: a control without a name, and text that can hardly be seen."""
    page = open_tab().page
    page.evaluate("document.querySelector('label[for=data]').remove()")
    page.evaluate("document.querySelector('.lead').style.color = '#eeeeee'")
    rules = {v.split(" ")[0] for v in violations(page)}
    assert {"label", "color-contrast"} <= rules
