"""One job in a process of its own: its result, its limits, its end; and the lines that keep it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from admeasure.errors import DataError, UsageError
from admeasure.limits import Limits
from admeasure.studies.lines import Lines
from admeasure.studies.process import ONE_THREAD, run_process, run_processes

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def command(body: str) -> list[str]:
    """A child whose function has this body."""
    lines = "\n".join("    " + line for line in body.splitlines())
    start = "import os, time\nfrom admeasure.studies.process import serve\n"
    return [sys.executable, "-c", f"{start}def function(job):\n{lines}\nserve(function)"]


def test_what_the_function_returns_comes_back_whatever_it_prints() -> None:
    child = command("print('chatter'); os.system('echo more')\nreturn {'y': job['x'] ** 2}")
    assert run_process(child, {"x": 7}) == {"y": 49}


def test_an_exception_is_an_outcome_with_its_last_line() -> None:
    found = run_process(command("raise ValueError('first\\nsecond')"), {})
    assert found == {"failure": "error", "error": "ValueError: first second"}


def test_a_child_that_dies_is_an_outcome() -> None:
    found = run_process(command("os.kill(os.getpid(), 11)"), {})
    assert found is not None
    assert found["failure"] == "died"
    assert "SIGSEGV" in found["error"]


def test_a_child_that_cannot_start_its_work_says_why() -> None:
    found = run_process([sys.executable, "-c", "import no_such_module_here"], {})
    assert found is not None
    assert found["failure"] == "died"
    assert "no_such_module_here" in found["error"]


def test_a_job_past_its_time_limit_is_ended_and_recorded_as_such() -> None:
    found = run_process(command("time.sleep(600)"), {}, Limits(seconds=1))
    assert found == {"failure": "time limit", "error": "not finished after 1 s"}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
def test_a_job_past_its_memory_limit_is_ended_and_recorded_as_such() -> None:
    child = command("held = bytearray(400 << 20)\ntime.sleep(600)")
    found = run_process(child, {}, Limits(megabytes=200))
    assert found == {"failure": "memory limit", "error": "held more than 200 MB of memory"}


def test_jobs_have_one_thread_however_many_run_at_a_time() -> None:
    child = command("return {name: os.environ.get(name) for name in job['names']}")
    for workers in (1, 2):
        found = dict(run_processes([{"names": list(ONE_THREAD)}], child, workers=workers))
        assert found == {0: ONE_THREAD}


def test_every_job_has_one_outcome_in_whichever_order_they_end() -> None:
    child = command("time.sleep(job['x'] % 3 / 10)\nreturn {'y': job['x']}")
    found = list(run_processes([{"x": x} for x in range(7)], child, workers=3))
    assert sorted(found) == [(x, {"y": x}) for x in range(7)]


def test_whoever_stops_listening_ends_the_jobs_that_run(tmp_path: Path) -> None:
    child = command("if job['first']: return {}\nopen(job['pid'], 'w').write(str(os.getpid()))")
    child[-1] = child[-1].replace("str(os.getpid()))", "str(os.getpid()))\n    time.sleep(600)")
    pid = tmp_path / "pid"
    jobs = [{"first": first, "pid": str(pid)} for first in (False, True)]
    outcomes = run_processes(jobs, child, workers=2)
    assert next(outcomes) == (1, {})
    outcomes.close()
    assert not pid.exists() or not _is_alive(int(pid.read_text()))


def test_a_child_whose_parent_is_killed_goes_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = command(f"open({str(pid)!r}, 'w').write(str(os.getpid()) + '.')\ntime.sleep(600)")
    text = f"from admeasure.studies.process import run_process\nrun_process({child!r}, {{}})"
    parent = subprocess.Popen([sys.executable, "-c", text])
    _until(lambda: pid.exists() and pid.read_text().endswith("."))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _until(lambda: not _is_alive(int(pid.read_text()[:-1])))


def test_a_torn_last_line_is_no_result_and_is_cut_off_by_the_next(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "results.jsonl")
    lines.append({"a": 1})
    with lines.path.open("ab") as file:
        file.write(b'{"a": 2, "text": "' + b"x" * 10_000)
    assert lines.read() == [{"a": 1}]
    lines.append({"a": 3})
    assert lines.read() == [{"a": 1}, {"a": 3}]
    assert lines.path.read_bytes().count(b"\n") == 2


def test_a_file_of_which_only_a_torn_line_was_written_is_empty(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "results.jsonl")
    lines.path.write_bytes(b'{"a"')
    assert lines.read() == []
    lines.append({"a": 1})
    assert lines.read() == [{"a": 1}]


def test_a_damaged_line_in_the_middle_is_refused_by_its_number(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "results.jsonl")
    lines.path.write_text('{"a": 1}\nage,sex\n{"a": 2}\n')
    with pytest.raises(DataError, match="Line 2"):
        lines.read()


def test_two_runs_on_one_file_at_once_are_refused(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "results.jsonl")
    with lines.held(), pytest.raises(UsageError, match="Another run"), lines.held():
        pass
    with lines.held():
        lines.append({"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_benchmark_goes_on_where_it_stopped_and_runs_failures_again(tmp_path: Path) -> None:
    script = tmp_path / "toy.py"
    script.write_text(f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(BENCHMARKS)!r})
from common import Results, parallel

def run_job(job):
    ran = Path({str(tmp_path)!r}) / f"ran{{job['x']}}"
    again = ran.exists()
    ran.write_text("")
    if job["x"] == 2 and not again:
        raise ValueError("not yet")
    return {{"y": 10 * job["x"], "again": again}}

if __name__ == "__main__":
    jobs = [{{"x": x}} for x in range(int(sys.argv[1]))]
    for record in parallel(jobs, run_job, 2, results=Results(Path(sys.argv[2]))):
        print(record["x"], "error" in record)
""")
    kept = tmp_path / "kept.jsonl"
    assert _said(script, 3, kept) == {"0 False", "1 False", "2 True"}
    assert _said(script, 4, kept) == {"2 False", "3 False"}
    last = {row["x"]: row for row in map(json.loads, kept.read_text().splitlines())}
    assert {x: row["y"] for x, row in last.items()} == {x: 10 * x for x in range(4)}
    assert [x for x, row in last.items() if row["again"]] == [2]


def test_jobs_of_a_benchmark_keep_the_flags_of_xla_that_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "toy.py"
    script.write_text(f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(BENCHMARKS)!r})
from common import Results, parallel

def run_job(job):
    return {{"flags": os.environ["XLA_FLAGS"]}}

if __name__ == "__main__":
    for record in parallel([{{"x": 1}}], run_job, 1, results=Results(Path(sys.argv[2]))):
        print(record["flags"])
""")
    own = ONE_THREAD["XLA_FLAGS"]
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert _said(script, 1, tmp_path / "without.jsonl") == {own}
    monkeypatch.setenv("XLA_FLAGS", "--xla_some_flag=3")
    assert _said(script, 1, tmp_path / "with.jsonl") == {f"--xla_some_flag=3 {own}"}


def _said(script: Path, jobs: int, kept: Path) -> set[str]:
    ran = [sys.executable, str(script), str(jobs), str(kept)]
    return set(subprocess.run(ran, capture_output=True, text=True, check=True).stdout.splitlines())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # an orphan that nobody has waited for yet is dead all the same
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
