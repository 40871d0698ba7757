"""From a table, a schema, a workload and a budget to a release.

The order matters. Everything that can be refused is refused before the table is read; the table
is read and checked before the budget book is asked; the book reserves the whole budget before the
first noise is drawn. What the curator gives out is on disk before it is used, so that a killed run
can be resumed and is never charged for less than it released.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from admeasure import __version__
from admeasure.errors import DataError, UsageError
from admeasure.mechanisms import Mechanism, Outcome
from admeasure.privacy.book import Book, refuse_unless_private
from admeasure.privacy.convert import epsilon_of, rho_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import Event, FileJournal, Journal, unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.measurement import Measurement
from admeasure.privacy.noise import ExactNoise, Noise, SeededNoise
from admeasure.queries import from_record
from admeasure.release import store
from admeasure.release.certificate import UNPROTECTED, Certificate, lines
from admeasure.release.release import Release
from admeasure.schema import Schema
from admeasure.sources.open import open_source
from admeasure.workload import Workload, parse_workload

Listener = Callable[[Event], None]


@dataclass(frozen=True)
class Account:
    """A data set in a budget book."""

    book: Path
    dataset: str


def fit(
    data: Any,
    schema: Schema | str | Path,
    *,
    workload: Workload | str | Path,
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    out: str | Path | None = None,
    account: Account | None = None,
    seed: int | None = None,
    resume: bool = False,
    listeners: tuple[Listener, ...] = (),
    reading: Callable[[float], None] | None = None,
) -> Release:
    """Run a mechanism on a private table and return (and, with `out`, write) the release.

    Released: what the mechanism measures and selects, at a total cost of rho, the largest zCDP
    budget that implies (epsilon, delta)-differential privacy for the schema's privacy unit. A
    `seed` makes the noise repeatable and the release NOT PRIVATE; the budget book refuses it.

    `listeners` hear of every private draw as it is recorded (privatised results only); `reading`
    hears which part of the table has been read.
    """
    started = time.perf_counter()
    rho = rho_of(epsilon, delta)
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    if not isinstance(workload, Workload):
        workload = parse_workload(workload, schema.domain)
    workload.validate(schema.domain)
    mechanism.check(schema.domain, workload, schema.zeros)
    noise: Noise = ExactNoise() if seed is None else SeededNoise(seed)
    if account is not None:
        refuse_unless_private(noise.private)
    target = None if out is None else Path(out)
    settings = _settings(schema, workload, mechanism, epsilon, delta, seed, account)
    run = _Run(target, settings, resume=resume)
    _warn_of_delta(delta, schema.table.rows)

    source = open_source(data, schema, progress=reading)
    (rows,) = source.counts([()])
    if not rows:
        raise DataError("The table has no rows. Check that the right file was given.")

    with run.started(account, rho, mechanism.name) as journal:
        journal.listeners.extend(listeners)
        curator = Curator(source, Ledger(rho), noise, journal)
        outcome = mechanism.run(curator, workload, schema.zeros)
        release = _release(
            schema, workload, mechanism, outcome, curator, noise, epsilon, delta, account, started
        )
        run.finish(release, curator.ledger.spent)
    _warn_of_delta(delta, release.rows)
    return replace(release, like=None if isinstance(data, str | Path | list) else data)


def _release(
    schema: Schema,
    workload: Workload,
    mechanism: Mechanism,
    outcome: Outcome,
    curator: Curator,
    noise: Noise,
    epsilon: float,
    delta: float,
    account: Account | None,
    started: float,
) -> Release:
    ledger = curator.ledger
    certificate = Certificate(
        mechanism=mechanism.name,
        options=asdict(mechanism),  # pyright: ignore[reportArgumentType]
        epsilon=float(epsilon),
        delta=float(delta),
        rho=float(ledger.total),
        rho_spent=float(ledger.spent),
        epsilon_spent=epsilon_of(ledger.spent, delta) if ledger.spent else 0.0,
        neighbours=schema.unit.neighbours.value,
        unit=schema.unit.name,
        max_rows_per_unit=schema.unit.max_rows,
        private=noise.private,
        noise="discrete Gaussian noise and exponential mechanism, exact, "
        + ("operating system randomness" if noise.private else "seeded generator"),
        charges=lines(ledger.charges),
        unprotected=UNPROTECTED
        + (("the number of rows",) if schema.unit.rows_are_public else ()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        dataset=account.dataset if account else None,
        notes=outcome.notes,
    )
    arrays = outcome.model.arrays()
    facts = {
        "rounds": outcome.rounds,
        "seconds": round(time.perf_counter() - started, 3),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "model_megabytes": round(sum(np.asarray(a).nbytes for a in arrays.values()) / 2**20, 3),
    }
    events = curator.journal.events
    measured = tuple(
        Measurement(from_record(e["query"]), unpack(e["values"]), e["sigma"])
        for e in events
        if e["event"] == "measure"
    )
    return Release(
        schema=schema,
        workload=workload,
        model=outcome.model,
        measurements=measured,
        selections=outcome.selections,
        certificate=certificate,
        facts=facts,
        log=tuple(map(_without_values, events)),
    )


def _without_values(event: Event) -> Event:
    """The event with the values' hash in place of the values, which measurements.npz holds."""
    if "values" not in event:
        return event
    digest = hashlib.sha256(unpack(event["values"]).tobytes()).hexdigest()
    return {**{k: v for k, v in event.items() if k != "values"}, "sha256": digest}


