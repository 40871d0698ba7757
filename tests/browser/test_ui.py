"""The local page in a real browser: the whole path, and what users do that nobody planned."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admeasure.privacy.book import Book
from admeasure.release import Release
from local_page import not_recorded, violations

PATIENCE = 150_000
HOSTILE = {
    "script": "<script>window.hacked = 1</script>",
    "image": '"><img src=x onerror="window.hacked = 2">',
    "long": "a very long name " * 30,
    "right to left": "עמודה \u202e אחת",
    "template": "{{ 7 * 7 }}${7*7}",
}

Open = Callable[..., Any]


def ready(page: Any) -> None:
    page.wait_for_selector("body[data-ready]")


def demo(page: Any) -> None:
    """The bundled table, up to a valid schema."""
    page.click("#demo")
    page.wait_for_url("**/schema")
    page.wait_for_selector("#schema-state.fine")


def to_budget(page: Any) -> None:
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    page.click("#next")
    page.wait_for_url("**/budget")
    ready(page)


def table_of(page: Any) -> str:
    return page.url.split("/tables/")[1].split("/")[0]


def start(page: Any) -> None:
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/\d+$"))


def finished(page: Any) -> None:
    page.wait_for_selector("#conditions .condition")
    ready(page)


def test_the_whole_path_from_table_to_answers(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    demo(page)
    assert "admeasure check" in page.inner_text("#code-command")
    page.click("#verify")
    page.wait_for_selector("#verified .fine")
    to_budget(page)
    assert page.input_value("#epsilon") == "", "the steward chooses it"
    assert page.input_value("#book-choice") == "+", "a book is the default"
    page.click("#start")
    page.wait_for_function(
        "() => /epsilon, the total/.test(document.querySelector('#plan-state').textContent)"
    )
    assert page.locator(".problem:visible").count() == 0, "what is missing is no mistake"
    not_recorded(page, mechanism="aim")
    assert "Nobody will know" in page.inner_text("#book-left")
    page.select_option("#book-choice", "+")
    page.fill("#dataset", "whole path")
    page.fill("#total", "1.5")
    page.fill("#certify", "10")
    page.wait_for_function(
        """() => /--certify 0.1/.test(document.querySelector('#code-command').textContent)
            && /whole path/.test(document.querySelector('#code-command').textContent)"""
    )
    for mistake in ("much", ""):
        page.fill("#epsilon", mistake)
        page.wait_for_selector("#code-command.soft")
        assert page.inner_text("#code-command") == "The form is not complete yet."
        assert page.inner_text("#code-python") == "The form is not complete yet."
        page.fill("#epsilon", "1")
        page.wait_for_selector("#code-command:not(.soft)")
        assert "admeasure plan" in page.inner_text("#code-command")
    start(page)
    finished(page)

    table, number = page.url.split("/")[-3], page.url.split("/")[-1]
    release = Release.load(server.folder / f"tables/{table}/runs/{number}/release")
    assert release.certificate.private
    assert Book.open(server.folder / "budget.db").account("whole path").spent.rho > 0
    assert release.errors is not None, "the certificate was bought"
    shown = page.locator("#rows-shown th").all_inner_texts()
    assert shown == list(release.schema.names)
    assert page.locator("#rows-shown tbody tr").count() > 5

    column = release.schema.columns[1]
    page.select_option("#conditions select", column.name)
    label = column.labels[0]
    typed = f'"{label}"' if column.grid is None else label.replace(" to ", "..")
    page.fill("#conditions input", typed)
    page.wait_for_selector("#answer b")
    value = float(release.marginal([column.name])[0])
    assert page.inner_text("#answer b") == f"{round(value):,} rows"

    page.click("#add-condition")
    page.locator("#conditions select").nth(1).select_option(release.schema.columns[0].name)
    page.locator("#conditions input").nth(1).fill("nonsense")
    page.wait_for_selector("#answer.problem, #ask .problem")
    page.locator("#conditions button").nth(1).click()
    page.wait_for_selector("#answer.answer b")

    page.select_option("#axis-1", column.name)
    page.wait_for_selector("#marginal tbody tr")
    assert page.locator("#marginal tbody tr").count() == column.levels

    frame = page.frame_locator("iframe")
    frame.locator("h1").wait_for()
    assert release.schema.table.name in frame.locator("h1").inner_text()

    for name, begins in (
        ("certificate.json", b"{"),
        ("certificate.html", b"<!doctype html>"),
        ("release.zip", b"PK"),
        ("report.html", b"<!doctype html>"),
    ):
        with page.expect_download() as got:
            page.click(f'#downloads a[href$="{name}"]')
        assert Path(got.value.path()).read_bytes().startswith(begins)
    page.fill("#sample-rows", "50")
    with page.expect_download() as got:
        page.click("#sample button >> nth=0")
    lines = Path(got.value.path()).read_text().splitlines()
    assert len(lines) == 51
    assert lines[0].split(",")[0].strip('"') == release.schema.names[0]


@dataclass(frozen=True)
class Done:
    """A finished run: its page and its release."""

    address: str
    release: Release


@pytest.fixture(scope="module")
def done(chromium: Any, server: Any) -> Done:
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE)
    server.enter(page)
    demo(page)
    to_budget(page)
    not_recorded(page)
    start(page)
    finished(page)
    address = page.url
    page.close()
    table, number = address.split("/")[-3], address.split("/")[-1]
    return Done(address, Release.load(server.folder / f"tables/{table}/runs/{number}/release"))


def test_answers_to_at_least_r_of_k_come_as_they_are_typed(open_tab: Open, done: Done) -> None:
    page, release = open_tab().page, done.release
    page.goto(done.address)
    finished(page)
    categorical = [c for c in release.schema.columns if c.type == "string"][:2]
    page.click("#add-condition")
    for i, column in enumerate(categorical):
        page.locator("#conditions select").nth(i).select_option(column.name)
        page.locator("#conditions input").nth(i).fill(column.labels[0])
    page.select_option("#at-least", "1")
    page.wait_for_function(
        "() => document.querySelector('#query-toml').textContent.includes('at_least = 1')"
    )
    table = release.marginal([c.name for c in categorical])
    either = float(table[0, :].sum() + table[:, 0].sum() - table[0, 0])
    page.wait_for_function(
        "t => document.querySelector('#answer b')?.textContent === t", arg=f"{round(either):,} rows"
    )


def test_conclusions_are_checked_as_they_are_typed(open_tab: Open, done: Done) -> None:
    page, release = open_tab().page, done.release
    page.goto(done.address)
    finished(page)
    column = next(c for c in release.schema.columns if c.type == "string")
    page.click("#add-statement")
    page.locator(".statement select").nth(0).select_option(column.name)
    page.locator(".statement input").nth(0).fill(f'"{column.labels[0]}"')
    page.locator(".statement select").nth(1).select_option("below")
    page.locator(".statement input").nth(1).fill("99.99")
    page.wait_for_selector("#verdicts .badge")
    assert "in less than 99.99% of the rows" in page.inner_text("#verdicts th")
    page.locator(".statement input").nth(1).fill("many")
    page.wait_for_function(
        "() => /no number/.test(document.querySelector('#conclusions-problem').textContent)"
    )
    page.click("#conclusions summary")
    assert "[[conclusion]]" in page.input_value("#conclusions-text"), "the same as a file"
    page.fill("#conclusions-text", "[[conclusion]]")
    page.wait_for_function(
        "() => document.querySelector('#conclusions-problem').textContent.includes('name')"
    )


def test_real_against_synthetic_is_shown_when_asked_for_and_says_what_it_is(
    open_tab: Open, done: Done
) -> None:
    page = open_tab().page
    assert page.goto(f"{done.address}/internal").status == 404, "nothing before it is asked for"
    page.goto(done.address)
    finished(page)
    page.click("#truth summary")
    page.click("#internal")
    page.wait_for_selector("#internal-shown .stamp")
    assert "NOT PRIVATE" in page.inner_text("#internal-shown .stamp")
    frame = page.frame_locator("#internal-shown iframe")
    frame.locator("#histograms article").first.wait_for()
    assert "NOT PRIVATE" in frame.locator("body").inner_text()


def test_a_run_survives_a_reload_and_a_closed_tab_and_can_be_cancelled_and_continued(
    open_tab: Open, server: Any
) -> None:
    tab = open_tab()
    page = tab.page
    demo(page)
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    page.check("input[name=kind][value=rule]")
    page.fill("#k", "3")
    page.wait_for_function(
        "() => /all-3way/.test(document.querySelector('#code-command').textContent)"
    )
    page.click("#next")
    page.wait_for_url("**/budget")
    ready(page)
    not_recorded(page, mechanism="aim")
    start(page)
    address = page.url
    page.wait_for_function("() => document.querySelectorAll('#rounds tr').length > 20")
    seen = page.locator("#rounds tr").count()
    page.reload()
    page.wait_for_function("n => document.querySelectorAll('#rounds tr').length >= n", arg=seen)
    assert page.inner_text("#run-state") == "running"
    assert "measured so far" in page.inner_text("#estimate")
    assert page.inner_text("#run-words").startswith("Now: "), "what it is doing has a name"

    other = open_tab(tab.page.context).page  # a second tab of the same browser
    page.close()
    other.goto(address)
    other.wait_for_function("n => document.querySelectorAll('#rounds tr').length >= n", arg=seen)
    other.click("#cancel")
    other.wait_for_function("() => document.querySelector('#run-state').textContent === 'stopped'")
    other.wait_for_selector("#resume:not([hidden])")
    assert violations(other) == []
    drawn = other.locator("#rounds tr").count()
    assert drawn >= seen
    other.click("#resume")
    other.wait_for_function("() => document.querySelector('#run-state').textContent === 'running'")
    other.wait_for_function("n => document.querySelectorAll('#rounds tr').length >= n", arg=drawn)
    other.click("#cancel")
    other.wait_for_function("() => document.querySelector('#run-state').textContent === 'stopped'")


def test_a_wrong_schema_is_named_where_it_is_wrong_and_blocks_the_way(
    open_tab: Open, server: Any
) -> None:
    (server.start / "small.csv").write_text("age,city\n30,Rome\n41,Oslo\n")
    page = open_tab().page
    page.fill("#data", "small.csv")
    page.press("#data", "Enter")
    page.wait_for_url("**/schema")
    ready(page)
    page.wait_for_function(
        "() => /3 to fill in/.test(document.querySelector('#schema-state').textContent)"
    )
    assert page.input_value("#unit") == "", "the unit is the steward's to say"
    assert page.locator(".problem:visible").count() == 0, "nothing is wrong before it is typed"
    page.click("#next")
    assert page.url.endswith("/schema")
    assert page.locator("#todo li").all_inner_texts() == [
        "Say whom the guarantee protects: a person, a household, …",
        "Choose the kind of values: age, city",
    ]
    page.click("#todo button >> nth=0")
    assert page.evaluate("document.activeElement.id") == "unit"

    age, city = page.locator("details.column").all()
    age.get_by_label("Kind of values").select_option("integer")
    age.get_by_label("Smallest value").fill("ninety")
    page.wait_for_function(
        "() => /whole number/.test(document.querySelector('details.column .problem').textContent)"
    )
    age.get_by_label("Smallest value").fill("0")
    age.get_by_label("Largest value").fill("40")
    city.get_by_label("Kind of values").select_option("string")
    city.get_by_label("One a line").fill("Rome\nOslo")
    page.fill("#unit", "person")
    page.wait_for_selector("#schema-state.fine")
    page.click("#verify")
    page.wait_for_selector("#verified .problem")
    said = page.inner_text("#verified")
    assert "age" in said
    assert "41" not in said, "a value of the table"
    page.reload()
    page.wait_for_selector("#schema-state.fine")
    assert page.input_value("#unit") == "person", "it was kept as it was typed"


def test_a_value_of_the_table_never_reaches_the_page_or_its_folder(
    open_tab: Open, server: Any
) -> None:
    canary = "quixotry-7f3a91"
    (server.start / "canary.csv").write_text(f"age,city\n30,Rome\n41,{canary}\n")
    tab = open_tab()
    page = tab.page
    page.fill("#data", "canary.csv")
    page.press("#data", "Enter")
    page.wait_for_url("**/schema")
    ready(page)
    age, city = page.locator("details.column").all()
    age.get_by_label("Kind of values").select_option("integer")
    age.get_by_label("Smallest value").fill("0")
    age.get_by_label("Largest value").fill("90")
    city.get_by_label("Kind of values").select_option("string")
    city.get_by_label("One a line").fill("Rome")
    page.fill("#unit", "person")
    page.wait_for_selector("#schema-state.fine")
    assert canary not in page.content()
    page.click("#verify")
    page.wait_for_selector("#verified .problem")
    assert "city" in page.inner_text("#verified")
    assert canary not in page.content()
    kept = [path for path in server.folder.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if canary.encode() in path.read_bytes()]


def test_a_budget_that_is_spent_is_refused_and_charges_nothing(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    page.goto(f"{server.root}/book")
    ready(page)
    page.fill("#dataset", "nearly spent")
    page.fill("#epsilon", "0.5")
    page.click("#create-account button")
    page.wait_for_selector("text=nearly spent")
    page.goto(f"{server.root}/")
    ready(page)
    demo(page)
    to_budget(page)
    not_recorded(page, epsilon="2")
    assert page.locator("#meaning.fair").count() == 1
    page.select_option("#book-choice", "=nearly spent")
    page.wait_for_selector("#book-left.problem")
    start(page)
    page.wait_for_function("() => document.querySelector('#run-state').textContent === 'failed'")
    assert "Nothing was charged" in page.inner_text("#run-message")
    assert Book.open(server.folder / "budget.db").account("nearly spent").spent.rho == 0


def test_two_tabs_do_not_overwrite_each_other(open_tab: Open, server: Any) -> None:
    first = open_tab()
    demo(first.page)
    second = open_tab(first.page.context).page
    second.goto(first.page.url)
    second.wait_for_selector("#schema-state.fine")
    second.fill("#description", "typed in the second")
    second.wait_for_function(
        "() => document.querySelector('#toml').value.includes('in the second')"
    )
    first.page.fill("#description", "typed in the first")
    first.page.wait_for_selector("#schema-state.problem")
    assert "another tab" in first.page.inner_text("#schema-state")
    first.page.reload()
    first.page.wait_for_selector("#schema-state.fine")
    assert first.page.input_value("#description") == "typed in the second"


def test_hostile_names_are_shown_and_never_run(open_tab: Open, server: Any) -> None:
    with open(server.start / "hostile.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HOSTILE.values())
        for i in range(300):
            writer.writerow(["true" if (i + j) % 3 else "false" for j in range(len(HOSTILE))])
    page = open_tab().page
    page.fill("#data", "hostile.csv")
    page.press("#data", "Enter")
    page.wait_for_url("**/schema")
    ready(page)
    shown = page.locator("details.column .name").all_inner_texts()
    assert [s.split() for s in shown] == [n.split() for n in HOSTILE.values()]
    for details in page.locator("details.column").all():
        details.get_by_label("Kind of values").select_option("boolean")
    page.fill("#unit", "<b>person</b>")
    page.wait_for_selector("#schema-state.fine")
    to_budget(page)
    not_recorded(page)
    start(page)
    finished(page)
    page.select_option("#axis-1", HOSTILE["script"])
    page.wait_for_selector("#marginal tbody tr")
    page.frame_locator("iframe").locator("h1").wait_for()
    words = page.frame_locator("iframe").locator("#columns").inner_text()
    assert HOSTILE["script"] in words
    assert "{{ 7 * 7 }}" in words
    page.goto(f"{page.url}/report")
    assert page.evaluate("window.hacked") is None
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, "a long name must not push the page aside"


def test_runs_are_compared_side_by_side(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    demo(page)
    for epsilon in ("0.5", "2"):
        page.goto(f"{server.root}/tables/{table_of(page)}/budget")
        ready(page)
        not_recorded(page, epsilon=epsilon)
        start(page)
        finished(page)
    page.click("text=compare runs")
    ready(page)
    assert violations(page) == []
    assert page.locator("table.compare thead th").all_inner_texts() == ["", "run 1", "run 2"]
    table = table_of(page)
    means = [
        sum(b.error / r.rows for b in r.bounds().values()) / len(r.bounds())
        for r in (Release.load(server.folder / f"tables/{table}/runs/{n}/release") for n in (1, 2))
    ]
    row = page.locator("table.compare tr", has_text="mean bound").locator("td").all_inner_texts()
    assert [float(x) for x in row] == pytest.approx(means, rel=0.01)


@pytest.mark.parametrize("width", [1280, 800, 360])
def test_numbers_of_a_wide_table_stand_on_one_line(open_tab: Open, server: Any, width: int) -> None:
    """All tables of five of 500 columns: 255,244,687,600 of them."""
    names = [f"c{i}" for i in range(500)]
    (server.start / "wide.csv").write_text(",".join(names) + "\n")
    columns = "".join(f'[[column]]\nname = "{n}"\ntype = "boolean"\n' for n in names)
    (server.start / "wide.toml").write_text(
        f'[table]\nname = "wide"\n[privacy]\nunit = "person"\n{columns}'
    )
    page = open_tab().page
    page.set_viewport_size({"width": width, "height": 900})
    page.click("#open summary")
    page.fill("#data", "wide.csv")
    page.fill("#schema", "wide.toml")
    page.press("#schema", "Enter")
    page.wait_for_url("**/schema")
    page.wait_for_selector("#schema-state.fine")
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    page.fill("#k", "5")
    page.wait_for_selector("#preview .tile:has-text('255 billion')")
    lines = page.locator("#preview .tile b").evaluate_all(
        """found => found.map(b => { const range = document.createRange();
        range.selectNodeContents(b); return [range.getClientRects().length,
        b.scrollWidth <= b.clientWidth]; })"""
    )
    assert lines == [[1, True]] * 3
    assert "to hold those looked at" in page.inner_text("#preview")
    page.click("#next")
    page.wait_for_url("**/budget")
    ready(page)
    page.fill("#rows", "5000")
    page.fill("#epsilon", "0.1")
    page.wait_for_selector("#plan[aria-busy=false] > .warning:first-child")
    assert "Fewer columns at once" in page.inner_text("#plan > .warning")
    assert page.locator("#plan .help", has_text="Fewer columns at once").count() == 0


@pytest.mark.slow
def test_a_table_of_a_million_rows_does_not_block_the_page(open_tab: Open, server: Any) -> None:
    """Pages are answered while the rows are read and measured."""
    rows = "".join(f"{i % 90},{'true' if i % 7 else 'false'}\n" for i in range(1000))
    with open(server.start / "million.csv", "w") as file:
        file.write("age,smoker\n")
        for _ in range(1000):
            file.write(rows)
    text = """[table]
