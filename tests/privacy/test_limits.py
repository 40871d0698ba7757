"""A run that reaches its limit of time or memory stops in order, charged for what it spent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import admeasure.limits
from admeasure.auditing.release import audit_release
from admeasure.errors import BudgetError, LimitReached, ResourceError, UsageError
from admeasure.limits import Limits, Watch, resident
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.curator import Curator
from admeasure.privacy.memory import HOST_BYTES
from admeasure.release import Release
from admeasure.release.store import partial_folder
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
ROWS = np.random.default_rng(1).integers(0, 2, (3, 50))
DATA = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}


@pytest.fixture
def book(tmp_path) -> Path:
    Book.create(tmp_path / "book.db", "toy", epsilon=3.0, delta=1e-6)
    return tmp_path / "book.db"


def run(book: Path, out: Path | None, *, listeners=(), **changes):
    settings = {"workload": "all-2way", "mechanism": build("mst"), "epsilon": 1.0, "delta": 1e-6}
    charge_to = ChargeTo(book, "toy")
    return fit(
        DATA, SCHEMA, out=out, charge_to=charge_to, listeners=listeners, **settings, **changes
    )


class SlowAfter:
    """A listener under which the n-th draw seems to take an hour."""

    ahead = 0.0

    def __init__(self, draws: int) -> None:
        self.draws, self.spent = draws, Fraction(0)

    def __call__(self, event) -> None:
        self.draws -= 1
        self.spent += Fraction(event["rho"])
        if not self.draws:
            SlowAfter.ahead += 3600


HOUR = Limits(seconds=3000)


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """The clock of the limits, which listeners can put forward."""
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + SlowAfter.ahead)
    monkeypatch.setattr(admeasure.limits, "time", clock)
    monkeypatch.setattr(SlowAfter, "ahead", 0.0)


@pytest.mark.parametrize("draws", [1, 3, 5])
def test_a_run_out_of_time_is_charged_for_what_it_spent_and_goes_on_when_resumed(
    book, tmp_path, draws
):
    slow = SlowAfter(draws)
    with pytest.raises(ResourceError, match="limit of 3000 seconds") as caught:
        run(book, tmp_path / "out", listeners=(slow,), limits=HOUR)
    assert "--resume" in str(caught.value)
    (entry,) = Book.open(book).history("toy")
    assert entry.status == "failed"
    assert entry.cost.rho == slow.spent < entry.reserved.rho
    assert partial_folder(tmp_path / "out").is_dir()

    release = run(book, tmp_path / "out", resume=True)
    entries = Book.open(book).history("toy")
    assert [e.status for e in entries] == ["failed", "released"]
    assert sum(e.cost.rho for e in entries) == Fraction(release.certificate.rho)
    found = audit_release(tmp_path / "out")
    assert found.holds
    assert found.spent.rho == Book.open(book).account("toy").spent.rho
    assert not partial_folder(tmp_path / "out").exists()


def test_a_run_may_be_stopped_again_and_again_and_pays_once(book, tmp_path):
    resume = False
    for draws in (2, 3, 4):
        slow = SlowAfter(draws)
        SlowAfter.ahead = 0.0
        with pytest.raises(ResourceError):
            run(book, tmp_path / "out", listeners=(slow,), limits=HOUR, resume=resume)
        resume = True
    release = run(book, tmp_path / "out", resume=True)
    assert Book.open(book).account("toy").spent.rho == Fraction(release.certificate.rho)
    assert audit_release(tmp_path / "out").lost_draws == 0


def test_a_stopped_run_whose_budget_was_taken_meanwhile_stays_charged_for_what_it_spent(
    book, tmp_path
):
    slow = SlowAfter(2)
    with pytest.raises(ResourceError):
        run(book, tmp_path / "out", listeners=(slow,), limits=HOUR)
    other = Book.open(book)
    other.reserve("toy", other.account("toy").left.rho, mechanism="aim", release="another")
    with pytest.raises(BudgetError):
        run(book, tmp_path / "out", resume=True)
    assert other.account("toy").left.rho == 0
    assert partial_folder(tmp_path / "out").is_dir()


def test_a_run_that_was_released_cannot_be_resumed_from_a_copy_of_its_folder(book, tmp_path):
    """Its reservation was given back: what it would draw now, nobody has paid for."""
    with pytest.raises(ResourceError):
        run(book, tmp_path / "out", listeners=(SlowAfter(2),), limits=HOUR)
    SlowAfter.ahead = 0.0
    shutil.copytree(partial_folder(tmp_path / "out"), tmp_path / "copy")
    run(book, tmp_path / "out", resume=True)
    shutil.rmtree(tmp_path / "out")
    shutil.copytree(tmp_path / "copy", partial_folder(tmp_path / "out"))
    before = Book.open(book).history("toy")
    with pytest.raises(UsageError, match="has ended with a release"):
        run(book, tmp_path / "out", resume=True)
    assert Book.open(book).history("toy") == before


def test_a_run_in_memory_is_charged_for_what_it_spent(book):
    slow = SlowAfter(2)
    with pytest.raises(ResourceError):
        run(book, None, listeners=(slow,), limits=HOUR)
    (entry,) = Book.open(book).history("toy")
    assert (entry.status, entry.cost.rho) == ("failed", slow.spent)


def test_a_limit_below_what_the_process_holds_is_refused_before_anything_is_charged(book, tmp_path):
    with pytest.raises(ResourceError, match="MB of memory"):
        run(book, tmp_path / "out", limits=Limits(megabytes=1))
    assert Book.open(book).history("toy") == ()
    assert not partial_folder(tmp_path / "out").exists()


def test_a_limit_of_memory_reaches_what_the_curator_keeps(book, tmp_path, monkeypatch):
    """Counts and answers together take at most half of what the limit leaves beside the process."""
    kept: list[int] = []

    def watched(*given, memory, **more):
        kept.append(memory.keep_bytes)
        return Curator(*given, memory=memory, **more)

    monkeypatch.setattr("admeasure.verbs.fit.Curator", watched)
    free = 400
    run(book, tmp_path / "tight", limits=Limits(megabytes=resident() + free))
    run(book, tmp_path / "wide", limits=Limits(megabytes=10**6))
    run(book, tmp_path / "free")
    tight, wide, unlimited = kept
    assert 0 < 2 * tight <= free / 2 * 2**20
    assert wide == unlimited == HOST_BYTES


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(value):
    with pytest.raises(UsageError):
        Limits(seconds=value)
    with pytest.raises(UsageError):
        Limits(megabytes=value)


def test_the_memory_that_the_process_holds_is_seen_to_grow():
    before = resident()
    held = np.ones(30 * 2**17)  # 30 MB, written to
    assert resident() - before > 20
    assert held.sum() == held.size


def test_outside_the_main_thread_limits_are_checked_between_draws(book, tmp_path):
    found = []

    def work() -> None:
        try:
            slow = SlowAfter(2)
            run(book, tmp_path / "out", listeners=(slow,), limits=HOUR)
        except ResourceError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_timer_that_somebody_else_uses_is_left_alone():
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        mine = signal.getsignal(signal.SIGALRM)
        with Watch(Limits(seconds=100)).armed():
            assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def own_timer():
    """The timer is free, as in a program of its own: the time limit of tests has it otherwise."""
    handler = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *left)


def test_an_alarm_that_comes_when_the_run_is_over_is_the_last_one(monkeypatch, own_timer):
    """It raises before the timer is ended, and the timer is ended all the same."""
    plain, waits = signal.setitimer, [0.02]

    def late(which: int, seconds: float, every: float = 0.0) -> None:
        if not seconds and waits:
            time.sleep(waits.pop())
        plain(which, seconds, every)

    monkeypatch.setattr("admeasure.limits.PERIOD_SECONDS", 0.005)
    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(LimitReached), Watch(Limits(seconds=0.003)).armed():
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


CSV = "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS.T)


def command(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "data.csv").write_text(CSV)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    fixed = ["--schema", "schema.toml", "--workload", "all-2way", "--epsilon", "1"]
    return subprocess.run(
        [sys.executable, "-m", "admeasure", "fit", "data.csv", *fixed, *args],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("limit", [("--max-seconds", "0.000001"), ("--max-memory", "10")])
def test_the_command_line_stops_with_exit_code_5_and_one_line(tmp_path, limit):
    done = command(tmp_path, "--mechanism", "mst", "--out", "out", *limit)
    assert done.returncode == 5, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("error:") == 1
    assert "reached its limit" in done.stderr
    assert limit[0] in done.stderr


def test_a_long_step_is_interrupted_and_the_run_goes_on_later(tmp_path):
    """mwem on a larger domain, where one update takes longer than the limit: a signal stops it."""
    levels = {f"c{i}": 4 for i in range(10)}
    rng = np.random.default_rng(0)
    schema = Schema.coded("toy", levels)
    names = ",".join(levels)
    rows = "\n".join(",".join(map(str, rng.integers(0, 4, 10))) for _ in range(50))
    (tmp_path / "wide.csv").write_text(f"{names}\n{rows}\n")
    (tmp_path / "wide.toml").write_text(schema.dumps())
    started = time.perf_counter()
    args = ["--schema", "wide.toml", "--workload", "all-3way", "--epsilon", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "admeasure", "fit", "wide.csv", *args, "--mechanism", "mwem",
         "--passes", "400", "--rounds", "30", "--out", "out", "--max-seconds", "4"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert time.perf_counter() - started < 60
    assert "charged for what it spent" in done.stderr
    kept = tmp_path / "out.partial" / "journal.jsonl"
    assert [json.loads(line)["event"] for line in kept.read_text().splitlines()]


def test_a_release_does_not_say_what_time_and_memory_the_run_took(book, tmp_path):
    """The size of the private table shows in them."""
    made = run(book, tmp_path / "out")
    assert {"seconds", "peak_megabytes"} <= set(made.facts)
    assert not {"seconds", "peak_megabytes"} & set(Release.load(tmp_path / "out").facts)
    assert "peak_megabytes" not in (tmp_path / "out" / "release.json").read_text()


def test_time_counts_from_the_start_also_while_the_request_is_checked(book, monkeypatch):
    """Parsing, the mechanism's check and reading are under the watch, like the run itself."""
    armed: list[str] = []
    monkeypatch.setattr("admeasure.limits._timer_is_free", lambda: bool(armed.append("armed")))
    seen = {}

    def check(self, *given) -> None:
        seen["before the check"] = len(armed)

    monkeypatch.setattr("admeasure.mechanisms.mst.Mst.check", check)
    run(book, None, limits=HOUR)
    assert seen["before the check"] == 1
    assert len(armed) == 3  # the request, the table, the run


