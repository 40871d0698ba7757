"""`compare`: synthetic tables, made by any tool, against the real one. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admeasure.cli.arguments import Force, Json, SchemaPath, WorkloadText
from admeasure.errors import UsageError
from admeasure.files import refuse_to_overwrite, write_private
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, note, say, say_json, say_table

if TYPE_CHECKING:
    from admeasure.verbs.compare import Compared


def compare(
    real: Annotated[str, typer.Argument(metavar="REAL", help="The real table.")],
    synthetic: Annotated[
        list[str],
        typer.Argument(metavar="SYNTHETIC...", help="Tables made by any tool, or releases."),
    ],
    schema: SchemaPath,
    workload: WorkloadText,
    predict: Annotated[
        str | None,
        typer.Option("--predict", metavar="COLUMN", help="Also by what a learner learns of it."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="For the learner's rows.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A page (.html) too.")
    ] = None,
    *,
    force: Force = False,
    json: Json = False,
) -> None:
    """Judge synthetic tables, made by any tool, against the real one. NOT PRIVATE."""
    from admeasure.evaluation import NOT_PRIVATE
    from admeasure.reporting.compared import compared_html
    from admeasure.reporting.files import is_page, marked
    from admeasure.sources.address import printable
    from admeasure.verbs.compare import compare as compared

    named = {printable(text): text for text in synthetic}
    if len(named) < len(synthetic):
        raise UsageError("Two of the synthetic tables have the same name. Name each once.")
    page = None if out is None else marked(out)
    if page is not None:
        if not is_page(page):
            raise UsageError(f"The comparison is an .html file; {page.name!r} is none.")
        refuse_to_overwrite(page, force=force)
    with progress() as make:
        found = compared(
            real,
            named,
            schema,
            workload=workload,
            predict=predict,
            seed=seed,
            started=lambda name: make(f"judging {name}"),
        )
    if page is not None:
        write_private(page, compared_html(found.tables, printable(real)))
        note(f"Wrote {page}: {NOT_PRIVATE}.")
    if json:
        say_json({"real": printable(real), **found.to_json()})
        return
    banner(NOT_PRIVATE)
    _print(found)
    banner(NOT_PRIVATE)


def _print(found: Compared) -> None:
    first = found.tables[found.by_error[0]].errors
    looked = first.looked_at
    say(
        f"{looked[0].upper()}{looked[1:]}, {first.queries:,} queries. Errors are of shares of rows."
    )
    say()
    lines = []
    for name in found.by_error:
        e, learned = found.tables[name].errors, found.tables[name].prediction
        numbers = [f"{e.workload_error:.5f}", f"{e.max_error:.5f}", f"{e.mean_error:.3g}"]
        taught = [f"{learned.learned[0].balanced_accuracy:.4f}"] if learned else []
        lines.append([name, *numbers, f"{e.rmse:.3g}", *taught])
    head = ["", "workload error", "max error", "mean error", "rmse"]
    taught = [one.prediction for one in found.tables.values() if one.prediction is not None]
    head += [f"{taught[0].column} predicted"] if taught else []
    say_table(head, lines)
    if taught:
        real = taught[0].learned[1].balanced_accuracy
        say(f"Predicted: balanced accuracy on real rows; {real:.4f} where real rows teach.")
    say()
    for name in found.by_error:
        e = found.tables[name].errors
        say(f"{name}: {e.in_words}; worst: {e.worst[0].query} ({e.worst[0].error:.5f}).")
