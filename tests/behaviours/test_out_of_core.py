"""Tables larger than memory: few passes, a cache that leaves nothing behind, limits that hold."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from admeasure.domain import canonical
from admeasure.errors import ResourceError, UsageError
from admeasure.limits import Limits
from admeasure.mechanisms.aim import Aim
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal
from admeasure.schema import Schema
from admeasure.sources.count import Counter
from admeasure.sources.files.cache import CodeFile
from admeasure.sources.files.source import DuckDBSource
from admeasure.sources.files.table import FileTable
from admeasure.sources.memory import MemorySource
from admeasure.verbs.fit import fit
from admeasure.workload import parse_workload

LEVELS = {"a": 3, "b": 300, "c": 2, "d": 5, "e": 7}
SCHEMA = Schema.coded("toy", LEVELS)
ROWS = 90_000
"""So few that no joint is counted beside what is asked for."""
TRIPLES = [canonical(c) for c in itertools.combinations(LEVELS, 3)]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    codes = {name: rng.integers(0, levels, ROWS) for name, levels in LEVELS.items()}
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    with duckdb.connect() as connection:
        connection.register("codes", codes)
        connection.execute(f"COPY codes TO '{path}' (ROW_GROUP_SIZE 20000)")
    return path, codes


@pytest.fixture
def scans(monkeypatch) -> list[tuple[str, ...]]:
    """The columns of every scan of a table."""
    seen: list[tuple[str, ...]] = []
    plain = FileTable.chunks

    def watched(self, names, progress):
        seen.append(names)
        return plain(self, names, progress)

    monkeypatch.setattr(FileTable, "chunks", watched)
    return seen


def is_exact(codes, asked, found) -> bool:
    for columns, array in zip(asked, found, strict=True):
        edges = [np.arange(LEVELS[c] + 1) - 0.5 for c in columns]
        rows = np.stack([codes[c] for c in columns], axis=1)
        if not (array == np.histogramdd(rows, edges)[0]).all():
            return False
    return True


def test_a_batch_is_counted_in_one_scan_of_the_columns_it_needs(table, scans):
    path, codes = table
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0)
    asked = [("a", "b"), ("b",), ("a", "d")]
    assert is_exact(codes, asked, source.counts(asked))
    assert scans == [SCHEMA.names, ("a", "b", "d")]


def test_the_number_of_rows_and_nothing_at_all_need_no_scan_of_their_own(table, scans):
    path, _ = table
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0)
    (rows,) = source.counts([()])
    assert int(rows) == ROWS
    assert source.counts([]) == source.sparse([]) == []
    assert len(scans) == 1


def fewest_bins(sizes: list[int], room: int) -> int:
    """By trying every way to share the sizes out."""
    found = [len(sizes)]

    def place(rest: list[int], bins: list[int]) -> None:
        if len(bins) >= found[0]:
            return
        if not rest:
            found[0] = len(bins)
            return
        for i in range(len(bins)):
            if bins[i] + rest[0] <= room:
                place(rest[1:], [*bins[:i], bins[i] + rest[0], *bins[i + 1 :]])
        place(rest[1:], [*bins, rest[0]])

    place(sorted(sizes, reverse=True), [])
    return found[0]


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_joints_that_do_not_fit_together_are_counted_in_as_few_passes_as_there_must_be(
    table, scans, parts
):
    path, codes = table
    sizes = [SCHEMA.domain.cells(columns) for columns in TRIPLES]
    room = max(*sizes, -(-sum(sizes) // parts))
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0, work_bytes=8 * room)
    found = source.counts([*TRIPLES, ()])
    assert is_exact(codes, TRIPLES, found[:-1])
    assert int(found[-1]) == ROWS
    assert len(scans) == 1 + fewest_bins(sizes, room)


def test_progress_goes_once_from_start_to_end_over_several_passes(table):
    path, _ = table
    seen: list[float] = []
    how = {"memory_megabytes": 0, "work_bytes": 8 * 12_000}
    source = DuckDBSource(path, SCHEMA, **how, progress=seen.append)
    seen.clear()
    source.counts(TRIPLES)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    assert any(0 < fraction < 1 for fraction in seen)


def test_sparse_counts_keep_to_the_limit_of_memory_by_more_passes(table, scans, monkeypatch):
    path, codes = table
    seen: list[float] = []
    expected = MemorySource(codes, SCHEMA).counts(TRIPLES)
    limit = sum(int((table > 0).sum()) for table in expected) * (8 + 6) + 50_000
    how = {"memory_megabytes": 0, "work_bytes": limit}
    source = DuckDBSource(path, SCHEMA, **how, progress=seen.append)
    held: list[int] = []
    plain = Counter.add

    def watched(self, chunk):
        held.append(8 * sum(table.size for table in self._tables.values()))
        plain(self, chunk)

    monkeypatch.setattr(Counter, "add", watched)
    seen.clear()
    found = source.sparse(TRIPLES)
    for one, dense in zip(found, expected, strict=True):
        assert (one.dense(SCHEMA.domain) == dense).all()
    assert max(held) <= limit / 2
    assert len(scans) > 2
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_aim_reads_a_streamed_table_once_whatever_its_rounds(table, scans):
    source = DuckDBSource(table[0], SCHEMA, memory_megabytes=0)
    scans.clear()
    curator = Curator(source, Ledger(Fraction(1, 10)), SeededNoise(0))
    task = Task.of(SCHEMA, parse_workload("all-2way", SCHEMA.domain))
    outcome = Aim(rounds=20).run(task, curator)
    assert outcome.rounds > 3
    assert len(scans) == 1


def test_what_a_curator_expects_is_read_with_the_first_step_and_not_before(table, scans):
    source = DuckDBSource(table[0], SCHEMA, memory_megabytes=0)
    scans.clear()
    curator = Curator(source, Ledger(1), SeededNoise(0))
    curator.expect([("a", "c"), ("c", "d")])
    assert scans == []
    for columns in (("a",), ("a", "c"), ("c", "d")):
        curator.measure([Marginal(columns)], Fraction(1, 10))
    assert scans == [("a", "c", "d")]


def test_a_cache_gives_the_same_counts_without_reading_the_table_again(table, scans, tmp_path):
    path, codes = table
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0.2, cache=tmp_path)
    assert source.on_disk
    assert not source.in_memory
    for _ in range(2):
        assert is_exact(codes, TRIPLES, source.counts(TRIPLES))
    sparse = source.sparse([tuple(LEVELS)])[0]
    (whole,) = MemorySource(codes, SCHEMA).sparse([tuple(LEVELS)])
    assert (sparse.codes == whole.codes).all()
    assert (sparse.counts == whole.counts).all()
    assert len(scans) == 1


def test_a_cache_that_another_view_of_the_table_let_go_is_not_read(table, scans, tmp_path):
    """The number of its file may be another file's by then."""
    path, codes = table
    source = DuckDBSource(path, SCHEMA, memory_megabytes=0.2, cache=tmp_path)
    source.by(SCHEMA).close()
    with (tmp_path / "another").open("wb") as other:
        other.write(bytes(ROWS * len(LEVELS)))
        other.flush()
        assert not source.on_disk
        assert is_exact(codes, TRIPLES, source.counts(TRIPLES))
    assert len(scans) == 2
    source.close()


