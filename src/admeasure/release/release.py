"""The outcome of a run: what may be shared, and how to ask it.

Everything here is computed from noisy measurements and public facts; using it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np

from admeasure.bounds import Answer, Bound, Bounds, Evidence
from admeasure.certificate import Certificate
from admeasure.errors import WorkloadError
from admeasure.families import Codes, Model
from admeasure.measurement import Measurement, NoisyErrors
from admeasure.privacy.cost import read_cost
from admeasure.privacy.journal import Event
from admeasure.queries import Marginal, Query
from admeasure.queries.query import unknown_column
from admeasure.release.conditional import Like, chosen
from admeasure.release.contents import contents, parts
from admeasure.release.counts import answer_counts
from admeasure.release.display import Counts, release_html
from admeasure.release.drawing import Sampling, draw, searches
from admeasure.release.replicates import Replicate, replicates
from admeasure.release.statistics import StatisticAnswer, answer_statistic
from admeasure.release.store import write_folder
from admeasure.schema import Schema, to_frame
from admeasure.schema.frames import Library, frame_of
from admeasure.schema.inside import Inside
from admeasure.schema.rows import rows as spelled_rows
from admeasure.schema.spreadsheet import safe_columns
from admeasure.selectors.evidence import Selection
from admeasure.workload import ColumnStatistic, Question, Workload, load_questions, question
from admeasure.workload.questions import written_conditions

LEAST_SHARE, ROUNDING = 1e-100, 1e-9
"""No run spends less of its budget on a measurement, or more than it has but for rounding."""
QuestionLike = Mapping[str, Any] | Question | Query
"""One question: conditions, or a query, with a name or without."""

Questions = QuestionLike | ColumnStatistic | Sequence[QuestionLike | ColumnStatistic] | str | Path
"""One question, several, or a query file."""


@dataclass(frozen=True, eq=False)
class Release:
    """A model of the table, the measurements it came from, and the certificate."""

    schema: Schema
    workload: Workload
    model: Model
    measurements: tuple[Measurement, ...]
    selections: tuple[Selection, ...]
    certificate: Certificate
    facts: dict[str, Any]
    """rounds and model_megabytes; from `fit` itself also seconds and peak_megabytes"""
    log: tuple[Event, ...] = ()
    errors: NoisyErrors | None = None
    """Of the model, where the run bought a certificate of its accuracy."""
    inside: Mapping[str, Inside] = field(default_factory=dict)
    """How values lie inside the bins of columns, where the run bought that."""
    like: Any = None
    """A frame of the caller's type without rows; `sample` answers in the same type."""

    @property
    def rows(self) -> int:
        """The believed number of rows, which is noisy where it is private."""
        return max(0, round(self.model.total))

    def sample(
        self,
        rows: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        like: Like | None = None,
        columns: Sequence[str] | None = None,
        seed: int | None = None,
        search: bool | None = None,
        max_seconds: float | None = None,
        as_: Library | None = None,
        spreadsheet_safe: bool = False,
    ) -> Any:
        """Synthetic rows, as many as the table is believed to have where none are asked for.

        They come in the type of the frame that was fitted, as a dict of columns where there was
        none, or as what `as_` names. Sampling costs nothing, so a seed is harmless here.

        `where` are conditions as those of `answer`: rows that meet all of them, with the
        distribution that the model gives such rows, as many as it believes there are where no
        number is given. `like` is a table of conditions with a number of rows each: pairs, or a
        CSV file (`admeasure.release.conditional`). `columns` leaves out all but these. A local
        `search` then changes values so that the rows' counts come nearer to the model's answers
        (`admeasure.release.search`), where there is no condition; unless told, where `searches`
        says so. After
        `max_seconds` it ends with the rows it has. With `spreadsheet_safe` texts that a
        spreadsheet would run as formulas have an apostrophe in front
        (`admeasure.schema.spreadsheet`).
        """
        frame = self.like if as_ is None else frame_of(as_)
        made = self.sample_columns(
            rows,
            where=where,
            like=like,
            columns=columns,
            seed=seed,
            search=search,
            max_seconds=max_seconds,
        )
        return to_frame(safe_columns(made) if spreadsheet_safe else made, frame)

    def sample_columns(
        self,
        rows: int | None = None,
        *,
        tell: Callable[[float], None] = lambda part: None,
        as_texts: bool = False,
        **asked: Unpack[Sampling],
    ) -> dict[str, Any]:
        """The same, as a dict of columns; `tell` hears which part of the search is done. With
        `as_texts` they are spelled out as in a CSV file (`admeasure.schema.rows`)."""
        rng = np.random.default_rng(asked.get("seed"))
        codes = draw(self, rows, rng, asked, tell)
        made = spelled_rows(self.schema, codes, rng, self.inside, as_texts=as_texts)
        return chosen(made, asked.get("columns"))

    def sample_codes(
        self, rows: int | None = None, *, seed: int | None = None, search: bool | None = None
    ) -> Codes:
        """The same, as codes: what `sample_columns` turns into values."""
        return draw(self, rows, np.random.default_rng(seed), {"search": search})

    def replicates(self, m: int = 20, *, seed: int | None = None) -> list[Replicate]:
        """Models refitted to measurements drawn anew around this one's answers: how far they differ
        is how far noise moves whatever is computed from rows (`admeasure.release.replicates`)."""
        return replicates(self, m, np.random.default_rng(seed))

    def searches(self, rows: int | None = None) -> bool:
        """Whether this many rows are searched where nobody says (`admeasure.release.drawing`)."""
        return searches(self, self.rows if rows is None else rows)

    def marginal(self, columns: Sequence[str]) -> Counts:
        """Expected counts of a marginal, axes in the order in which the columns are named."""
        self._known(columns)
        schema = self.schema
        (table,) = self.model.marginals([schema.modelled(columns)])
        labels = [schema.column(c).labels for c in columns]
        return Counts.of(schema.regrouped(table, columns), columns, labels)

    def _known(self, columns: Sequence[str]) -> None:
        """Refuse columns that the schema does not have, or that are named twice."""
        schema = self.schema
        unknown = [c for c in columns if c not in schema.domain and c not in schema.computed]
        if unknown and unknown[0] in schema.domain.stand_ins:
            schema.column(unknown[0])
        if unknown:
            known = [*schema.domain.columns, *schema.computed]
            raise WorkloadError(unknown_column(unknown[0], known))
        if len(set(columns)) != len(columns):
            raise WorkloadError("A marginal names a column twice. Name each once.")

    @overload
    def answer(self, questions: QuestionLike, *, confidence: float = 0.95) -> Answer: ...
    @overload
    def answer(
        self, questions: ColumnStatistic, *, confidence: float = 0.95
    ) -> StatisticAnswer: ...
    @overload
    def answer(
        self, questions: Sequence[QuestionLike], *, confidence: float = 0.95
    ) -> list[Answer]: ...
    @overload
    def answer(
        self, questions: Sequence[Any] | str | Path, *, confidence: float = 0.95
    ) -> list[Any]: ...
    def answer(self, questions: Questions, *, confidence: float = 0.95) -> Any:
        """A question with its answer and an interval that holds with this confidence; the answers
        of several, or of a query file.

        A question is a dict of conditions that must all hold, such as `{"sex": "Female", "age":
        (30, 40)}`: a value, a list of values, or a range with both ends included. Means, sums and
        quantiles have methods of their own.
        """
        if isinstance(questions, str | Path):
            return self.answer(load_questions(questions, self.schema), confidence=confidence)
        if isinstance(questions, Mapping | Question | Query | ColumnStatistic):
            (answer,) = self.answer([questions], confidence=confidence)
            return answer
        counts = [self._question(q) for q in questions if not isinstance(q, ColumnStatistic)]
        found = answer_counts(self, counts, confidence)
        return [
            answer_statistic(self, q, confidence) if isinstance(q, ColumnStatistic) else next(found)
            for q in questions
        ]

    def mean(
        self, column: str, where: Mapping[str, Any] | None = None, *, confidence: float = 0.95
    ) -> StatisticAnswer:
        """The mean of a column over the rows that meet the conditions and have a value, with an
        interval that holds the true mean wherever values lie within their bins."""
        asked = ColumnStatistic("mean", column, None, written_conditions(where or {}))
        return answer_statistic(self, asked, confidence)

    def sum(
        self, column: str, where: Mapping[str, Any] | None = None, *, confidence: float = 0.95
    ) -> StatisticAnswer:
        """The sum of a column, likewise."""
        asked = ColumnStatistic("sum", column, None, written_conditions(where or {}))
        return answer_statistic(self, asked, confidence)

    def quantile(
        self,
        column: str,
        at: float = 0.5,
        where: Mapping[str, Any] | None = None,
        *,
        confidence: float = 0.95,
    ) -> StatisticAnswer:
        """The least value that at least the share `at` of the rows do not pass, likewise; the
        median where no share is given."""
        asked = ColumnStatistic("quantile", column, at, written_conditions(where or {}))
        return answer_statistic(self, asked, confidence)

    def _question(self, asked: QuestionLike) -> Question:
        if isinstance(asked, Mapping):
            return question(asked, self.schema)
        return asked if isinstance(asked, Question) else Question(str(asked), asked)

    @overload
    def bounds(self, columns: None = None, *, confidence: float = 0.95) -> Bounds: ...
    @overload
    def bounds(self, columns: Sequence[str] | Query, *, confidence: float = 0.95) -> Bound: ...
    def bounds(
        self, columns: Sequence[str] | Query | None = None, *, confidence: float = 0.95
    ) -> Bounds | Bound:
        """For each marginal of the workload an upper bound on its L1 error (in rows); or for the
        marginal of any columns, or for any query, a whole threshold or a count among them."""
        if columns is None:
            return Bounds(self.evidence.bounds(self.workload.marginals(), confidence), self.rows)
        if isinstance(columns, Query):
            columns.validate(self.schema.domain)
            return self.evidence.bound_of(columns, confidence)
        self._known(columns)
        return self.evidence.bound_of(Marginal(self.schema.modelled(columns)), confidence)

    @property
    def evidence(self) -> Evidence:
        """What the run released that speaks about its errors."""
        return self._evidence

    @cached_property
    def _evidence(self) -> Evidence:
        # Without a private choice the list of measurements was fixed before any noise was drawn.
        adaptive = any(event["event"] in ("choose", "flip") for event in self.log)
        return Evidence(
            self.schema.domain,
            self.model,
            self.measurements,
            self.selections,
            adaptive,
            self.schema.zeros,
            self.errors,
            self._shares,
        )

    @property
    def _shares(self) -> list[float] | None:
        """What each measurement cost of the whole budget, where the log tells. One that says that
        any cost nothing, or all more than there was, comes from somebody else."""
        spent = [read_cost(e) for e in self.log if e["event"] == "measure"]
        if len(spent) != len(self.measurements) or not self.certificate.rho > 0:
            return None
        shares = [float(cost) / self.certificate.rho for cost in spent]
        sound = min(shares, default=1.0) > LEAST_SHARE and math.fsum(shares) < 1 + ROUNDING
        return shares if sound else None

    def report(
        self,
        path: str | Path,
        *,
        confidence: float = 0.95,
        conclusions: str | Path | None = None,
        internal: Any = None,
    ) -> Path:
        """Write a report: `.html` is one page with charts, any other suffix plain text.

        It may be published, unless `internal`, the private table, is given: then it holds true
        errors, and its name gets `.NOT-PRIVATE`. `conclusions` is a file of statements to check.
        """
        from admeasure.reporting.write import write_report  # late: answering needs none of it

        return write_report(
            self,
            path,
            confidence=confidence,
            conclusions=conclusions,
            internal=internal,
            overwrite=True,
        )

    def __repr__(self) -> str:
        """A few lines: what it is of, how it was made, and its promise."""
        stamp = f"{self.certificate.stamp}\n" if self.certificate.stamp else ""
        return (
            f"{stamp}Release of {self.schema.table.name!r} by {self.certificate.mechanism}: about "
            f"{self.rows:,} rows, {len(self.schema.columns)} columns, {len(self.measurements)} "
            f"measurements, {len(self.workload.queries)} queries in the workload.\n"
            f"{self.certificate.promise}\n"
            "Ask it: .sample(), .answer(...), .marginal(columns), .bounds(), .report(path), "
            ".save(path)"
        )

    def _repr_html_(self) -> str:
        return release_html(self)

    def save(
        self, path: str | Path, *, overwrite: bool = False, scratch: Path | None = None
    ) -> Path:
        """Write the release as a folder, whole or not at all; it is made in `scratch` first, a
        folder on the same disk, or beside `path`. `overwrite` replaces another release, and
        nothing but a release.

        What the run took in time and memory stays out: the size of the private table shows in it.
        """
        head, files = contents(self)
        write_folder(Path(path), files, head, scratch, overwrite=overwrite)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release; a damaged or foreign folder is a `ReleaseError`."""
        return cls(**parts(Path(path)))
