"""`run`: one file for a run, from the table to what is published of it; its form is in
docs/how-to/pipelines.md.

Paths begin at the file's folder. Everything is checked before anything is read or charged. The same
file run again goes on where it was interrupted, makes what is missing, and charges nothing twice:
where all is there, it does nothing.

Released and charged: what `fit` releases. All that is made of a release costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from admeasure.errors import AdmeasureError, UsageError
from admeasure.files import from_folder, refuse_suffix, refuse_to_overwrite
from admeasure.limits import Limits
from admeasure.mechanisms.auto import Auto
from admeasure.planning.mechanism import Mechanism, makes_rows, options_of
from admeasure.queries.query import suggest
from admeasure.release import Release
from admeasure.release.store import partial_folder
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.sources.address import without_secrets
from admeasure.untrusted import parse_toml, read_text
from admeasure.verbs.answer import answer_file
from admeasure.verbs.fit import fit
from admeasure.verbs.given import mechanism_of
from admeasure.verbs.report import report
from admeasure.verbs.sample import sample_file
from admeasure.workload import Workload, check_questions, parse_workload

GOES_ON = "The same run file, run again, continues by itself."


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RunBudget(_Part):
    """`[budget]`"""

    epsilon: float
    delta: float = 1e-9
    book: str | None = None
    dataset: str | None = None
    certify: float | None = None
    seed: int | None = None


class RunMechanism(_Part):
    """`[mechanism]`: its name, and its options as further keys."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    name: str | None = None

    def options(self) -> dict[str, str]:
        return {key: _as_text(key, value) for key, value in (self.model_extra or {}).items()}


class RunLimits(_Part):
    """`[limits]`"""

    megabytes: float | None = None
    seconds: float | None = None


class RowsFile(_Part):
    """`[rows]`"""

    file: str
    rows: int | None = Field(None, ge=0)
    seed: int | None = None
    spreadsheet_safe: bool = False


class AnswersFile(_Part):
    """`[answers]`"""

    file: str
    queries: str
    confidence: float = Field(0.95, gt=0, lt=1)


class ReportFile(_Part):
    """`[report]`"""

    file: str
    confidence: float = Field(0.95, gt=0, lt=1)


class RunFile(_Part):
    """What the file says, with paths as they are written there."""

    data: str
    schema_: str = Field(alias="schema")
    workload: str
    out: str
    public: str | None = None
    budget: RunBudget
    mechanism: RunMechanism = RunMechanism()
    limits: RunLimits = RunLimits()
    rows: RowsFile | None = None
    answers: AnswersFile | None = None
    report: ReportFile | None = None


@dataclass(frozen=True)
class RanFile:
    """What came of a run file."""

    release: Release
    out: Path
    fitted: bool
    """Whether a mechanism ran now; false where the release was there already."""
    written: tuple[Path, ...]
    """Files made of the release now."""
    kept: tuple[Path, ...]
    """Files that were there already."""


@dataclass(frozen=True)
class _Checked:
    """A run file that can be served: what it names is read, the private table is not."""

    path: Path
    given: RunFile
    schema: Schema
    workload: Workload
    mechanism: Mechanism | Auto

    def at(self, text: str) -> str:
        return from_folder(text, self.path.absolute().parent)

    @property
    def out(self) -> Path:
        return Path(self.at(self.given.out))

    @property
    def files(self) -> tuple[Path, ...]:
        """What is to be made of the release."""
        parts = (self.given.rows, self.given.answers, self.given.report)
        return tuple(Path(self.at(part.file)) for part in parts if part is not None)


