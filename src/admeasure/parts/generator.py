"""What `gem` and `gem-pub` share: checks, defaults from public facts, the run, the plan.

Everything is post-processing of what the curator gives out, but for the two verbs that it charges:
selection and measurement.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from admeasure.domain import Domain, canonical
from admeasure.errors import ResourceError, UsageError
from admeasure.families.network.family import (
    NetworkFamily,
    NetworkModel,
    TrainingOptions,
    WorstFamily,
    averaged,
    start,
)
from admeasure.families.network.generator import Generator, Size
from admeasure.families.products.placement import accelerator
from admeasure.families.products.tensor import Layout, check_query_size
from admeasure.limits import MEGABYTE, physical_megabytes
from admeasure.loop import Budget, Round, adaptive_measurements
from admeasure.measurement import Measurement
from admeasure.parts.course import PREDICATES, Course, Options
from admeasure.parts.relaxed_projection import check_fitted, check_rows
from admeasure.planning import counting, forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, ROUNDS, Division, Task, assumed
from admeasure.planning.mechanism import NOT_AN_OPTION, Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import TrainingProgress
from admeasure.queries import Marginal, Predicate, Query
from admeasure.selectors.holding import MAX_CELLS, HoldingWorst
from admeasure.selectors.improvement import ExpectedImprovement, closure_weights
from admeasure.selectors.top import TopCells
from admeasure.workload import Workload

PART_OF_MEMORY = 0.8
EMA = 0.9
"""β of the average of the weights over the second half of the rounds; the paper leaves it open."""

MOST_PREDICATES = 32
PREDICATES_NOTE = (
    "Predicates were learned by the score-function estimator, whose variance is that of a sample "
    "of about a thousand rows: the model may answer them less closely than their measurements, "
    "and rare ones not at all."
)


@dataclass(frozen=True)
class NetworkMechanism(Options, ABC):
    """What a mechanism that trains a network where the workload is answered worst is made of.

    `predicates`: each is measured once, before the rounds.
    """

    predicates: tuple[Predicate, ...] = field(default=(), repr=False, metadata=NOT_AN_OPTION)

    name: ClassVar[str]
    summary: ClassVar[str]
    informed: ClassVar[bool]
    """Whether the network knows something before the run."""

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "product_rows", "noise", "steps")
        check_rows(self.name, self.product_rows)
        alpha, rate = self.alpha, self.learning_rate
        if alpha is not None and not 0 < alpha < 1:
            raise UsageError(f"{self.name}: alpha must lie between 0 and 1; it is {alpha}.")
        if rate is not None and not 0 < rate < math.inf:
            raise UsageError(f"{self.name}: learning_rate must be positive; it is {rate}.")
        hidden_units(self.name, self.hidden or "1")

    def check_network(self, task: Task) -> None:
        domain, workload = task.domain, task.workload
        check_fitted(self.name, workload)
        check_query_size(workload.queries, domain, self.name)
        check_memory(self.name, self.size(domain), domain)
        cells = self.measure == "cells"
        offered = sum(domain.cells(q.columns) for q in workload.targets) if cells else 0
        if cells and (self.rounds or 1) > offered:
            raise UsageError(
                f"{self.name}: {self.rounds:,} queries are to be measured, but the workload has "
                f"{offered:,}. Lower --rounds."
            )
        self._check_predicates(domain)

    def needs(self, task: Task) -> float:
        """The network in training, and the answers of the marginals among which is chosen."""
        network = self.size(task.domain).megabytes(Layout.of(task.domain).width)
        cells = sum(task.domain.cells(q.columns) for q in task.workload.queries)
        return room.JAX_MEGABYTES + network + room.COUNTS * min(cells, MAX_CELLS) / MEGABYTE

    def start_libraries(self) -> None:
        room.start_jax(self.name)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return self._divided(task, budget, rows)[1]

    def planned(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        domain, workload = task.domain, task.workload
        course, division = self._divided(task, budget, float(rows or ASSUMED_ROWS))
        size, width = self.size(domain), Layout.of(domain).width
        count, said = course.rounds, str(course.rounds)
        if course.annealed:
            left, each = division.total(ROUNDS), course.each
            count = left.ratio(each)
            said = f"{forecast.fewest_rounds(left, each)} to {int(count) + 1}"
        how = self.training()
        cells = sum(domain.cells(q.columns) for q in workload.queries)
        operations = 6 * size.rows * (size.weights(width) + 4 * width**2) * how.steps
        seconds = 5.0 + float(count) * (operations / 4e10 + cells * size.rows / 1e10)
        megabytes = size.megabytes(width) + 480 + 24 * min(cells, 1 << 27) / 2**20
        notes = assumed(rows or course.annealed or self.rounds)
        notes = (*notes, "The time is for two processor cores; a GPU is many times faster.")
        return Plan(division.items, said, None, megabytes, seconds, notes)

    @abstractmethod
    def begun(self, task: Task) -> tuple[Generator | None, Sequence[str]]:
        """A network that knows something already, if there is one, and what a release says of it.
        From public data only."""

    def run(self, task: Task, curator: Curator) -> Outcome:
        pretrained, notes = self.begun(task)
        total, workload = counting.believed(counting.rows(curator)), task.workload
        course, division = self._divided(task, curator.budget, total)
        family, model = self._begin(task, total, pretrained)
        log: list[Measurement] = []
        for queries, charge in ((course.first, ONE_WAY), (self.predicates, PREDICATES)):
            if queries:
                log += curator.measure(queries, division.total(charge))
        if log:
            model = family.update(model, log)
        single = self.measure == "cells"
        family, selector = self._learns(family, workload)
        schedule = course.schedule(division)
        rounds = adaptive_measurements(curator, workload, family, selector, schedule, model, log)
        curve, mean = [], None
        # What is left of the budget when a round's training fails is not spent.
        while model.sound and (done := next(rounds, None)):
            log += done.answers
            model = done.after
            curve.append(_told(curator, len(curve) + 1, done))
            if single and 2 * len(curve) >= course.rounds and model.sound:
                mean = averaged(mean, model.generator, EMA)
        if mean is not None:
            model = model.with_generator(mean)
        model = replace(model, curve=np.reshape(np.asarray(curve, float), (-1, 3)))
        bounded = isinstance(selector, ExpectedImprovement) and curve and model.sound
        selections = selector.evidence(log, model) if bounded else ()
        learned = (PREDICATES_NOTE,) if self.predicates else ()
        notes = (*notes, *learned, *forecast.unmeasured(task), *_incomplete(curator, model))
        return Outcome(model, len(curve), selections, notes)

    def size(self, domain: Domain) -> Size:
        """The network: that of Table 6 (256, 512) for whole marginals and of Table 2 (512, 1024,
        1024) for single queries, smaller for a table of fewer than 128 levels. Single queries have
        up to the paper's 1000 rows; whole marginals up to 300, which learn faster and were as
        good."""
        width = Layout.of(domain).width
        unit = 32
        while unit < min(2 * width, 256):
            unit *= 2
        hidden = (2 * unit, 4 * unit, 4 * unit) if self.measure == "cells" else (unit, 2 * unit)
        if self.hidden is not None:
            hidden = hidden_units(self.name, self.hidden)
        most = 1000 if self.measure == "cells" else 300
        rows = self.product_rows or max(64, min(most, 4 * width))
        return Size(hidden, self.noise, rows)

    def training(self, *, informed: bool = False) -> TrainingOptions:
        """How the network is trained after each round: a number of steps, which ends before the
        noise is learned. An `informed` network is left as it is where it explains what was
        measured."""
        cells = self.measure == "cells"
        steps = self.steps or 100
        careful = cells or informed
        rate = 1e-4 if cells else 3e-4 if informed else 1e-3
        return TrainingOptions(
            learning_rate=self.learning_rate or rate,
            steps=steps,
            patience=min(5 if careful else 25, steps),
            least=0 if careful else steps,
            resample=self.resample == "yes",
        )

    def _check_predicates(self, domain: Domain) -> None:
        if self.predicates and self.measure == "cells":
            raise UsageError(
                f"{self.name}: predicates go with measure = marginals. Leave measure out."
            )
        if len(self.predicates) > MOST_PREDICATES:
            raise UsageError(
                f"{self.name}: at most {MOST_PREDICATES} predicates can be learned; there are "
                f"{len(self.predicates)}. Leave some out."
            )
        for predicate in self.predicates:
            predicate.validate(domain)
            predicate.tried(domain)

    def _divided(self, task: Task, budget: Cost, rows: float) -> tuple[Course, Division]:
        """The course of a run and how its budget is divided."""
        unit = task.unit
        counted, left = counting.divide(unit, budget)
        course = Course.of(self, task, left, rows, informed=self.informed)
        one = unit.max_rows**2 if self.measure == "cells" else unit.marginal_l2_squared
        return course, Division((*counted, *course.divide(task, left, one, self.predicates)))

    def _begin(
        self, task: Task, total: float, pretrained: Generator | None
    ) -> tuple[NetworkFamily, NetworkModel]:
        """The network before anything is measured, and how it learns whole marginals."""
        domain = task.domain
        generator = pretrained or Generator.first(Layout.of(domain), self.size(domain))
        model = start(generator, domain, total, task.zeros, accelerator())
        if pretrained is None:
            return NetworkFamily(self.training()), model
        known = generator.known(model.layout)
        if len(known) == len(domain.columns):
            return NetworkFamily(self.training(informed=True)), model
        return NetworkFamily(self.training(), _believed(model, known)), model

    def _learns(self, family: NetworkFamily, workload: Workload) -> tuple[Any, Any]:
        """How what is asked is learned, and how it is chosen."""
        if self.measure == "cells":
            return WorstFamily(family.how), _OfProducts(TopCells(1))
        weights = closure_weights(workload)
        if self.candidates == "workload":
            weights = dict.fromkeys(workload.marginals(), 1.0)
        if self.select == "distance":
            return family, ExpectedImprovement(family, weights)
        # A network that is left as it is where it explains a measurement may need another there.
        return family, HoldingWorst(tuple(weights), again=family.how.least == 0)


def hidden_units(name: str, text: str) -> tuple[int, ...]:
    """The hidden layers of `256,512`."""
    try:
        units = tuple(int(part) for part in text.split(","))
    except ValueError:
        units = ()
    if not units or min(units) < 1:
        raise UsageError(f"{name}: hidden is a list of layer sizes such as 256,512; it is {text}.")
    return units


def check_memory(name: str, size: Size, domain: Domain) -> None:
    needed, there = size.megabytes(Layout.of(domain).width), physical_megabytes()
    if needed > PART_OF_MEMORY * there:
        raise ResourceError(
            f"{name}: a network of hidden layers {', '.join(map(str, size.hidden))} with "
            f"{size.rows:,} product rows takes about {needed:,.0f} MB to train, and the machine "
            f"has {there:,.0f} MB. Lower --hidden or --product-rows."
        )


def _believed(model: NetworkModel, known: Sequence[str]) -> tuple[Measurement, ...]:
    """What a network knows of some columns alone: their pairs."""
    pairs = [canonical(pair) for pair in combinations(known, 2)]
    tables = model.marginals(pairs)
    return tuple(Measurement(Marginal(c), t, 1.0) for c, t in zip(pairs, tables, strict=True))


@dataclass(frozen=True)
class _OfProducts:
    """A selector that streams the answers of product rows, on those of a network."""

    selector: TopCells

    def select(
        self, curator: Curator, workload: Workload, model: NetworkModel, budget: Budget
    ) -> Sequence[Query]:
        return self.selector.select(curator, workload, model.products, budget)


def _told(curator: Curator, number: int, done: Round[NetworkModel]) -> tuple[float, float, float]:
    """A line of the training curve, shown as it is made.

    How far the model was from the new noisy answers, in shares of the rows: the largest difference
    and the sum of all; and the loss at which training then ended. All are privatised: the answers
    are noisy already.
    """
    n, gaps = done.before.total, []
    for m in done.answers:
        (table,) = done.before.marginals([m.query.columns])
        gaps.append(np.abs(m.query.answer(table) - m.values).ravel() / n)
    apart = np.concatenate(gaps)
    line = float(apart.max()), float(apart.sum()), done.after.loss
    curator.journal.show(TrainingProgress(number, line[0], done.after.loss))
    return line


def _incomplete(curator: Curator, model: NetworkModel) -> tuple[str, ...]:
    if model.sound:
        return ()
    part = float((curator.budget - curator.remaining).ratio(curator.budget))
    return (
        "INCOMPLETE: training produced a number that is not finite and was stopped. The model is "
        f"the last one that was sound; {100 * part:.0f}% of the budget was spent and charged, the "
        "rest was not. A smaller --learning-rate may help.",
    )
