"""A run under way: what was asked for, its folder and journal, its entry in the budget book.

Order of events, so that a kill at any moment leaves the book readable and never short:
the run's folder is made; the whole budget is reserved in the book; the journal is opened; the
mechanism draws, each result on disk before it is used; the release is written whole; the
reservation is settled at what was spent; the run's folder goes. A run that never gets there stays
charged.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.mechanisms import Mechanism
from admeasure.privacy.book import Book, refuse_unless_private
from admeasure.privacy.convert import rho_of
from admeasure.privacy.journal import FileJournal, Journal
from admeasure.privacy.noise import ExactNoise, Noise, SeededNoise
from admeasure.release import Release, store
from admeasure.schema import Schema
from admeasure.workload import Workload


@dataclass(frozen=True)
class ChargeTo:
    """The data set of a budget book that a run is charged to."""

    book: str | Path
    dataset: str


@dataclass(frozen=True)
class Request:
    """What a steward asks for; valid, and complete but for the table."""

    schema: Schema
    workload: Workload
    mechanism: Mechanism
    epsilon: float
    delta: float
    seed: int | None = None
    charge_to: ChargeTo | None = None

    def __post_init__(self) -> None:
        self.workload.validate(self.schema.domain)
        self.mechanism.check(self.schema.domain, self.workload, self.schema.zeros)
        if self.charge_to is not None:
            refuse_unless_private(self.seed is None)
        assert self.rho > 0

    @property
    def rho(self) -> Fraction:
        return Fraction(rho_of(self.epsilon, self.delta))

    @property
    def options(self) -> dict[str, Any]:
        return asdict(self.mechanism)  # pyright: ignore[reportArgumentType]

    def noise(self) -> Noise:
        return ExactNoise() if self.seed is None else SeededNoise(self.seed)

    def settings(self) -> dict[str, Any]:
        """What must be the same when a run is resumed."""
        charged = self.charge_to and [str(self.charge_to.book), self.charge_to.dataset]
        return {
            "mechanism": self.mechanism.name,
            "options": self.options,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "seed": self.seed,
            "schema": hashlib.sha256(self.schema.dumps().encode()).hexdigest(),
            "workload": hashlib.sha256(self.workload.dumps().encode()).hexdigest(),
            "ledger": charged,
        }


class Run:
    """A context in which a mechanism may draw: `with run as journal: ...; run.finish(...)`.

    Without a target everything stays in memory, and a failed run cannot be resumed.
    """

    def __init__(self, request: Request, target: Path | None, *, resume: bool = False) -> None:
        """Refuse what can be refused; nothing is written or charged yet."""
        self._request = request
        self._target = target
        self._folder = None if target is None else store.partial_folder(target)
        self._book = Book.open(request.charge_to.book) if request.charge_to else None
        self._entry: int | None = None
        self._journal: Journal | None = None
        self._resumed = resume
        if target is not None:
            store.check_free(target)
        interrupted = self._folder is not None and self._folder.exists()
        if resume and not interrupted:
            raise UsageError(
                f"There is no interrupted run at {self._folder or 'memory'}. Run without --resume."
            )
        if resume:
            self._entry = self._interrupted_entry()
        elif interrupted:
            raise UsageError(
                f"{self._folder} holds an interrupted run. Continue it with --resume, or remove "
                "it; a removed run stays charged."
            )

    def __enter__(self) -> Journal:
        """Reserve the budget, unless the interrupted run did, and open the journal."""
        if self._folder is None:
            self._entry = self._reserve()
            self._journal = Journal()
            return self._journal
        if not self._resumed:
            self._begin(self._folder)
        self._journal = FileJournal(self._folder / "journal.jsonl")
        return self._journal

    def _begin(self, folder: Path) -> None:
        """The folder comes first: where it cannot be made, or is another run's, nothing is charged.

        A kill between the two leaves an empty folder and no charge, or a charge without a run.
        """
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise UsageError(
                f"{folder} could not be made: {error.strerror}. Name another place."
            ) from None
        try:
            self._entry = self._reserve()
        except BaseException:
            folder.rmdir()
            raise
        text = json.dumps({"settings": self._request.settings(), "entry": self._entry})
        (folder / "run.json").write_text(text)

    def finish(self, release: Release, spent: Fraction) -> None:
        """Write the release, then settle with the book, then drop the journal."""
        if self._target is not None:
            release.save(self._target)
        if self._book is not None and self._entry is not None:
            self._book.settle(self._entry, spent)
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if isinstance(self._journal, FileJournal):
            self._journal.close()
        elif kind is not None and self._book is not None and self._entry is not None:
            self._book.fail(self._entry)

    def _reserve(self) -> int | None:
        if self._book is None or self._request.charge_to is None:
            return None
        return self._book.reserve(
            self._request.charge_to.dataset,
            self._request.rho,
            mechanism=self._request.mechanism.name,
            release=str(self._target or "in memory"),
            epsilon=float(self._request.epsilon),
            delta=float(self._request.delta),
        )

    def _interrupted_entry(self) -> int | None:
        """The book entry of the interrupted run, if its settings are those of this one."""
        assert self._folder is not None
        try:
            stored = json.loads((self._folder / "run.json").read_text())
            settings, entry = stored["settings"], stored["entry"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(
                f"{self._folder} cannot be resumed: its run.json cannot be read. Remove the "
                "folder and run anew; what was reserved stays charged."
            ) from None
        differing = [k for k, v in self._request.settings().items() if settings.get(k) != v]
        if differing:
            raise UsageError(
                f"The interrupted run at {self._folder} was started with another "
                f"{', '.join(differing)}. Resume with the same, or remove the folder; a removed "
                "run stays charged."
            )
        return entry