name = "million"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 89
[[column]]
name = "smoker"
type = "boolean"
"""
    (server.start / "million.toml").write_text(text)
    page = open_tab().page
    page.click("#open summary")
    page.fill("#data", "million.csv")
    page.fill("#schema", "million.toml")
    page.press("#schema", "Enter")
    page.wait_for_url("**/schema")
    page.wait_for_selector("#schema-state.fine")
    to_budget(page)
    not_recorded(page)
    start(page)
    address = page.url
    other = open_tab(page.context).page
    answered = 0
    while other.request.get(address).text().count("Rows that meet") == 0:
        for path in (
            f"{server.root}/",
            f"{server.root}/book",
            f"{address.split('/runs')[0]}/schema",
        ):
            assert other.request.get(path).ok
        answered += 1
    assert answered > 0, "the run ended before anything could be asked"
    finished(page)
    release = Release.load(next(server.folder.glob("tables/million-*/runs/1/release")))
    assert abs(release.rows - 1_000_000) < 5_000


def tab_to(page: Any, selector: str, most: int = 500) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement?.matches(s)", selector):
            return
    raise AssertionError(f"Tab never reaches {selector}")


def test_the_path_can_be_walked_with_a_keyboard_alone(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    tab_to(page, "#demo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/schema")
    page.wait_for_selector("#schema-state.fine")
    tab_to(page, "#next")
    page.keyboard.press("Enter")
    page.wait_for_selector("#preview .tile")
    tab_to(page, "#next")
    page.keyboard.press("Enter")
    page.wait_for_url("**/budget")
    ready(page)
    tab_to(page, "#epsilon")
    page.keyboard.type("1")
    tab_to(page, "#book-choice")
    page.keyboard.press("End")
    tab_to(page, "#budget-form > details > summary")
    page.keyboard.press("Enter")
    tab_to(page, "#mechanism")
    page.keyboard.type("indep")
    page.wait_for_function("() => document.querySelector('#mechanism').value === 'independent'")
    page.wait_for_function(
        "() => /mechanism independent/.test(document.querySelector('#code-command').textContent)"
    )
    tab_to(page, "#start")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    finished(page)
    tab_to(page, "#conditions select")
    page.keyboard.press("Tab")
    page.keyboard.type("(missing), x")
    page.wait_for_function("() => document.querySelector('#answer').textContent.length > 0")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "where the focus is can be seen"