def test_a_fit_with_a_cache_reads_the_table_once(table, scans, tmp_path, monkeypatch):
    monkeypatch.setattr(Limits, "reading_megabytes", lambda _: 0.0)
    release = fit(
        table[0],
        SCHEMA,
        workload="all-2way",
        mechanism=Aim(rounds=10),
        epsilon=1.0,
        delta=1e-9,
        seed=0,
        cache=tmp_path,
    )
    assert release.facts["rounds"] > 1
    assert scans == [SCHEMA.names]
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_takes_the_folder_of_the_cache(table, tmp_path):
    schema = tmp_path / "s.toml"
    schema.write_text(SCHEMA.dumps())
    command = (
        f"fit {table[0]} --schema {schema} --workload all-1way --epsilon 1 --mechanism gaussian"
    )
    command += f" --out {tmp_path}/release --cache-codes {tmp_path}"
    good = subprocess.run(
        [sys.executable, "-m", "admeasure", *command.split()], capture_output=True, text=True
    )
    assert good.returncode == 0, good.stderr
    bad = subprocess.run(
        [sys.executable, "-m", "admeasure", *command.split(), "--cache-codes", "nowhere"],
        capture_output=True,
        text=True,
    )
    assert bad.returncode == 2


def test_codes_that_fit_memory_are_not_written(table, tmp_path, monkeypatch):
    path, _ = table
    monkeypatch.setattr(CodeFile, "append", None)
    source = DuckDBSource(path, SCHEMA, cache=tmp_path)
    assert source.in_memory
    assert not source.on_disk


