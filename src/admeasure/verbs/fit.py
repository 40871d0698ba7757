"""From a table, a schema, a workload and a budget to a release.

Everything that can be refused is refused before the table is read, by the budget book too; the
table is read and checked before the book is charged; `admeasure.run` says what happens from there
on.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from admeasure import __version__
from admeasure.bounds import Evidence
from admeasure.bounds.found import MOST
from admeasure.certificate import UNPROTECTED, WITHOUT_BOOK, Certificate, lines
from admeasure.errors import UsageError
from admeasure.limits import Limits, Watch, peak
from admeasure.measurement import Measurement
from admeasure.mechanisms import Mechanism, Outcome
from admeasure.mechanisms.auto import Auto
from admeasure.planning import bought, certified
from admeasure.planning.division import Item, Task, check_scales
from admeasure.planning.mechanism import AnswersPredicates, StartsLibraries, options_of
from admeasure.privacy.cost import Cost, read_cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import Event, TrainingProgress, unpack, without_values
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.memory import HOST_BYTES, Memory
from admeasure.privacy.noise import LARGEST_SCALE
from admeasure.queries import Marginal, Predicate, WorkloadQuery, from_record
from admeasure.release import Release
from admeasure.request import ChargeTo, Request
from admeasure.run import Run
from admeasure.schema import Schema
from admeasure.schema.decode import level_values
from admeasure.schema.frames import empty_like
from admeasure.sources.address import printable
from admeasure.sources.open import held, is_path, open_to_buy
from admeasure.terminal.bars import Bar, first_used, is_shown
from admeasure.terminal.bars import progress as bars
from admeasure.terminal.console import log
from admeasure.verbs.given import GivenSchema, GivenWorkload, choice_of, given_public, schema_of
from admeasure.workload import Workload, parse_workload

FEWEST_ROWS, MOST_ROWS = 1.0, LARGEST_SCALE
"""What a division by the number of rows is looked at for."""


@dataclass(frozen=True, kw_only=True)
class FitRequest(Request):
    """A mechanism that can serve the schema and the workload within the limits."""

    mechanism: Mechanism
    limits: Limits = field(default=Limits())
    certify: Fraction = certified.NONE
    """The share of the budget that buys the errors of the model."""
    notes: tuple[str, ...] = ()
    """What the certificate should say of the request, before what the run has to say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        task = Task.of(self.schema, self.workload)
        self.mechanism.check(task)
        certified.check(task, self.certify)
        needs = max(self.mechanism.needs(task), certified.needs(task, self.certify))
        self.limits.require(needs, self.mechanism.name)
        for rows in FEWEST_ROWS, MOST_ROWS:  # a run goes by a noisy number of them
            check_scales(self._items(task, rows))

    def _items(self, task: Task, rows: float) -> Iterator[Item]:
        """All that the budget is divided into, where the table is believed to have those rows."""
        bought_first, left = bought.divide(self.schema, self.budget)
        yield from bought_first
        last, left = certified.divide(task, left, self.certify)
        yield from last
        yield from self.mechanism.divide(task, left, rows).items

    @property
    def budget(self) -> Cost:
        return bought.budget(self.schema, self.epsilon, self.delta)

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def options(self) -> dict[str, Any]:
        return options_of(self.mechanism)

    def settings(self) -> dict[str, Any]:
        return super().settings() | ({"certify": str(self.certify)} if self.certify else {})


