"""The budget book on a PostgreSQL server: what a file has no counterpart of.

What both promise is in tests/contracts/test_book_contract.py.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from admeasure.cli.run import run
from admeasure.errors import AdmeasureError, BudgetError, UsageError
from admeasure.mechanisms import build
from admeasure.privacy import bookserver
from admeasure.privacy.book import Book
from admeasure.privacy.bookfile import BudgetInDoubt
from admeasure.privacy.bookserver import place_of
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

RUN = {"mechanism": "aim", "release": "r"}
SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
DATA = {"a": [0, 1, 2, 0], "b": [0, 1, 0, 1]}


@pytest.fixture
def name() -> str:
    return f"book_{uuid.uuid4().hex}"


@pytest.fixture
def address(server: Any, name: str) -> str:
    return server.book(name)


@pytest.fixture
def book(address: str) -> Book:
    return Book.create(address, "toy", epsilon=1, delta=1e-6)


@pytest.fixture
def sql(server: Any, name: str) -> Iterator[Callable[..., Any]]:
    """Statements of the owner on the book's tables."""
    with server.connect() as connection:
        connection.execute(f"SET search_path = {name}")
        yield connection.execute


def sixth(book: Book) -> Any:
    return book.account("toy").total / 6


DAMAGE = {
    "another text": "UPDATE change SET text = replace(text, 'toy', 'tay') WHERE number = 3",
    "the last change removed": "DELETE FROM change WHERE number = 4",
    "a change in between removed": "DELETE FROM change WHERE number = 3",
    "all changes removed": "DELETE FROM change",
    "another seal": "UPDATE seal SET changes = 3",
    "no seal": "DELETE FROM seal",
    "two seals": "INSERT INTO seal SELECT * FROM seal",
    "another mark": "UPDATE mark SET length = 7",
    "no marks": "DELETE FROM mark",
    "no format": "DELETE FROM book",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_book_is_refused_and_grants_nothing(case, book, address, sql):
    for _ in range(2):
        book.reserve("toy", sixth(book), **RUN)
    assert sql("SELECT count(*) FROM change").fetchone() == (4,)
    sql(DAMAGE[case])
    with pytest.raises(BudgetError, match="damaged"):
        Book.open(address)


def test_a_book_that_is_put_back_to_an_older_state_is_refused_by_who_knew_it(book, sql):
    (older,) = sql("SELECT * FROM seal").fetchall()
    asked = sixth(book)
    book.settle(book.reserve("toy", asked, **RUN), asked)
    assert book.account("toy").spent == asked
    sql("DELETE FROM change WHERE number > %s", older[:1])
    sql("UPDATE seal SET changes = %s, link = %s", older)
    sql("DELETE FROM mark")
    with pytest.raises(BudgetError, match="put back to an older state"):
        book.reserve("toy", asked, **RUN)


def test_a_book_of_a_newer_format_is_refused(book, address, sql):
    sql("UPDATE book SET format = 99")
    for ask in (lambda: Book.open(address), lambda: book.reserve("toy", sixth(book), **RUN)):
        with pytest.raises(UsageError, match="format 99"):
            ask()


def test_a_place_without_a_book_is_refused_and_nothing_is_made(server, address, name):
    with pytest.raises(UsageError, match="There is no budget book"):
        Book.open(address)
    with server.connect() as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).fetchall()
    assert not found


def test_a_schema_of_something_else_is_never_written_to(server, address, name):
    with server.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"CREATE TABLE {name}.t (x int)")
    with pytest.raises(UsageError, match="There is no budget book"):
        Book.create(address, "toy", epsilon=1, delta=1e-6)
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [name]
        ).fetchall()
    assert rows == [("t",)]


def test_a_locked_book_is_waited_for_and_then_refused_without_a_charge(book, server, name):
    with server.connect() as other:
        other.autocommit = False
        other.execute(f"LOCK TABLE {name}.seal IN EXCLUSIVE MODE")
        assert book.account("toy").spent.rho == 0  # who reads does not wait
        with pytest.raises(BudgetError, match=r"locked for 0\.2 s\. Nothing was charged"):
            Book(book.path, wait_seconds=0.2).reserve("toy", sixth(book), **RUN)
        other.rollback()
    assert book.history("toy") == ()


