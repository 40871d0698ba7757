"""`audit`: recompute what a release claims from its own log."""

from __future__ import annotations

from pathlib import Path

from admeasure.auditing.release import ReleaseAudit, audit_release


def audit(release: str | Path) -> ReleaseAudit:
    """Whether the certificate of the release in a folder holds, recomputed from its log alone.

    The result has every check with the problems that were found, and `.holds` where there are
    none. No private table is needed, so whoever gets a release can ask this.

    >>> audit("release").holds  # doctest: +SKIP
    True
    """
    return audit_release(release)