def test_a_clock_that_runs_already_goes_on(book):
    watch = Watch(HOUR)
    SlowAfter.ahead += 3600
    with pytest.raises(LimitReached, match="limit of 3000 seconds"):
        run(book, None, limits=watch)
    assert Book.open(book).history("toy") == ()


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not count private memory")
def test_one_array_that_passes_the_limit_is_refused_not_made():
    """Looking five times a second is too late for one large array."""
    program = """
import numpy as np
from admeasure.errors import LimitReached
from admeasure.limits import Limits, Watch, peak, resident
from concurrent.futures import ThreadPoolExecutor
limit = resident() + 100
try:
    with Watch(Limits(megabytes=limit)).armed(strict=True):
        with ThreadPoolExecutor(4) as pool:  # the stacks of threads are no obstacle
            list(pool.map(lambda _: np.ones(5 * 2**17).sum(), range(8)))
        held = np.ones(40 * 2**17)
        np.ones(300 * 2**17)
except LimitReached as error:
    assert "--max-memory" in str(error), error
    assert peak() < limit, peak()
    np.ones(300 * 2**17)  # the limit went with the block
    assert peak() > limit
else:
    raise SystemExit("it was made")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not count private memory")
def test_the_first_product_of_matrices_under_a_limit_does_not_end_the_process():
    """It sets 32 MB aside that are hardly touched; refused them, NumPy's library ends the process,
    and a run is charged in full without a word."""
    program = """
