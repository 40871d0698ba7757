"""A mechanism on neighbours D and D' with the same randomness: what moves, and by how much.

After Re:cord-play (Cebere, Erb, Desfontaines, Bellet and Fitzsimons 2026). The recorder sits
beneath the curator. On D it notes each request, each draw and each result. On D' it hands out the
draws of D, forces the selected path of D and gives the mechanism the *released values of D*, after
looking at what D' would have released. So both runs see the same released values all the way, and
whatever else differs between them came from the table past the curator.

The checks, by the name that a fault carries:

    path         the same requests in the same order, with the same costs and scales
    offer        what a block of scores has above a cut are the candidates with such scores
    draw         one draw for each recorded result, of as many numbers as it has, and no other draw
    cost         the noise drawn has the scale asked for, and that scale costs no more than rho
    sensitivity  an exact answer moved by no more than its declared L2 sensitivity
    score        no score moved by more than its declared sensitivity
    range        the scores of one choice, times the step of the exponential mechanism, moved within
                 a range of epsilon: what bounded range, and so epsilon^2/8-zCDP, really needs
    threshold    texts that only one of the tables holds are as few, as rare and as unlikely to be
                 found as their share of delta says; what is found is what passes, and no more
    charge       the ledger fell by exactly what was recorded
    outcome      the same model, notes and selections, bit for bit
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from admeasure.auditing.draws import Draws, Misoffered, drawn
from admeasure.auditing.thresholds import found_by, is_worth, keyed
from admeasure.mechanisms import Mechanism, Outcome
from admeasure.planning.division import Task
from admeasure.privacy.cost import Cost, Number, Zcdp, read_cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import Event, Journal, unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import Noise
from admeasure.schema.found_levels import MOST_FOUND
from admeasure.sources import Source
from admeasure.sparse import TextCounts
from admeasure.workload import Workload


@dataclass(frozen=True)
class Fault:
    """One broken promise."""

    check: str
    what: str


@dataclass(frozen=True, eq=False)
class Move:
    """One result of the first run, and how what lies beneath it moved to the neighbour: the exact
    answers of a measurement (`drawn` is its noise), or the scores of a choice (`drawn` the picks).
    """

    event: Event
    drawn: Any
    scores: np.ndarray | None
    moved: np.ndarray


@dataclass(frozen=True)
class NeighbourComparison:
    """What a pair of runs showed. `moves` are complete where there is no fault in the path."""

    faults: tuple[Fault, ...]
    moves: tuple[Move, ...]

    @property
    def measurements(self) -> int:
        return sum(move.scores is None for move in self.moves)

    @property
    def choices(self) -> int:
        return len(self.moves) - self.measurements

    @property
    def failed(self) -> set[str]:
        """The names of the checks that failed."""
        return {fault.check for fault in self.faults}


def compare(
    mechanism: Mechanism,
    workload: Workload,
    table: Source,
    neighbour: Source,
    budget: Cost | Number,
    noise: Noise,
) -> NeighbourComparison:
    """Run the mechanism on both tables and compare. The tables must be neighbours by their schema;
    `noise` draws for both."""
    first = _Recording(noise)
    try:
        outcome, spent = _run(mechanism, workload, table, budget, first, first.journal)
    except Misoffered as error:
        return NeighbourComparison((Fault("offer", str(error)),), ())
    faults = _own_faults(first, spent)
    second = _Replay(first)
    try:
        other, again = _run(mechanism, workload, neighbour, budget, second, second.journal)
        faults += second.faults
        if second.place != len(first.calls) or len(second.journal.moves) != len(first.results):
            faults.append(Fault("path", "the neighbour's run ended early"))
        if again != spent:
            faults.append(Fault("charge", "the two runs spent differently"))
        if _fingerprint(outcome) != _fingerprint(other):
            faults.append(Fault("outcome", "the outcome knows more than what was released"))
    except _Diverged:
        faults += second.faults
    except Misoffered as error:
        faults += [*second.faults, Fault("offer", str(error))]
    except Exception as error:
        faults += [*second.faults, Fault("path", f"{type(error).__name__} on the neighbour only")]
    return NeighbourComparison(tuple(faults), tuple(second.journal.moves))


class _Diverged(Exception):
    """The neighbour's run asked for something else; there is nothing left to replay."""


@dataclass(frozen=True, eq=False)
class _Call:
    """One draw: with what arguments, on which scores (or counts of texts), with what result."""

    kind: str
    scale: float | Fraction
    count: int
    scores: np.ndarray | None
    drawn: Any
    texts: dict[str, int] = field(default_factory=dict)


