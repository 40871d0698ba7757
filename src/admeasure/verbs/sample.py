"""`sample`: synthetic rows of a release, which cost nothing."""

from __future__ import annotations

from typing import Any

from admeasure.schema.frames import Library
from admeasure.verbs.given import GivenRelease, release_of


def sample(
    release: GivenRelease,
    rows: int | None = None,
    *,
    seed: int | None = None,
    search: bool | None = None,
    max_seconds: float | None = None,
    as_: Library | None = None,
) -> Any:
    """Synthetic rows, as many as the table is believed to have where none are asked for; see
    `Release.sample`."""
    return release_of(release).sample(
        rows, seed=seed, search=search, max_seconds=max_seconds, as_=as_
    )
