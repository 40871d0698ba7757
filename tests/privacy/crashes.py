"""Runs that are killed, or find the disk full, at a chosen moment; then resumed and examined.

A script: `python crashes.py FOLDER MECHANISM WAY [A B [BROKEN]]` prints one JSON object. It is a
process of its own, so that it may fork: a child with everything imported starts at once.

WAY is one of
    steps     one run killed before its A-th durable step, one before its A+B-th, … to the last;
              a durable step is an fsync, a rename, a removal, a change of the budget book
    random    B runs killed by SIGKILL from outside after random times, and again while resuming
    full      one run whose disk is full from its A-th write on, one from its A+B-th, …
    tmpfs     runs on a file system of a few kilobytes, really full (needs the right to mount)
    seen      B runs on a slow disk, ended by Ctrl-C or a limit of time at random moments, and again
              while resuming, while somebody reads the journal
BROKEN, if given, is a file of broken/parts: the part of the product that it breaks, is broken.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np

import admeasure.limits
from admeasure.auditing.release import audit_release
from admeasure.errors import AdmeasureError
from admeasure.limits import Limits
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.cost import budget_of
from admeasure.privacy.journal import unpack, without_values
from admeasure.privacy.noise import ExactNoise
from admeasure.release import Release
from admeasure.release.store import partial_folder
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.verbs.fit import fit
from admeasure.verbs.screen import Screening, screen

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
ROWS = np.random.default_rng(5).integers(0, 2, (3, 60))
DATA = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}
TABLE = MemorySource(DATA, SCHEMA)
OPTIONS = {"aim": {"rounds": "4"}, "mwem": {"rounds": "2"}, "mwem-pgm": {"rounds": "2"}}
EPSILON, DELTA = 1.0, 1e-6
DONE, REFUSED, FULL, INTERRUPTED = 0, 40, 41, 42


class Place:
    """One run's folder: the release, the book, and a list of what was drawn."""

    delta_share = 0.0

    def __init__(self, folder: Path, mechanism: str) -> None:
        folder.mkdir()
        self.mechanism = mechanism
        self.out, self.draws = folder / "release", folder / "draws"
        self.draws.touch()
        self.book = folder / "book.db"
        Book.create(self.book, "toy", epsilon=2.0, delta=DELTA, delta_share=self.delta_share)

    def run(
        self, prepare: Callable[[], None], *, resume: bool, limits: Limits | None = None
    ) -> int:
        """Fork and fit; the number of the process."""
        child = os.fork()
        if not child:
            code = 1
            try:
                self._watch_draws()
                prepare()
                self._fit(resume=resume, limits=limits)
                code = DONE
            except AdmeasureError as error:
                code = FULL if error.exit_code == 5 else REFUSED
                if code == REFUSED:
                    print(error, file=sys.stderr, flush=True)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                code = FULL
            except KeyboardInterrupt:
                code = INTERRUPTED
            finally:
                if code == 1:  # nothing that a run may end with
                    traceback.print_exc()
                    sys.stderr.flush()
                os._exit(code)
        return child

    def _fit(self, *, resume: bool, limits: Limits | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(
                DATA,
                SCHEMA,
                workload="all-2way",
                mechanism=build(self.mechanism, OPTIONS.get(self.mechanism, {})),
                epsilon=EPSILON,
                delta=DELTA,
                out=self.out,
                charge_to=ChargeTo(self.book, "toy"),
                resume=resume,
                limits=limits,
            )

    def _watch_draws(self) -> None:
        """Note the hash of every draw of Gaussian noise before anyone can use it."""
        plain = ExactNoise.discrete_gaussian
        watching = os.open(self.draws, os.O_WRONLY | os.O_APPEND)

        def drawn(noise: ExactNoise, sigma: float, size: int) -> np.ndarray:
            values = plain(noise, sigma, size)
            os.write(watching, (digest(values) + "\n").encode())
            return values

        ExactNoise.discrete_gaussian = drawn  # type: ignore[method-assign]

    def journal(self) -> list[dict]:
        path = partial_folder(self.out) / "journal.jsonl"
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            lines = []
        return [json.loads(line) for line in lines]

    def results(self) -> list[dict]:
        """What a reader sees now: the results among the whole lines, as they are published."""
        return [without_values(e) for e in self.journal() if e["event"] != "intent"]

    def check_interrupted(self) -> list[dict]:
        """After a crash: the book can be read and holds at least what was released."""
        account = Book.open(self.book).account("toy")
        results = [e for e in self.journal() if e["event"] != "intent"]
        released = self.released() if self.out.exists() else _paid(results)
        assert account.spent.rho >= released, "released more than was charged"
        return results

    def released(self) -> Fraction:
        """What the result that stands there says was spent."""
        audit = audit_release(self.out)
        assert audit.holds
        return audit.spent.rho

    def check_finished(self, before: list[dict]) -> int:
        """After the end: a valid release, the book settled at it, nothing drawn unannounced."""
        release, audit = Release.load(self.out), audit_release(self.out)
        assert audit.holds, audit
        account = Book.open(self.book).account("toy")
        assert account.spent.rho == audit.spent.rho, "the book and the release disagree"
        assert audit.spent.rho == Fraction(release.certificate.rho), "not the same total spend"
        assert not partial_folder(self.out).exists()
        self._check_draws(release, before)
        return audit.lost_draws

    def _check_draws(self, release: Release, before: list[dict]) -> None:
        """results <= draws <= intents, and every result is one draw, used once."""
        drawn = Counter(self.draws.read_text().split())
        intents = [e for e in release.log if e["event"] == "intent" and e["of"] == "measure"]
        recorded = Counter(digest(self._noise(m)) for m in release.measurements)
        assert not recorded - drawn, "a result that was not drawn, or drawn once and used twice"
        assert sum(recorded.values()) <= sum(drawn.values()) <= len(intents)
        self._check_kept(before, [e for e in release.log if e["event"] != "intent"])

    @staticmethod
    def _check_kept(before: list[dict], results: list[dict]) -> None:
        """What was on record before the run was resumed is in its result, unchanged."""
        for old, new in zip(before, results[: len(before)], strict=True):
            if "values" in old:
                digest_of_old = hashlib.sha256(unpack(old["values"]).tobytes()).hexdigest()
                assert new["sha256"] == digest_of_old, "a recorded result changed"
            else:
                assert new == old, "a recorded choice changed"

    @staticmethod
    def _noise(measurement) -> np.ndarray:
        """The noise in a measurement, since the table is known here."""
        (counts,) = TABLE.counts([measurement.query.columns])
        return measurement.values - measurement.query.answer(counts)


class Screened(Place):
    """A screening of public tables, in place of a release."""

    def _fit(self, *, resume: bool, limits: Limits | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            screen(
                DATA,
                {"same": DATA, "other": {name: values[:20] for name, values in DATA.items()}},
                SCHEMA,
                workload="all-2way",
                epsilon=EPSILON,
                delta=DELTA,
                out=self.out,
                charge_to=ChargeTo(self.book, "toy"),
                resume=resume,
            )

    def released(self) -> Fraction:
        return _paid(Screening.load(self.out).log)

    def check_finished(self, before: list[dict]) -> int:
        found = Screening.load(self.out)
        account = Book.open(self.book).account("toy")
        assert account.spent.rho == _paid(found.log) == Fraction(found.rho)
        assert account.spent == budget_of(EPSILON, DELTA), "not the same total spend"
        assert not partial_folder(self.out).exists()
        results = [e for e in found.log if e["event"] != "intent"]
        self._check_kept(before, results)
        assert len(results) == 3  # the rows and two tables
        drawn = Counter(self.draws.read_text().split())
        intents = len(found.log) - len(results)
        assert len(results) <= sum(drawn.values()) <= intents
        return intents - len(results)


class Sought(Place):
    """A fit that finds the levels of a column before it measures."""

    delta_share = DELTA / 10
    schema = Schema.loads(
        '[table]\nname = "toy"\n[privacy]\nunit = "person"\n'
        '[[column]]\nname = "a"\ntype = "string"\nenum = "private"\n'
        '[[column]]\nname = "b"\ntype = "boolean"\n'
    )
    data: ClassVar[dict[str, list]] = {"a": ["u"] * 300 + ["v"] * 40 + ["w"], "b": [True] * 341}

    def _fit(self, *, resume: bool, limits: Limits | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(
                self.data,
                self.schema,
                workload="all-1way",
                mechanism=build("independent", {}),
                epsilon=EPSILON,
                delta=DELTA,
                out=self.out,
                charge_to=ChargeTo(self.book, "toy"),
                resume=resume,
                limits=limits,
            )

    def _check_draws(self, release: Release, before: list[dict]) -> None:
        """What was found is in the schema, and is what was on record; the book has its delta."""
        results = [e for e in release.log if e["event"] != "intent"]
        self._check_kept(before, results)
        assert [e["found"] for e in results if "found" in e] == [["u"]]
        assert release.schema.column("a").listed == ("u",)
        spent = Book.open(self.book).account("toy").spent
        assert spent.delta_share == Fraction(1, 10**7)
        drawn = len(self.draws.read_text().split())
        assert len(results) <= drawn <= len(release.log) - len(results)


def _paid(log) -> Fraction:
    return sum((Fraction(e["rho"]) for e in log if e["event"] != "intent"), Fraction(0))


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, "<i8").tobytes()).hexdigest()[:32]


def ended(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def nothing() -> None:
    """No fault."""


def at_step(number: int, act: Callable[[], None]) -> Callable[[], None]:
    """Do `act` just before the `number`-th durable step of this process, and from then on."""

    def prepare() -> None:
        taken = 0

        def step() -> None:
            nonlocal taken
            taken += 1
            if taken >= number:
                act()

        def before(call: Callable) -> Callable:
            def wrapped(*args, **kwargs):
                step()
                return call(*args, **kwargs)

            return wrapped

        for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "posix_fallocate"):
            setattr(os, name, before(getattr(os, name)))

        def around(call: Callable) -> Callable:
            def wrapped(*args, **kwargs):
                step()
                result = call(*args, **kwargs)
                step()
                return result

            return wrapped

        for name in ("add", "reserve", "settle", "fail", "mark"):
            setattr(Book, name, around(getattr(Book, name)))

    return prepare


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_space(number: int) -> Callable[[], None]:
    """From its `number`-th write on, the disk of the run is full. The book has its own disk."""

    def prepare() -> None:
        taken = 0

        def before(call: Callable) -> Callable:
            def wrapped(*args, **kwargs):
                nonlocal taken
                taken += 1
                if taken >= number:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return call(*args, **kwargs)

            return wrapped

        # An fsync may be where a full disk is found out, too.
        for name in ("pwrite", "posix_fallocate", "mkdir", "fsync"):
            setattr(os, name, before(getattr(os, name)))

    return prepare


def slow_disk() -> None:
    """A flush takes a while, as on a disk that spins; a limit of time is looked at often."""
    fsync = os.fsync

    def slow(file: int) -> None:
        time.sleep(0.004)
        fsync(file)

    os.fsync = slow
    admeasure.limits.PERIOD_SECONDS = 0.003


class Campaign:
    def __init__(self, folder: Path, mechanism: str) -> None:
        self.folder, self.mechanism = folder, mechanism
        self.counts: Counter[str] = Counter()
        place = self.place()
        place._fit(resume=False, limits=None)  # imports what a fit imports, before children do
        shutil.rmtree(place.book.parent)

    def place(self) -> Place:
        kind = {"screen": Screened, "levels": Sought}.get(self.mechanism, Place)
        return kind(self.folder / str(self.counts["runs"]), self.mechanism)

    def recover(self, place: Place, after: Callable[[Release], None] | None = None) -> None:
        """Continue whatever is left, or start anew where there is nothing to continue."""
        before = place.check_interrupted()
        self.counts["runs"] += 1
        self.counts["with results on disk"] += bool(before)
        if not partial_folder(place.out).exists() and place.out.exists():
            self.counts["already complete"] += 1
        else:
            resume = partial_folder(place.out).exists()
            code = ended(place.run(nothing, resume=resume))
            assert code == DONE, f"not continued: exit {code}, resume {resume}"
            self.counts["resumed" if resume else "started anew"] += 1
        self.counts["draws lost"] += place.check_finished(before)
        if after is not None:
            after(Release.load(place.out))
        shutil.rmtree(place.book.parent)

    def steps(self, first: int, stride: int) -> None:
        """From one step on, and then every so many steps."""
        for number in itertools.count(first, stride):
            place = self.place()
            code = ended(place.run(at_step(number, die), resume=False))
            if code == DONE:
                shutil.rmtree(place.book.parent)
                return
            assert code == -signal.SIGKILL, f"exit {code} instead of a kill"
            self.counts["kills"] += 1
            self.recover(place)

    def full(self, first: int, stride: int) -> None:
        for number in itertools.count(first, stride):
            place = self.place()
            code = ended(place.run(no_space(number), resume=False))
            if code == DONE:
                shutil.rmtree(place.book.parent)
                return
            assert code == FULL, f"exit {code} on a full disk"
            self.counts["full disks"] += 1
            self.recover(place)

    def random(self, seed: int, times: int) -> None:
        rng = random.Random(seed)
        place = self.place()
        started = time.perf_counter()
        assert ended(place.run(nothing, resume=False)) == DONE
        takes = time.perf_counter() - started
        shutil.rmtree(place.book.parent)
        self.counts["runs"] += 1
        while self.counts["kills"] < times:
            place, resume = self.place(), False
            for _ in range(rng.randint(1, 3)):
                child = place.run(nothing, resume=resume)
                time.sleep(rng.random() * takes)
                os.kill(child, signal.SIGKILL)
                if ended(child) == -signal.SIGKILL:
                    self.counts["kills"] += 1
                place.check_interrupted()
                resume = partial_folder(place.out).exists()
                if place.out.exists() and not resume:
                    break
            self.recover(place)

    def seen(self, seed: int, times: int) -> None:
        """Whatever a reader saw of a run is in its release, at the place where it was seen."""
        rng = random.Random(seed)
        place = self.place()
        started = time.perf_counter()
        assert ended(place.run(slow_disk, resume=False)) == DONE
        takes = time.perf_counter() - started
        shutil.rmtree(place.book.parent)
        self.counts["runs"] += 1
        while self.counts["interrupts"] < times:
            place, resume, seen = self.place(), False, []
            for _ in range(rng.randint(1, 3)):
                moment = rng.random() * takes * 0.7
                by_limit = rng.random() < 0.5
                limits = Limits(seconds=moment) if by_limit else None
                child = place.run(slow_disk, resume=resume, limits=limits)
                code, seen = self._read_along(place, child, seen, None if by_limit else moment)
                assert code in (DONE, FULL, INTERRUPTED), f"exit {code} of an interrupted run"
                self.counts["interrupts"] += code != DONE
                resume = partial_folder(place.out).exists()
                if place.out.exists() and not resume:
                    break
            self.counts["results seen"] += len(seen)
            self.recover(place, after=lambda release, seen=seen: self._check_seen(release, seen))

    @staticmethod
    def _read_along(
        place: Place, child: int, seen: list[dict], moment: float | None
    ) -> tuple[int, list[dict]]:
        """Read the journal until the run has ended, and interrupt it at a moment."""
        started = time.perf_counter()
        while True:
            if moment is not None and time.perf_counter() - started > moment:
                os.kill(child, signal.SIGINT)
                moment = None
            found, status = os.waitpid(child, os.WNOHANG)
            now = place.results()
            assert now[: len(seen)] == seen or not now, "SEEN: what was visible is gone"
            seen = now or seen
            if found:
                return os.waitstatus_to_exitcode(status), seen
            time.sleep(0.0005)

    @staticmethod
    def _check_seen(release: Release, seen: list[dict]) -> None:
        kept = [e for e in release.log if e["event"] != "intent"]
        assert kept[: len(seen)] == seen, "SEEN: what was visible was drawn again"

    def tmpfs(self) -> None:
        small = self.folder / "small"
        small.mkdir()
        for kilobytes in range(20, 90, 4):
            options = f"size={kilobytes}k"
            mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                return
            try:
                place = self.place()
                place.out = small / "release"
                code = ended(place.run(nothing, resume=False))
                assert code in (DONE, FULL), f"exit {code} on a small disk"
                if code == FULL:
                    self.counts["full disks"] += 1
                    place.check_interrupted()
                    grown = ["mount", "-o", "remount,size=4m", str(small)]
                    subprocess.run(grown, check=True)
                self.recover(place)
            finally:
                subprocess.run(["umount", str(small)], check=True)


def main() -> None:
    folder, mechanism, way, *rest = sys.argv[1:]
    campaign = Campaign(Path(folder), mechanism)
    for broken in rest[2:]:
        runpy.run_path(broken)["apply"]()
    getattr(campaign, way)(*map(int, rest[:2]))
    print(json.dumps(campaign.counts))


if __name__ == "__main__":
    main()
