"""`fit`: run a mechanism and write a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admeasure.cli import arguments
from admeasure.cli.arguments import charge_to, flag, mechanism_of, option
from admeasure.errors import DataError, UsageError
from admeasure.limits import Limits, Watch
from admeasure.terminal.console import banner, confirm, note, say_json, warn
from admeasure.terminal.exits import resumable

if TYPE_CHECKING:
    from admeasure.certificate import Certificate
    from admeasure.release import Release
    from admeasure.workload import Workload


def fit(
    context: typer.Context,
    data: arguments.Data,
    schema: arguments.SchemaPath,
    workload: arguments.WorkloadText,
    epsilon: arguments.Epsilon,
    out: Annotated[Path, option("DIR", "The release's folder.", "--out", "-o")],
    mechanism: arguments.MechanismName = None,
    delta: arguments.Delta = 1e-9,
    public: arguments.Public = None,
    ledger: arguments.LedgerBook = None,
    dataset: arguments.LedgerDataset = None,
    seed: arguments.Seed = None,
    certify: arguments.Certify = None,
    augment: Annotated[
        int | None, option("N", "Add N random queries to a workload that is a history.")
    ] = None,
    max_memory: arguments.MaxMemory = None,
    max_seconds: arguments.MaxSeconds = None,
    cache_codes: arguments.CacheCodes = None,
    *,
    show_values: arguments.Show = False,
    resume: arguments.Resume = False,
    profile: Annotated[bool, flag("--profile", "Show where the time went.")] = False,
    json: arguments.Json = False,
) -> None:
    """Run a mechanism on a private table and write a release.

    Options of the mechanism are given in the same way, after DATA: --rounds 20 --measure cells.
    """
    from admeasure.release.store import partial_folder
    from admeasure.verbs.fit import fit as run_fit

    watch = Watch(Limits(megabytes=max_memory, seconds=max_seconds))
    if data.startswith("-"):
        raise UsageError("DATA comes first, then options.")
    book = charge_to(ledger, dataset)
    chosen = mechanism_of(mechanism, context)
    if show_values:
        _look(data, schema)
    if seed is not None and ledger is None:  # a book refuses it altogether
        warn("NOT PRIVATE: --seed makes the noise repeatable. For tests and research only.")

    def run() -> Release:
        with watch.armed():
            questions = workload if augment is None else _augmented(workload, schema, augment)
        try:
            return run_fit(
                data,
                schema,
                workload=questions,
                mechanism=chosen,
                epsilon=epsilon,
                delta=delta,
                public=public,
                out=out,
                charge_to=book,
                seed=seed,
                resume=resume,
                certify=certify,
                limits=watch,
                cache=cache_codes,
                progress=True,
            )
        except KeyboardInterrupt:
            raise resumable(partial_folder(out)) from None

    if profile:
        from admeasure.cli.profile import profiled

        release, seconds = profiled(run)
    else:
        release, seconds = run(), {}
    if json:
        say_json(_facts(release, out) | ({"profile": seconds} if seconds else {}))
        return
    _print(release, out)
    if seconds:
        note("")
        note("where the time went, in seconds (a step includes the steps it calls):")
        for what, spent in seconds.items():
            note(f"  {what:<22} {spent:9.3f}")


def _augmented(text: str, schema_path: Path, count: int) -> Workload:
    """The workload with `count` random queries added, drawn with a fixed seed: it is public, and a
    run can be resumed."""
    from admeasure.schema import Schema
    from admeasure.workload import parse_workload
    from admeasure.workload.history import augmented

    if count < 1:
        raise UsageError(f"--augment must be at least 1; it is {count}.")
    domain = Schema.load(schema_path).domain
    return augmented(parse_workload(text, domain), count, domain, seed=0)


def _look(data: str, schema: Path) -> None:
    """NOT PRIVATE, as the holder of the table asked: whether the run ends here depends on it."""
    from admeasure.cli.eyes import for_eyes_only, show_findings
    from admeasure.verbs.check import look_at

    for_eyes_only(json=False)
    findings = look_at(data, schema)
    show_findings(findings)
    if any(finding.is_likely for finding in findings):
        raise DataError(
            "The schema looks wrong for this table, see above. Nothing is charged. Correct it, or "
            "leave out --show."
        )


def _facts(release: Release, out: Path) -> dict[str, Any]:
    c = release.certificate
    return {
        **stated(c),
        **{name: getattr(c, name) for name in ("options", "neighbours", "delta_spent")},
        **release.facts,
        "rows": release.rows,
        "measurements": len(release.measurements),
        "notes": list(c.notes),
        "release": str(out),
    }


def stated(certificate: Certificate) -> dict[str, Any]:
    """What `--json` says of every run."""
    names = ("mechanism", "epsilon", "delta", "rho", "rho_spent", "private", "stamp", "accuracy")
    return {name: getattr(certificate, name) for name in names}


def say_promise(certificate: Certificate) -> None:
    """What is printed of every run first."""
    banner(certificate.stamp)
    confirm(f"{certificate.mechanism}: {certificate.promise}")
    if certificate.accuracy:
        confirm(certificate.accuracy)


def _print(release: Release, out: Path) -> None:
    c, facts = release.certificate, release.facts
    say_promise(c)
    confirm(
        f"{facts['rounds']} round(s), {len(release.measurements)} measurement(s), "
        f"{facts['seconds']:.1f} s, {facts['peak_megabytes']:.0f} MB at the most."
    )
    for text in c.notes:
        confirm(text)
    confirm(f"The release is in {out}. It may be used without further cost:")
    confirm(f"  admeasure answer {out} QUERIES.toml")
    confirm(f"  admeasure sample {out} -n ROWS -o FILE.csv")
    confirm(f"  admeasure report {out} -o report.html")
