"""The command line over PostgreSQL: results as from a file, and errors that hold no secret."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.release import Release
from admeasure.sources.address import printable
from admeasure.sources.warehouse.address import parse

SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 5
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rows = [f"{(7 * i) % 100},{'fm'[i % 2]}" for i in range(300)]
    (tmp_path / "data.csv").write_text("\n".join(["age,sex", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table(make_table: Callable[..., str]) -> str:
    rows = [((7 * i) % 100, "fm"[i % 2]) for i in range(300)]
    return make_table([("age", "integer"), ("sex", "text")], rows)


def fit(data: str, out: str) -> list[str]:
    given = ["--schema", "schema.toml", "--workload", "all-2way", "--epsilon", "1"]
    return [
        "fit",
        data,
        *given,
        "--delta",
        "1e-9",
        "--mechanism",
        "mwem",
        "--seed",
        "3",
        "--out",
        out,
    ]


def test_a_fit_is_the_same_as_that_of_a_file_with_the_same_rows(
    folder: Path, server: Any, table: str, capfd: pytest.CaptureFixture
):
    url = server.url(table)
    assert run(fit(url, "remote")) == 0
    assert run(fit("data.csv", "local")) == 0
    remote, local = Release.load("remote"), Release.load("local")
    for one, other in zip(remote.measurements, local.measurements, strict=True):
        assert one.query == other.query
        assert (one.values == other.values).all()
    # The password is in nothing that was said or written.
    spoken = capfd.readouterr()
    assert server.password not in spoken.out + spoken.err
    quoted_password = url.partition(":")[2].partition(":")[2].partition("@")[0]
    for path in folder.rglob("*"):
        held = path.read_bytes() if path.is_file() else b""
        assert server.password.encode() not in held
        assert quoted_password.encode() not in held


def test_check_says_what_is_wrong_and_never_the_password(
    folder: Path, server: Any, table: str, make_table: Callable, capfd: pytest.CaptureFixture
):
    assert run(["check", server.url(table), "--schema", "schema.toml"]) == 0
    broken = make_table([("age", "integer"), ("sex", "text")], [(777, "f"), (5, "x")])
    assert run(["check", server.url(broken), "--schema", "schema.toml", "--json"]) == 3
    spoken = capfd.readouterr()
    found = json.loads(spoken.out[spoken.out.index("{") :])
    assert any("'age'" in line and "outside" in line for line in found["problems"])
    assert any("'sex'" in line and "enum" in line for line in found["problems"])
    assert "777" not in spoken.out + spoken.err
    assert server.password not in spoken.out + spoken.err
    assert server.password[:24] not in spoken.out + spoken.err


def test_a_password_may_come_from_the_environment(
    folder: Path, server: Any, table: str, monkeypatch: pytest.MonkeyPatch
):
    url = printable(server.url(table))
    assert run(["check", url, "--schema", "schema.toml"]) == 3
    monkeypatch.setenv("PGPASSWORD", server.password)
    assert run(["check", url, "--schema", "schema.toml"]) == 0


def test_a_draft_has_the_names_and_types_of_the_table(
    folder: Path, server: Any, table: str, capfd: pytest.CaptureFixture
):
    assert run(["draft", server.url(table)]) == 0
    text = capfd.readouterr().out
    assert f'name = "{table}"' in text
    assert 'name = "age"\ntype = "integer"' in text
    assert 'name = "sex"\ntype = "string"' in text


SECRET = "hunter2-secret"


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("verb", ["check", "fit"])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("host", "no host"),
        ("port", "No server answers"),
        ("password", "password"),
        ("user", "password"),
        ("database", "password"),
        ("table", "no table"),
        ("column", "'sex' is not in the table"),
        ("permission", "may not read"),
    ],
)
def test_what_keeps_a_table_from_being_read_is_one_line_without_a_secret(
    folder: Path,
    server: Any,
    table: str,
    make_table: Callable,
    capfd: pytest.CaptureFixture,
    verb: str,
    what: str,
    words: str,
):
    with server.connect() as connection:
        connection.execute(
            f"DO $$ BEGIN CREATE ROLE stranger LOGIN PASSWORD '{SECRET}'; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
    good = server.url(table)
    wrong = {
        "host": f"postgres://owner:{SECRET}@no-such-host.invalid/postgres?table={table}",
        "port": f"postgres://owner:{SECRET}@127.0.0.1:{_closed_port()}/postgres?table={table}",
        "password": server.url(table, password=SECRET),
        "user": server.url(table, "nobody-here", SECRET),
        "database": server.url(table).replace("/postgres?", "/elsewhere?"),
        "table": good + "x",
        "column": server.url(make_table([("age", "integer")], [(1,)])),
        "permission": server.url(table, "stranger", SECRET),
    }[what]
    arguments = fit(wrong, "out") if verb == "fit" else ["check", wrong, "--schema", "schema.toml"]
    assert run(arguments) == 3
    spoken = capfd.readouterr()
    said = [line for line in spoken.err.splitlines() if line and "NOT PRIVATE" not in line]
    errors = [line for line in said if not line.startswith(("checking", "reading"))]
    assert words in " ".join(errors)
    assert len(errors) == 1
    assert SECRET not in spoken.out + spoken.err
    assert server.password not in spoken.out + spoken.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:pa55@host/db",
        "postgres://ann:pa55@host?table=t",
        "postgres://ann:pa55@host/db/more?table=t",
        "postgres://ann:pa55@host:port/db?table=t",
        "postgres://ann:pa55@host/db?table=t&tabel=u",
        "postgres://ann:pa55@host/db?table=t&table=u",
        "postgres://ann:pa55@host/db?table=t&connect_timeout=soon",
        "postgres://ann:pa55@host/db?table=a..b",
        "postgres:///db?table=t",
        "snowflake://ann:pa55@account/db?table=t",
        "bigquery://project?table=t",
    ],
)
def test_a_malformed_address_is_refused_without_being_shown(url: str):
    with pytest.raises(UsageError) as caught:
        parse(url)
    assert "pa55" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_is_shown_without_its_password():
    address = "postgresql://ann:pa%2F55@db.example:5433/census?table=s.people"
    assert printable(address) == "postgresql://ann@db.example:5433/census?table=s.people"
    assert "55" not in printable("postgres://ann:pa/55@db.example/census?table=t")
    assert printable("people.csv") == "people.csv"
    parsed = parse(address)
    assert parsed.password == "pa/55"
    assert "pa/55" not in repr(parsed)
    assert parsed.table == ("s", "people")
