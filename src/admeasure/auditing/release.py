"""The claims of a release, recomputed from its own log, in exact arithmetic.

What this shows: the files are those that were written, the certificate says what the log says, the
log's noise scales are worth the log's costs under the schema's privacy unit, and these add up to no
more than (epsilon, delta) allows. What it cannot show: that the log tells the truth, and that the
sensitivity of a selection's score is the declared one; the tests of this package are for that.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from admeasure.auditing.thresholds import is_worth
from admeasure.certificate import lines
from admeasure.errors import ReleaseError
from admeasure.privacy.convert import delta_of
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.found_levels import FoundLevels
from admeasure.privacy.journal import Event
from admeasure.privacy.ledger import Charge
from admeasure.privacy.workload_errors import WorkloadErrors
from admeasure.queries import from_record, to_record
from admeasure.release import Release, store

HASHED = (*store.FILES, "certificate.yaml")


@dataclass(frozen=True)
class Check:
    """One claim; `problems` is empty where it holds."""

    name: str
    problems: tuple[str, ...]


NOTHING = Zcdp(Fraction(0))


@dataclass(frozen=True)
class ReleaseAudit:
    """All checks of one release. `lost_draws` were announced and never recorded: a crash."""

    checks: tuple[Check, ...]
    stamp: str = ""
    promise: str = ""
    spent: Zcdp = NOTHING
    measurements: int = 0
    choices: int = 0
    lost_draws: int = 0

    @property
    def holds(self) -> bool:
        return not any(check.problems for check in self.checks)


def audit_release(path: str | Path) -> ReleaseAudit:
    """Check everything that can be checked; a folder that is no release is a `ReleaseError`."""
    folder = Path(path)
    if not (folder / "release.json").is_file():
        store.read_folder(folder)  # says what is missing
    hashes = Check("the files have the hashes that release.json states", tuple(_hashes(folder)))
    try:
        release = Release.load(folder)
    except ReleaseError as error:
        return ReleaseAudit((hashes, Check("the release can be read", (str(error),))))
    checks = [hashes]
    for name, check in _CHECKS.items():
        try:
            checks.append(Check(name, tuple(check(release))))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            problem = f"the log cannot be understood ({type(error).__name__})"
            checks.append(Check(name, (problem,)))
    results = _results(release)
    choices = sum("chosen" in event for event in results)
    return ReleaseAudit(
        checks=tuple(checks),
        stamp=release.certificate.stamp,
        promise=release.certificate.promise,
        spent=_spent(release),
        measurements=len(results) - choices,
        choices=choices,
        lost_draws=len(release.log) - 2 * len(results),
    )


def _results(release: Release) -> list[Event]:
    return [event for event in release.log if event["event"] != "intent"]


def _spent(release: Release) -> Zcdp:
    try:
        return _sum(release)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return NOTHING


def _sum(release: Release) -> Zcdp:
    return sum(map(Zcdp.from_record, _results(release)), NOTHING)


def _hashes(folder: Path) -> Iterator[str]:
    stated = store.read_head(folder)["sha256"]
    for name in HASHED:
        try:
            content = store.read_plain(folder / name)
        except ReleaseError as error:
            yield str(error)
            continue
        if stated.get(name) != hashlib.sha256(content).hexdigest():
            yield f"{name} does not have the stated hash"


def _intents(release: Release) -> Iterator[str]:
    """A result without its own intent was drawn without being announced."""
    open_intents: Counter[str] = Counter()
    for i, event in enumerate(release.log):
        if event["event"] == "intent":
            open_intents[_asked(event, event["of"])] += 1
            continue
        asked = _asked(event, event["event"])
        if not open_intents[asked]:
            yield f"event {i} of the log has no intent"
        open_intents[asked] -= 1


_RESULTS = ("event", "of", "sha256", "chosen", "found")


def _asked(event: Event, kind: str) -> str:
    return repr((kind, sorted((k, repr(v)) for k, v in event.items() if k not in _RESULTS)))


def _noise(release: Release) -> Iterator[str]:
    """l2_squared / (2 sigma^2) <= rho, and l2_squared is what the schema's unit implies."""
    domain, unit = release.schema.domain, release.schema.unit
    for i, event in enumerate(release.log):
        if event["event"] not in ("measure", "statistic", "find"):
            continue
        stated = event["l2_squared"]
        true = stated
        if event["event"] == "measure":
            true = from_record(event["query"]).sensitivity(domain, unit).l2_squared
        if event["event"] == "find":
            true = unit.rows_changed
        sigma, rho = Fraction(event["sigma"]), Fraction(event["rho"])
        if stated != true:
            yield f"event {i}: the squared sensitivity is {true}, not {stated}"
        if true < 1 or sigma <= 0 or true > 2 * sigma**2 * rho:
            yield f"event {i}: sigma {event['sigma']:.6g} costs more than its rho"


def _found(release: Release) -> Iterator[str]:
    """Thresholds are worth their share of delta, and what was found is what the schema has."""
    for i, event in enumerate(release.log):
        if event["event"] != "find":
            continue
        if not is_worth(event):
            yield f"event {i}: the threshold {event['threshold']} costs more than its delta"
        levels = [c.listed for c in release.schema.columns if c.name == event["column"]]
        if [list(listed or ()) for listed in levels] != [sorted(event["found"])]:
            yield f"event {i}: the schema has other levels than were found"


