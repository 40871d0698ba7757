"""The budget book: what was ever spent on each data set, in one SQLite file (`bookfile`) or in a
PostgreSQL database (`bookserver`).

Promises:

- The entries of a data set never add up to more than its total, whoever asks and however many
  processes ask at once. Sums are exact rationals, kept as text `numerator/denominator`.
- A run is charged in full before it starts. When it ends, `settle` lowers the charge to what its
  ledger really charged; a run that was killed, or that failed, stays charged in full. A charge is
  never raised, and lowered only once.
- Every change is one transaction under the store's write lock, on the disk before the call returns
  (of a file: rollback journal, synchronous = EXTRA, so that the journal's removal is flushed too
  and a loss of power cannot bring back the state before the charge). A kill at any moment leaves
  the state before or after the change.
- A refused request changes nothing.
- A book that is damaged, by as little as one bit, is refused or says what it said before: it never
  understates (`changes`). `open` and `changes` check all of it. A `Book` remembers what it has
  checked, and checks at each use that the book still ends there or goes on from there: a change
  costs what was added since, and a book that was put back to an older state is refused.
- A run that keeps a journal has its mark here, how far the journal goes: a run cannot be resumed
  from behind it, nor in two places at once.

A book holds no data about people: names of data sets and releases, dates and budgets. Each call
opens the file, or a connection, and closes it again, so a `Book` may be shared between threads and
kept across forks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy import changes
from admeasure.privacy.account import FAILED, RELEASED, RUNNING, Account, Entry, State, spent_record
from admeasure.privacy.bookfile import BookFile
from admeasure.privacy.bookserver import BookAddress, BookServer, place_of
from admeasure.privacy.changes import BookConnection, Change
from admeasure.privacy.cost import Cost, Number, as_cost, budget_of, in_decimal
from admeasure.privacy.journal import NOTHING, Mark


@dataclass(frozen=True)
class Comparison:
    """How many changes a book and its copy share from the beginning on, and have by themselves."""

    shared: int
    only_here: int
    only_there: int

    @property
    def lacks_nothing(self) -> bool:
        """Whether the book holds all that its copy holds."""
        return self.shared > 0 and not self.only_there


@dataclass(frozen=True)
class Book:
    """A budget book. Made by `open` or `create`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> book = Book.create(Path(folder.name) / "budget.db", "adult", epsilon=1, delta=1e-9)
    >>> half = book.account("adult").total / 2
    >>> entry = book.reserve("adult", half, mechanism="aim", release="first")
    >>> book.settle(entry, half / 2)
    >>> book.account("adult").left == book.account("adult").total * 3 / 4
    True
    >>> folder.cleanup()
    """

    path: Path | BookAddress
    """Where it is; a password of an address does not show."""
    wait_seconds: float = 30.0
    _known: list[State] = field(default_factory=list, init=False, repr=False, compare=False)
    """What was read and checked so far, or nothing."""

    @property
    def _store(self) -> BookFile | BookServer:
        if isinstance(self.path, BookAddress):
            return BookServer(self.path, self.wait_seconds)
        return BookFile(self.path, self.wait_seconds)

    @classmethod
    def open(cls, path: str | Path | BookAddress, *, wait_seconds: float = 30.0) -> Book:
        """An existing book, checked: one line says what is wrong with one that cannot be used."""
        book = cls(place_of(path), wait_seconds)
        book.changes()
        return book

    @classmethod
    def create(
        cls,
        path: str | Path | BookAddress,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        delta_share: float | Fraction = 0.0,
        wait_seconds: float = 30.0,
    ) -> Book:
        """A book with this data set in it; the book is made where there is none."""
        _total(epsilon, delta, delta_share)  # refuses what is no budget before a file is made
        book = cls(place_of(path), wait_seconds)
        book._store.make()
        book.add(dataset, epsilon=epsilon, delta=delta, delta_share=delta_share)
        return book

    def add(
        self, dataset: str, *, epsilon: float, delta: float, delta_share: float | Fraction = 0.0
    ) -> Account:
        """Enter a data set with its total budget, which stands for good.

        The total is the largest budget that gives (epsilon, delta). `delta_share` of that delta is
        for steps that may fail, of all runs together; what it leaves of delta is what rho has. It
        is fixed here, before anything is released: a total that could be spent as rho or as delta,
        by choice and after seeing results, would not hold its promise.
        """
        if not dataset.strip():
            raise UsageError("A data set needs a name.")
        total = _total(epsilon, delta, delta_share)
        with self._changing("Nothing was entered.") as (db, state):
            if dataset in state.accounts:
                raise BudgetError(
                    f"The data set {dataset!r} is in the book {self.path} already, and its total "
                    "stands for good. Use its name in a run, or choose another name for another "
                    "table of other people."
                )
            account = Account(
                dataset=dataset,
                epsilon=float(epsilon),
                delta=float(delta),
                total=total,
                spent=total * 0,
                created=_now(),
                closed=None,
            )
            budget = {"epsilon": account.epsilon, "delta": account.delta, **total.to_record()}
            entered = {"change": "dataset", "dataset": dataset, **budget, "at": account.created}
            changes.append(db, entered)
        return account

    def reserve(
        self,
        dataset: str,
        cost: Cost | Number,
        *,
        mechanism: str,
        release: str,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> int:
        """Charge a run before it starts; the number of its entry.

        `epsilon` and `delta` are what the run was asked for; left out, they are the data set's
        delta and the epsilon that the cost means there. `BudgetError` where the total would be
        passed.

        A bare number is a rho. A float is taken exactly, with one exception. Float shares of a
        total add up to the total only up to their rounding, and refusing the last of ten tenths
        would waste it. So a float that passes what is left by at most 2^-50 of the total is granted
        what is left, exactly;
        `book.entry(number).cost` is what was granted and all that the run may spend.
        """
        _positive(cost)
        with self._changing("Nothing was charged.") as (db, state):
            account = state.account(dataset, self.path)
            at_delta = account.delta if delta is None else float(delta)
            granted = account.granted(cost, at_delta)
            meant = granted.epsilon(at_delta)
            number = state.next_entry
            changes.append(
                db,
                {
                    "change": "reserve",
                    "entry": number,
                    "dataset": dataset,
                    "mechanism": mechanism,
                    "release": release,
                    **granted.to_record(),
                    "epsilon": meant if epsilon is None else float(epsilon),
                    "delta": at_delta,
                    "at": _now(),
                    **spent_record(account.spent + granted),
                },
            )
            changes.write_mark(db, number, NOTHING)
        return number

    def check(self, dataset: str, cost: Cost | Number, delta: float | None = None) -> None:
        """Refuse what `reserve` would refuse now. Another process may still come first."""
        _positive(cost)
        with self._state("Nothing was charged.") as (_, state):
            account = state.account(dataset, self.path)
            account.granted(cost, account.delta if delta is None else float(delta))

    def settle(self, entry: int, spent: Cost | Number) -> None:
        """The run has ended with a release: lower its charge to what its ledger charged."""
        self._end(entry, RELEASED, spent)

    def fail(self, entry: int, spent: Cost | Number | None = None) -> None:
        """The run has ended without a release. It stays charged in full, unless its ledger is
        there to say what it charged: noise that was drawn is spent, seen or not."""
        self._end(entry, FAILED, spent)

    def close_dataset(self, dataset: str) -> None:
        """Refuse every further run on the data set, for good. What runs now may still settle."""
        with self._changing("It is not closed.") as (db, state):
            if state.account(dataset, self.path).closed is None:
                changes.append(db, {"change": "close", "dataset": dataset, "at": _now()})

    def mark(self, entry: int, before: Mark, after: Mark) -> None:
        """Note how far a run's journal goes, before its newest result is visible.

        Refused unless the mark is `before`, as this process knows it: if it moved, the same run
        goes on in another place, from a copy of its folder.
        """
        charged = f"Entry {entry} stays charged in full."
        with self._store.transaction(write=True, unchanged=charged) as db:
            if changes.read_mark(db, entry) != before:
                raise BudgetError(
                    f"The run of entry {entry} of {self.path} has gone on in another place, from a "
                    f"copy of its folder. {charged} Continue it there."
                )
            changes.write_mark(db, entry, after)

    def mark_of(self, entry: int) -> Mark:
        """How far the journal of a run went when its last result was committed."""
        with self._state() as (db, state):
            state.entry(entry, self.path)
            return self._store.read_mark(db, entry)

    def changes(self) -> tuple[Change, ...]:
        """Every change ever made, oldest first. Checks the whole file: `BudgetError` for damage."""
        store = self._store
        with store.transaction() as db:
            store.check_pages(db)
            found = store.read(db)
            state = State().take_in(found)
            store.check_marks(db, state.entries)
            current = store.is_current(db)
        if current:
            self._known[:] = [state]
        return found

    def compare(self, copy: Book) -> Comparison:
        """What this book and a copy of it have in common. Both are checked."""
        here, there = self.changes(), copy.changes()
        shared = changes.common(here, there)
        return Comparison(shared, len(here) - shared, len(there) - shared)

    def account(self, dataset: str) -> Account:
        """One data set's total, spent and left."""
        with self._state() as (_, state):
            return state.account(dataset, self.path)

    def datasets(self) -> tuple[Account, ...]:
        """Every data set, by name."""
        with self._state() as (_, state):
            return tuple(account for _, account in sorted(state.accounts.items()))

    def entry(self, number: int) -> Entry:
        """One run, by the number that `reserve` gave."""
        with self._state() as (_, state):
            return state.entry(number, self.path)

    def history(self, dataset: str) -> tuple[Entry, ...]:
        """Every run on a data set, in the order in which they were charged."""
        with self._state() as (_, state):
            state.account(dataset, self.path)
            return state.history(dataset)

    def _end(self, number: int, status: str, spent: Cost | Number | None) -> None:
        with self._changing(f"Entry {number} stays charged in full.") as (db, state):
            entry = state.entry(number, self.path)
            now = entry.cost if spent is None else _cost(spent)
            if (entry.status, entry.cost) == (status, now):
                return  # a run killed right after it settled is resumed, and settles again
            if entry.status != RUNNING:
                raise BudgetError(
                    f"Entry {number} of {self.path} has ended already ({entry.status}); a charge "
                    "is settled once."
                )
            if not now * 0 <= now:
                raise UsageError(f"A run cannot have spent less than nothing ({now}).")
            if not now <= entry.cost:
                raise BudgetError(
                    f"Entry {number} of {self.path} holds {entry.cost}, and its run says that it "
                    f"spent more ({now}). It stays charged in full; do not publish the release."
                )
            total = state.accounts[entry.dataset].spent - entry.cost + now
            ending = {"status": status, **now.to_record(), "at": _now(), **spent_record(total)}
            changes.append(db, {"change": "end", "entry": number, **ending})

    @contextmanager
    def _changing(self, unchanged: str) -> Iterator[tuple[BookConnection, State]]:
        """A transaction in which a change is made, and what the book says at its beginning.

        A book that was not read before is read before the write lock is taken, so that the lock is
        held for a moment only; under it, what others added meanwhile is read.
        """
        if not self._known:
            with self._state(unchanged):
                pass
        with self._state(unchanged, write=True) as found:
            yield found

    @contextmanager
    def _state(
        self, unchanged: str = "", *, write: bool = False
    ) -> Iterator[tuple[BookConnection, State]]:
        """A transaction, and what the book says at its beginning: what this `Book` has read and
        checked before, and the changes since then. `unchanged` is what is true where a change could
        not be made.

        What is known is taken out, in one step, before the transaction begins, so that the
        transaction sees all of it, and put back in the end. Whoever comes meanwhile, another thread
        or a process that was forked, finds nothing and reads the book from its first change on.
        """
        store, known = self._store, self._taken_out()
        try:
            with store.transaction(write=write, unchanged=unchanged) as db:
                state = known if store.is_current(db) else State()
                yield db, state.take_in(store.read(db, state.last))
        finally:
            self._known[:] = [known]

    def _taken_out(self) -> State:
        try:
            return self._known.pop()
        except IndexError:
            return State()


def refuse_unless_private(private: bool, /) -> None:  # noqa: FBT001 - the name says what it is
    """Raise `UsageError` for a run with seeded noise: it is NOT PRIVATE and has no place in a book.

    Whoever knows the seed can take the noise off again, so no budget describes what was given away.
    """
    if not private:
        raise UsageError(
            "A run with a seed is NOT PRIVATE and cannot be entered in the budget book. Leave out "
            "the seed for a private release, or leave out the book for a test."
        )


def _total(epsilon: float, delta: float, delta_share: float | Fraction) -> Cost:
    if not 0 <= delta_share < delta:
        raise UsageError(
            f"A share of delta must be at least 0 and below delta = {delta:g}; it is "
            f"{float(delta_share):g}."
        )
    exact = isinstance(delta_share, Fraction)
    return budget_of(epsilon, delta, delta_share if exact else in_decimal(delta_share))


def _positive(cost: Cost | Number) -> None:
    asked = _cost(cost)
    if asked <= asked * 0:
        raise UsageError(f"A run needs a positive budget; it asks for {asked}.")


def _cost(value: Cost | Number) -> Cost:
    try:
        return as_cost(value)
    except ValueError:
        raise UsageError(f"rho must be a finite number; it is {value!r}.") from None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
