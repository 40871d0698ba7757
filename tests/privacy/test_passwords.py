"""A password in an address appears nowhere: not in what a command says, not in a file it leaves.

Addresses in many forms, right and wrong, each with two pieces of a password in it, are given to
every command that takes a table, through the real command line. No server is asked: the addresses
that are right name a port where nobody listens.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import AdmeasureError
from admeasure.sources.address import holds_secret, printable, without_secrets
from admeasure.web import actions
from admeasure.web.workspace import Workspace

ONE, TWO = "Zq7kX", "Wv9pL"
PIECES = (ONE, TWO)
P = f"{ONE}{TWO}"
PLACE = "127.0.0.1:9"

FORMS = [
    f"postgres://ann:{P}@{PLACE}/census?table=people",
    f"postgresql://ann:{P}@{PLACE}/census?table=s.people",
    f"POSTGRES://ann:{P}@{PLACE}/census?table=people",
    f"PostgreSQL://ann:{P}@{PLACE}/census?table=people",
    f"postgres://:{P}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}%40{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}%2F{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}@{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}/{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:12/{P}@{PLACE}/census?table=people",
    f"postgres://ann:12/{P}@localhost?table=people",
    f"postgres://ann:{ONE}#{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}?{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}&{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE}:{TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{ONE} {TWO}@{PLACE}/census?table=people",
    f"postgres://ann:{P}%40{PLACE}/census?table=people",
    f"postgres://ann:{P}@127.0.0.1:99999/census?table=people",
    f"postgres://ann:{P}@127.0.0.1:port/census?table=people",
    f"postgres://ann:{P}@[::1]:9/census?table=people",
    f"postgres://ann:{P}@[::1/census?table=people",
    f"postgres://ann:{P}@{PLACE}",
    f"postgres://ann:{P}@{PLACE}/census",
    f"postgres://ann:{P}/census?table=people",
    f"postgres:ann:{P}@{PLACE}/census?table=people",
    f"postgres:/ann:{P}@{PLACE}/census?table=people",
    f"postgres:{P}@localhost?table=people&host=localhost",
    f"postgres://{PLACE}/census?table=people&user=ann&password={P}",
    f"postgres://{PLACE}/census?table=people&PGPASSWORD={P}",
    f"postgres://{PLACE}/census?table=people&password={ONE}&{TWO}=x",
    f"postgres://{PLACE}/census?table=people;password={P}",
    f"postgres://{PLACE}/census;password={P}?table=people",
    f"postgres://{PLACE}/census?table=people&service=x&passfile={P}",
    f"postgres://{PLACE}/census?table=a..{P}@b",
    f"postgres://{PLACE}/census?table=people&connect_timeout={P}",
    f" postgres://ann:{P}@{PLACE}/census?table=people",
    f"\tpostgres://ann:{P}@{PLACE}/census?table=people",
    f"ann:{P}@{PLACE}/census?table=people",
    f"//ann:{P}@{PLACE}/census",
    f"host=127.0.0.1 port=9 dbname=census user=ann password={P}",
    f"password={P}",
    f"mysql://ann:{P}@{PLACE}/census",
    f"jdbc:postgresql://{PLACE}/census?user=ann&password={P}",
    f"https://ann:{P}@{PLACE}/people.csv",
    f"s3://KEY:{P}@bucket/people-*.csv",
    f"people-*.csv,postgres://ann:{P}@{PLACE}/census?table=people",
    f"snowflake://ann:{P}@account/db/schema/more?table=people",
    f"snowflake://ann:{P}@account/db?table=people",
    f"bigquery://ann:{P}@project?table=people",
    f"spark:s3a://KEY:{P}@bucket/people.parquet",
    f"spark:s3a://KEY:{ONE}/{TWO}@bucket/people?format=parquet",
    f"spark:s3a://KEY:{ONE}%2F{TWO}@bucket/people.parquet",
    f"SPARK:S3A://KEY:{P}@bucket/people.parquet",
    f"spark://KEY:{P}@bucket/people.parquet",
    f"spark:jdbc:postgresql://{PLACE}/census?format=jdbc&password={P}",
    f"spark:jdbc:postgresql://{PLACE}/census;password={P}?format=parquet",
    f"spark:people.parquet?password={P}",
    f"spark:people?master=sc://127.0.0.1/;token={P}&fs.s3a.secret.key={P}",
    f"duckdb://ann:{P}@{PLACE}/people.duckdb?table=people",
    f"duckdb:md:people?motherduck_token={P}",
    f"duckdb:///people.duckdb?table=people&password={P}",
    f"duckdb:///ann:{P}@nowhere.duckdb",
    "postgres://ann:" + P * 900 + f"@{PLACE}/census?table=people",
]

SCHEMA = """
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "sex"
type = "string"
enum = ["F", "M"]
[[column]]
name = "smokes"
type = "boolean"
"""
PLAN = """
[study]
epsilons = [1.0]
workloads = ["all-1way"]
[[table]]
name = "people"
data = '''{data}'''
schema = "schema.toml"
[[mechanism]]
name = "independent"
"""
ASKED = ["--schema", "schema.toml", "--workload", "all-1way"]
SPENT = ["--epsilon", "1", "--delta", "1e-6"]
FIT = ["--mechanism", "independent", *ASKED, *SPENT, "--seed", "1"]

VERBS: dict[str, Callable[[str], list[str]]] = {
    "draft": lambda d: ["draft", d],
    "draft to a file": lambda d: ["draft", d, "-o", "drafted.toml"],
    "check": lambda d: ["check", d, "--schema", "schema.toml"],
    "check for machines": lambda d: ["check", d, "--schema", "schema.toml", "--json"],
    "fit": lambda d: ["fit", d, *FIT, "--out", "failed"],
    "fit with a public table": lambda d: [
        *("fit", "people.csv", *ASKED, *SPENT, "--mechanism", "pmw-pub"),
        *("--public", d, "--out", "failed"),
    ],
    "evaluate": lambda d: ["evaluate", "release", d, *ASKED],
    "evaluate a table": lambda d: ["evaluate", d, "people.csv", *ASKED],
    "screen": lambda d: ["screen", d, "--public", "people.csv", *ASKED, *SPENT],
    "screen a public table": lambda d: ["screen", "people.csv", "--public", d, *ASKED, *SPENT],
    "report --internal": lambda d: ["report", "release", "-o", "r.html", "--internal", d],
    "study": lambda d: ["study", "plan.toml", "-o", "study.jsonl"],
    "one argument too many": lambda d: ["check", "people.csv", d, "--schema", "schema.toml"],
    "an option's place": lambda d: ["check", "people.csv", f"--schema={d}"],
    "a number's place": lambda d: ["fit", "people.csv", *FIT, "--epsilon", d, "--out", "failed"],
    "an option of its own": lambda d: ["check", "people.csv", f"--password={d}"],
    "no verb": lambda d: [d],
}


def leaks(folder: Path, said: str) -> list[str]:
    found = ["said: " + line for line in said.splitlines() if any(p in line for p in PIECES)]
    for path in folder.rglob("*"):
        held = path.read_bytes() if path.is_file() and path.name != "plan.toml" else b""
        if any(piece.encode() in held or piece in path.name for piece in PIECES):
            found.append(f"in {path.name}")
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("passwords")
    (folder / "schema.toml").write_text(SCHEMA)
    rows = "".join(f"{'FM'[i % 2]},{'true' if i % 3 else 'false'}\n" for i in range(60))
    (folder / "people.csv").write_text("sex,smokes\n" + rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["fit", "people.csv", *FIT, "--out", "release"]) == 0
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_no_command_shows_a_password_whatever_the_form_of_the_address(
    place: Path,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    times: Callable[[int, int], int],
    tally: Callable[[str, int], None],
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("ADMEASURE_DEBUG", raising=False)
    capfd.readouterr()
    first = 7 * list(VERBS).index(verb) % len(FORMS)  # not the same few for every command
    asked = [*FORMS[first:], *FORMS[:first]][: times(8 if verb == "study" else 26, len(FORMS))]
    for form in asked:
        if verb == "study":
            (place / "plan.toml").write_text(PLAN.format(data=form))
        code = run(VERBS[verb](form))
        spoken = capfd.readouterr()
        assert not leaks(place, spoken.out + spoken.err), form
        assert code in (0, 2, 3) if verb == "study" else code in (2, 3), (form, spoken.err)
    tally("passwords: addresses given to a command", len(asked))


def test_the_page_takes_no_address_with_a_password(place: Path) -> None:
    space = Workspace(place / "work", place)
    space.prepare()
    for form in FORMS:
        with pytest.raises(AdmeasureError) as caught:
            actions.open_table(space, {"data": form})
        assert not leaks(place / "work", str(caught.value)), form


def test_of_every_form_something_is_hidden() -> None:
    for form in FORMS:
        assert holds_secret(form), form
        assert not any(piece in printable(form) for piece in PIECES)
        assert not any(p in without_secrets(f"No {form!r}, {form}.", [form]) for p in PIECES)


@pytest.mark.parametrize(
    "name",
    [
        "people.csv",
        "/data/part-*.parquet",
        "data/year=2024/people.parquet",
        r"C:\data\people.csv",
        "postgres://ann@db.example:5433/census?table=s.people&sslmode=require",
        "postgres://%2Fvar%2Frun%2Fpostgresql/census?table=people",
        'bigquery://project-1/dataset?table="a.b"',
        "snowflake://ann@account/DB/SCHEMA?table=PEOPLE&warehouse=W",
        "duckdb:///data/people.duckdb?table=people",
        "spark:///data/people.parquet?master=local[2]",
        "spark:s3a://bucket/people?format=delta&keep=no",
        "spark:abfss://container@account.dfs.core.windows.net/people.parquet",
        "spark:catalog.schema.people",
    ],
)
def test_a_name_without_a_password_is_shown_as_it_is(name: str) -> None:
    assert printable(name) == name


def test_the_password_alone_is_taken_out_of_an_address_that_is_right() -> None:
    shown = "postgres://ann@db.example/census?table=people"
    assert printable(shown.replace("ann", f"ann:{P}")) == shown


def test_nothing_is_put_into_a_message_under_the_name_of_a_table_but_what_is_printable() -> None:
    """The next message that is written without `printable` is caught here."""
    package = Path(admeasure.__file__).parent
    named = {"data", "url", "target", "public"}
    found = []
    knows_no_tables = ("schema", "workload")  # a workload's target is a column
    paths = [p for p in package.rglob("*.py") if p.parent.name not in knows_no_tables]
    for path in sorted(paths):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and _name(node.value) in named:
                found.append(f"{path.name}:{node.lineno}")
    assert found == []


def _name(node: ast.expr) -> str | None:
    """What a value in a text is called, also inside `str`, `repr` and `quoted`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        return _name(node.args[0]) if node.func.id in {"str", "repr", "quoted"} else None
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
