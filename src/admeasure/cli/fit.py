"""`fit`: run a mechanism and write a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admeasure.cli.eyes import for_eyes_only, show_findings
from admeasure.cli.history import workload_of
from admeasure.cli.options import mechanism_of
from admeasure.errors import DataError, UsageError
from admeasure.limits import Limits, Watch
from admeasure.mechanisms import Mechanism
from admeasure.mechanisms.auto import Auto
from admeasure.release import Release
from admeasure.release.store import partial_folder
from admeasure.request import ChargeTo
from admeasure.terminal.console import banner, confirm, note, say_json, warn
from admeasure.terminal.exits import resumable
from admeasure.verbs.check import look_at
from admeasure.verbs.fit import fit as run_fit


@dataclass(frozen=True)
class FitArguments:
    """What the command line asked for."""

    data: str
    schema: Path
    workload: str
    epsilon: float
    delta: float
    mechanism: str | None
    options: tuple[str, ...]
    out: Path
    public: str | None
    ledger: str | None
    dataset: str | None
    seed: int | None
    resume: bool
    augment: int | None = None
    certify: float | None = None
    max_memory: float | None = None
    max_seconds: float | None = None
    cache_codes: Path | None = None
    look: bool = False
    """Whether values of the table may be looked at and shown, before anything is charged."""


def show(given: FitArguments, known: Sequence[str], *, profile: bool, json: bool) -> None:
    watch = Watch(Limits(megabytes=given.max_memory, seconds=given.max_seconds))
    mechanism = _checked(given, known)
    if given.look:
        _look(given)
    if given.seed is not None and given.ledger is None:  # a book refuses it altogether
        warn("NOT PRIVATE: --seed makes the noise repeatable. For tests and research only.")
    seconds: dict[str, float] | None = None
    if profile:
        from admeasure.cli.profile import profiled

        release, seconds = profiled(lambda: _run(given, mechanism, watch))
    else:
        release = _run(given, mechanism, watch)
    if json:
        say_json(_facts(release, given.out) | ({"profile": seconds} if seconds else {}))
    else:
        _print(release, given)
    if seconds and not json:
        note("")
        note("where the time went, in seconds (a step includes the steps it calls):")
        for what, spent in seconds.items():
            note(f"  {what:<22} {spent:9.3f}")


def _checked(given: FitArguments, known: Sequence[str]) -> Mechanism | Auto:
    if given.data.startswith("-"):
        raise UsageError("DATA comes first, then options.")
    if (given.ledger is None) != (given.dataset is None):
        raise UsageError("--ledger BOOK and --dataset NAME belong together. Give both or neither.")
    return mechanism_of(given.mechanism, given.options, known)


def _look(given: FitArguments) -> None:
    """NOT PRIVATE, as the holder of the table asked: whether the run ends here depends on it."""
    for_eyes_only(json=False)
    findings = look_at(given.data, given.schema)
    show_findings(findings)
    if any(finding.is_likely for finding in findings):
        raise DataError(
            "The schema looks wrong for this table, see above. Nothing is charged. Correct it, or "
            "leave out --show."
        )


def _run(given: FitArguments, mechanism: Mechanism | Auto, watch: Watch) -> Release:
    charge_to = None
    if given.ledger is not None and given.dataset is not None:
        charge_to = ChargeTo(given.ledger, given.dataset)
    with watch.armed():
        workload = workload_of(given.workload, given.schema, given.augment)
    try:
        return run_fit(
            given.data,
            given.schema,
            workload=workload,
            mechanism=mechanism,
            epsilon=given.epsilon,
            delta=given.delta,
            public=given.public,
            out=given.out,
            charge_to=charge_to,
            seed=given.seed,
            resume=given.resume,
            certify=given.certify,
            limits=watch,
            cache=given.cache_codes,
            progress=True,
        )
    except KeyboardInterrupt:
        raise resumable(partial_folder(given.out)) from None


def _facts(release: Release, out: Path) -> dict[str, Any]:
    c = release.certificate
    return {
        "mechanism": c.mechanism,
        "options": c.options,
        "epsilon": c.epsilon,
        "delta": c.delta,
        "neighbours": c.neighbours,
        "rho": c.rho,
        "rho_spent": c.rho_spent,
        "delta_spent": c.delta_spent,
        "private": c.private,
        "stamp": c.stamp,
        **release.facts,
        "rows": release.rows,
        "measurements": len(release.measurements),
        "accuracy": c.accuracy,
        "notes": list(c.notes),
        "release": str(out),
    }


def _print(release: Release, given: FitArguments) -> None:
    c, facts = release.certificate, release.facts
    if c.stamp:
        banner(c.stamp)
    confirm(f"{c.mechanism}: {c.promise}")
    if c.accuracy:
        confirm(c.accuracy)
    confirm(
        f"{facts['rounds']} round(s), {len(release.measurements)} measurement(s), "
        f"{facts['seconds']:.1f} s, {facts['peak_megabytes']:.0f} MB at the most."
    )
    for text in c.notes:
        confirm(text)
    confirm(f"The release is in {given.out}. It may be used without further cost:")
    confirm(f"  admeasure answer {given.out} QUERIES.toml")
    confirm(f"  admeasure sample {given.out} -n ROWS -o FILE.csv")
    confirm(f"  admeasure report {given.out} -o report.html")
