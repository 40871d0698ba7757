"""Where the local page keeps its work: one folder of plain files that outlives the server.

    budget.db                        the budget book, unless
    book.json                        names one on a server
    tables/NAME/table.json           which table, its header, what was typed so far
    tables/NAME/schema.toml          the schema, once it is valid
    tables/NAME/workload.toml        the workload, once it is valid
    tables/NAME/runs/N/run.json      what was asked for
    tables/NAME/runs/N/release/      the release, once it is there

The private table stays where it is. Nothing of its rows is kept here, except by the internal
report, whose name says NOT-PRIVATE. Every file is for its owner alone.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.files import write_private
from admeasure.privacy.book import Book
from admeasure.privacy.bookfile import NoBook
from admeasure.privacy.bookserver import BookAddress, place_of
from admeasure.schema import Schema
from admeasure.sources.address import holds_secret
from admeasure.sources.kind import scheme_of
from admeasure.sources.kinds import SCHEMES
from admeasure.web.kept import damaged, locked, read_json, read_text, refuse_unless_own, write_json
from admeasure.workload import Workload, parse_workload

MOST_FILES = 60
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".duckdb")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")

TableState = dict[str, Any]


class Stale(UsageError):
    """Something was changed elsewhere since the page was loaded."""


@dataclass(frozen=True)
class TableFolder:
    """One table on its way to a release."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def schema_path(self) -> Path:
        return self.path / "schema.toml"

    @property
    def workload_path(self) -> Path:
        return self.path / "workload.toml"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else changes this table or starts a run of it meanwhile."""
        with locked(self.path / ".lock"):
            yield

    def read(self) -> TableState:
        path = self.path / "table.json"
        state = read_json(path)
        if not _is_state(state):
            raise damaged(path, "parts of it are missing or of another kind")
        return state

    def change(self, seen: int, parts: Mapping[str, Any], **files: str | None) -> TableState:
        """Store changed parts of the state, and the files that go with them (`schema`, `workload`;
        None removes one), if the state is still the one of version `seen`: of two changes to one
        version the first is taken and the second is told so."""
        with self.held():
            return self.change_held(seen, parts, **files)

    def change_held(self, seen: int, parts: Mapping[str, Any], **files: str | None) -> TableState:
        """`change` for whoever holds the table already."""
        state = self.read()
        if type(seen) is not int or seen != state["version"]:
            raise Stale("This was changed in another tab or window. Reload the page to see it.")
        paths = {self.path / f"{name}.toml": text for name, text in files.items()}
        if all(state.get(key) == value for key, value in parts.items()) and all(
            text == (read_text(path) if path.exists() else None) for path, text in paths.items()
        ):
            return state  # a page that was only opened changes nothing for the others
        for path, text in paths.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                write_private(path, text)
        fresh = {**state, **parts, "version": state["version"] + 1}
        write_json(self.path / "table.json", fresh)
        return fresh

    def schema(self) -> Schema:
        """The schema; a `UsageError` where there is none yet."""
        if not self.schema_path.exists():
            raise UsageError("The schema is not complete yet. Go back to the step “Schema”.")
        return Schema.load(self.schema_path)

    @property
    def workload_text(self) -> str:
        """The workload as the command line takes it."""
        rule = self.read().get("workload", {}).get("text", "")
        if rule:
            return rule
        if not self.workload_path.exists():
            raise UsageError("There is no workload yet. Go back to the step “Workload”.")
        return str(self.workload_path)

    def workload(self, schema: Schema) -> Workload:
        return parse_workload(self.workload_text, schema.domain)


def _is_state(state: TableState) -> bool:
    """Whether a state has the parts that every page relies on."""
    header, form = state.get("header"), state.get("form")
    columns = form.get("columns") if isinstance(form, dict) else None
    workload, budget = state.get("workload", {}), state.get("budget", {})
    return (
        isinstance(state.get("data"), str)
        and type(state.get("version")) is int
        and isinstance(header, list)
        and all(isinstance(h, list) and list(map(type, h)) == [str, str] for h in header)
        and isinstance(form, dict)
        and all(isinstance(form.get(part), dict) for part in ("table", "privacy"))
        and isinstance(form.get("zeros"), list)
        and isinstance(columns, list)
        and all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in columns)
        and isinstance(workload, dict)
        and (not workload or {"kind", "rule", "entries", "text"} <= workload.keys())
        and all(isinstance(workload.get(k, ""), str) for k in ("kind", "rule", "text"))
        and isinstance(workload.get("entries", []), list)
        and isinstance(budget, dict)
        and all(isinstance(value, str) for value in budget.values())
    )


def _is_address(text: str) -> bool:
    """Whether a text is the address of a book on a server, with no room for a password."""
    try:
        place = place_of(text)
    except UsageError:
        return False
    return isinstance(place, BookAddress) and place.has_no_secret


@dataclass(frozen=True)
class Workspace:
    """The folder of the page; `start` is where its user started it, for paths and suggestions."""

    folder: Path
    start: Path

    @property
    def book(self) -> Path | str:
        """Where the budget book is: a file of this folder, or the address of one on a server."""
        chosen = self.folder / "book.json"
        if not chosen.exists():
            return self.folder / "budget.db"
        address = read_json(chosen).get("address")
        if not isinstance(address, str) or not _is_address(address):
            raise damaged(chosen, "it does not hold the address of a budget book")
        return address

    @property
    def book_shown(self) -> str:
        """The place of the book, for people."""
        return str(place_of(self.book))

    def opened_book(self) -> Book | None:
        """The book, checked; None where it is not made yet: its first data set makes it."""
        try:
            return Book.open(self.book)
        except NoBook:
            return None

    def use_book(self, address: str) -> None:
        """Charge runs to a book on a server from now on, or to the file where this is empty. Both
        must be usable. A password would be written down here, and is refused."""
        chosen = self.folder / "book.json"
        if not address:
            chosen.unlink(missing_ok=True)
            return
        if not _is_address(address):
            raise UsageError(
                "This is no address of a book on a server. Write it like "
                "postgres://ann@db.example/privacy, and leave the password out: it is taken from "
                "PGPASSWORD or ~/.pgpass when the page is started with it."
            )
        with contextlib.suppress(NoBook):
            Book.open(address)
        write_json(chosen, {"address": address})

    @property
    def tables_folder(self) -> Path:
        return self.folder / "tables"

    def prepare(self) -> None:
        """Make the folder, for its owner alone; refuse one that others could have written into."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, self.tables_folder):
                folder.mkdir(exist_ok=True, mode=0o700)
                refuse_unless_own(self.folder)
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be made: {error.strerror}.") from None

    def tables(self) -> list[TableFolder]:
        found = [TableFolder(p.parent) for p in self.tables_folder.glob("*/table.json")]
        return sorted(found, key=lambda t: t.path.stat().st_mtime, reverse=True)

    def table(self, name: str) -> TableFolder:
        folder = TableFolder(self.tables_folder / name)
        if not _NAME.fullmatch(name) or not (folder.path / "table.json").is_file():
            raise UsageError("There is no such table here. Start from the first page.")
        return folder

    def add(
        self, data: str, header: list[tuple[str, str]], form: TableState, schema: str | None
    ) -> TableFolder:
        """A new table; its name comes from its file's."""
        stem = re.sub(r"[^a-z0-9]+", "-", Path(data).name.split(".")[0].lower()).strip("-")[:40]
        folder = self.tables_folder / f"{stem or 'table'}-{secrets.token_hex(2)}"
        folder.mkdir(mode=0o700)
        (folder / "runs").mkdir(mode=0o700)
        table = TableFolder(folder)
        if schema is not None:
            write_private(table.schema_path, schema)
        write_json(
            folder / "table.json", {"data": data, "header": header, "form": form, "version": 1}
        )
        return table

    def suggestions(self) -> list[str]:
        """Names of tables near the place where the page was started; nothing is opened."""
        near = (path for pattern in ("*", "*/*") for path in sorted(self.start.glob(pattern)))
        found = (p for p in near if p.name.lower().endswith(SUFFIXES) and p.name[0] != ".")
        return [str(path.relative_to(self.start)) for path in islice(found, MOST_FILES)]

    def located(self, data: str) -> str:
        """A path as the user meant it, from where the page was started. What the page is given it
        writes down, shows, and hands to other processes, so that a password is refused."""
        text = data.strip()
        if holds_secret(text):
            raise UsageError(
                "This is no path and no address without a password. Leave the password out: it is "
                "taken from PGPASSWORD or ~/.pgpass when the page is started with it."
            )
        if text.startswith("-"):
            raise UsageError(f"{text!r} would be taken for an option. Write ./{text} for a file.")
        if not text or "://" in text or (scheme_of(text) or "").lower() in SCHEMES:
            return text
        try:
            return str(self.start / Path(text).expanduser())
        except RuntimeError:
            raise UsageError(f"{text!r} names the home of a user who is not known here.") from None
