"""Times of the day as whole numbers: minutes since midnight, by a format such as `%H:%M`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from admeasure.schema.forms import Formatted, piece_problems

MINUTES = 24 * 60
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%H:%M:%S.%f")
"""Those that are looked for in public tables and offered by `check --show`."""


STORED_TIMES = "%H:%M:%S"
"""How times are read that are stored as such."""
TIMES_OF_DAY = {"type": "integer", "minimum": 0, "maximum": MINUTES - 1, "bins": 24}
"""What a draft has for them: an hour is a bin."""


class ClockForm(Formatted):
    """Times of the day. Seconds are read and left aside; they are spelled as none.

    >>> form = ClockForm("%I:%M %p")
    >>> form.standard("1:45 pm"), form.standard("13:45 pm"), form.spelled(825)
    ('825', None, '01:45 PM')
    """

    captured: ClassVar[frozenset[str]] = frozenset("HIMp")

    def standard(self, text: str) -> str | None:
        found = self.taken_apart(text)
        if found is None:
            return None
        hours = int(found["H"]) if "H" in found else int(found["I"]) % 12
        afternoon = found.get("p", "a")[0] in "pP"
        return str(60 * (hours + 12 * afternoon) + int(found["M"]))

    def spelled(self, value: int) -> str:
        hour, minute = divmod(int(value), 60)
        spelled = {
            "H": f"{hour:02}",
            "I": f"{(hour - 1) % 12 + 1:02}",
            "M": f"{minute:02}",
            "S": "00",
            "f": "000000",
            "p": "PM" if hour >= 12 else "AM",
        }
        return "".join(spelled[p[1]] if p[0] == "%" else p for p in self.pieces)


def clock_problems(form: str) -> Iterator[str]:
    """What is wrong with a format of times, as ends of the sentence "Column 'x' …"."""
    found = list(piece_problems(form, "HIMSfp"))
    yield from found
    if found:
        return
    asked = {piece[1] for piece in re.findall("%.", form)}
    if "M" not in asked or len(asked & {"H", "I"}) != 1 or ("I" in asked) != ("p" in asked):
        yield (
            "has a format that is no time of the day. Write %H and %M, as in %H:%M, or %I, %M and "
            "%p, as in %I:%M %p; whole numbers that are no times need no format"
        )
