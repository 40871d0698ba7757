"""Budget books of format 1, read as the changes that would have made them.

They kept a row for each data set and for each run and altered it in place. Their rows carry no
checksum: what damage did to them before they were turned into format 2 cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from admeasure.privacy.changes import BookConnection, Damage, What
from admeasure.untrusted import rational

RUNNING = "running"


def changes_of(db: BookConnection) -> list[What]:
    """Data sets entered, runs charged and ended in the order of their numbers, data sets closed."""
    try:
        return list(_changes_of(db))
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        raise Damage from None


def drop(db: BookConnection) -> None:
    for name in ("entry", "dataset"):
        db.execute(f"DROP TABLE {name}")


def _changes_of(db: BookConnection) -> Iterator[What]:
    spent: dict[str, Fraction] = {}
    # No index is used: each row is read where it lies.
    datasets = db.execute(
        "SELECT name, epsilon, delta, rho, created, closed FROM dataset NOT INDEXED"
    ).fetchall()
    for name, epsilon, delta, rho, created, _ in sorted(datasets):
        spent[name] = Fraction(0)
        budget = {"epsilon": epsilon, "delta": delta, "rho": str(rational(rho))}
        yield {"change": "dataset", "dataset": name, **budget, "at": created}
    rows = db.execute(
        "SELECT id, dataset, mechanism, release, status, rho, reserved, epsilon, delta, started, "
        "ended FROM entry NOT INDEXED ORDER BY id"
    )
    for number, name, mechanism, release, status, rho, reserved, *rest in rows:
        epsilon, delta, started, ended = rest
        now, first = rational(rho), rational(reserved)
        if not 0 <= now <= first or (status == RUNNING) != (ended is None):
            raise Damage
        spent[name] += first
        yield {
            "change": "reserve",
            "entry": number,
            "dataset": name,
            "mechanism": mechanism,
            "release": release,
            "rho": str(first),
            "epsilon": epsilon,
            "delta": delta,
            "at": started,
            "spent": float(spent[name]),
        }
        if status != RUNNING:
            spent[name] += now - first
            ending = {"status": status, "rho": str(now), "at": ended, "spent": float(spent[name])}
            yield {"change": "end", "entry": number, **ending}
    for name, *_, closed in sorted(datasets):
        if closed is not None:
            yield {"change": "close", "dataset": name, "at": closed}
