"""`sample` and `answer`: using a release, which costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from admeasure.cli.console import banner, progress, say, say_json, table
from admeasure.cli.files import refuse_suffix, refuse_to_overwrite
from admeasure.errors import UsageError
from admeasure.release import Answer, Release
from admeasure.schema.write import write_table
from admeasure.workload import load_questions


def sample(
    path: Path, out: Path, rows: int | None, seed: int | None, *, force: bool, json: bool
) -> None:
    refuse_to_overwrite(out, force=force)
    refuse_suffix(out)
    if rows is not None and rows < 0:
        raise UsageError(f"-n must not be negative; it is {rows}.")
    release = Release.load(path)
    count = release.rows if rows is None else rows
    with progress() as make:
        tell = make(f"sampling {count:,} rows")
        columns = release.sample_columns(count, seed=seed)
        tell(0.5)
        write_table(columns, out)
        tell(1.0)
    stamp = release.certificate.stamp
    if json:
        say_json({"rows": count, "columns": list(columns), "file": str(out), "stamp": stamp})
        return
    if stamp:
        banner(stamp)
    say(f"Wrote {count:,} synthetic rows with {len(columns)} columns to {out}.")


def answer(path: Path, queries: Path, confidence: float, *, json: bool) -> None:
    release = Release.load(path)
    answers = release.answer(load_questions(queries, release.schema), confidence=confidence)
    stamp = release.certificate.stamp
    if json:
        say_json(
            {
                "release": str(path),
                "stamp": stamp,
                "rows": release.rows,
                "confidence": confidence,
                "answers": [_record(a, release.rows) for a in answers],
            }
        )
        return
    if stamp:
        banner(stamp)
    lines = [
        [a.name, f"{a.value:,.0f}", f"{a.low:,.0f}", f"{a.high:,.0f}", _percent(a, release), a.kind]
        for a in answers
    ]
    for line in table(["question", "rows", "from", "to", "share", "interval"], lines):
        say(line)
    say()
    say(
        f"Each interval holds the true count with {100 * confidence:g}% confidence, for one "
        "question at a time."
    )
    say(EXPLAINED)


EXPLAINED = (
    "supported: its columns were measured together. unsupported: bounded by what was chosen "
    "instead. trivial: nothing is known beyond the number of rows."
)


def _record(answer: Answer, rows: int) -> dict[str, Any]:
    share = {
        f"share{suffix}": value / rows if rows else None
        for suffix, value in (("", answer.value), ("_low", answer.low), ("_high", answer.high))
    }
    return {
        "name": answer.name,
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        **share,
        "kind": answer.kind,
    }


def _percent(answer: Answer, release: Release) -> str:
    return f"{100 * answer.value / release.rows:.2f}%" if release.rows else ""
