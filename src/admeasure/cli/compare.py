"""`compare`: synthetic tables, made by any tool, against the real one. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from admeasure.cli.arguments import Force, Json, SchemaPath, WorkloadText, argument, option
from admeasure.cli.evaluate import say_errors
from admeasure.errors import UsageError
from admeasure.files import refuse_to_overwrite, write_private
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, note, say, say_json

if TYPE_CHECKING:
    from admeasure.verbs.compare import Compared


def compare(
    real: Annotated[str, argument("REAL", "The real table.")],
    synthetic: Annotated[
        list[str], argument("SYNTHETIC...", "Tables made by any tool, or releases.")
    ],
    schema: SchemaPath,
    workload: WorkloadText,
    predict: Annotated[str | None, option("COLUMN", "Also by what a learner learns of it.")] = None,
    seed: Annotated[int | None, option("N", "For the learner's rows.")] = None,
    out: Annotated[Path | None, option("FILE", "A page (.html) too.", "--out", "-o")] = None,
    *,
    force: Force = False,
    json: Json = False,
) -> None:
    """Judge synthetic tables, made by any tool, against the real one. NOT PRIVATE."""
    from admeasure.evaluation import NOT_PRIVATE
    from admeasure.reporting.compared import compared_html
    from admeasure.reporting.write import PAGES, marked
    from admeasure.sources.address import printable
    from admeasure.verbs.compare import compare as compared

    named = {printable(text): text for text in synthetic}
    if len(named) < len(synthetic):
        raise UsageError("Two of the synthetic tables have the same name. Name each once.")
    page = None if out is None else marked(out)
    if page is not None:
        if page.suffix.lower() not in PAGES:
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
    ranked = {name: found.tables[name] for name in found.by_error}
    taught = [one.prediction for one in ranked.values() if one.prediction is not None]
    told = [[f"{p.learned[0].balanced_accuracy:.4f}"] for p in taught] or [[]] * len(ranked)
    sides = {name: (one.errors, t) for (name, one), t in zip(ranked.items(), told, strict=True)}
    say_errors(sides, [f"{taught[0].column} predicted"] if taught else [])
    if taught:
        real = taught[0].learned[1].balanced_accuracy
        say(f"Predicted: balanced accuracy on real rows; {real:.4f} where real rows teach.")
    say()
    for name, (e, _) in sides.items():
        say(f"{name}: {e.in_words}; worst: {e.worst[0].query} ({e.worst[0].error:.5f}).")
