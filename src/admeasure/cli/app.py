"""The verbs and their options. Each verb's work is in a module of its own, imported when it runs,
so that `--help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from admeasure import __version__
from admeasure.cli.arguments import (
    Conclusions,
    Confidence,
    Data,
    Json,
    ReleasePath,
    SchemaPath,
    Show,
    WorkloadText,
)
from admeasure.cli.infer import infer
from admeasure.cli.ledger import ledger
from admeasure.cli.others import compare, export
from admeasure.cli.spending import EXTRA, fit, plan, screen
from admeasure.cli.study import study
from admeasure.cli.talking import talking
from admeasure.errors import ExitCode

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Release tables and answers about people under differential privacy.",
    epilog="Start with `admeasure demo`. Progress goes to stderr, results to stdout. Exit codes: "
    + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode)
    + ".",
)
app.add_typer(ledger, name="ledger")


def command() -> Any:
    """The parser of the whole command line."""
    return typer.main.get_command(app)


def _version(value: bool) -> None:  # noqa: FBT001 (a callback of the parser)
    if value:
        print(f"admeasure {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to put the files.")
    ] = None,
) -> None:
    """The whole path on a bundled table; under a minute."""
    from admeasure.cli.demo import show

    show(out)


@app.command()
def draft(
    data: Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write it.")
    ] = None,
    public: Annotated[
        list[str] | None,
        typer.Option(
            "--public",
            metavar="FILE",
            help="A public file to fill in from: a table like this one, a codebook (CSV), a Table "
            "Schema, SDV metadata or domain.json. Give one or more.",
        ),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """Write a schema with names and storage types; bounds that no public file gives are yours."""
    from admeasure.cli.draft import show

    show(data, out, public or (), force=force)


@app.command()
def check(
    data: Data,
    schema: SchemaPath,
    *,
    show_values: Show = False,
    json: Json = False,
) -> None:
    """Whether a table satisfies its schema. Names columns and rules; a value only by --show."""
    from admeasure.cli.check import show

    raise typer.Exit(show(data, schema, values=show_values, json=json))


app.command(context_settings=EXTRA)(plan)
app.command(context_settings=EXTRA)(fit)
app.command()(screen)


@app.command("run")
def run_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The run file (TOML).")],
    *,
    json: Json = False,
) -> None:
    """Do all that a run file says: fit, rows, answers, report. Again: what is missing of it."""
    from admeasure.cli.run_file import show

    show(file, json=json)


@app.command()
def sample(
    release: ReleasePath,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="A .csv or .parquet file.")
    ],
    rows: Annotated[
        int | None,
        typer.Option("-n", "--rows", metavar="ROWS", help="As many as the table has, if not told."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITIONS", help="Rows that meet: \"sex = 'Female'\"."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option("--like", metavar="FILE", help="A CSV table of conditions, with `rows`."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="These columns only.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeatable rows; harmless here.")
    ] = None,
    *,
    search: Annotated[
        bool | None,
        typer.Option(
            "--search/--no-search",
            help="Bring the rows' counts nearer to the model's answers; where it is quick, if not "
            "told.",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="S", help="End the search after this time."),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Mark CSV texts that would run as formulas."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    json: Json = False,
) -> None:
    """Write synthetic rows. Costs no budget."""
    from admeasure.cli.sample import show

    show(
        release,
        out,
        rows,
        seed,
        where=where,
        like=like,
        columns=columns,
        search=search,
        max_seconds=max_seconds,
        safe=spreadsheet_safe,
        force=force,
        json=json,
    )


@app.command()
def answer(
    release: ReleasePath,
    queries: Annotated[
        Path | None, typer.Argument(metavar="QUERIES", help="A query file (TOML).")
    ] = None,
    confidence: Confidence = 0.95,
    conclusions: Conclusions = None,
    mean: Annotated[
        list[str] | None, typer.Option("--mean", metavar="COLUMN", help="The mean of a column.")
    ] = None,
    total: Annotated[
        list[str] | None, typer.Option("--sum", metavar="COLUMN", help="The sum of a column.")
    ] = None,
    median: Annotated[
        list[str] | None, typer.Option("--median", metavar="COLUMN", help="The median.")
    ] = None,
    quantile: Annotated[
        tuple[float, str] | None,
        typer.Option(
            "--quantile", metavar="SHARE COLUMN", help="What this share of the rows do not pass."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITIONS", help="For these: sex = 'F', age = {from = 30}."
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Each question's answer with its interval. Costs no budget."""
    from admeasure.cli.answer import show, statistics_of

    asked = statistics_of(mean or [], total or [], median or [], quantile, where)
    show(release, queries, confidence, conclusions, asked, json=json)


app.command()(infer)


@app.command()
def evaluate(
    target: Annotated[
        str, typer.Argument(metavar="RELEASE_OR_TABLE", help="A release, or a synthetic table.")
    ],
    data: Data,
    schema: SchemaPath,
    workload: WorkloadText,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", help="Judge N sampled rows of the release too."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="For the sampled rows.")
    ] = None,
    future: Annotated[
        str | None,
        typer.Option(
            "--future",
            metavar="F",
            help="Error on queries not yet known: zipf:1of3:drift=0.2:draws=200:seed=0.",
        ),
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            metavar="COLUMN",
            help="Learn to predict COLUMN from synthetic rows, and test on real ones.",
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Errors against the private table. NOT PRIVATE."""
    from admeasure.cli.evaluate import show

    show(target, data, schema, workload, rows, seed, future, predict, json=json)


@app.command()
def report(
    release: ReleasePath,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The report's file.")],
    internal: Annotated[
        str | None,
        typer.Option("--internal", metavar="DATA", help="Add true errors: NOT PRIVATE."),
    ] = None,
    confidence: Confidence = 0.95,
    conclusions: Conclusions = None,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="BOOK", help="Show what was ever spent on the data set."),
    ] = None,
    *,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate", help="The certificate alone: .html (one page), .json, .yaml."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
) -> None:
    """What the release is, what it cost, how good it says it is. May be published.

    FILE.html is one page with charts, complete in itself; any other suffix is plain text.
    """
    from admeasure.cli.report import ReportArguments, show

    given = ReportArguments(release, out, internal, confidence, conclusions, ledger, certificate)
    show(given, force=force)


@app.command()
def ui(
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="Where tables, runs and the book go.")
    ] = Path("admeasure-work"),
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="0 takes any free port.", min=0, max=65535)
    ] = 0,
    *,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """A page on this machine that leads from a table to a release. Nobody else can reach it."""
    from admeasure.cli import ui as page

    page.serve(folder, port, browser=browser)


@app.command()
def audit(release: ReleasePath, *, json: Json = False) -> None:
    """Recompute from a release's log that its certificate holds. Exit code 3 if it does not."""
    from admeasure.cli.audit import show

    raise typer.Exit(show(release, json=json))


app.command()(study)
app.command()(compare)
app.command()(export)

for registered in (*app.registered_commands, *ledger.registered_commands):
    if registered.callback is not None:
        registered.callback = talking(registered.callback)
