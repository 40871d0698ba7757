"""`audit`: recompute what a release claims from its own log."""

from __future__ import annotations

from pathlib import Path

from admeasure.auditing.release import ReleaseAudit, audit_release


def audit(release: str | Path) -> ReleaseAudit:
    """Whether the certificate of the release in a folder holds: `.holds`, and each check."""
    return audit_release(Path(release))