def _choices(release: Release) -> Iterator[str]:
    """k choices cost no more than rho: epsilon^2 / 8 each, or epsilon^2 / 2 by coins."""
    for i, event in enumerate(release.log):
        if event["event"] not in ("choose", "flip"):
            continue
        k, epsilon = event.get("k", 1), Fraction(event["epsilon"])
        worth = (8 if event["event"] == "choose" else 2) * Fraction(event["rho"])
        if not (isinstance(k, int) and k >= 1 and len(event["chosen"]) == k):
            yield f"event {i}: the number of choices is not the stated one"
        elif epsilon < 0 or epsilon**2 * k > worth:
            yield f"event {i}: epsilon {event['epsilon']:.6g} costs more than its rho"
        if not (isinstance(event["sensitivity"], int) and event["sensitivity"] > 0):
            yield f"event {i}: the score has no sensitivity"


def _spends(release: Release) -> Iterator[str]:
    """The log's costs are the certificate's, item by item and together."""
    certificate = release.certificate
    spent, costs = _sum(release), list(map(Zcdp.from_record, _results(release)))
    if any(cost <= NOTHING or not cost >= NOTHING for cost in costs):
        yield "a cost in the log is not positive"
    if float(spent.rho) != certificate.rho_spent:
        yield f"the log adds up to {spent}, the certificate to rho {certificate.rho_spent!r}"
    if float(spent.delta_share) != certificate.delta_spent:
        yield f"the log adds up to {spent}, the certificate to delta {certificate.delta_spent!r}"
    if spent.rho > Fraction(certificate.rho):
        yield f"the log adds up to {spent}, over the budget of rho {certificate.rho!r}"
    if lines(tuple(map(_charge, _results(release)))) != certificate.charges:
        yield "the certificate's list of charges is not that of the log"


def _charge(event: Event) -> Charge:
    """The charge in the words of the curator."""
    match event["event"]:
        case "measure":
            what = f"measurement of {from_record(event['query'])}"
        case "statistic":
            what = event["what"]
        case "find":
            what = str(FoundLevels(event["column"]))
        case "choose":
            what = f"choice of {event['k']} among {event['candidates']} candidates"
        case "flip":
            what = f"choice of 1 among {event['candidates']} candidates, by coins"
        case other:
            raise ValueError(f"an unknown event {other}")
    return Charge(what, Zcdp.from_record(event))


def _conversion(release: Release) -> Iterator[str]:
    """rho gives (epsilon, delta), and what was spent gives what the certificate says."""
    c = release.certificate
    spent = _sum(release)
    if Fraction(delta_of(Fraction(c.rho), c.epsilon)) + spent.delta_share > Fraction(c.delta):
        yield f"rho {c.rho!r} does not give epsilon {c.epsilon:g} at delta {c.delta:g}"
    if spent.epsilon(c.delta) != c.epsilon_spent:
        yield f"what was spent does not mean epsilon {c.epsilon_spent!r}"


def _measurements(release: Release) -> Iterator[str]:
    """Every measurement of the log is in the release, unchanged, and no other."""
    logged = [event for event in release.log if event["event"] == "measure"]
    if len(logged) != len(release.measurements):
        yield f"{len(logged)} measurements in the log, {len(release.measurements)} in the release"
    for i, (event, m) in enumerate(zip(logged, release.measurements, strict=False)):
        digest = hashlib.sha256(m.values.tobytes()).hexdigest()
        if (to_record(m.query), m.sigma, digest) != tuple(
            event[key] for key in ("query", "sigma", "sha256")
        ):
            yield f"measurement {i} is not the one in the log"


def _errors(release: Release) -> Iterator[str]:
    """The errors that the release states are one result of the log, of the right sensitivity."""
    if release.errors is None:
        return
    workload = release.workload.of_errors(len(release.errors.marginals))
    stated = WorkloadErrors(release.model, workload, release.schema.domain)
    expected = (
        str(stated),
        release.errors.sigma,
        stated.l2_squared(release.schema.unit),
        hashlib.sha256(release.errors.values.tobytes()).hexdigest(),
    )
    logged = [
        tuple(event[key] for key in ("what", "sigma", "l2_squared", "sha256"))
        for event in release.log
        if event["event"] == "statistic"
    ]
    if logged.count(expected) != 1:
        yield "the errors of the model are not those in the log"


def _unit(release: Release) -> Iterator[str]:
    c, unit = release.certificate, release.schema.unit
    if (c.neighbours, c.max_rows_per_unit, c.unit) != (
        unit.neighbours.value,
        unit.max_rows,
        unit.name,
    ):
        yield "the certificate names another privacy unit than the schema"


_CHECKS: dict[str, Callable[[Release], Iterator[str]]] = {
    "every result was announced before it was drawn": _intents,
    "every noise scale is worth its rho": _noise,
    "every choice is worth its rho": _choices,
    "levels that were found are worth their delta": _found,
    "the spends add up to the certificate": _spends,
    "rho and (epsilon, delta) agree": _conversion,
    "the measurements are those of the log": _measurements,
    "the errors that it states of itself are those of the log": _errors,
    "the certificate and the schema protect the same unit": _unit,
}


def record(audit: ReleaseAudit) -> dict[str, Any]:
    """The audit for machines."""
    return {
        "ok": audit.holds,
        "stamp": audit.stamp,
        "promise": audit.promise,
        "rho_spent": float(audit.spent.rho),
        "measurements": audit.measurements,
        "choices": audit.choices,
        "lost_draws": audit.lost_draws,
        "checks": [
            {"name": c.name, "ok": not c.problems, "problems": list(c.problems)}
            for c in audit.checks
        ],
    }