def test_a_change_is_on_the_servers_disk_whatever_its_default_is(book, monkeypatch):
    """The server of the tests has synchronous_commit = off."""
    seen = []
    execute = bookserver._Statements.execute

    def spied(self, statement, values=(), /):
        if statement == "COMMIT":
            seen.append(execute(self, "SHOW synchronous_commit").fetchone()[0])
        return execute(self, statement, values)

    monkeypatch.setattr(bookserver._Statements, "execute", spied)
    book.reserve("toy", sixth(book), **RUN)
    assert set(seen) == {"on"}


def ended(server: Any, *, before: str) -> Callable[..., Any]:
    """Ends the connection of whoever is about to make a statement."""
    execute = bookserver._Statements.execute

    def cut(self, statement, values=(), /):
        if statement.startswith(before):
            (pid,) = execute(self, "SELECT pg_backend_pid()").fetchone()
            with server.connect() as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return execute(self, statement, values)

    return cut


def test_a_connection_lost_before_the_commit_is_no_charge(book, server, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(bookserver._Statements, "execute", ended(server, before="INSERT"))
        with pytest.raises(BudgetError, match=r"was lost\. Nothing was charged") as refused:
            book.reserve("toy", sixth(book), **RUN)
    assert not isinstance(refused.value, BudgetInDoubt)
    assert book.history("toy") == ()


def test_a_connection_lost_at_the_commit_is_said_to_be_in_doubt(book, server, monkeypatch):
    asked = sixth(book)
    committing = iter([True])
    cut, execute = ended(server, before="COMMIT"), bookserver._Statements.execute

    def at_the_change(self, statement, values=(), /):
        lost = statement == "COMMIT" and next(committing)
        return (cut if lost else execute)(self, statement, values)

    with monkeypatch.context() as patched:
        patched.setattr(bookserver._Statements, "execute", at_the_change)
        with pytest.raises(BudgetInDoubt, match="may stand"):
            book.reserve("toy", asked, **RUN)
    assert len(book.history("toy")) in (0, 1)


def test_a_transaction_that_failed_unseen_is_not_taken_for_a_change(book, monkeypatch):
    """COMMIT of a failed transaction is a rollback, and no error to the server."""
    execute = bookserver._Statements.execute

    def failing(self, statement, values=(), /):
        if statement == "COMMIT":
            with contextlib.suppress(psycopg.Error):
                execute(self, "SELECT 1/0")
        return execute(self, statement, values)

    asked = sixth(book)
    with monkeypatch.context() as patched:
        patched.setattr(bookserver._Statements, "execute", failing)
        with pytest.raises(AdmeasureError):
            book.reserve("toy", asked, **RUN)
    assert book.history("toy") == ()


RIGHTS = (
    "GRANT USAGE ON SCHEMA {0} TO {1}",
    "GRANT SELECT ON {0}.book TO {1}",
    "GRANT SELECT, INSERT ON {0}.change TO {1}",
    "GRANT SELECT, UPDATE ON {0}.seal TO {1}",
    "GRANT SELECT, INSERT, UPDATE ON {0}.mark TO {1}",
)


def test_the_rights_that_the_docs_list_suffice_and_let_nobody_unsay_a_charge(server, book, name):
    docs = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "budget-book.md"
    for right in RIGHTS:
        assert right.format("admeasure", "team") in docs.read_text()
    user, password = f"user_{name}", "x y"
    with server.connect() as owner:
        owner.execute(f"CREATE USER {user} PASSWORD '{password}'")
        owner.execute(f"GRANT USAGE ON SCHEMA {name} TO {user}")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {user}")
    place = f"{user}:{quote(password)}@127.0.0.1:{server.port}/postgres?schema={name}"
    mine = Book.open(f"postgres://{place}")
    with pytest.raises(BudgetError, match=r"may not use .* Nothing was charged"):
        mine.reserve("toy", sixth(book), **RUN)
    with server.connect() as owner:
        for right in RIGHTS:
            owner.execute(right.format(name, user))
    mine.settle(mine.reserve("toy", sixth(book), **RUN), 0)
    with (
        psycopg.connect(f"postgres://{place.partition('?')[0]}") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"DELETE FROM {name}.change")


# Passwords

PLACES = [
    "postgres://ann:hunter2@127.0.0.1:1/db",
    "postgres://ann:hunter2@127.0.0.1/db?schema=x&nonsense=hunter2",
    "postgres://ann:hunter2@/db",
    "postgres://ann:hun/ter2@127.0.0.1:1/db",
    "postgresql://ann:hunter2@127.0.0.1:1/hunter2@x",
    "postgres://ann:hunter2@127.0.0.1:x/db",
    "postgres:/ann:hunter2@127.0.0.1:1/db",
]


@pytest.mark.parametrize("given", PLACES)
def test_no_message_shows_a_password_of_an_address(given, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    (tmp_path / "data.csv").write_text("a,b\n0,1\n")
    asked = ["data.csv", "--schema", "schema.toml", "--workload", "all-1way", "--epsilon", "1"]
    for argv in (
        ["ledger", "show", given],
        ["ledger", "create", given, "--dataset", "toy", "--epsilon", "1"],
        ["ledger", "verify", given, "--against", given, "--json"],
        ["fit", *asked, "--out", "release", "--ledger", given, "--dataset", "toy"],
    ):
        assert run(argv) in (2, 4)
        heard = capfd.readouterr()
        assert "hunter2" not in heard.out + heard.err
        assert "ter2" not in heard.out + heard.err
    with pytest.raises(AdmeasureError) as refused:
        Book.open(given)
    assert "ter2" not in str(refused.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "schema.toml"]


def test_neither_book_nor_request_shows_the_password(server, address, book):
    secret = quote(server.password, safe="")
    for shown in (book, book.path, place_of(address), ChargeTo(address, "toy")):
        for text in (repr(shown), str(shown)):
            assert secret not in text
            assert server.password not in text


# Runs


def charged(address: str, out: Path | None = None, **given: Any) -> Any:
    return fit(
        DATA,
        SCHEMA,
        workload="all-1way",
        mechanism=build("independent"),
        epsilon=0.4,
        delta=1e-6,
        out=out,
        charge_to=ChargeTo(address, "toy"),
        **given,
    )


def test_a_run_is_charged_marked_and_settled_and_its_files_hold_no_password(
    server, address, book, tmp_path
):
    marks: list[int] = []

    def stop(event: Any) -> None:
        (entry,) = book.history("toy")
        assert (entry.status, entry.cost.rho) == ("running", entry.reserved.rho)
        marks.append(book.mark_of(entry.id).length)
        if len(marks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        charged(address, tmp_path / "release", listeners=(stop,))
    assert 0 < marks[0] < marks[1]
    kept = json.loads((tmp_path / "release.partial" / "run.json").read_text())
    assert kept["settings"]["ledger"] == [str(book.path), "toy"]
    release = charged(address, tmp_path / "release", resume=True)
    (entry,) = book.history("toy")
    spent = sum((Fraction(e["rho"]) for e in release.log if e["event"] != "intent"), Fraction(0))
    assert (entry.status, entry.cost.rho) == ("released", spent)
    secret = server.password.encode()
    assert all(secret not in f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())


def test_the_command_line_charges_a_book_on_a_server(address, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    (tmp_path / "data.csv").write_text("a,b\n0,1\n2,0\n")
    assert run(["ledger", "create", address, "--dataset", "toy", "--epsilon", "1"]) == 0
    argv = ["fit", "data.csv", "--schema", "schema.toml", "--workload", "all-1way"]
    argv += ["--epsilon", "0.8", "--mechanism", "independent", "--ledger", address]
    assert run([*argv, "--dataset", "toy", "--out", "one"]) == 0
    assert run([*argv, "--dataset", "toy", "--out", "two"]) == 4
    assert run(["report", "one", "-o", "report.html", "--ledger", address]) == 0
    capfd.readouterr()
    assert run(["ledger", "show", address, "--json"]) == 0
    (said,) = json.loads(capfd.readouterr().out)["datasets"]
    assert [entry["status"] for entry in said["runs"]] == ["released"]
    assert run(["ledger", "verify", address]) == 0


def test_without_the_driver_the_message_says_what_to_install():
    code = (
        "import sys\nsys.modules['psycopg'] = None\nimport importlib.util as u\n"
        "find = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'psycopg' else find(n, *a)\n"
        "from admeasure.privacy.book import Book\n"
        "try:\n    Book.open('postgres://ann@127.0.0.1:1/db')\n"
        "except Exception as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "admeasure[warehouse]" in done.stdout