def run_file(
    path: str | Path,
    *,
    started: Callable[[Path], None] = lambda out: None,
    progress: bool | None = None,
) -> RanFile:
    """Do what a run file says, as far as it is not done. `started` hears where the release goes,
    once all is checked that can be checked unread.

    >>> run_file("release.toml")  # doctest: +SKIP
    """
    path = Path(path)
    texts: list[str] = []
    try:
        checked = _checked(path, texts)
        started(checked.out)
        resume = partial_folder(checked.out).exists()
        there = checked.out.exists() and not resume
        release = _found(checked) if there else _fitted(checked, resume=resume, progress=progress)
        kept = tuple(file for file in checked.files if file.exists())
        return RanFile(release, checked.out, not there, _made(checked, release, kept), kept)
    except AdmeasureError as error:
        said = without_secrets(str(error), texts)
        said = said if str(path) in said else f"{path}: {said}"
        raise type(error)(f"{said} {GOES_ON}" if "--resume" in said else said) from None


def _checked(path: Path, texts: list[str]) -> _Checked:
    """Refuse all that can be refused without the table. `texts` gets what must not be repeated."""
    document = parse_toml(read_text(path, called="run file"), str(path))
    given = _parsed(document)
    folder = path.absolute().parent
    texts.extend(t for t in (given.data, given.public, given.budget.book) if t is not None)
    if (given.budget.book is None) != (given.budget.dataset is None):
        raise UsageError("book and dataset of [budget] belong together. Give both or neither.")
    schema = Schema.load(from_folder(given.schema_, folder))
    rule = given.workload
    workload = parse_workload(
        from_folder(rule, folder) if rule.endswith(".toml") else rule, schema.domain
    )
    mechanism = mechanism_of(given.mechanism.name, given.mechanism.options())
    if given.rows is not None and not makes_rows(mechanism):
        raise UsageError(
            f"[rows] asks for rows, and {mechanism.name} answers questions only. Leave [rows] out, "
            "or name a mechanism with a model, such as aim-plus."
        )
    checked = _Checked(path, given, schema, workload, mechanism)
    _check_files(checked)
    if given.answers is not None:
        check_questions(Path(checked.at(given.answers.queries)), schema)
    return checked


def _parsed(document: Mapping[str, Any]) -> RunFile:
    try:
        return RunFile.model_validate(document)
    except ValidationError as problems:
        # One only, a wrong key before what is missing for it; and never what was written there,
        # which may be an address with a password.
        found = problems.errors(include_url=False, include_input=False)
        first = next((p for p in found if p["type"] == "extra_forbidden"), found[0])
        *parts, key = (str(step) for step in first["loc"])
        where = f" in [{'.'.join(parts)}]" if parts else ""
        if first["type"] == "extra_forbidden":
            kind = _KINDS.get(parts[0] if parts else "", RunFile)
            names = [field.alias or name for name, field in kind.model_fields.items()]
            homes = [f"[{table}]" for table, k in _KINDS.items() if key in k.model_fields]
            hint = f"It stands in {' or '.join(homes)}." if homes else suggest(key, names)
            raise UsageError(f"There is no {key!r}{where}. {hint}") from None
        if first["type"] == "missing":
            raise UsageError(f"{key!r} is missing{where}. Add it.") from None
        raise UsageError(f"{key!r}{where}: {first['msg']}.") from None


_KINDS: dict[str, type[BaseModel]] = {
    "budget": RunBudget,
    "limits": RunLimits,
    "rows": RowsFile,
    "answers": AnswersFile,
    "report": ReportFile,
}