def test_the_cache_is_its_owners_alone_and_has_no_name(tmp_path, monkeypatch):
    made: list[tuple[int, list[Path]]] = []
    plain = os.open

    def watched(path, flags, mode=0o777, *, dir_fd=None):
        file = plain(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            assert flags & os.O_NOFOLLOW
            (folder,) = tmp_path.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            made.append((stat.S_IMODE(os.fstat(file).st_mode), list(folder.iterdir())))
        return file

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        file = CodeFile(tmp_path, {"a": np.dtype(np.uint8)})
    finally:
        os.umask(before)
    assert [mode for mode, _ in made] == [0o600]
    assert list(tmp_path.iterdir()) == []
    file.append({"a": np.arange(7, dtype=np.uint8)})
    file.finish()
    assert [chunk["a"].tolist() for chunk in file.chunks(("a",))] == [list(range(7))]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_will_not_do_is_refused_before_the_table_is_read(table, scans, tmp_path):
    path, _ = table
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    for folder, words in (("none", "may write to"), ("file", "may write to"), ("link", "a link")):
        with pytest.raises(UsageError, match=words):
            DuckDBSource(path, SCHEMA, memory_megabytes=0, cache=tmp_path / folder)
    assert scans == []
    assert list((tmp_path / "real").iterdir()) == []


def test_codes_of_two_bytes_and_segments_of_any_length_come_back_as_they_were(tmp_path):
    rng = np.random.default_rng(1)
    types = {"a": np.dtype(np.uint16), "b": np.dtype(np.uint8)}
    whole = {n: rng.integers(0, 256**t.itemsize, 57).astype(t) for n, t in types.items()}
    file = CodeFile(tmp_path, types, segment_rows=10)
    for start, stop in itertools.pairwise([0, 3, 3, 9, 31, 56, 57]):
        file.append({name: codes[start:stop] for name, codes in whole.items()})
    file.finish()
    for names in (("a", "b"), ("b",), ("a",)):
        read = list(file.chunks(names))
        assert len(read) == file.segments
        for name in names:
            assert np.concatenate([r[name] for r in read]).tolist() == whole[name].tolist()


PROGRAM = """
import os, signal, sys, time
import numpy as np
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource
schema = Schema.coded("toy", {levels})
source = DuckDBSource({path!r}, schema, memory_megabytes=0, cache={folder!r})
print(source.on_disk, flush=True)
{then}
"""


def started(table, folder: Path, then: str) -> subprocess.Popen:
    program = PROGRAM.format(levels=LEVELS, path=str(table[0]), folder=str(folder), then=then)
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_the_cache_however_the_process_ends(table, tmp_path, how):
    process = started(table, tmp_path, "time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "True"
    assert list(tmp_path.iterdir()) == []
    process.send_signal(how)
    process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(table, tmp_path):
    # The system's limit on the size of a file stands for a full disk: both refuse a write.
    size = ROWS * 2
    program = PROGRAM.format(levels=LEVELS, path=str(table[0]), folder=str(tmp_path), then="")
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size},) * 2)" + program
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1] if done.stderr else done.stdout
    assert "ResourceError" in last
    assert "has no room for the codes" in last
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_source_that_goes_is_closed(table, tmp_path):
    source = DuckDBSource(table[0], SCHEMA, memory_megabytes=0, cache=tmp_path)
    assert source._file is not None
    number = source._file._file
    os.fstat(number)
    del source
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


MEMORY = """
import json
from itertools import combinations
from pathlib import Path
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
names = [f"c{i}" for i in range(10)]
schema = Schema.coded("toy", dict.fromkeys(names, 4))
source = DuckDBSource(PATH, schema, memory_megabytes=0, cache=CACHE)
found = source.counts([c for c in combinations(sorted(names), 3)])
print(json.dumps([peak(), int(sum(a.sum() for a in found))]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Peaks of fresh processes over tables of which the codes would take 10 and 100 MB: within 50
    MB of each other, streamed and from a cache."""
    peaks: dict[str | None, list[float]] = {None: [], str(tmp_path): []}
    for rows in (1_000_000, 10_000_000):
        path = tmp_path / f"{rows}.parquet"
        listed = ", ".join(f"(hash(range) >> {4 * i} & 3)::INTEGER AS c{i}" for i in range(10))
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT {listed} FROM range({rows})) TO '{path}'")
        for folder, found in peaks.items():
            program = MEMORY.replace("PATH", repr(str(path))).replace("CACHE", repr(folder))
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
            peak, total = json.loads(done.stdout)
            assert total == rows * 120
            found.append(peak)
    assert all(large < small + 50 for small, large in peaks.values()), peaks


def test_a_sparse_marginal_beyond_the_limit_is_a_clear_error(table):
    path, _ = table
    source = DuckDBSource(path, SCHEMA, work_bytes=10_000)
    with pytest.raises(ResourceError, match=r"limit of 0 MB.*raise the memory limit"):
        source.sparse([tuple(LEVELS)])
