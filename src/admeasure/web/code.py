"""The same step as a command and as Python, for whoever wants to script what the page does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from admeasure.sources.address import printable
from admeasure.web.runs import RunSettings, command
from admeasure.web.workspace import TableFolder, Workspace

Code = dict[str, str]


def _near(command: str, python: str) -> Code:
    """Paths from where the page was started, where a user would type them."""
    here = f"{Path.cwd()}/"
    return {"command": command.replace(here, ""), "python": python.replace(here, "")}


def command_line(argv: Sequence[str]) -> str:
    """A command in lines that fit beside a form.

    >>> print(command_line(["check", "a b.csv", "--schema", "s.toml"]))
    admeasure check 'a b.csv' \\
      --schema s.toml
    """
    lines: list[str] = ["admeasure"]
    for i, word in enumerate(argv):
        option = word.startswith("-") and not _is_number(word)
        if option and i:
            lines.append("  " + shlex.quote(word))
        else:
            lines[-1] += " " + shlex.quote(word)
    return " \\\n".join(lines)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def for_start() -> Code:
    return _near(
        command_line(["draft", "DATA", "-o", "schema.toml"]),
        "import admeasure\n\nschema = admeasure.Schema.load('schema.toml')",
    )


def for_schema(table: TableFolder, state: dict[str, Any]) -> Code:
    schema = str(table.schema_path)
    return _near(
        command_line(["check", state["data"], "--schema", schema]),
        f"import admeasure\n\nschema = admeasure.Schema.load({schema!r})",
    )


def for_workload(table: TableFolder, text: str) -> Code:
    return _near(
        command_line(
            ["plan", "--schema", str(table.schema_path), "--workload", text, "--epsilon", "1"]
        ),
        (
            "from admeasure.workload import parse_workload\n\n"
            f"workload = parse_workload({text!r}, schema.domain)"
        ),
    )


def for_budget(table: TableFolder, space: Workspace, asked: dict[str, Any]) -> Code:
    argv = ["plan", "--schema", str(table.schema_path), "--workload", table.workload_text]
    argv += ["--epsilon", asked["epsilon"] or "EPSILON", "--delta", asked["delta"]]
    argv += ["--mechanism", asked["mechanism"]]
    argv += ["--rows", asked["rows"]] if asked.get("rows") else []
    argv += ["--public", asked["public"]] if asked.get("public") else []
    argv += ["--certify", asked["share"]] if asked.get("share") else []
    book = ""
    if asked.get("dataset") and asked.get("total"):
        create = ["ledger", "create", str(space.book), "--dataset", asked["dataset"]]
        book = "\n" + command_line([*create, "--epsilon", asked["total"]])
    maker = asked["mechanism"].replace("-", "_")
    certify = f", certify={asked['share']}" if asked.get("share") else ""
    python = (
        f"plan = admeasure.plan(\n    schema, workload=workload, mechanism=admeasure.{maker}(),\n"
        f"    epsilon={asked['epsilon'] or '…'}, delta={asked['delta']}, "
        f"rows={asked.get('rows') or None}{certify})"
    )
    return _near(command_line(argv) + book, python)


def for_run(settings: RunSettings, path: Path) -> Code:
    maker = settings.mechanism.replace("-", "_")
    given = ", ".join(f"{k.replace('-', '_')}={v}" for k, v in settings.options.items())
    argv = command(settings, path)
    places = dict(pairwise(argv))
    lines = [
        "import admeasure",
        "",
        "release = admeasure.fit(",
        f"    {printable(settings.data)!r},",
        f"    {places['--schema']!r},",
        f"    workload={places['--workload']!r},",
        f"    mechanism=admeasure.{maker}({given}),",
        f"    epsilon={settings.epsilon}, delta={settings.delta},",
        f"    out={places['--out']!r},",
    ]
    if settings.certify:
        lines.append(f"    certify={settings.certify},")
    if settings.public:
        lines.append(f"    public={printable(settings.public)!r},")
    if settings.dataset:
        book = f"admeasure.ChargeTo({settings.ledger!r}, {settings.dataset!r})"
        lines.append(f"    charge_to={book},")
    return _near(command_line(argv), "\n".join([*lines, ")"]))


def for_results(release: str) -> Code:
    lines = [
        command_line(["report", release, "-o", "report.html"]),
        command_line(["sample", release, "-o", "synthetic.csv"]),
        command_line(["answer", release, "questions.toml"]),
    ]
    python = (
        "import admeasure\n\n"
        f"release = admeasure.Release.load({release!r})\n"
        "release.report('report.html')\n"
        "release.sample(1000)"
    )
    return _near("\n".join(lines), python)


def for_book(book: str) -> Code:
    return _near(
        command_line(["ledger", "show", book]),
        (f"from admeasure.privacy.book import Book\n\nbook = Book.open({book!r})\nbook.datasets()"),
    )