def fit(
    data: Any,
    schema: GivenSchema,
    *,
    workload: GivenWorkload | Sequence[WorkloadQuery | Predicate],
    mechanism: Mechanism | Auto | None = None,
    epsilon: float,
    delta: float,
    public: Any = None,
    out: str | Path | None = None,
    charge_to: ChargeTo | None = None,
    seed: int | None = None,
    resume: bool = False,
    certify: float | None = None,
    limits: Limits | Watch | None = None,
    cache: str | Path | None = None,
    listeners: tuple[Callable[[Event], None], ...] = (),
    watchers: tuple[Callable[[TrainingProgress], None], ...] = (),
    reading: Callable[[float], None] | None = None,
    progress: bool | None = None,
) -> Release:
    """Run a mechanism on a private table and return (and, with `out`, write) the release.

    Released: what the mechanism measures and selects, at a total cost of rho, the largest zCDP
    budget that implies (epsilon, delta)-differential privacy for the schema's privacy unit. A
    `seed` makes the noise repeatable and the release NOT PRIVATE; the budget book refuses it.

    `mechanism` is chosen by public facts where none is given (`admeasure.auto()`), and the
    certificate says which and why.

    `workload` may be a list of queries; a `Predicate` among them counts rows by a function of the
    user's own, for a mechanism that can learn from one (gem).

    `public` is a table that needs no protection, for a mechanism that learns from one.

    `certify` is the share of the budget that buys, as a last step, how far the model is from the
    table: the L1 error of each marginal of the workload, or of a public sample of 4,096, and their
    mean, with noise (`admeasure.privacy.workload_errors`). Bounds and intervals use it. By default
    it is a twentieth where no mechanism is named, and nothing where one is.

    With `resume` a run that was interrupted at `out` goes on where it stopped. A run that reaches
    one of its `limits` stops with `LimitReached`, charged for what it spent; it can be resumed. A
    `Watch` is limits whose clock runs already.

    `cache` is a folder where encoded rows may be kept, in a file without a name that ends with the
    run, if they do not fit memory (`admeasure.sources.files.cache`).

    `listeners` hear of every private draw as it is recorded (privatised results only); `watchers`
    of how a model that is trained is doing, from such results; `reading` hears which part of the
    table has been read. `progress` shows all that as bars, on a terminal or in a notebook: by
    default there alone, elsewhere as lines where it is true, and not at all where it is false.

    >>> schema = Schema.coded("people", {"sex": 2, "smokes": 2})
    >>> table = {"sex": [0, 1, 1, 0] * 50, "smokes": [0, 0, 1, 0] * 50}
    >>> release = fit(table, schema, workload="all-2way", epsilon=1, delta=1e-9)
    >>> release.certificate.mechanism
    'aim-plus'
    """
    from admeasure.public.read import check_apart  # late: it brings DuckDB (`cli.main`)

    watch = limits if isinstance(limits, Watch) else Watch(limits or Limits())
    with watch.armed():
        schema = schema_of(schema)
        if isinstance(workload, str | Path):
            workload = parse_workload(workload, schema.domain)
        choice = choice_of(mechanism, workload, public)
        mechanism = choice.mechanism
        if not isinstance(workload, Workload):
            mechanism, workload = with_predicates(mechanism, workload, schema)
        given, schema = schema, bought.asked(schema, workload, mechanism)
        check_apart(data, public)
        mechanism = given_public(mechanism, public, schema)
        request = FitRequest(
            schema=schema,
            workload=workload,
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            charge_to=charge_to,
            limits=watch.limits,
            certify=certified.share_of(
                certify, Task.of(schema, workload), by_auto=bool(choice.why)
            ),
            notes=(*choice.notes, *bought.left_out(given, schema)),
        )
    run = Run(request, None if out is None else Path(out), resume=resume)
    log("planned", **request.planned(), resumed=resume)
    _warn_of_delta(delta, schema.table.rows)

    if run.written:
        release = run.complete(Release.load)
        return _for_caller(replace(release, facts=release.facts | _cost(watch)), data)

    if isinstance(mechanism, StartsLibraries):
        mechanism.start_libraries()
    with bars(shown=progress) as make:
        called = printable(data) if isinstance(data, str) else "the table"
        read = first_used(make, f"reading {called}")
        spending = _Spending(first_used(make, "spending the budget"), run.ledger.total)
        with watch.armed():
            source = open_to_buy(
                data,
                schema,
                memory_megabytes=watch.limits.reading_megabytes(),
                cache=cache,
                progress=_all_of(read if is_shown(progress) else None, reading),
            )
        with held(source), run as journal:
            journal.listeners.extend((spending.hear, *listeners, watch.check))
            journal.watchers.extend((spending.watch, *watchers))
            memory = Memory(watch.limits.keeping_bytes(HOST_BYTES))
            curator = Curator(source, run.ledger, request.noise(), journal, memory=memory)
            with watch.armed(strict=source.in_memory):
                found, outcome = bought.run(mechanism, curator, workload, schema, request.certify)
                release = _release(request, found, outcome, curator, watch)
            run.finish(release)
            log("released", rho_spent=float(run.ledger.spent))
    _warn_of_delta(delta, release.rows)
    return _for_caller(release, data)


def _all_of(*hearing: Callable[[float], None] | None) -> Callable[[float], None] | None:
    """One that tells all that are there; None where nobody is, since asking how far it is costs."""
    there = [hear for hear in hearing if hear is not None]

    def tell(part: float) -> None:
        for hear in there:
            hear(part)

    return tell if there else None


class _Spending:
    """Shows how much of the run's budget is spent and, where a model is trained, how it does."""

    def __init__(self, tell: Bar, budget: Cost) -> None:
        self._tell, self._budget = tell, budget
        self._spent, self._said = budget * 0, ""

    def hear(self, event: Event) -> None:
        self._spent += read_cost(event)
        self._show()

    def watch(self, progress: TrainingProgress) -> None:
        self._said = f"round {progress.round}, estimated error {progress.error:.4f}"
        self._show()

    def _show(self) -> None:
        self._tell(float(self._spent.ratio(self._budget)), self._said)


