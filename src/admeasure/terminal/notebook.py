"""Bars in a notebook, by one output that is drawn again: no widgets are needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from markupsafe import escape

PAUSE = 0.2
"""Seconds between two drawings."""


class Bar(Protocol):
    """Hears which part of a step is done, from 0 to 1, and what is to be said beside it."""

    def __call__(self, part: float, said: str = "") -> None: ...


@dataclass
class ShownStep:
    label: str
    part: float = 0.0
    said: str = ""


@dataclass(frozen=True)
class ShownSteps:
    """The steps of a run so far; nothing, once it has ended."""

    steps: tuple[ShownStep, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(f"{s.label}: {100 * s.part:.0f}%" for s in self.steps)

    def _repr_html_(self) -> str:
        return "".join(
            f'<div><progress value="{s.part:.3f}" max="1"></progress> <bdi>{escape(s.label)}</bdi>'
            f"{f' ({escape(s.said)})' if s.said else ''} {100 * s.part:.0f}%</div>"
            for s in self.steps
        )


def in_notebook() -> bool:
    """Whether a kernel runs this, so that outputs can be drawn again."""
    python = sys.modules.get("IPython")
    return python is not None and getattr(python.get_ipython(), "kernel", None) is not None


@contextmanager
def notebook_bars() -> Iterator[Callable[[str], Bar]]:
    """Makes bars; when the work ends they go away."""
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    steps: list[ShownStep] = []
    shown: Any = display(ShownSteps(), display_id=True)
    last = [-PAUSE]

    def make(label: str) -> Bar:
        step = ShownStep(label)
        steps.append(step)

        def tell(part: float, said: str = "") -> None:
            step.part, step.said = min(1.0, part), said
            if time.monotonic() - last[0] >= PAUSE or part >= 1:
                last[0] = time.monotonic()
                shown.update(ShownSteps(tuple(steps)))

        return tell

    try:
        yield make
    finally:
        shown.update(ShownSteps())