import numpy as np
from admeasure.limits import Limits, Watch, resident
with Watch(Limits(megabytes=resident() + 16)).armed(strict=True):
    square = np.ones((300, 300))
    assert (square @ square).sum() == 300**3
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("out", ["out", None])
def test_a_run_that_ends_for_want_of_memory_says_what_it_is_charged(
    book, tmp_path, monkeypatch, out
):
    """Without a limit of its own too, where the system has no more to give."""
    monkeypatch.setattr("admeasure.mechanisms.mst.SpanningTree.select", raising(MemoryError()))
    with pytest.raises(LimitReached, match=r"not enough memory.*charged for what it spent") as told:
        run(book, out and tmp_path / out)
    assert ("--resume" in str(told.value)) == (out is not None)
    (entry,) = Book.open(book).history("toy")
    assert 0 < entry.cost.rho < entry.reserved.rho


def test_where_resuming_cannot_help_the_error_does_not_advise_it(book, tmp_path, monkeypatch):
    small = ResourceError("The model passes its size.")
    monkeypatch.setattr("admeasure.mechanisms.mst.SpanningTree.select", raising(small))
    with pytest.raises(ResourceError, match="would end here again") as told:
        run(book, tmp_path / "out")
    assert "--resume" not in str(told.value)


def raising(error: Exception):
    def fail(*_: object, **__: object):
        raise error

    return fail
