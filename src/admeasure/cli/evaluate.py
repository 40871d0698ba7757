"""`evaluate`: how good a release is, by the private table. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from admeasure.cli.arguments import Data, Json, SchemaPath, WorkloadText, argument, option
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, say, say_json, say_table

if TYPE_CHECKING:
    from admeasure.evaluation import Errors
    from admeasure.evaluation.prediction import Prediction


def evaluate(
    target: Annotated[str, argument("RELEASE_OR_TABLE", "A release, or a synthetic table.")],
    data: Data,
    schema: SchemaPath,
    workload: WorkloadText,
    rows: Annotated[int | None, option("N", "Judge N sampled rows of the release too.")] = None,
    seed: Annotated[int | None, option("N", "For the sampled rows.")] = None,
    future: Annotated[
        str | None,
        option("F", "Error on queries not yet known: zipf:1of3:drift=0.2:draws=200:seed=0."),
    ] = None,
    predict: Annotated[
        str | None,
        option("COLUMN", "Learn to predict COLUMN from synthetic rows, and test on real ones."),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Errors against the private table. NOT PRIVATE."""
    from admeasure.evaluation import NOT_PRIVATE
    from admeasure.sources.address import printable
    from admeasure.verbs.evaluate import evaluate as run_evaluate

    with progress() as make:
        found = run_evaluate(
            target,
            data,
            schema,
            workload=workload,
            rows=rows,
            seed=seed,
            future=future,
            predict=predict,
            reading=make(f"reading {printable(data)}"),
        )
    if json:
        say_json({"target": printable(target), **found.to_json()})
        return
    banner(NOT_PRIVATE)
    kind = "the model's answers" if found.of_model else printable(target)
    _print(found.errors, kind, found.sampled, rows)
    if found.future is not None:
        e = found.future
        say()
        say(
            f"future error {e.error:.5f} ({e.confidence:.0%} interval {e.low:.5f} to "
            f"{e.high:.5f}): the mean largest error of {e.draws:,} queries drawn from {future}, "
            f"{e.distinct:,} of them different."
        )
    if found.prediction is not None:
        _print_prediction(found.prediction)
    banner(NOT_PRIVATE)


def _print_prediction(found: Prediction) -> None:
    say()
    lines = [
        [
            one.trained_on,
            f"{one.rows:,}",
            f"{one.accuracy:.4f}",
            f"{one.balanced_accuracy:.4f}",
            "" if one.auc is None else f"{one.auc:.4f}",
        ]
        for one in found.learned
    ]
    head = [f"{found.column} learned from", "rows", "accuracy", "balanced accuracy", "AUC"]
    say_table(head, lines)
    say(
        f"Tested on {found.tested_on:,} real rows. Always naming the commonest level is right in "
        f"{found.commonest:.4f} of them."
    )


def _print(errors: Errors, kind: str, sampled: Errors | None, rows: int | None) -> None:
    sides = {kind: errors} | ({f"{rows:,} sampled rows": sampled} if sampled and rows else {})
    say_errors({name: (e, ()) for name, e in sides.items()})
    for name, e in sides.items():
        say(f"{name}: {e.in_words}.")
        if e.standard_error:
            say(f"{name}: over all marginals {e.workload_error:.5f} ± {e.standard_error:.2g}.")
    say()
    worst = [[w.query, f"{w.error:.5f}"] for w in errors.worst]
    head = "answered worst" + (", of those looked at" if errors.standard_error else "")
    say_table([head, "L1 error"], worst)


def say_errors(sides: Mapping[str, tuple[Errors, Sequence[str]]], more: Sequence[str] = ()) -> None:
    """A line of errors for each side, and what else is known of it under the heads `more`."""
    first, _ = next(iter(sides.values()))
    looked = first.looked_at
    say(
        f"{looked[0].upper()}{looked[1:]}, {first.queries:,} queries. Errors are of shares of the "
        "rows."
    )
    say()
    lines = []
    for name, (e, others) in sides.items():
        large = [f"{x:.5f}" for x in (e.workload_error, e.max_error)]
        lines.append([name, *large, *(f"{x:.3g}" for x in (e.mean_error, e.rmse)), *others])
    say_table(["", "workload error", "max error", "mean error", "rmse", *more], lines)
