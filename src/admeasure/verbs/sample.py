"""`sample`: synthetic rows of a release, which cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from admeasure.errors import UsageError
from admeasure.files import refuse_suffix, refuse_to_overwrite
from admeasure.release.conditional import Like
from admeasure.release.drawing import Sampling
from admeasure.schema.frames import Library
from admeasure.schema.spreadsheet import columns_with_formulas, safe_columns
from admeasure.schema.write import write_table
from admeasure.verbs.given import GivenRelease, release_of


def sample(
    release: GivenRelease,
    rows: int | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    like: Like | None = None,
    columns: Sequence[str] | None = None,
    seed: int | None = None,
    search: bool | None = None,
    max_seconds: float | None = None,
    as_: Library | None = None,
) -> Any:
    """Synthetic rows, as many as the table is believed to have where none are asked for. They cost
    nothing, however many.

    `release` may be a folder. `as_` names the frame that they come in; `where`, `like`, `columns`,
    `search` and `max_seconds` are those of `Release.sample`.

    >>> import admeasure
    >>> schema = admeasure.Schema.coded("people", {"sex": 2, "smokes": 2})
    >>> table = {"sex": [0, 1] * 50, "smokes": [0, 0, 0, 1] * 25}
    >>> release = admeasure.fit(table, schema, workload="all-2way", mechanism=admeasure.aim(),
    ...                         epsilon=1, delta=1e-9)
    >>> {name: len(values) for name, values in admeasure.sample(release, 20).items()}
    {'sex': 20, 'smokes': 20}
    >>> admeasure.sample(release, 3, where={"sex": 1}, columns=["sex"])
    {'sex': array([1, 1, 1])}
    """
    return release_of(release).sample(
        rows,
        where=where,
        like=like,
        columns=columns,
        seed=seed,
        search=search,
        max_seconds=max_seconds,
        as_=as_,
    )


@dataclass(frozen=True)
class SampleFile:
    """A file of synthetic rows that was written."""

    path: Path
    rows: int
    columns: tuple[str, ...]
    searched: bool
    formulas: tuple[str, ...]
    """Columns with texts that a spreadsheet would run as formulas."""


def sample_file(
    release: GivenRelease,
    path: str | Path,
    rows: int | None = None,
    *,
    spreadsheet_safe: bool = False,
    overwrite: bool = False,
    tell: Callable[[float], None] = lambda part: None,
    **asked: Unpack[Sampling],
) -> SampleFile:
    """The same as a .csv or .parquet file. `tell` hears which part is done."""
    target = Path(path)
    refuse_to_overwrite(target, force=overwrite)
    refuse_suffix(target)
    is_csv = target.suffix.lower() == ".csv"
    if spreadsheet_safe and not is_csv:
        raise UsageError("--spreadsheet-safe is for CSV files. Name one, or leave it out.")
    release = release_of(release)
    searched = asked.get("search")
    if searched is None:
        free = not asked.get("where") and asked.get("like") is None
        searched = asked["search"] = free and release.searches(rows)
    made = release.sample_columns(
        rows, tell=lambda part: tell(0.9 * part), as_texts=is_csv, **asked
    )
    tell(0.9)
    safe = safe_columns(made) if spreadsheet_safe else made
    write_table(safe, target, quote_texts=spreadsheet_safe)
    tell(1.0)
    risky = columns_with_formulas(release.schema) if is_csv and not spreadsheet_safe else ()
    risky = tuple(name for name in risky if name in made)
    return SampleFile(target, len(next(iter(made.values()))), tuple(made), searched, risky)
