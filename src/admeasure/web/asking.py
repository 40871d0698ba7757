"""Questions to a release from the page: as typed, with intervals. They cost nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from admeasure.conclusions import check_all, parse_conclusions
from admeasure.domain import canonical
from admeasure.errors import UsageError
from admeasure.queries import Cell
from admeasure.release import Answer, Release
from admeasure.reporting.html import sure
from admeasure.schema.toml import toml_key, toml_value
from admeasure.web.conditions import selection_of
from admeasure.workload import Question, query_of

MOST_CELLS = 600
KEPT = 4

_kept: OrderedDict[tuple[str, int], Release] = OrderedDict()
_lock = threading.Lock()


def load(path: Path) -> Release:
    """A release, kept for the next question."""
    head = path / "release.json"
    if not head.is_file():
        raise UsageError("This run has no release yet.")
    key = (str(path), head.stat().st_mtime_ns)
    with _lock:
        if key not in _kept:
            _kept[key] = Release.load(path)
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
        return _kept[key]


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
    query = query_of(selections, release.schema, at_least or None)
    (answer,) = release.answer(
        [Question("question", query)], confidence=float(asked.get("confidence", 0.95))
    )
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
        "bound": min(2.0, bound.error / max(1, release.rows)),
        "cells": [
            {"labels": [labels[i][code] for i, code in enumerate(place)], "value": a.value}
            | {"low": a.low, "high": a.high}
            for place, a in zip(places, answers, strict=True)
        ],
    }


def conclude(path: Path, text: str, confidence: float) -> list[dict[str, Any]]:
    """The conclusions of a TOML text, checked."""
    release = load(path)
    verdicts = check_all(release, parse_conclusions(text, release.schema), confidence=confidence)
    return [{**v.to_json(), "sure_words": sure(v)} for v in verdicts]
