"""Questions to a release from the page: as typed, with intervals. They cost nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from admeasure.bounds import share
from admeasure.conclusions import check_all, parse_conclusions
from admeasure.domain import canonical
from admeasure.errors import UsageError
from admeasure.queries import Cell
from admeasure.release import Answer, Release
from admeasure.reporting.html import sure
from admeasure.schema.toml import toml_key, toml_value
from admeasure.web.conditions import selection_of
from admeasure.workload import question_of

MOST_CELLS = 600
PREVIEW = 12
MOST_STATEMENTS = 100
KEPT = 4

_lock = threading.Lock()


def load(path: Path) -> Release:
    """A release, kept for the next question."""
    head = path / "release.json"
    if not head.is_file():
        raise UsageError("This run has no release yet.")
    with _lock:  # one that is asked for twice at once is read once
        return _loaded(str(path), head.stat().st_mtime_ns)


@lru_cache(maxsize=KEPT)
def _loaded(path: str, written: int) -> Release:
    return Release.load(path)


def ask(path: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One question: rows that meet all conditions, or at least so many of them."""
    release = load(path)
    conditions = [c for c in asked["conditions"] if c["column"] and c["text"].strip()]
    if not conditions:
        return {"empty": True}
    selections = {
        c["column"]: selection_of(str(release.schema.column(c["column"]).type), c["text"])
        for c in conditions
    }
    if len(selections) < len(conditions):
        raise UsageError("A column is named twice. Put all its values into one condition.")
    at_least = int(asked.get("at_least") or 0)
    question = question_of("question", selections, release.schema, at_least or None)
    answer = release.answer(question, confidence=float(asked.get("confidence", 0.95)))
    return {**_plain(answer, release.rows), "toml": _toml(selections, at_least)}


def _plain(answer: Answer, rows: int) -> dict[str, Any]:
    return {
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "share": answer.value / rows if rows else 0.0,
        "kind": answer.kind,
    }


def _toml(selections: Mapping[str, Any], at_least: int) -> str:
    inside = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in selections.items())
    where = f"at_least = {at_least}\nof = {{{inside}}}" if at_least else f"where = {{{inside}}}"
    return f'[[query]]\nname = "my question"\n{where}\n'


def marginal(path: Path, columns: Sequence[str], confidence: float) -> dict[str, Any]:
    """Every cell of a marginal with its interval."""
    release = load(path)
    names = canonical(columns)
    if not names or len(names) < len(columns):
        raise UsageError("Choose one or more different columns.")
    cells = release.schema.domain.cells(names)
    if cells > MOST_CELLS:
        raise UsageError(
            f"That marginal has {cells:,} cells and at most {MOST_CELLS} are shown here. "
            "Choose fewer columns, or use release.marginal in Python."
        )
    labels = [release.schema.column(name).labels for name in names]
    places = list(product(*(range(len(words)) for words in labels)))
    answers = release.answer([Cell(names, place) for place in places], confidence=confidence)
    bound = release.evidence.bounds([names], confidence)[names]
    return {
        "columns": list(names),
        "kind": bound.kind,
        "bound": share(bound.error, release.rows),
        "cells": [
            {"labels": [labels[i][code] for i, code in enumerate(place)], "value": a.value}
            | {"low": a.low, "high": a.high}
            for place, a in zip(places, answers, strict=True)
        ],
    }


def rows(path: Path) -> dict[str, Any]:
    """A few synthetic rows, spelled as a file would have them; others at each call."""
    release = load(path)
    made = release.sample_columns(PREVIEW, search=False, as_texts=True)
    texts = [["" if v is None else str(v) for v in values] for values in made.values()]
    return {"columns": list(made), "rows": [list(row) for row in zip(*texts, strict=True)]}


def conclude(path: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Conclusions, checked: those of a file's text, or of statements as the form has them."""
    release = load(path)
    text = asked.get("text") or _conclusions(release, asked.get("statements", []))
    confidence = float(asked.get("confidence", 0.95))
    conclusions = parse_conclusions(text, release.schema) if text else []
    verdicts = check_all(release, conclusions, confidence=confidence)
    return {"toml": text, "verdicts": [{**v.to_json(), "sure_words": sure(v)} for v in verdicts]}


def _conclusions(release: Release, statements: Sequence[Mapping[str, str]]) -> str:
    """The file that says the same. Each statement: the share of rows with these values of a column
    is above, or below, so many percent."""
    parts = []
    for number, said in enumerate(statements[:MOST_STATEMENTS], start=1):
        column, values, limit = said["column"], said["text"].strip(), said["percent"].strip()
        if not values or not limit:
            continue
        try:
            share = float(limit.removesuffix("%")) / 100
        except ValueError:
            raise UsageError(f"{limit!r} is no number of percent.") from None
        way, words = {"above": ("above", "more"), "below": ("below", "less")}[said["way"]]
        selection = selection_of(str(release.schema.column(column).type), values)
        name = f"{number}: {column} is {values} in {words} than {100 * share:g}% of the rows"
        parts.append(
            f"[[conclusion]]\nname = {toml_value(name)}\n"
            f"share = {{{toml_key(column)} = {toml_value(selection)}}}\n{way} = {share!r}\n"
        )
    return "\n".join(parts)
