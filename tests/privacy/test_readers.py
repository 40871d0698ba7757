"""Readers of files reach the named files and nothing else, with bounded memory.

A "public" file from elsewhere is hostile here: its views try to read the private table, the
machine and the session. And small compressed files try to fill the memory.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import admeasure
from admeasure.errors import DataError, UsageError
from admeasure.public.read import read_public
from admeasure.schema import Schema
from admeasure.sources.files.engine import connected
from admeasure.sources.open import open_source
from admeasure.verbs.screen import screen

SCHEMA = Schema.coded("toy", {"a": 3, "b": 4})
PRIVATE = "a,b\n2,3\n2,3\n1,3\n"
PUBLIC = "a,b,c\n0,1,x\n1,2,y\n2,3,z\n"


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "private.csv").write_text(PRIVATE)
    (tmp_path / "public.csv").write_text(PUBLIC)
    return tmp_path


READS = {
    "read_csv": "SELECT a, b FROM read_csv('{}')",
    "a file as a table": "SELECT a, b FROM '{}'",
    "read_text": "SELECT content AS a, 1 AS b FROM read_text('{}')",
    "read_blob": "SELECT size AS a, 1 AS b FROM read_blob('{}')",
    "sniff_csv": "SELECT 1 AS a, 2 AS b FROM sniff_csv('{}')",
    "glob": "SELECT 1 AS a, 2 AS b FROM glob('{}')",
    "a table macro": "SELECT * FROM reads()",
    "a scalar macro": "SELECT reads_one() AS a, 1 AS b",
    "a subquery": "SELECT a, b FROM stored WHERE a IN (SELECT a FROM read_csv('{}'))",
    "a view below": "SELECT * FROM below",
    "query": "SELECT * FROM query('SELECT * FROM ''{}''')",
    "settings": "SELECT 1 AS a, 2 AS b FROM duckdb_settings()",
    "secrets": "SELECT 1 AS a, 2 AS b FROM duckdb_secrets()",
}


def hostile(place: Path, query: str) -> Path:
    private = place / "private.csv"
    with duckdb.connect(str(place / "public.duckdb")) as connection:
        connection.execute("CREATE TABLE stored AS SELECT 1 AS a, 2 AS b")
        connection.execute(f"CREATE MACRO reads() AS TABLE SELECT a, b FROM read_csv('{private}')")
        connection.execute(
            f"CREATE MACRO reads_one() AS (SELECT max(a) FROM read_csv('{private}'))"
        )
        connection.execute(f"CREATE VIEW below AS SELECT a, b FROM read_csv('{private}')")
        connection.execute(f"CREATE VIEW people AS {query.replace('{}', str(private))}")
    return place / "public.duckdb"


@pytest.mark.parametrize("how", READS)
def test_a_public_file_cannot_read_the_private_one(how, place):
    data = f"duckdb://{hostile(place, READS[how])}?table=people"
    with pytest.raises(DataError) as refused:
        read_public(data, SCHEMA)
    assert "private.csv" not in str(refused.value)
    with pytest.raises(DataError):
        open_source(data, SCHEMA)


@pytest.mark.parametrize("how", READS)
def test_the_engine_itself_refuses_what_the_list_of_views_would(how, place):
    """The second wall: the same queries, past the check of views."""
    path = hostile(place, READS[how])
    if how in ("settings", "secrets"):
        pytest.skip("reads no file; only the list of views refuses it")
    with connected([path]) as connection:
        connection.execute(f"ATTACH '{path}' AS d (READ_ONLY)")
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT * FROM d.people").fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET allowed_paths = ['/']",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
        "COPY (SELECT 1) TO '{}/out.csv'",
        "ATTACH '{}/new.duckdb'",
        "EXPORT DATABASE '{}/out'",
        "SELECT * FROM 'https://example.invalid/x.csv'",
        "CREATE PERSISTENT SECRET s (TYPE s3)",
        "SELECT * FROM frame",
    ],
)
def test_nothing_can_open_the_engine_again(statement, place):
    frame = SCHEMA  # a variable that a replacement scan would find
    assert frame is not None
    before = sorted(p.name for p in place.iterdir())
    with connected([place / "public.csv"]) as connection:
        read = f"SELECT count(*) FROM read_csv('{place}/public.csv')"
        assert connection.execute(read).fetchall() == [(3,)]
        with pytest.raises(duckdb.Error):
            connection.execute(statement.replace("{}", str(place))).fetchall()
    assert sorted(p.name for p in place.iterdir()) == before


@pytest.mark.parametrize("how", ["itself", "a link", "a hard link", "another path", "a pattern"])
def test_the_private_table_is_not_taken_for_the_public_one(how, place):
    public = {
        "itself": "private.csv",
        "a link": "link.csv",
        "a hard link": "hard.csv",
        "another path": "../" + place.name + "/private.csv",
        "a pattern": "priv*.csv",
    }[how]
    (place / "link.csv").symlink_to(place / "private.csv")
    os.link(place / "private.csv", place / "hard.csv")
    with pytest.raises(UsageError, match="is the private one"):
        admeasure.fit(
            str(place / "private.csv"),
            SCHEMA,
            workload="all-1way",
            mechanism=admeasure.pmw_pub(),
            epsilon=1,
            delta=1e-6,
            public=str(place / public),
            seed=0,
        )
    with pytest.raises(UsageError, match="is the private one"):
        screen(
            str(place / "private.csv"),
            {"x": str(place / public)},
            SCHEMA,
            workload="all-1way",
            epsilon=1,
            delta=1e-6,
            seed=0,
        )


def test_the_certificate_says_which_public_file_it_was(place):
    release = admeasure.fit(
        str(place / "private.csv"),
        SCHEMA,
        workload="all-1way",
        mechanism=admeasure.pmw_pub(),
        epsilon=1,
        delta=1e-6,
        public=str(place / "public.csv"),
        out=place / "release",
        seed=0,
    )
    expected = hashlib.sha256(PUBLIC.encode()).hexdigest()
    assert release.certificate.options["public"]["files_sha256"] == expected
    assert expected in (place / "release" / "release.json").read_text()
    assert admeasure.Release.load(place / "release").certificate == release.certificate


def test_a_release_of_before_that_hash_still_loads(place):
    test_the_certificate_says_which_public_file_it_was(place)
    path = place / "release" / "release.json"
    document = path.read_text()
    assert "files_sha256" in document
    loaded = json.loads(document)

    def without(tree):
        if isinstance(tree, dict):
            return {k: without(v) for k, v in tree.items() if k != "files_sha256"}
        return [without(v) for v in tree] if isinstance(tree, list) else tree

    path.write_text(json.dumps(without(loaded)))
    assert (
        "files_sha256"
        not in admeasure.Release.load(place / "release").certificate.options["public"]
    )


def test_several_files_have_one_hash_and_a_frame_has_that_of_its_rows(place):
    (place / "more.csv").write_text(PUBLIC)
    paths = [place / "public.csv", place / "more.csv"]
    one = hashlib.sha256(PUBLIC.encode()).hexdigest()
    both = hashlib.sha256(f"{one}\n{one}\n".encode()).hexdigest()
    assert read_public(paths, SCHEMA).facts()["files_sha256"] == both
    facts = read_public({"a": [0, 1], "b": [1, 2]}, SCHEMA).facts()
    assert "files_sha256" not in facts
    assert len(facts["sha256"]) == 64


BOMBS = {
    "a header in quotes": b'"',
    "a header": b"a",
    "a row in quotes": b'a,b\n1,"',
    "a row": b"a,b\n1,",
}


def bomb(path: Path, start: bytes, megabytes: int) -> Path:
    """A compressed file of about a thousandth of what it holds: one line that is almost endless."""
    block = gzip.compress(b"x" * (1 << 24), 1)
    path.write_bytes(gzip.compress(start) + block * (megabytes // 16) + gzip.compress(b"\n1,1\n"))
    return path


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_holds_one_endless_line_does_not_fill_the_memory(kind, tmp_path, times):
    megabytes = times(640, 4400)
    path = bomb(tmp_path / "t.csv.gz", BOMBS[kind], megabytes)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    program = "import sys; from admeasure.cli import main; from admeasure.limits import peak\n"
    program += "try:\n    sys.exit(main())\nfinally:\n"
    program += "    print(round(peak()), file=sys.stderr)"  # its own, not that of who started it
    asked = ["check", str(path), "--schema", str(tmp_path / "schema.toml")]
    done = subprocess.run(
        [sys.executable, "-c", program, *asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be read" in done.stderr + done.stdout
    assert int(done.stderr.split()[-1]) < 400  # MB


def test_a_line_of_a_sensible_length_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,notes\n1,2," + "x" * 1_000_000 + "\n")
    assert int(open_source(path, SCHEMA).counts([()])[0]) == 1