def with_predicates(
    mechanism: Mechanism, queries: Sequence[WorkloadQuery | Predicate], schema: Schema
) -> tuple[Mechanism, Workload]:
    """The mechanism with the predicates among the queries, and the workload of the others. The
    columns of a predicate are in the workload at least singly."""
    given = list(queries)
    own = [q for q in given if isinstance(q, Predicate)]
    others: list[WorkloadQuery] = [q for q in given if not isinstance(q, Predicate)]
    if not own:
        return mechanism, Workload(others)
    if not isinstance(mechanism, AnswersPredicates):
        raise UsageError(
            f"{mechanism.name} cannot learn from a predicate ({own[0].name!r}). Use gem, or ask by "
            "marginals and thresholds."
        )
    for q in own:
        q.validate(schema.domain)
    if len({(q.columns, q.name) for q in own}) < len(own):
        raise UsageError("Two predicates have the same columns and name. Name them apart.")
    bound = tuple(
        Predicate(q.columns, q.function, q.name, level_values(schema, q.columns)) for q in own
    )
    covered = {c for q in others for c in q.columns}
    others += [Marginal([c]) for q in own for c in q.columns if c not in covered]
    return mechanism.with_predicates(bound), Workload(dict.fromkeys(others, 1.0))


def _for_caller(release: Release, data: Any) -> Release:
    """A release whose samples come in the caller's type of frame."""
    return release if is_path(data) else replace(release, like=empty_like(data))


def _cost(watch: Watch) -> dict[str, float]:
    """What the run took: for the steward, and never stored, since the table's size shows in it."""
    seconds = time.perf_counter() - watch.started
    return {"seconds": round(seconds, 3), "peak_megabytes": round(peak(), 1)}


def _release(
    request: FitRequest, schema: Schema, outcome: Outcome, curator: Curator, watch: Watch
) -> Release:
    """`schema` is that of the request, with what was bought. Nothing is checked again: all is paid
    for."""
    events = curator.journal.events
    arrays = outcome.model.arrays()
    return Release(
        schema=schema,
        workload=request.workload,
        model=outcome.model,
        measurements=tuple(
            Measurement(from_record(e["query"]), unpack(e["values"]), e["sigma"])
            for e in events
            if e["event"] == "measure"
        ),
        selections=outcome.selections,
        errors=outcome.errors,
        inside=outcome.inside,
        certificate=_certificate(request, schema, outcome, curator.ledger),
        facts={
            "rounds": outcome.rounds,
            **_cost(watch),
            "model_megabytes": round(sum(np.asarray(a).nbytes for a in arrays.values()) / 2**20, 3),
        },
        log=tuple(map(without_values, events)),
    )


def _certificate(
    request: FitRequest, schema: Schema, outcome: Outcome, ledger: Ledger
) -> Certificate:
    unit, private = schema.unit, request.noise().private
    randomness = "randomness of the operating system" if private else "a seeded generator"
    return Certificate(
        mechanism=request.mechanism.name,
        options=request.options,
        epsilon=float(request.epsilon),
        delta=float(request.delta),
        rho=float(ledger.total),
        rho_spent=float(ledger.spent),
        delta_spent=float(ledger.spent.delta_share),
        epsilon_spent=ledger.spent.epsilon(request.delta),
        neighbours=unit.neighbours.value,
        unit=unit.name,
        max_rows_per_unit=unit.max_rows,
        private=private,
        noise=f"exact discrete Gaussian noise and exponential mechanism, with {randomness}",
        charges=lines(ledger.charges),
        unprotected=(
            *UNPROTECTED,
            *(("the number of rows",) if unit.rows_are_public else ()),
            *(("the public table",) if "public" in request.options else ()),
            *((WITHOUT_BOOK,) if request.charge_to is None else ()),
        ),
        # The day and no more: when a run ends depends on the table.
        created=datetime.now(UTC).date().isoformat(),
        version=__version__,
        dataset=request.charge_to.dataset if request.charge_to else None,
        notes=tuple(filter(None, (*request.notes, request.workload.looked_at, *outcome.notes))),
        accuracy=_accuracy(request.workload, schema, outcome),
    )


def _accuracy(workload: Workload, schema: Schema, outcome: Outcome) -> str:
    """What the run knows of its mean error, where it bought that."""
    known = Evidence(schema.domain, outcome.model, (), (), errors=outcome.errors)
    mean = known.mean_error(0.95)
    if mean is None:
        return ""
    most = MOST if outcome.model.adds_up else math.inf  # other answers need be no distributions
    looked = workload.certified.marginals()
    said = mean.in_words(len(looked), outcome.model.total, most)
    if len(looked) < workload.asked:
        whole = workload.rule or f"its {workload.asked:,} marginals"
        return f"{said} They are a public sample of {whole}."
    if all(isinstance(query, Marginal) for query in workload):
        return said
    return f"{said} A threshold counts here as the marginal that it reads."


def _warn_of_delta(delta: float, rows: int | None) -> None:
    if rows and delta * rows >= 1:
        warnings.warn(
            f"delta = {delta:g} is not below 1/rows for a table of about {rows:,} rows. Publishing "
            "a few rows at random would satisfy such a guarantee, so it protects nobody in "
            "particular. Take delta well below 1/rows, such as 1e-9.",
            stacklevel=3,
        )