def _as_text(key: str, value: Any) -> str:
    """An option as the command line would be given it."""
    if isinstance(value, list):
        return ",".join(_as_text(key, one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise UsageError(f"{key!r} in [mechanism] must be a value or a list of values.")
    return str(value)


def _check_files(checked: _Checked) -> None:
    """Refuse what could not be written, and a file that a release yet to be made cannot have."""
    files, out = checked.files, checked.out
    if len({os.path.normpath(f) for f in (*files, out)}) <= len(files):
        raise UsageError(
            "Two of out, [rows], [answers] and [report] name the same place. Give each its own."
        )
    given, there = checked.given, out.exists() and not partial_folder(out).exists()
    if given.rows is not None:
        refuse_suffix(Path(given.rows.file))
        if given.rows.spreadsheet_safe and not given.rows.file.lower().endswith(".csv"):
            raise UsageError("spreadsheet_safe in [rows] is for CSV files. Leave it out.")
    if given.answers is not None and not given.answers.file.lower().endswith(".json"):
        raise UsageError("The file of [answers] must end with .json. Rename it.")
    for file in files:
        if file.exists() and not file.is_dir() and not there:
            raise UsageError(
                f"{file} exists already, and the release does not. Remove it, or name another file."
            )
        refuse_to_overwrite(file, force=True)
        if not os.access(file.parent, os.W_OK):
            raise UsageError(f"The folder {file.parent} cannot be written to. Name another place.")


def _fitted(checked: _Checked, *, resume: bool, progress: bool | None) -> Release:
    given, budget = checked.given, checked.given.budget
    charge_to = None
    if budget.book is not None and budget.dataset is not None:
        charge_to = ChargeTo(checked.at(budget.book), budget.dataset)
    return fit(
        checked.at(given.data),
        checked.schema,
        workload=checked.workload,
        mechanism=checked.mechanism,
        epsilon=budget.epsilon,
        delta=budget.delta,
        public=None if given.public is None else checked.at(given.public),
        out=checked.out,
        charge_to=charge_to,
        seed=budget.seed,
        resume=resume,
        certify=budget.certify,
        limits=Limits(**given.limits.model_dump()),
        progress=progress,
    )


def _found(checked: _Checked) -> Release:
    """The release that is there, if it is one that this file could have made."""
    release, budget = Release.load(checked.out), checked.given.budget
    c = release.certificate
    differing = {
        "epsilon": c.epsilon != budget.epsilon,
        "delta": c.delta != budget.delta,
        "dataset": c.dataset != budget.dataset,
        "seed": c.private != (budget.seed is None),
        "workload": release.workload.dumps() != checked.workload.dumps(),
        "schema": not _same_schema(release.schema, checked.schema),
        "mechanism": not _same_mechanism(c.mechanism, c.options, checked.mechanism),
    }
    if any(differing.values()):
        named = ", ".join(name for name, differs in differing.items() if differs)
        raise UsageError(
            f"{checked.out} is a release with another {named}. Name another place for this one, or "
            "remove it; what it was charged stays charged."
        )
    return release


def _same_schema(released: Schema, asked: Schema) -> bool:
    """Of a column whose levels the run found, only the name is to be the same."""
    if asked.domain.columns != released.domain.columns:
        return False
    return asked.found_by(released).dumps() == released.dumps()


def _same_mechanism(name: str, options: Mapping[str, Any], asked: Mechanism | Auto) -> bool:
    if isinstance(asked, Auto):
        return True
    # As text: what was read back has lists where an option is a tuple.
    wanted = {key: json.dumps(value) for key, value in options_of(asked).items()}
    same = all(json.dumps(options.get(key)) == value for key, value in wanted.items())
    return name == asked.name and same


def _made(checked: _Checked, release: Release, kept: tuple[Path, ...]) -> tuple[Path, ...]:
    """Make what is missing. Each file is written whole or not at all."""
    given, made = checked.given, []
    if (rows := given.rows) is not None and (file := Path(checked.at(rows.file))) not in kept:
        safe = rows.spreadsheet_safe
        sample_file(release, file, rows.rows, seed=rows.seed, spreadsheet_safe=safe)
        made.append(file)
    if (asked := given.answers) is not None and (file := Path(checked.at(asked.file))) not in kept:
        answer_file(release, Path(checked.at(asked.queries)), file, confidence=asked.confidence)
        made.append(file)
    if (told := given.report) is not None and (file := Path(checked.at(told.file))) not in kept:
        report(release, file, confidence=told.confidence)
        made.append(file)
    return tuple(made)
