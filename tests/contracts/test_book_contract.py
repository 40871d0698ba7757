"""What every budget book promises, in a file and on a server: the entries of a data set never pass
its total, no charge is forgotten, whoever asks, however many ask at once, and whoever is killed.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy import changes
from admeasure.privacy.book import Book
from admeasure.privacy.convert import epsilon_of, rho_of
from admeasure.privacy.journal import NOTHING, Mark
from factories import loaded

RUN = {"mechanism": "aim", "release": "r"}
SERVER = Path(__file__).resolve().parents[1] / "warehouse" / "server.py"


@pytest.fixture(params=["file", "server"])
def path(request, tmp_path):
    """Where a book may be made."""
    if request.param == "file":
        return tmp_path / "budget.db"
    return loaded(SERVER).running().book(f"book_{uuid.uuid4().hex}")


@pytest.fixture
def book(path):
    return Book.create(path, "adult", epsilon=1, delta=1e-9)


def test_a_new_data_set_has_the_rho_of_its_epsilon_and_delta_and_nothing_spent(book, path):
    account = book.account("adult")
    assert account.total.rho == Fraction(rho_of(1, 1e-9))
    assert (account.epsilon, account.delta, account.spent.rho) == (1, 1e-9, 0)
    assert account.left.rho == account.total.rho
    assert account.epsilon_spent == 0
    assert account.closed is None
    assert Book.open(path).datasets() == (account,)


def test_an_entry_says_what_was_asked_by_whom_and_when(book):
    before = datetime.now(UTC) - timedelta(seconds=1)
    rho = book.account("adult").total.rho / 4
    number = book.reserve(
        "adult", rho, mechanism="mst", release="out/first", epsilon=0.4, delta=1e-6
    )
    (entry,) = book.history("adult")
    assert entry == book.entry(number)
    assert (entry.mechanism, entry.release, entry.status) == ("mst", "out/first", "running")
    assert (entry.cost.rho, entry.reserved.rho, entry.epsilon, entry.delta) == (rho, rho, 0.4, 1e-6)
    started = datetime.strptime(entry.started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert before <= started <= datetime.now(UTC)
    assert entry.ended is None


def test_an_entry_without_epsilon_shows_the_one_that_its_rho_means(book):
    rho = book.account("adult").total.rho / 4
    entry = book.entry(book.reserve("adult", rho, **RUN))
    assert (entry.epsilon, entry.delta) == (epsilon_of(rho, 1e-9), 1e-9)


def test_what_passes_the_total_is_refused_with_the_sums_and_changes_nothing(book, path):
    total = book.account("adult").total.rho
    book.reserve("adult", total * 3 / 4, **RUN)
    content = book.changes()
    with pytest.raises(BudgetError) as error:
        book.reserve("adult", total / 2, **RUN)
    assert book.changes() == content
    message = str(error.value)
    assert error.value.exit_code == 4
    for rho in (total, total * 3 / 4, total / 4, total / 2):
        assert f"{float(rho):.6g}" in message
    assert "Nothing was charged" in message
    assert "\n" not in message


def test_the_epsilon_that_a_refusal_offers_is_granted(book):
    book.reserve("adult", book.account("adult").total.rho / 3, **RUN)
    with pytest.raises(BudgetError) as error:
        book.reserve("adult", rho_of(1, 1e-6), delta=1e-6, **RUN)
    offered = float(str(error.value).split("at most epsilon = ")[1].split()[0])
    left = book.account("adult").left.rho
    assert 0.998 * epsilon_of(left, 1e-6) < offered
    book.reserve("adult", Fraction(rho_of(offered, 1e-6)), delta=1e-6, **RUN)


def test_the_epsilon_that_an_account_has_left_is_granted(book):
    book.reserve("adult", book.account("adult").total.rho / 7, **RUN)
    account = book.account("adult")
    book.reserve("adult", Fraction(rho_of(account.epsilon_left, 1e-9)), **RUN)
    assert 0 <= book.account("adult").left.rho < account.left.rho / 10**12


def test_the_whole_total_may_be_spent_and_then_nothing_more(book):
    book.reserve("adult", rho_of(1, 1e-9), **RUN)
    assert book.account("adult").left.rho == 0
    with pytest.raises(BudgetError, match="Nothing is left"):
        book.reserve("adult", Fraction(1, 10**30), **RUN)


def test_a_run_is_settled_once_and_a_charge_is_never_raised(book):
    rho = book.account("adult").total.rho / 4
    number = book.reserve("adult", rho, **RUN)
    with pytest.raises(BudgetError, match="spent more"):
        book.settle(number, rho * 2)
    assert book.entry(number).status == "running"
    book.settle(number, rho / 2)
    entry = book.entry(number)
    assert (entry.cost.rho, entry.reserved.rho, entry.status) == (rho / 2, rho, "released")
    assert entry.ended is not None
    for again in (book.settle, book.fail):
        with pytest.raises(BudgetError, match="ended already"):
            again(number, 0)
    assert book.account("adult").spent.rho == rho / 2


def test_settling_again_with_the_same_amount_changes_nothing(book, path):
    rho = book.account("adult").total.rho / 4
    number = book.reserve("adult", rho, **RUN)
    book.settle(number, rho / 2)
    content = book.changes()
    book.settle(number, rho / 2)
    assert book.changes() == content


def test_a_failed_run_stays_charged_unless_its_ledger_says_what_it_charged(book):
    rho = book.account("adult").total.rho / 4
    blind, known = (book.reserve("adult", rho, **RUN) for _ in range(2))
    book.fail(blind)
    book.fail(known, rho / 3)
    assert book.entry(blind).cost.rho == rho
    assert book.entry(known).cost.rho == rho / 3
    assert {entry.status for entry in book.history("adult")} == {"failed"}


def test_a_closed_data_set_grants_nothing_more_but_its_runs_may_still_settle(book):
    rho = book.account("adult").total.rho / 4
    number = book.reserve("adult", rho, **RUN)
    book.close_dataset("adult")
    closed = book.account("adult").closed
    assert closed is not None
    with pytest.raises(BudgetError, match="closed"):
        book.reserve("adult", rho, **RUN)
    book.settle(number, rho / 2)
    book.close_dataset("adult")
    assert book.account("adult").closed == closed
    assert book.account("adult").spent.rho == rho / 2


def test_data_sets_are_separate_and_a_total_stands_for_good(book, path):
    Book.create(path, "census", epsilon=2, delta=1e-6)
    book.reserve("census", book.account("census").total.rho, **RUN)
    assert book.account("adult").spent.rho == 0
    assert [account.dataset for account in book.datasets()] == ["adult", "census"]
    for name in ("adult", "census"):
        with pytest.raises(BudgetError, match="already"):
            book.add(name, epsilon=9, delta=1e-6)
    assert book.account("adult").epsilon == 1


def test_a_request_that_is_no_positive_number_is_refused(book):
    for rho in (0, -1.0, Fraction(-1, 3), float("nan"), float("inf")):
        with pytest.raises(UsageError, match="rho"):
            book.reserve("adult", rho, **RUN)
    assert book.history("adult") == ()


def test_unknown_names_and_numbers_are_refused(book):
    for ask in (book.account, book.history, book.close_dataset):
        with pytest.raises(UsageError, match=r"no data set 'adlut'.*'adult'"):
            ask("adlut")
    with pytest.raises(UsageError, match="no entry 7"):
        book.settle(7, 0)
    with pytest.raises(UsageError, match="needs a name"):
        book.add(" ", epsilon=1, delta=1e-9)


def test_ten_float_tenths_fit_and_then_nothing_more(book):
    total = book.account("adult").total.rho
    for _ in range(10):
        book.reserve("adult", float(total) / 10, **RUN)
    assert total * (1 - Fraction(1, 2**50)) <= book.account("adult").spent.rho <= total
    with pytest.raises(BudgetError):
        book.reserve("adult", float(total) / 10, **RUN)


def test_what_would_be_refused_is_refused_when_it_is_only_asked_for(book):
    book.check("adult", book.account("adult").total)
    before = book.changes()
    with pytest.raises(BudgetError, match="Nothing was charged"):
        book.check("adult", book.account("adult").total * 2)
    assert book.changes() == before


def test_a_mark_moves_from_what_is_known_and_from_nothing_else(book):
    number = book.reserve("adult", book.account("adult").total / 4, **RUN)
    assert book.mark_of(number) == NOTHING
    first, second = Mark(10, "a" * 64), Mark(2**40, "b" * 64)
    book.mark(number, NOTHING, first)
    with pytest.raises(BudgetError, match="another place"):
        book.mark(number, NOTHING, second)
    book.mark(number, first, second)
    assert book.mark_of(number) == second


def test_names_of_any_letters_come_back_as_they_were(book, path):
    name = "données 'x' \"y\" %s ? \x00 😀 \\"
    book.add(name, epsilon=1, delta=1e-9)
    number = book.reserve(name, book.account(name).total / 3, mechanism="%s", release="{} ?")
    (entry,) = Book.open(path).history(name)
    assert (entry.id, entry.mechanism, entry.release) == (number, "%s", "{} ?")


def test_a_change_reads_what_was_added_since_and_nothing_else(path, monkeypatch):
    """Whatever the book has: what costs all of it costs more with every run."""
    book = Book.create(path, "adult", epsilon=1, delta=1e-9)
    mine, other = Book.open(path), Book.open(path)
    share = book.account("adult").total / 100
    for _ in range(10):
        book.settle(book.reserve("adult", share, **RUN), share / 2)
    read, counts = changes.read, []

    def counted(db, after=None):
        found = read(db, after)
        counts.append(len(found))
        return found

    monkeypatch.setattr(changes, "read", counted)
    number = mine.reserve("adult", share, **RUN)  # what others did since it was opened
    mine.settle(number, share)
    assert mine.entry(number).cost == share
    assert mine.account("adult").spent == share * 6
    assert counts == [20, 1, 1, 0]
    other.check("adult", share)
    assert counts[4:] == [22]


def test_threads_may_share_a_book(path):
    book = Book.create(path, "adult", epsilon=1, delta=1e-9)
    share = book.account("adult").total / 100

    def work(_: int) -> list[int]:
        numbers = [book.reserve("adult", share, **RUN) for _ in range(5)]
        assert {entry.id for entry in book.history("adult")} >= set(numbers)
        return numbers

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for found in pool.map(work, range(4)) for number in found]
    assert sorted(numbers) == list(range(1, 21))
    assert book.account("adult").spent == share * 20
    assert book.account("adult") == Book.open(path).account("adult")


# Several processes, and kills: `book_worker.py`


def work(path, *words: object) -> list[list[str]]:
    """What the processes of the script said, word by word."""
    script = Path(__file__).with_name("book_worker.py")
    done = subprocess.run(
        [sys.executable, str(script), str(path), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split() for line in done.stdout.splitlines()]


def test_charges_of_eight_processes_at_once_are_all_there_exactly(path, times, tally):
    each = times(5, 500)
    book = Book.create(path, "adult", epsilon=1, delta=1e-9)
    said = work(path, "charge", 8, each)
    assert [words[0] for words in said].count("refused") == 0
    promised = {int(number): Fraction(rho) for _, number, rho in said}
    assert len(promised) == len(said) == 8 * each
    entries = {entry.id: entry for entry in book.history("adult")}
    assert {number: entry.cost.rho for number, entry in entries.items()} == promised
    assert set(entries) == set(range(1, 8 * each + 1))
    assert book.account("adult").spent.rho == sum(promised.values(), Fraction(0))
    tally("budget book: charges by 8 processes at once, in a file and on a server", len(said))


def test_processes_that_ask_at_once_never_pass_the_total(path):
    book = Book.create(path, "adult", epsilon=1, delta=1e-9)
    said = work(path, "exhaust", 8, 31)
    granted = [words for words in said if words[0] == "charged"]
    assert [words[0] for words in said].count("refused") == 8
    assert len(granted) == len({words[1] for words in granted}) == 15
    account = book.account("adult")
    assert account.spent.rho == sum(Fraction(words[2]) for words in granted) <= account.total.rho


def test_a_kill_at_any_moment_loses_no_charge_and_spends_none_twice(path, times, tally):
    kills = times(6, 50)
    Book.create(path, "adult", epsilon=1, delta=1e-9)
    said = work(path, "kill", kills)
    promised: dict[int, tuple[str, Fraction]] = {}
    for word, number, rho in said:
        promised[int(number)] = (word, Fraction(rho))
    entries = {entry.id: entry for entry in Book.open(path).history("adult")}
    for number, (word, rho) in promised.items():
        cost = entries[number].cost.rho
        assert cost == rho if word == "ended" else rho / 2 <= cost
        assert word != "ended" or entries[number].status == "released"
    # What was charged and never said is what a killed process had under way: one each at the most.
    assert len(entries) <= len(promised) + kills
    spent = sum((entry.cost.rho for entry in entries.values()), Fraction(0))
    assert Book.open(path).account("adult").spent.rho == spent
    assert len(promised) >= kills
    tally("budget book: kills, in a file and on a server", kills)
