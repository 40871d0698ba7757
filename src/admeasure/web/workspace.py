"""Where the local page keeps its work: one folder of plain files that outlives the server.

    budget.db                        the budget book
    tables/NAME/table.json           which table, its header, what was typed so far
    tables/NAME/schema.toml          the schema, once it is valid
    tables/NAME/workload.toml        the workload, once it is valid
    tables/NAME/runs/N/run.json      what was asked for
    tables/NAME/runs/N/release/      the release, once it is there

The private table stays where it is. Nothing of its rows is kept here, except by the internal
report, whose name says NOT-PRIVATE.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.schema import Schema
from admeasure.sources.address import holds_secret
from admeasure.workload import Workload, parse_workload

MOST_FILES = 60
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".duckdb")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


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

    def read(self) -> dict[str, Any]:
        return json.loads((self.path / "table.json").read_text(encoding="utf-8"))

    def write(self, state: dict[str, Any], *, seen: int | None = None) -> dict[str, Any]:
        """Store a changed state; `seen` is the version that the change was made to."""
        current = self.read()["version"] if (self.path / "table.json").exists() else 0
        if seen is not None and seen != current:
            raise Stale("This was changed in another tab or window. Reload the page to see it.")
        fresh = {**state, "version": current + 1}
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


@dataclass(frozen=True)
class Workspace:
    """The folder of the page; `start` is where its user started it, for paths and suggestions."""

    folder: Path
    start: Path

    @property
    def book(self) -> Path:
        return self.folder / "budget.db"

    @property
    def tables_folder(self) -> Path:
        return self.folder / "tables"

    def prepare(self) -> None:
        try:
            self.tables_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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

    def add(self, data: str, header: list[tuple[str, str]], form: dict[str, Any]) -> TableFolder:
        """A new table; its name comes from its file's."""
        stem = re.sub(r"[^a-z0-9]+", "-", Path(data).name.split(".")[0].lower()).strip("-")[:40]
        folder = self.tables_folder / f"{stem or 'table'}-{secrets.token_hex(2)}"
        folder.mkdir(mode=0o700)
        (folder / "runs").mkdir(mode=0o700)
        table = TableFolder(folder)
        table.write({"data": data, "header": header, "form": form})
        return table

    def suggestions(self) -> list[str]:
        """Names of tables near the place where the page was started; nothing is opened."""
        found: list[str] = []
        for pattern in ("*", "*/*"):
            for path in sorted(self.start.glob(pattern)):
                if path.name.lower().endswith(SUFFIXES) and not path.name.startswith("."):
                    found.append(str(path.relative_to(self.start)))
                if len(found) >= MOST_FILES:
                    return found
        return found

    def located(self, data: str) -> str:
        """A path as the user meant it, from where the page was started. What the page is given it
        writes down, shows, and hands to other processes, so that a password is refused."""
        text = data.strip()
        if holds_secret(text):
            raise UsageError(
                "This is no path and no address without a password. Leave the password out: it is "
                "taken from PGPASSWORD or ~/.pgpass when the page is started with it."
            )
        if not text or "://" in text or text.startswith(("duckdb:", "spark:")):
            return text
        return str(self.start / Path(text).expanduser())


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    beside.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    os.replace(beside, path)
