"""`answer`: questions to a release, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admeasure.release import Answer
from admeasure.release.release import Asked
from admeasure.verbs.given import GivenRelease, release_of


def answer(
    release: GivenRelease,
    questions: Asked | Sequence[Asked] | str | Path,
    *,
    confidence: float = 0.95,
) -> Answer | list[Answer]:
    """The answer to a question, or those to several, each with its interval; see
    `Release.answer`."""
    return release_of(release).answer(questions, confidence=confidence)
