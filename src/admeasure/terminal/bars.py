"""How far a step has come: bars on a terminal and in a notebook, lines elsewhere, or nothing.

What is shown are parts of work done and privatised results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from markupsafe import escape

from admeasure.terminal.console import clean, log, note, voice

PAUSE = 0.2
"""Seconds between two drawings in a notebook."""


class Bar(Protocol):
    """Hears which part of a step is done, from 0 to 1, and what is to be said beside it."""

    def __call__(self, part: float, said: str = "") -> None: ...


@contextmanager
def progress(*, shown: bool | None = True) -> Iterator[Callable[[str], Bar]]:
    """Makes bars where they can be drawn. Elsewhere lines, at the start of a step and at each
    quarter; nothing there where `shown` is None, and nothing anywhere where it is false."""
    if shown is False or not _can_draw():
        yield _lines if shown else _nothing
        return
    if in_notebook():
        with notebook_bars() as make_bar:
            yield make_bar
        return
    # Imported here: it costs more than the rest of the command line together.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:

        def make(label: str) -> Bar:
            name = clean(label).replace("[", r"\[")
            task = drawn.add_task(name, total=None)

            def tell(part: float, said: str = "") -> None:
                text = f"{name} ({said})" if said else name
                drawn.update(task, total=1.0, completed=min(1.0, part), description=text)

            return tell

        yield make


def is_shown(shown: bool | None) -> bool:  # noqa: FBT001 (it is the only one)
    """Whether `progress` would show anything."""
    return shown is True or (shown is None and _can_draw())


def first_used(make: Callable[[str], Bar], label: str) -> Bar:
    """A bar that appears when its step begins."""
    made: list[Bar] = []

    def tell(part: float, said: str = "") -> None:
        if not made:
            made.append(make(label))
        made[0](part, said)

    return tell


def _can_draw() -> bool:
    """On a terminal or in a notebook, for people who did not ask for quiet."""
    if voice().quiet or voice().in_json:
        return False
    return sys.stderr.isatty() or in_notebook()


def _nothing(label: str) -> Bar:
    return lambda part, said="": None


def _lines(label: str) -> Bar:
    _say(label, 0, f"{label} …")
    told = 0

    def tell(part: float, said: str = "") -> None:
        nonlocal told
        quarter = int(4 * min(1.0, part))
        if told < quarter < 4:
            _say(label, quarter, f"{label}: {25 * quarter}%" + (f" ({said})" if said else ""))
        told = max(told, quarter)

    return tell


def _say(label: str, quarter: int, text: str) -> None:
    if voice().in_json:
        log("phase", phase=clean(label), part=quarter / 4)
    else:
        note(text)


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
    """Makes bars by one output that is drawn again: no widgets are needed. When the work ends they
    go away."""
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