class _Recording(Draws):
    """The first run: draws for real and notes everything."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.calls: list[_Call] = []
        self.journal = _Counting(self.calls)

    @property
    def results(self) -> list[Event]:
        return [event for event in self.journal.events if event["event"] != "intent"]

    def draw(
        self, kind: str, scale: float | Fraction, count: int, scores: np.ndarray | None
    ) -> Any:
        result = drawn(self._noise, kind, scale, count, scores)
        self.calls.append(_Call(kind, scale, count, scores, result))
        return result

    def passing(
        self, blocks: Iterable[TextCounts], sigma: float, least: int, most: int
    ) -> list[str]:
        held = keyed(blocks)
        noise = self._noise.discrete_gaussian(sigma, len(held)).tolist()
        drawn = dict(zip(held, noise, strict=True))
        self.calls.append(_Call("passing", sigma, least, None, drawn, held))
        return found_by(held, drawn, least, most)


class _Counting(Journal):
    """A journal that knows how many draws had been made when a result was recorded."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        super().__init__()
        self._calls = calls
        self.drawn: list[int] = []

    def record(self, asked: Event, result: Event) -> Event:
        self.drawn.append(len(self._calls))
        return super().record(asked, result)


class _Replay(Draws):
    """The second run: the same draws, the same picks, and a look at how the scores moved."""

    def __init__(self, first: _Recording) -> None:
        self._calls = first.calls
        self.place = 0
        self.faults: list[Fault] = []
        self.last: tuple[_Call, np.ndarray | None] | None = None
        """The last draw of the first run, and how its scores moved."""
        self.journal = _Following(self, first.results)

    def draw(
        self, kind: str, scale: float | Fraction, count: int, scores: np.ndarray | None
    ) -> Any:
        call = self._next(kind, scale, count, 0 if scores is None else len(scores))
        moved = None
        if scores is not None and call.scores is not None:
            moved = scores.astype(object) - call.scores.astype(object)
        self.last = call, moved
        return call.drawn

    def passing(
        self, blocks: Iterable[TextCounts], sigma: float, least: int, most: int
    ) -> list[str]:
        """Texts that both tables hold have the noise of the first run, and others are not found:
        what may go wrong with them is looked at in `_Following`."""
        call, held = self._next("passing", sigma, least, 0), keyed(blocks)
        self.last = replace(call, texts=held), None
        return found_by({t: n for t, n in held.items() if t in call.drawn}, call.drawn, least, most)

    def _next(self, kind: str, scale: float | Fraction, count: int, size: int) -> _Call:
        """The draw of the first run that is asked for again."""
        if self.place >= len(self._calls):
            raise self.diverged(f"one draw more: {kind}")
        call = self._calls[self.place]
        own = 0 if call.scores is None else len(call.scores)
        if (call.kind, call.scale, call.count, own) != (kind, scale, count, size):
            raise self.diverged(f"another draw: {kind} for {call.kind}, or of another size")
        self.place += 1
        return call

    def before(self) -> _Call:
        """The draw of the first run that the last one is compared with."""
        return self._calls[self.place - 1]

    def diverged(self, what: str) -> _Diverged:
        self.faults.append(Fault("path", what))
        return _Diverged()


