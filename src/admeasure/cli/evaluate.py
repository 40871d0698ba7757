"""`evaluate`: how good a release is, by the private table. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path

from admeasure.cli.history import say_future
from admeasure.evaluation import NOT_PRIVATE, Errors
from admeasure.evaluation.prediction import Prediction
from admeasure.sources.address import printable
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, say, say_json, table
from admeasure.verbs.evaluate import evaluate


def show(
    target: str,
    data: str,
    schema: Path,
    workload: str,
    rows: int | None,
    seed: int | None,
    future: str | None = None,
    predict: str | None = None,
    *,
    json: bool,
) -> None:
    with progress() as make:
        found = evaluate(
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
    if found.future is not None and future is not None:
        say_future(found.future, future)
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
    for line in table(head, lines):
        say(line)
    say(
        f"Tested on {found.tested_on:,} real rows. Always naming the commonest level is right in "
        f"{found.commonest:.4f} of them."
    )


def _print(errors: Errors, kind: str, sampled: Errors | None, rows: int | None) -> None:
    looked = errors.looked_at
    say(
        f"{looked[0].upper()}{looked[1:]}, {errors.queries:,} queries. Errors are of shares of the "
        "rows."
    )
    say()
    sides = [(kind, errors)] + ([(f"{rows:,} sampled rows", sampled)] if sampled and rows else [])
    lines = [
        [
            name,
            f"{e.workload_error:.5f}",
            f"{e.max_error:.5f}",
            f"{e.mean_error:.3g}",
            f"{e.rmse:.3g}",
        ]
        for name, e in sides
    ]
    for line in table(["", "workload error", "max error", "mean error", "rmse"], lines):
        say(line)
    for name, e in sides:
        say(f"{name}: {e.in_words}.")
        if e.standard_error:
            say(f"{name}: over all marginals {e.workload_error:.5f} ± {e.standard_error:.2g}.")
    say()
    worst = [[w.query, f"{w.error:.5f}"] for w in errors.worst]
    head = "answered worst" + (", of those looked at" if errors.standard_error else "")
    for line in table([head, "L1 error"], worst):
        say(line)
