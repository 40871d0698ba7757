"""What the benchmarks share: the tables, runs in processes of their own, results that are kept.

Everything a benchmark prints compares with the true table and is NOT PRIVATE. The tables are those
of the papers, coded as integers; they lie in the folder $ADMEASURE_DATA, or in shared/data beside
the repository, and are no part of it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

Record = dict[str, Any]


def data_folder() -> Path:
    folder = Path(os.environ.get("ADMEASURE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"No benchmark tables at {folder}. Set ADMEASURE_DATA to their folder.")
    return folder


def levels_of(table: str) -> dict[str, int]:
    """Column names and level counts of a coded table."""
    stored = json.loads((data_folder() / f"{table}.schema.json").read_text())
    return {column["name"]: column["domain_size"] for column in stored["columns"]}


@dataclass(frozen=True)
class Case:
    """One run: everything that its outcome depends on but the code."""

    table: str
    workload: str
    epsilon: float
    mechanism: str
    megabytes: float
    seed: int

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def code_version() -> str:
    """A hash of the package's source, so that results of different code can be told apart."""
    found = importlib.util.find_spec("admeasure")
    if found is None or found.origin is None:
        sys.exit("The package admeasure is not installed. Run `make install` first.")
    package = Path(found.origin).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]


@dataclass(frozen=True)
class Results:
    """A file of JSON lines, one for each run; of several lines for a case the last one counts."""

    path: Path

    def read(self) -> dict[str, Record]:
        if not self.path.exists():
            return {}
        with self.path.open() as lines:
            records = [json.loads(line) for line in lines if line.endswith("\n")]
        return {record["key"]: record for record in records}

    def append(self, record: Record) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def run_all(
    script: Path, cases: list[Case], results: Results, *, processes: int, limit: float, again: bool
) -> Iterator[Record]:
    """Run the cases that have no result yet, each as `script --one CASE` in its own process."""
    done = {} if again else {k: r for k, r in results.read().items() if "error" not in r}
    missing = [case for case in cases if case.key not in done]
    version = code_version()
    with ThreadPoolExecutor(processes) as pool:
        waiting = {pool.submit(_run, script, case, limit): case for case in missing}
        for finished in as_completed(waiting):
            case = waiting[finished]
            record = {"key": case.key, **asdict(case), "code": version, **finished.result()}
            results.append(record)
            yield record


def _run(script: Path, case: Case, limit: float) -> Record:
    # One thread for each process: more only get into each other's way on these small products.
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, str(script), "--one", case.key]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env={**os.environ, **threads}
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {limit:g} s"}
    if ran.returncode:
        return {"error": (ran.stderr.strip().splitlines() or ["failed"])[-1]}
    return json.loads(ran.stdout.splitlines()[-1])


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_megabytes() -> float:
    """The most memory that this process had; not what its parent had before it was started."""
    try:
        status = Path("/proc/self/status").read_text().splitlines()
        return int(next(s for s in status if s.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
