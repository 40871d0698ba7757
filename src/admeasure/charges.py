"""What one run is charged in the budget book, and how far its journal goes there.

All entries of a run carry its token; at most one of them is running. A run that is resumed after it
was ended at a limit has several, and each pays for what was drawn under it.

Every result of a run that keeps a journal is noted in the book (the journal's length and hash)
before it is visible. A folder that was put back from a copy lacks what the book knows of, and is
not resumed: drawing those results again would show two draws for one charge. Where the folder is
copied and both are continued, the second to draw is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy.account import RELEASED, RUNNING, Entry
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Cost
from admeasure.privacy.journal import FileJournal, Mark


@dataclass
class Charges:
    """The entries of one run. A fresh run knows their numbers, a resumed one finds its token."""

    book: Book
    dataset: str
    token: str
    mechanism: str
    place: str
    epsilon: float
    delta: float
    resumed: bool
    reserved: list[int] = field(default_factory=list)

    def entries(self) -> list[Entry]:
        if not self.resumed:
            return [self.book.entry(number) for number in self.reserved]
        history = self.book.history(self.dataset)
        return [entry for entry in history if entry.release.endswith(f"[{self.token}]")]

    def running(self) -> Entry:
        return next(entry for entry in self.entries() if entry.status == RUNNING)

    def check(self, total: Cost) -> None:
        """Refuse a run that the book would refuse when it comes to reserve its budget."""
        mine = self.entries()
        if not any(entry.status in (RUNNING, RELEASED) for entry in mine):
            self.book.check(self.dataset, total - _sum(mine, total * 0), self.delta)

    def reserve(self, cost: Cost) -> None:
        number = self.book.reserve(
            self.dataset,
            cost,
            mechanism=self.mechanism,
            release=f"{self.place} [{self.token}]",
            epsilon=self.epsilon,
            delta=self.delta,
        )
        self.reserved.append(number)

    def take_up(self, journal: FileJournal, folder: Path, total: Cost) -> None:
        """Reserve what is not reserved yet, unless the journal is behind the book."""
        mine = self.entries()
        if any(entry.status == RELEASED for entry in mine):
            raise UsageError(
                f"The run of {folder} has ended with a release, and what it reserved was given "
                "back. Remove the folder, and run anew."
            )
        for entry in mine:
            if not journal.reaches(self.book.mark_of(entry.id)):
                raise BudgetError(
                    f"{folder} is not the newest state of its run: entry {entry.id} of the budget "
                    f"book {self.book.path} knows of results that are missing there. Drawing them "
                    "again would not be charged. Put the newest state of the folder back, or "
                    "remove it and run anew; what was reserved stays charged."
                )
        if not any(entry.status == RUNNING for entry in mine):
            self.reserve(total - _sum(mine, total * 0))

    def commit(self) -> Callable[[Mark], None]:
        """What notes a mark of the journal in the book."""
        entry = self.running().id
        known = self.book.mark_of(entry)

        def note(mark: Mark) -> None:
            nonlocal known
            if mark != known:
                self.book.mark(entry, known, mark)
                known = mark

        return note

    def settle(self, spent: Cost) -> None:
        """End the entry as released. What earlier entries of the run were charged is paid."""
        mine = self.entries()
        for entry in mine:
            if entry.status == RUNNING:
                self.book.settle(entry.id, spent - _others(mine, entry))

    def end_at(self, spent: Cost, total: Cost) -> None:
        """End the entry without a release, at what was drawn, unless that is all."""
        if spent == total:
            return
        mine = self.entries()
        for entry in mine:
            if entry.status == RUNNING:
                others = _others(mine, entry)
                self.book.fail(entry.id, spent - others if others <= spent else spent * 0)


def _others(mine: list[Entry], entry: Entry) -> Cost:
    return _sum([e for e in mine if e.id != entry.id], entry.cost * 0)


def _sum(entries: list[Entry], nothing: Cost) -> Cost:
    return sum((entry.cost for entry in entries), nothing)
