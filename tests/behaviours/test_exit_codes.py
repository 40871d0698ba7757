"""One table of exit codes: in the code, in the docs, in the help, and what commands leave with."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import AdmeasureError, ExitCode
from admeasure.privacy.book import Book
from admeasure.schema import Schema

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exit-codes.md"
SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})


def _every_module() -> None:
    """Import the whole package, so that every error it defines is known."""
    for found in pkgutil.walk_packages(admeasure.__path__, "admeasure."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def _below(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def test_every_error_has_a_code_of_the_table_and_none_is_unexpected():
    _every_module()
    errors = {e for e in _below(AdmeasureError) if e.__module__.startswith("admeasure.")}
    assert len(errors) > 8
    for error in errors:
        assert isinstance(error.exit_code, ExitCode), error
        assert error.exit_code not in (ExitCode.DONE, ExitCode.UNEXPECTED), error


def test_the_docs_have_the_table_of_the_code():
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (.*?) \| (.*?) \|$", DOCS.read_text(), re.MULTILINE)
    assert rows == [(str(int(c)), c.name, c.meaning, c.next) for c in ExitCode]


def test_the_help_lists_every_code(capfd):
    assert run(["--help"]) == ExitCode.DONE
    said = " ".join(capfd.readouterr().out.split())
    for code in ExitCode:
        assert f"{int(code)} {code.meaning}" in said


def test_no_code_is_written_as_a_number_elsewhere():
    """A verb that returns a code of its own takes it from the table."""
    package = Path(admeasure.__path__[0])
    for path in (*package.glob("cli/*.py"), *package.glob("terminal/*.py")):
        for line in path.read_text().splitlines():
            assert not re.search(
                r"(INVALID|_CODE|exit_code)\s*=\s*\d|sys\.exit\(\d|Exit\(\d", line
            ), f"{path.name}: {line}"


def _done(folder: Path) -> list[str]:
    Book.create(folder / "book.db", "toy", epsilon=1, delta=1e-6)
    return ["ledger", "show", "book.db"]


def _usage(folder: Path) -> list[str]:
    return ["fit", "data.csv", "--schema", "missing.toml"]


def _invalid(folder: Path) -> list[str]:
    (folder / "data.csv").write_text("a,b\n7,1\n")
    return ["check", "data.csv", "--schema", "schema.toml"]


def _budget(folder: Path) -> list[str]:
    Book.create(folder / "book.db", "toy", epsilon=0.5, delta=1e-9)
    return [*_asked(), "--ledger", "book.db", "--dataset", "toy"]


def _resource(folder: Path) -> list[str]:
    return [*_asked(), "--max-memory", "1"]


def _asked() -> list[str]:
    asked = ["fit", "data.csv", "--schema", "schema.toml", "--workload", "all-1way"]
    return [*asked, "--epsilon", "1", "--out", "release", "--mechanism", "independent"]


@pytest.mark.parametrize(
    ("code", "of"),
    [
        (ExitCode.DONE, _done),
        (ExitCode.USAGE, _usage),
        (ExitCode.INVALID, _invalid),
        (ExitCode.BUDGET, _budget),
        (ExitCode.RESOURCE, _resource),
    ],
)
def test_a_command_leaves_with_the_code_of_what_happened(
    code: ExitCode, of: Callable[[Path], list[str]], tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,b\n0,1\n2,0\n1,1\n")
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    assert run(of(tmp_path)) == code, capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "error"),
    [(ExitCode.UNEXPECTED, RuntimeError("x")), (ExitCode.INTERRUPTED, KeyboardInterrupt())],
)
def test_a_fault_of_ours_and_ctrl_c_have_codes_of_their_own(code, error, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("admeasure.privacy.book.Book.open", fail)
    assert run(["ledger", "show", str(tmp_path / "book.db")]) == code


def test_ctrl_c_while_a_class_is_made_is_ctrl_c(tmp_path, monkeypatch, capfd):
    """Python 3.11 makes a RuntimeError of it; classes are made when a command imports late."""

    class Pressed:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def late(*_: object, **__: object) -> None:
        type("Late", (), {"field": Pressed()})

    monkeypatch.setattr("admeasure.privacy.book.Book.open", late)
    assert run(["ledger", "show", str(tmp_path / "book.db")]) == ExitCode.INTERRUPTED
    assert "interrupted" in capfd.readouterr().err


def test_these_are_all_codes():
    assert {int(code) for code in ExitCode} == {0, 1, 2, 3, 4, 5, 130}
