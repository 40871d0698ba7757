"""A run under way: what was asked for, its folder and journal, its entries in the budget book.

Order of events, so that a kill at any moment leaves the book readable and never short: the run's
folder is made, with a token of its own in `run.json`; the journal is opened and locked; the whole
budget is reserved in the book under that token; the mechanism draws, each result on disk before it
is used; what was spent goes to `finished.json`; the release is written whole and renamed into
place; the reservation is settled at what was spent; the run's folder goes. Each step is on disk
before the next begins, and a resumed run goes on from whichever was the last. A run that never
gets to the end stays charged in full.

A run that is out of memory or time stops in order: its entry is ended at what it spent. Resumed,
it reserves the rest under the same token.

With a book, a folder that was put back from an older copy is not resumed (`charges`). Without one
nobody can tell.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from admeasure.charges import Charges
from admeasure.errors import AdmeasureError, BudgetError, LimitReached, ResourceError, UsageError
from admeasure.privacy.book import Book
from admeasure.privacy.bookfile import UNUSABLE, BudgetInDoubt
from admeasure.privacy.cost import Cost
from admeasure.privacy.journal import FileJournal, Journal, Mark, flush_folder, without_values
from admeasure.privacy.ledger import Ledger
from admeasure.release import store
from admeasure.request import Request, Result
from admeasure.untrusted import read_json

SETTINGS, FINISHED, JOURNAL = "run.json", "finished.json", "journal.jsonl"

UNGUARDED = (
    "This run has no budget book, so nothing can tell whether its folder is in its newest state or "
    "was put back from a copy. Resumed from an older state it draws again what was shown already, "
    "and no certificate counts that."
)


R = TypeVar("R", bound=Result)


class Run:
    """A context in which a mechanism may draw: `with run as journal: ...; run.finish(...)`.

    Without a target everything stays in memory, and a failed run cannot be resumed.
    """

    def __init__(self, request: Request, target: Path | None, *, resume: bool = False) -> None:
        """Refuse what can be refused, a budget that the book does not have among it; nothing is
        read, written or charged yet."""
        self.ledger = Ledger(request.budget)
        self._request = request
        self._target = target
        self._folder = None if target is None else store.partial_folder(target)
        self._journal: Journal | None = None
        self._resumed = resume
        self._token = secrets.token_hex(6)
        book = Book.open(request.charge_to.book) if request.charge_to else None
        interrupted = self._folder is not None and self._folder.exists()
        if resume and not interrupted:
            raise UsageError(
                f"There is no interrupted run at {self._folder or 'memory'}. Run without --resume."
            )
        if resume:
            self._token = self._interrupted_token()
        elif interrupted:
            raise UsageError(
                f"{self._folder} holds an interrupted run. Continue it with --resume, or remove "
                "it; a removed run stays charged."
            )
        if target is not None and not self.written:
            store.check_free(target)
        self._charges = None if book is None else self._in(book)
        if self._charges is not None and not self.written:
            self._charges.check(self.ledger.total)

    @property
    def written(self) -> bool:
        """Whether the interrupted run got as far as its release, and only has to be settled."""
        if not (self._resumed and self._target is not None and self._folder is not None):
            return False
        return (self._folder / FINISHED).exists() and self._target.is_dir()

    def complete(self, load: Callable[[Path], R]) -> R:
        """What `finish` had left to do when it was interrupted; the result that it wrote."""
        assert self._folder is not None
        assert self._target is not None
        journal = FileJournal(self._folder / JOURNAL)
        try:
            result = load(self._target)
            if list(result.log) != [without_values(event) for event in journal.events]:
                raise UsageError(f"{self._target} is of another run. Move it away, then resume.")
            spent = self._finished()
            self._settle(spent)
            self._drop()
        finally:
            journal.close()
        return result

    def _finished(self) -> Cost:
        """What the interrupted run had spent when it wrote its release."""
        assert self._folder is not None
        try:
            spent = read_json(self._folder / FINISHED)["spent"]
            record = spent if isinstance(spent, dict) else {"rho": spent}  # as it was written once
            return self.ledger.total.from_record(record)
        except (UsageError, KeyError, ValueError):
            raise UsageError(
                f"{self._folder} cannot be settled: its {FINISHED} is damaged. The release stands; "
                "remove the folder. What was reserved stays charged."
            ) from None

    def __enter__(self) -> Journal:
        """Open the journal and reserve the budget, as far as the interrupted run did not."""
        if self._folder is None:
            self._journal = Journal()
            if self._charges is not None:
                self._charges.reserve(self.ledger.total)
            return self._journal
        if not self._resumed:
            self._make(self._folder)
        journal = FileJournal(self._folder / JOURNAL)
        try:
            if self._target is not None and not self._resumed:
                store.check_free(self._target)  # another run may have ended there meanwhile
            if self._charges is not None:
                self._charges.take_up(journal, self._folder, self.ledger.total)
                journal.commit_by(self._committed(self._charges.commit()))
            elif self._resumed and self._request.seed is None:
                warnings.warn(UNGUARDED, stacklevel=3)
        except BaseException as error:
            journal.close()
            # A run that may have been charged keeps its folder: with it, it can be continued.
            refused = isinstance(error, AdmeasureError) and not isinstance(error, BudgetInDoubt)
            reserved = self._charges is not None and self._charges.reserved
            if refused and not self._resumed and not reserved:
                shutil.rmtree(self._folder)
            raise
        self._journal = journal
        return journal

    def finish(self, result: Result) -> None:
        """Write the result, then settle with the book, then drop the journal.

        A result that is not written anywhere is handed out also where the book cannot be told:
        it is charged in full, and would be lost.
        """
        if self._target is not None and self._folder is not None:
            text = json.dumps({"spent": self.ledger.spent.to_record()})
            store.write_durably(self._folder / FINISHED, text.encode())
            result.save(self._target, scratch=self._folder)
        try:
            self._settle(self.ledger.spent)
        except UNUSABLE as blocked:
            if self._folder is not None:
                raise
            warnings.warn(str(blocked), stacklevel=3)
        if self._folder is not None:
            self._drop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        unsettled = ""
        try:
            stopped = isinstance(error, ResourceError | MemoryError) and not _is_full(error)
            if stopped and self._request.gives_back:
                if self._charges is not None:
                    self._charges.end_at(self._spent, self.ledger.total)
            elif error is not None and self._folder is None and self._charges is not None:
                self._charges.book.fail(self._charges.running().id)
        except UNUSABLE as blocked:
            unsettled = f"{blocked} {self._still_charged()}"
        finally:
            if isinstance(self._journal, FileJournal):
                self._journal.close()
        if error is not None and _is_full(error) and self._folder is not None:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ResourceError(f"{reason} {self._kept()}") from None
        if isinstance(error, MemoryError):
            error = LimitReached("There is not enough memory.")
        if isinstance(error, ResourceError):
            raise type(error)(f"{error} {unsettled or self._charged(error)}") from None

    def _make(self, folder: Path) -> None:
        """The folder, with its token or not at all: where it cannot be made, or is another run's,
        nothing is charged."""
        text = json.dumps({"settings": self._request.settings(), "token": self._token})
        fresh = folder.with_name(f".{folder.name}.{self._token}")
        try:
            fresh.mkdir(mode=0o700)
            store.write_durably(fresh / SETTINGS, text.encode())
            os.rename(fresh, folder)
            flush_folder(folder.parent)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise store.not_written(folder, error) from None

    def _drop(self) -> None:
        """Remove the run's folder: in one step out of the way, then piece by piece."""
        assert self._folder is not None
        away = self._folder.with_name(f".{self._folder.name}.done")
        shutil.rmtree(away, ignore_errors=True)
        os.rename(self._folder, away)
        shutil.rmtree(away)

    @property
    def _spent(self) -> Cost:
        """What was spent so far. A replay that was cut short has charged less to its ledger than
        the journal holds."""
        charged, journal = self.ledger.spent, self._journal
        try:
            recorded = charged if journal is None else journal.spent(self.ledger.total)
            return recorded if charged <= recorded else charged
        except (KeyError, ValueError):  # a damaged record: in doubt all
            return self.ledger.total

    def _in(self, book: Book) -> Charges:
        asked = self._request
        assert asked.charge_to is not None
        return Charges(
            book=book,
            dataset=asked.charge_to.dataset,
            token=self._token,
            mechanism=asked.name,
            place=str(self._target or "in memory"),
            epsilon=float(asked.epsilon),
            delta=float(asked.delta),
            resumed=self._resumed,
        )

    def _committed(self, note: Callable[[Mark], None]) -> Callable[[Mark], None]:
        def commit(mark: Mark) -> None:
            try:
                note(mark)
            except UNUSABLE as blocked:  # and not a limit that is reached meanwhile
                raise BudgetError(f"{blocked} {self._still_charged()}") from None

        return commit

    def _settle(self, spent: Cost) -> None:
        if self._charges is None:
            return
        try:
            self._charges.settle(spent)
        except UNUSABLE as blocked:
            raise BudgetError(f"{blocked} {self._not_settled(spent)}") from None

    # What a run that cannot go on is charged, in words.

    def _still_charged(self) -> str:
        charged = f"The whole budget of the run, {self.ledger.total}, stays charged"
        if self._folder is None:
            return f"{charged}; it cannot be continued."
        return (
            f"{charged}. What was released so far is kept in {self._folder}: when the book can be "
            "used again, run again with --resume to continue; nothing is charged twice."
        )

    def _not_settled(self, spent: Cost) -> str:
        charged = f"it is charged {self.ledger.total}, of which it spent {spent}"
        if self._folder is None:
            return f"The release is whole; {charged}, and that stands."
        return (
            f"The release in {self._target} is whole; {charged}. When the book can be used again, "
            "run the same command with --resume: that lowers the charge, and draws nothing."
        )

    def _charged(self, error: ResourceError) -> str:
        if not self._request.gives_back:
            return self._kept() if self._folder else "It cannot be continued."
        charged = f"It is charged for what it spent, {self._spent} of {self.ledger.total}."
        if self._folder is None:
            return charged
        if isinstance(error, LimitReached):
            return f"{charged} {self._kept()}"
        return (
            f"{charged} Resumed, the run would end here again: remove {self._folder}, and ask for "
            "less in a new run."
        )

    def _kept(self) -> str:
        return (
            f"What was released so far is kept in {self._folder}: run again with --resume, with "
            "more room, to continue; nothing is charged twice."
        )

    def _interrupted_token(self) -> str:
        """The token of the interrupted run, if its settings are those of this one."""
        assert self._folder is not None
        try:
            stored = read_json(self._folder / SETTINGS)
            settings, token = dict(stored["settings"]), str(stored["token"])
        except (UsageError, ValueError, KeyError, TypeError):
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
        return token


def _is_full(error: BaseException) -> bool:
    """Whether the disk was full. The run can go on, so it keeps what it has reserved."""
    return isinstance(error, store.DiskFull) or (
        isinstance(error, OSError) and error.errno in store.FULL
    )
