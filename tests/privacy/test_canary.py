"""A value of the private table never appears outside of it, whatever fails.

Distinctive values are planted: a text outside the enum, a number outside the bounds, a name of a
person, a value in a column that the schema does not name. Every command is run in a process of its
own with a folder for temporary files; then everything it printed and every file it left is
searched, in several encodings, also inside compressed files.
"""

from __future__ import annotations

import base64
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pytest

import admeasure.sources.files.source as duckdb_source
from admeasure.sources.files import engine
from commands import command

TEXT, NUMBER, NAME, ASIDE = (
    "Zyxwvut-Canary-71",
    "918273645",
    "q7Canary-Person-55",
    "Aside-Canary-33",
)
CANARIES = (TEXT, NUMBER, NAME, ASIDE)

SCHEMA = """
[table]
name = "people"
[privacy]
unit = "person"
unit_column = "who"
max_rows_per_unit = 2
[[column]]
name = "sex"
type = "string"
enum = ["F", "M"]
{sex}
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 5
{age}
"""
SOUND = SCHEMA.format(sex="other = true", age="clamp = true")
REFUSES = SCHEMA.format(sex="", age="")

HEADER = "who,sex,age,notes"


def rows(count: int = 40) -> list[str]:
    made = [f"p{i % 25},{'FM'[i % 2]},{i % 90},fine" for i in range(count)]
    made.insert(7, f"{NAME},{TEXT},{NUMBER},{ASIDE}")
    made.insert(9, f"{NAME},F,20,{ASIDE}")
    return made


def forms(canary: str) -> Iterator[bytes]:
    """The canary as it might be written by somebody."""
    raw = canary.encode()
    yield raw
    yield canary.encode("utf-16-le")
    yield canary.encode("utf-32-le")
    yield canary.upper().encode()
    yield canary.lower().encode()
    yield raw.hex().encode()
    yield base64.b64encode(raw)[:-4]
    yield ascii(canary).strip("'").encode()
    if canary.isdigit():
        yield int(canary).to_bytes(8, "little")
        yield np.float64(canary).tobytes()
        yield f"{int(canary):,}".encode()


def insides(path: Path) -> Iterator[bytes]:
    """A file's bytes, and what they are when unpacked."""
    content = path.read_bytes()
    yield content
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                yield archive.read(member)
    for line in content.splitlines():
        if b'"zlib":"' in line:
            packed = line.split(b'"zlib":"')[1].split(b'"')[0]
            yield zlib.decompress(base64.b64decode(packed))