def _settings(
    schema: Schema,
    workload: Workload,
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    seed: int | None,
    account: Account | None,
) -> dict[str, Any]:
    """What must be the same when a run is resumed."""
    return {
        "mechanism": mechanism.name,
        "options": asdict(mechanism),  # pyright: ignore[reportArgumentType]
        "epsilon": float(epsilon),
        "delta": float(delta),
        "seed": seed,
        "schema": hashlib.sha256(schema.dumps().encode()).hexdigest(),
        "workload": hashlib.sha256(workload.dumps().encode()).hexdigest(),
        "account": [str(account.book), account.dataset] if account else None,
    }


class _Run:
    """The folder of a run under way, its journal, and its entry in the budget book."""

    def __init__(self, target: Path | None, settings: dict[str, Any], *, resume: bool) -> None:
        self._target = target
        self._settings = settings
        self._folder = None if target is None else store.partial_folder(target)
        self._book: Book | None = None
        self._entry: int | None = None
        self._journal: Journal = Journal()
        if resume and (self._folder is None or not self._folder.is_dir()):
            raise UsageError(
                f"There is no interrupted run at {self._folder or 'memory'}. Run without --resume."
            )
        if target is None or self._folder is None:
            return
        store.check_free(target)
        if resume:
            self._check_settings()
        elif self._folder.exists():
            raise UsageError(
                f"{self._folder} holds an interrupted run. Continue it with --resume, or remove "
                "it; a removed run stays charged."
            )

    def started(self, account: Account | None, rho: Fraction | float, mechanism: str) -> _Run:
        """Reserve the budget (unless the interrupted run did) and open the journal."""
        if account is not None:
            self._book = Book.open(account.book)
        if self._folder is not None and not self._folder.exists():
            self._entry = self._reserve(account, rho, mechanism)
            self._folder.mkdir(mode=0o700)
            text = json.dumps({"settings": self._settings, "entry": self._entry})
            (self._folder / "run.json").write_text(text)
        elif self._folder is None:
            self._entry = self._reserve(account, rho, mechanism)
        if self._folder is not None:
            self._journal = FileJournal(self._folder / "journal.jsonl")
        return self

    def _reserve(
        self, account: Account | None, rho: Fraction | float, mechanism: str
    ) -> int | None:
        if self._book is None or account is None:
            return None
        return self._book.reserve(
            account.dataset,
            rho,
            mechanism=mechanism,
            release=str(self._target or "in memory"),
            epsilon=self._settings["epsilon"],
            delta=self._settings["delta"],
        )

    def _check_settings(self) -> None:
        assert self._folder is not None
        try:
            stored = json.loads((self._folder / "run.json").read_text())
            settings, self._entry = stored["settings"], stored["entry"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(f"{self._folder} is damaged: run.json cannot be read.") from None
        differing = [k for k, v in self._settings.items() if settings.get(k) != v]
        if differing:
            raise UsageError(
                f"The interrupted run at {self._folder} was started with another "
                f"{', '.join(differing)}. Resume with the same, or remove the folder; a removed "
                "run stays charged."
            )

    def __enter__(self) -> Journal:
        return self._journal

    def finish(self, release: Release, spent: Fraction) -> None:
        """Write the release, then settle with the book, then drop the journal."""
        if self._target is not None:
            release.save(self._target)
        if self._book is not None and self._entry is not None:
            self._book.settle(self._entry, spent)
        if isinstance(self._journal, FileJournal) and self._folder is not None:
            self._journal.close()
            shutil.rmtree(self._folder)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if isinstance(self._journal, FileJournal):
            self._journal.close()
        if kind is not None and self._folder is None and self._book and self._entry is not None:
            self._book.fail(self._entry)


def _warn_of_delta(delta: float, rows: int | None) -> None:
    if rows and delta * rows >= 1:
        warnings.warn(
            f"delta = {delta:g} is not below 1/rows for a table of about {rows:,} rows. Publishing "
            "a few rows at random would satisfy such a guarantee, so it protects nobody in "
            "particular. Take delta well below 1/rows, such as 1e-9.",
            stacklevel=3,
        )


