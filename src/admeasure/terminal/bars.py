"""How far a step has come: bars on a terminal and in a notebook, lines elsewhere, or nothing.

What is shown are parts of work done and privatised results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from admeasure.terminal.console import clean, log, note, voice
from admeasure.terminal.notebook import Bar, in_notebook, notebook_bars


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