@dataclass
class Place:
    """A folder with a table and a schema, and everything that commands leave in it."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "private").mkdir()
        (self.folder / "tmp").mkdir()
        self.data("\n".join([HEADER, *rows()]) + "\n")
        self.schema(SOUND)

    def data(self, text: str, name: str = "people.csv") -> None:
        (self.folder / "private" / name).write_text(text)

    def schema(self, text: str) -> None:
        (self.folder / "schema.toml").write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.folder / "tmp"), "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"}
        return {k: v for k, v in (os.environ | own).items() if k != "ADMEASURE_DEBUG"}

    def start(self, *args: str, megabytes: int | None = None) -> subprocess.Popen[bytes]:
        """A command from its first import on, in so much memory."""

        def limit() -> None:
            if megabytes is not None:
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

        return subprocess.Popen(
            [sys.executable, "-m", "admeasure", *args],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            preexec_fn=limit,
        )

    def command(self, *args: str) -> tuple[int, bytes]:
        ended = command(args, self.folder, self.environment).ended()
        self.search(ended.out + ended.err)
        return ended.code, ended.err

    def search(self, said: bytes) -> None:
        """No canary in what was said, nor in any file but the private ones."""
        for canary in CANARIES:
            for form in forms(canary):
                assert form not in said, f"{canary!r} was printed: {said!r}"
        for path in self.folder.rglob("*"):
            if path.is_file() and "private" not in path.relative_to(self.folder).parts:
                for content in insides(path):
                    for canary in CANARIES:
                        for form in forms(canary):
                            assert form not in content, f"{canary!r} is in {path}"
                assert not any(c in str(path) for c in CANARIES)

    def fit(self, *extra: str, out: str = "out") -> tuple[int, bytes]:
        return self.command(*FIT, "--out", out, *extra)


FIT = (
    "fit", "private/people.csv", "--schema", "schema.toml", "--workload", "all-2way",
    "--epsilon", "1", "--delta", "1e-6", "--mechanism", "mst",
)  # fmt: skip


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def test_the_search_finds_what_it_should(place):
    """The same search, on files that hold a canary in the forms that it knows."""
    for i, form in enumerate(forms(NUMBER)):
        (place.folder / f"leak{i}").write_bytes(b"..." + form + b"...")
        with pytest.raises(AssertionError):
            place.search(b"")
        (place.folder / f"leak{i}").unlink()
    with pytest.raises(AssertionError):
        place.search(f"error: {TEXT}".encode())
    np.savez_compressed(place.folder / "leak.npz", a=np.array([int(NUMBER)]))
    with pytest.raises(AssertionError):
        place.search(b"")


@pytest.mark.slow
def test_a_run_that_succeeds_and_all_that_is_made_of_it_show_nothing(place, tally):
    code, err = place.fit("--json")
    assert code == 0, err
    (place.folder / "q.toml").write_text('[[query]]\nname = "women"\nwhere = {sex = "F"}\n')
    for args in (
        ("sample", "out", "-n", "200", "-o", "sample.csv", "--seed", "1"),
        ("answer", "out", "q.toml"),
        ("report", "out", "-o", "report.html"),
        ("audit", "out"),
        ("check", "private/people.csv", "--schema", "schema.toml"),
        ("draft", "private/people.csv", "-o", "draft.toml"),
    ):
        code, err = place.command(*args)
        assert code == 0, (args, err)
    tally("canary: commands searched", 7)


ENUM = 'type = "string"\nenum = ["F", "M"]'
AGES = 'type = "integer"\nminimum = 0\nmaximum = 99\nbins = 5'
DATES = 'type = "date"\nedges = [1900-01-01, 2000-01-01]'

BAD_SCHEMAS = {
    "a value outside the enum": SCHEMA.format(sex="", age="clamp = true"),
    "a value outside the bounds": SCHEMA.format(sex="other = true", age=""),
    "both": REFUSES,
    "a wrong type": SOUND.replace(ENUM, 'type = "integer"\nminimum = 0\nmaximum = 1'),
    "a missing column": SOUND.replace('"age"', '"wage"'),
    "a missing unit": SOUND.replace('"who"', '"whom"'),
    "a date": SOUND.replace(AGES, DATES),
    "a boolean": SOUND.replace(ENUM + "\nother = true", 'type = "boolean"'),
    "not TOML": SOUND + "\n[[[",
    "an unknown field": SOUND + '\ncolour = "red"\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD_SCHEMAS)
def test_a_schema_that_does_not_fit_names_columns_and_rules_only(place, what, tally):
    place.schema(BAD_SCHEMAS[what])
    for args in (
        (*FIT, "--out", "out"),
        ("check", "private/people.csv", "--schema", "schema.toml"),
        ("check", "private/people.csv", "--schema", "schema.toml", "--json"),
    ):
        code, err = place.command(*args)
        assert code in (0, 3), (args, err)
    tally("canary: commands searched", 3)


BAD_TABLES = {
    "too many fields": f"p1,F,1,fine,{TEXT},{NUMBER}",
    "too few fields": f"{TEXT}",
    "an open quote": f'"{TEXT},{NUMBER}\np1,F,2,fine',
    "no unit": f",{TEXT},{NUMBER},{ASIDE}",
    "binary": f"p1,{TEXT}\x00\x01,{NUMBER},{ASIDE}",
    "a very long line": f"p1,F,{NUMBER},{TEXT * 100_000}",
    "a comment": f"# {TEXT} {NUMBER}",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_table_that_cannot_be_read_is_not_quoted(place, what, tally):
    lines = [HEADER, *rows(), BAD_TABLES[what], *rows()]
    place.data("\n".join(lines) + "\n")
    for schema in (SOUND, REFUSES):
        place.schema(schema)
        code, err = place.fit("--json", out=f"out-{len(schema)}")
        assert code in (0, 3), err
    tally("canary: commands searched", 2)


@pytest.mark.slow
def test_bytes_that_are_no_text_are_not_quoted(place, tally):
    content = ("\n".join([HEADER, *rows()]) + "\np1,").encode() + b"\xff\xfe\xff"
    content += f"{TEXT},{NUMBER},{ASIDE}\n".encode()
    (place.folder / "private" / "people.csv").write_bytes(content)
    code, _ = place.fit()
    assert code == 3
    (place.folder / "private" / "people.csv").write_bytes(b"\0\xff" * 1000 + TEXT.encode() * 50)
    code, _ = place.fit(out="again")
    assert code == 3
    tally("canary: commands searched", 2)


@pytest.mark.slow
def test_kills_leave_nothing_behind_that_can_be_read(place, times, tally):
    place.data("\n".join([HEADER, *rows(), *rows(60_000)]) + "\n")
    kills = 0
    moments = range(0, 12, times(3, 1))
    for i in moments:
        process = place.start(*FIT, "--out", f"out{i}")
        time.sleep(0.25 * (i + 1))
        sent = signal.SIGKILL if i % 2 else signal.SIGINT
        process.send_signal(sent)
        out, err = process.communicate(timeout=300)
        place.search(out + err)
        kills += process.returncode != 0
    assert kills > 0
    tally("canary: commands searched", len(moments))


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [350, 500, 700, 900, 1200])
def test_too_little_memory_shows_nothing(place, megabytes, tally):
    place.data("\n".join([HEADER, *rows(), *rows(100_000)]) + "\n")
    process = place.start(*FIT, "--out", "out", megabytes=megabytes)
    place.search(b"".join(process.communicate(timeout=300)))
    place.fit("--max-memory", str(megabytes / 8), out="again")
    tally("canary: commands searched", 2)


@pytest.mark.slow
def test_a_full_disk_shows_nothing(place, tally):
    """Real where a small file system may be mounted; otherwise files may not grow."""
    small = place.folder / "small"
    small.mkdir()
    tried = 0
    for kilobytes in (8, 16, 24, 32, 48):
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(small)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no right to mount a small file system")
        try:
            code, err = place.fit(out="small/out")
            assert code in (0, 5), err
            tried += 1
        finally:
            subprocess.run(["umount", str(small)], check=True)
    tally("canary: commands searched", tried)


@pytest.mark.slow
def test_wrong_commands_show_nothing(place, tally):
    wrong = [
        ("fit", "private/nothing.csv", *FIT[2:], "--out", "out"),
        (*FIT, "--out", "nowhere/out"),
        (*FIT, "--out", "out", "--rounds", "x"),
        (*FIT[:-1], "nonsense", "--out", "out"),
        ("answer", "private", "schema.toml"),
        ("sample", "private", "-o", "s.csv"),
        ("audit", "private"),
        ("report", "private", "-o", "r.html"),
        ("check", "schema.toml", "--schema", "private/people.csv"),
        ("plan", "--schema", "private/people.csv", "--workload", "all-2way", "--epsilon", "1"),
        ("fit", "private/people.csv", "--schema", "schema.toml", "--workload",
         "private/people.csv", "--epsilon", "1", "--mechanism", "mst", "--out", "out"),
        ("answer", "private/people.csv", "private/people.csv"),
    ]  # fmt: skip
    for args in wrong:
        code, err = place.command(*args)
        assert code in (2, 3), (args, err)
    tally("canary: commands searched", len(wrong))


def test_a_file_that_was_found_is_not_named(place, tally):
    """Names of folders and files may be values: a link to nothing, an empty file, a wrong header, a
    suffix that is not known, whether found by a folder or a pattern."""
    folder = place.folder / "private" / "parts" / f"sex={TEXT}"
    folder.mkdir(parents=True)
    broken = {
        "link": lambda path: path.symlink_to(place.folder / "private" / NAME),
        "empty": lambda path: path.write_text(""),
        "header": lambda path: path.write_text('"'),
        "fields": lambda path: path.write_text(f"{HEADER}\n1,2,3,4,5,6\n"),
        "fifo": os.mkfifo,
    }
    searched = 0
    for damage in broken.values():
        path = folder / f"{NAME}.csv"
        damage(path)
        for data in ("private/parts", "private/parts/*/*.csv"):
            code, err = place.command("check", data, "--schema", "schema.toml")
            assert code in (2, 3), err
            searched += 1
        path.unlink()
    (folder / f"{NAME}.xyz").write_text("x")
    code, err = place.command("check", "private/parts/*/*", "--schema", "schema.toml")
    assert code == 2, err
    tally("canary: commands searched", searched + 1)


NESTED = {
    "plain": "ENUM('{}', 'F')",
    "list": "ENUM('{}', 'F')[]",
    "array": "ENUM('{}', 'F')[2]",
    "struct": "STRUCT(x INTEGER, y ENUM('a)', 'it''s', '{}'))",
    "map": "MAP(ENUM('{}'), STRUCT(z ENUM('{}')[]))",
    "union": "UNION(n INTEGER, e ENUM('{}'))",
}


def test_entries_of_enums_are_not_among_the_storage_types(place, tally):
    """They are values; the page keeps storage types in its table.json, and `draft` prints them."""
    path = place.folder / "private" / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        columns = ", ".join(f'"{n}" {t.replace("{}", TEXT)}' for n, t in NESTED.items())
        connection.execute(f"CREATE TABLE t (who VARCHAR, {columns})")
    found = duckdb_source.storage_types(path)
    assert [name for name, _ in found] == ["who", *NESTED]
    place.search(repr(found).encode())
    code, err = place.command("draft", "private/t.duckdb", "-o", "draft.toml")
    assert code == 0, err
    tally("canary: commands searched", 1)


def test_what_is_spilled_to_the_disk_cannot_be_read(tmp_path):
    """A killed process leaves its temporary files behind."""
    spill = tmp_path / "spill"
    spill.mkdir()
    with engine.connected((_csv(tmp_path),), 60, str(spill)) as connection:
        connection.execute(
            f"CREATE TEMP TABLE t AS SELECT '{TEXT}' || md5(range::TEXT) AS x FROM range(2000000)"
        )
        spilled = [path for path in tmp_path.rglob("*.tmp") if path.is_file()]
        assert sum(path.stat().st_size for path in spilled) > 1_000_000
        assert not any(TEXT.encode() in path.read_bytes() for path in spilled)
    assert not list(tmp_path.rglob("*.tmp"))


def _csv(folder: Path) -> Path:
    (folder / "people.csv").write_text("\n".join([HEADER, *rows()]) + "\n")
    return folder / "people.csv"
