"""One job in a process of its own, within limits of time and memory.

The job travels as one line of JSON on the child's standard input and comes back as one line on its
standard output; whatever libraries print goes to standard error. The input stays open as long as
the parent lives: a child whose parent was killed reads its end, and goes too.

A job that fails, dies or passes a limit is an outcome like any other (`{"failure": …, "error":
…}`), so that the jobs after it are run. Memory is what the process holds; it is looked at twenty
times a second, so a job may pass its limit for a moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from tempfile import TemporaryFile
from typing import IO, Any

from admeasure.errors import AdmeasureError
from admeasure.limits import Limits, resident
from admeasure.sources.address import without_secrets
from admeasure.studies.lines import JsonObject

ERROR, TIME, MEMORY, DIED = "error", "time limit", "memory limit", "died"
"""The kinds of failure."""

POLL_SECONDS = 0.05
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Jobs beside each other get into each other's way with more; and the number of threads changes the
order of sums, hence last digits, so it must not depend on how many jobs run at a time."""


def run_process(
    command: Sequence[str],
    job: JsonObject,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    *,
    environment: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
) -> JsonObject | None:
    """What the command makes of the job; None where `stop` was set before it ended."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env={**os.environ, **(environment or {})},
            # Not in the parent's group: Ctrl-C is for the parent, which then ends the children.
            start_new_session=True,
        )
        assert child.stdin is not None
        try:
            _send(child, job)
            failure = _watch(child, limits, stop)
        finally:
            _kill(child)
            child.stdin.close()
        if failure is not None:
            return failure or None
        return _result(child, _text(output), _text(errors))


def _send(child: subprocess.Popen[bytes], job: JsonObject) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once; its last words say why
        child.stdin.write(json.dumps(job).encode() + b"\n")
        child.stdin.flush()


def _watch(
    child: subprocess.Popen[bytes], limits: Limits, stop: threading.Event | None
) -> JsonObject | None:
    """Wait for the child's end. A failure if it passed a limit, an empty one if it was stopped."""
    started = time.monotonic()
    while True:
        try:
            child.wait(timeout=POLL_SECONDS)
            return None
        except subprocess.TimeoutExpired:
            pass
        if stop is not None and stop.is_set():
            return {}
        if limits.seconds is not None and time.monotonic() - started > limits.seconds:
            return failed(TIME, f"not finished after {limits.seconds:g} s")
        if limits.megabytes is not None and resident(child.pid) > limits.megabytes:
            return failed(MEMORY, f"held more than {limits.megabytes:g} MB of memory")


def _result(child: subprocess.Popen[bytes], output: str, errors: str) -> JsonObject:
    said = (errors.strip().splitlines() or [""])[-1]
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        return failed(DIED, f"killed by {name}" + (f": {said}" if said else ""))
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        return failed(DIED, said or f"ended with exit code {child.returncode} and no result")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child, and what it started itself."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def failed(kind: str, line: str) -> JsonObject:
    return {"failure": kind, "error": line}


def serve(function: Callable[[JsonObject], JsonObject]) -> None:
    """The child's side: read a job, write what `function` makes of it."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library's print must not mix with the result
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        result = function(job)
    except AdmeasureError as error:
        result = failed(ERROR, " ".join(str(error).split()))
    except MemoryError:
        result = failed(MEMORY, "the system gave no more memory")
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        result = failed(ERROR, without_secrets(said, list(_texts(job))))
    answers.write(json.dumps(result) + "\n")
    answers.flush()
    # Threads of libraries may still run; the result is out.
    os._exit(0)


def _texts(record: Any) -> Iterator[str]:
    """Every text of a job; one may be an address."""
    if isinstance(record, str):
        yield record
    elif isinstance(record, dict):
        for value in record.values():
            yield from _texts(value)


def _leave_with_parent() -> None:
    # By its number: a lock on sys.stdin would outlive the interpreter.
    while os.read(0, 4096):
        pass
    os._exit(1)


def run_processes(
    jobs: Sequence[JsonObject],
    command: Sequence[str],
    *,
    workers: int,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Iterator[tuple[int, JsonObject]]:
    """Run each job as a process, `workers` at a time; positions and outcomes as they come.

    Whoever stops listening (also by Ctrl-C) ends the jobs that are running.
    """
    stop = threading.Event()
    waiting = iter(enumerate(jobs))
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[JsonObject | None], int] = {}

        def start() -> None:
            for position, job in waiting:
                future = pool.submit(
                    run_process, command, job, limits, environment=ONE_THREAD, stop=stop
                )
                running[future] = position
                return

        try:
            for _ in range(workers):
                start()
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    position, outcome = running.pop(future), future.result()
                    start()
                    if outcome is not None:
                        yield position, outcome
        finally:
            stop.set()
