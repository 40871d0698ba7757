"""Files spoilt at random, for every loader of loaders.py.

Run as a program, with the name of a loader, how many inputs, a seed and a scratch folder: it spoils
a sound file, loads it, and counts how that ended. A load is sound or an error of ours in plain
words; anything else is printed with the input that did it, and so is an input that takes more than
a minute or more memory than the process may have. Nothing here is random beyond the seed.
"""

from __future__ import annotations

import json
import random
import re
import resource
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from loaders import BROKEN, LOADERS, Loader

from admeasure.errors import AdmeasureError

# Spoiling. Half of the inputs stay well-formed: one number, text or word is another.

_TOKEN = re.compile(
    rb'"[^"\n]*"|\d{4}-\d\d-\d\d|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[A-Za-z_-]{2,}'
)
_VALUES: tuple[bytes, ...] = (
    *(b"0", b"-1", b"1", b"2", b"0.5", b"-0.0", b"1e308", b"1e-320", b"1e999", b"-1e999", b"nan"),
    *(b"inf", b"NaN", b"Infinity", b"9223372036854775807", b"9223372036854775808", b"1e15"),
    *(b"9" * 39, b"9" * 41, b"9" * 5_000, b"0x" + b"f" * 400, b"1e400", b"18446744073709551616"),
    *(b'"1e999999999"', b'"1/0"', b'"-1/3"', b'"9/1"', b'""', b'"\\u0000"', b'"\\ud800"', b'"a"'),
    *(b'"\xf0\x9f\x98\x80"', b'"\xc2\x85"', b'"' + b"x" * 3_000 + b'"', b'"a\\nb"', b"''"),
    *(b"true", b"false", b"null", b"[]", b"{}", b"[[]]", b"[{}]", b"[1, 2]", b'["a", "a"]'),
    *(b'{"a": 1}', b"{a = 1}", b"{from = 1}", b'{level = "missing"}', b"2024-02-30", b"0001-01-01"),
    *(b"9999-12-31", b"07:32:00", b"1979-05-27T07:32:00Z", b'"private"', b'"TODO"', b'"other"'),
    *(b'"age"', b'"work"', b'"born"', b'"sick"', b'"integer"', b'"string"', b'"date"', b'"number"'),
    *(b'"boolean"', b'"replace"', b'"intent"', b'"choose"', b'"flip"', b'"statistic"', b'"m0"'),
    *(b'"marginal"', b'"cell"', b'"where"', b'"at-least"', b'"predicate"', b'"threshold-cell"'),
)
_BYTES: tuple[bytes, ...] = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"\t", b"\x1b[31m", b"\\"),
    *(b"[" * 40, b"{" * 40, b"a." * 40, b"[" * 2_000, b'"', b"'", b"#", b"=", b",", b"]", b"}"),
    *(
        b"[[column]]\n",
        b"[[marginal]]\n",
        b"[table]\n",
        b"[[zero]]\n",
        b"[[order]]\n",
        b"/",
        b"%00",
        b"@",
        b"?",
    ),
    *(b"../" * 9, b"*", b"~", b"~x/", b":", b";", b"$(x)", b"9" * 5_000, b"\xe2\x80\xa8"),
)


def spoilt(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """The content with one to three things wrong."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = _SPOILERS[chance.randrange(len(_SPOILERS))](content, others, chance)
    return content


def _another_value(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    places = [m.span() for m in _TOKEN.finditer(content[:20_000])]
    if not places:
        return content + chance.choice(_VALUES)
    start, end = chance.choice(places)
    if chance.random() < 0.3:  # one of its own, from elsewhere
        first, last = chance.choice(places)
        return content[:start] + content[first:last] + content[end:]
    return content[:start] + chance.choice(_VALUES) + content[end:]


def _another_byte(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]


def _more(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(_BYTES) + content[place:]


def _less(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + content[place + chance.randrange(1, 40) :]


def _moved(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A part comes twice, elsewhere, or from another file."""
    given = chance.choice([content, content, *others])
    first = chance.randrange(len(given) + 1)
    part = given[first : first + chance.randrange(1, 200)]
    place = chance.randrange(len(content) + 1)
    return content[:place] + part + content[place:]


def _cut(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _without_line(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    rows = content.split(b"\n")
    del rows[chance.randrange(len(rows))]
    return b"\n".join(rows)


_SPOILERS = (*[_another_value] * 6, _another_byte, _more, _less, _moved, _cut, _without_line)


class TooLong(Exception):
    """An input that takes more than a minute."""


def _too_long(*_: object) -> None:
    raise TooLong


def fuzz(made: Loader, inputs: int, seed: int) -> Counter[str]:
    """How the inputs ended. The first that ends badly is printed, and raised."""
    chance, ended = random.Random(seed), Counter[str]()
    contents = list(made.files.values())
    signal.signal(signal.SIGALRM, _too_long)
    for _ in range(inputs):
        where = chance.randrange(len(contents))
        content = spoilt(contents[where], contents, chance)
        made.write(where, content)
        signal.setitimer(signal.ITIMER_REAL, 60.0)
        try:
            made.load()
            ended["loaded"] += 1
        except AdmeasureError as error:
            if not made.said_well(str(error)):
                raise AssertionError(
                    f"{where}: {content!r} is refused in these words: {error}"
                ) from error
            ended["refused"] += 1
        except BaseException as error:
            raise AssertionError(f"{where}: {content!r} ended in {type(error).__name__}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        made.restore()
    return ended


def main(name: str, inputs: str, seed: str, folder: str) -> None:
    made = next(one for one in (*LOADERS, *BROKEN) if one.__name__ == name)(Path(folder))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    try:
        print(json.dumps(fuzz(made, int(inputs), int(seed))))
    except AssertionError:
        traceback.print_exc(limit=-12)
        sys.exit(1)


if __name__ == "__main__":
    np.seterr(all="ignore")
    if len(sys.argv) == 1:
        print(*(loader.__name__ for loader in LOADERS))
    else:
        main(*sys.argv[1:])