class _Following(Journal):
    """Compares each result with that of the first run, and hands out the first run's."""

    def __init__(self, replay: _Replay, results: list[Event]) -> None:
        super().__init__()
        self._replay = replay
        self._first = results
        self.moves: list[Move] = []

    def record(self, asked: Event, result: Event) -> Event:
        place = len(self.moves)
        if place >= len(self._first):
            raise self._replay.diverged(f"one {asked['event']} more")
        found = self._first[place]
        if any(found.get(key) != value for key, value in asked.items()):
            raise self._replay.diverged(f"another {asked['event']}")
        if self._replay.last is None:
            raise self._replay.diverged("a result without a draw")
        call, moved = self._replay.last
        if "values" in result:
            moved = self._measured(asked, unpack(result["values"]), unpack(found["values"]))
        elif "found" in result:
            moved = self._found(asked, found, call)
        elif moved is not None:
            self._chosen(asked, result, found, moved, Fraction(call.scale))
        else:
            raise self._replay.diverged("a choice without scores")
        self.moves.append(Move(found, call.drawn, call.scores, moved))
        return super().record(asked, {key: found[key] for key in found if key not in asked})

    def _measured(self, asked: Event, values: np.ndarray, before: np.ndarray) -> np.ndarray:
        if values.shape != before.shape:
            raise self._replay.diverged("an answer of another shape")
        moved = values - before  # the noise is the same, so this is the move of the exact answer
        squared = sum(int(d) ** 2 for d in moved.ravel())
        if squared > asked["l2_squared"]:
            self._fault("sensitivity", f"squared L2 distance {squared} > {asked['l2_squared']}")
        return moved

    def _chosen(
        self, asked: Event, result: Event, found: Event, moved: np.ndarray, step: Fraction
    ) -> None:
        if result["chosen"] != found["chosen"]:
            raise self._replay.diverged("the same positions stand for other queries")
        furthest = max(map(abs, moved))
        if furthest > asked["sensitivity"]:
            self._fault("score", f"moved by {furthest} > {asked['sensitivity']}")
        spread = step * (max(moved) - min(moved))
        if spread > Fraction(asked["epsilon"]):
            self._fault("range", f"the log-odds spread by {float(spread):.4g} > epsilon")

    def _found(self, asked: Event, found: Event, call: _Call) -> np.ndarray:
        """The counts of texts that both tables hold moved within the sensitivity; of those that one
        alone holds there are few, each held by one unit, and none was found."""
        here, there = self._replay.before().texts, call.texts
        common = sorted(here.keys() & there.keys())
        moved = np.array([there[text] - here[text] for text in common], np.int64)
        squared = int((moved**2).sum())
        if squared > asked["l2_squared"]:
            self._fault("sensitivity", f"squared L2 distance {squared} > {asked['l2_squared']}")
        alone = {**here, **there}.keys() - set(common)
        if len(alone) > asked["l2_squared"]:
            self._fault("threshold", "more texts are held by one table alone than may differ")
        if any({**here, **there}[text] > 1 for text in alone):
            self._fault("threshold", "a text of one table alone is held by more than one unit")
        if found["found"] != found_by(here, call.drawn, asked["threshold"], MOST_FOUND):
            self._fault("threshold", "what is found is not what passes, in alphabetical order")
        if alone & set(found["found"]):
            self._fault("threshold", "a text was found that one table alone holds")
        return moved

    def _fault(self, check: str, what: str) -> None:
        self._replay.faults.append(Fault(check, what))


def _run(
    mechanism: Mechanism,
    workload: Workload,
    source: Source,
    budget: Cost | Number,
    noise: Noise,
    journal: Journal,
) -> tuple[Outcome, Cost]:
    ledger = Ledger(budget)
    task = Task.of(source.schema, workload)
    outcome = mechanism.run(task, Curator(source, ledger, noise, journal))
    return outcome, ledger.spent


def _own_faults(first: _Recording, spent: Cost) -> list[Fault]:
    """What is wrong already without a neighbour."""
    faults = []
    if first.journal.drawn != list(range(1, len(first.calls) + 1)):
        faults.append(Fault("draw", "noise was drawn that no recorded result accounts for"))
    for event, place in zip(first.results, first.journal.drawn, strict=True):
        if place > len(first.calls) or not place or not _paid(event, first.calls[place - 1]):
            faults.append(Fault("cost", f"{event['event']} is less noisy than its rho says"))
        elif "values" in event and first.calls[place - 1].count != unpack(event["values"]).size:
            faults.append(Fault("draw", f"{event['event']} has numbers without noise of their own"))
    recorded = sum(map(read_cost, first.results), Zcdp(Fraction(0)))
    if recorded != spent:
        faults.append(Fault("charge", "the ledger fell by something else than was recorded"))
    return faults


def _paid(event: Event, call: _Call) -> bool:
    """Whether the draw has the scale that the event declares, and that is worth its cost."""
    rho = Fraction(event["rho"])
    if "threshold" in event:
        return is_worth(event) and (call.scale, call.count) == (event["sigma"], event["threshold"])
    if "l2_squared" in event:
        sigma = Fraction(event["sigma"])
        right = call.kind == "discrete_gaussian" and call.scale == event["sigma"]
        return right and event["l2_squared"] <= 2 * sigma**2 * rho
    epsilon, k = Fraction(event["epsilon"]), event.get("k", 1)
    right = call.scale * 2 * event["sensitivity"] <= epsilon and call.count == k
    # Bounded range costs epsilon^2 / 8, pure differential privacy alone epsilon^2 / 2.
    return right and epsilon**2 * k <= (8 if call.kind == "top" else 2) * rho


def _fingerprint(outcome: Outcome) -> tuple[Any, ...]:
    arrays = {k: np.asarray(v) for k, v in outcome.model.arrays().items()}
    return (
        [(k, a.dtype.str, a.shape, a.tobytes()) for k, a in sorted(arrays.items())],
        outcome.rounds,
        [repr(selection) for selection in outcome.selections],
        outcome.notes,
    )
