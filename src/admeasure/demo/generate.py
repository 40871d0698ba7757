"""The bundled table: 20,000 simulated people, ten columns that depend on each other.

No person is behind any row. Each row is drawn on its own, in this order, every column given those
before it:

    age         uniform to 60, thinning out above
    sex         even, more women above 75
    region      five regions of different size
    education   by age; one in forty did not say
    marital     by age; nobody below 16 is anything but single
    work        by age, education and sex; a few jobs that no list names; no worker or retired
                person below 16
    hours       a week, by kind of work and sex
    income      a year, by work, hours, education and region; a long tail
    smoker      by age, education and sex
    moved_in    the day of moving into the present home, by age and marital state

Only `random.Random(seed).random()` is used, whose sequence Python promises to keep, so that the
file can be made again anywhere: `python -m admeasure.demo.generate FILE.csv.gz`. Logarithms are
the one thing left to the platform; numbers are rounded so coarsely that it does not show.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

ROWS = 20_000
SEED = 2024
COLUMNS = (
    "age",
    "sex",
    "region",
    "education",
    "marital",
    "work",
    "hours",
    "income",
    "smoker",
    "moved_in",
)
TODAY = datetime.date(2024, 12, 31)
FIRST_DAY = datetime.date(1950, 1, 1)

_REGIONS = {"north": 0.15, "east": 0.2, "south": 0.25, "west": 0.18, "capital": 0.22}
_RARE_WORK = ("clergy", "armed forces", "artist")
_PAY = {"none": 14_000, "school": 19_000, "vocational": 26_000, "degree": 38_000, "": 23_000}


def people(rows: int = ROWS, seed: int = SEED) -> Iterator[tuple[str, ...]]:
    """Rows of the table, as texts in the order of `COLUMNS`."""
    random = Random(seed)
    for _ in range(rows):
        yield _person(random)


def _person(random: Random) -> tuple[str, ...]:
    age = _age(random)
    sex = _one(random, {"female": 0.5 + (0.12 if age > 75 else 0.0), "male": 0.5})
    region = _one(random, _REGIONS)
    education = _education(random, age)
    marital = _marital(random, age)
    work = _work(random, age, education, sex)
    hours = _hours(random, work, sex)
    income = _income(random, work, hours, education, region)
    smoker = random.random() < _smoking(age, education, sex)
    moved_in = _moved_in(random, age, marital)
    return (
        str(age),
        sex,
        region,
        education,
        marital,
        work,
        str(hours),
        f"{income:.2f}",
        "true" if smoker else "false",
        moved_in.isoformat(),
    )


def _one(random: Random, weights: Mapping[str, float]) -> str:
    """One key, with probability proportional to its weight."""
    left = random.random() * sum(weights.values())
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    return list(weights)[-1]


def _age(random: Random) -> int:
    if random.random() < 0.75:
        return int(60 * random.random())
    return min(99, 60 + int(-13 * math.log(1 - random.random())))


def _education(random: Random, age: int) -> str:
    if random.random() < 0.025:
        return ""  # did not say
    if age < 16:
        return "none"
    if age < 20:
        return _one(random, {"none": 0.3, "school": 0.7})
    degree = 0.42 if age < 45 else 0.28 if age < 65 else 0.15
    none = 0.06 if age < 65 else 0.2
    return _one(random, {"none": none, "school": 0.25, "vocational": 0.4, "degree": degree})


def _marital(random: Random, age: int) -> str:
    if age < 16:
        return "single"
    married = min(0.68, max(0.0, (age - 19) / 28))
    separated = min(0.16, max(0.0, (age - 24) / 150))
    widowed = max(0.0, (age - 50) / 85) ** 1.5
    single = max(0.06, 1 - married - separated)
    return _one(
        random,
        {"single": single, "married": married, "separated": separated, "widowed": widowed},
    )


def _work(random: Random, age: int, education: str, sex: str) -> str:
    if age < 16:
        return "student" if age >= 5 else "at home"
    if random.random() < 0.012:
        return _RARE_WORK[int(3 * random.random())]
    if age >= 65:
        return _one(
            random, {"retired": 0.9 - 0.3 * (age < 68), "employed": 0.07, "self-employed": 0.05}
        )
    jobless = {"none": 0.16, "school": 0.09, "vocational": 0.05, "degree": 0.03, "": 0.08}[
        education
    ]
    return _one(
        random,
        {
            "student": 0.75 if age < 20 else 0.35 if age < 25 else 0.02,
            "employed": 0.3 if age < 20 else 0.75,
            "self-employed": 0.02 if age < 25 else 0.1,
            "unemployed": jobless,
            "at home": 0.16 if sex == "female" and age >= 25 else 0.04,
            "retired": 0.14 if age >= 60 else 0.0,
        },
    )


def _hours(random: Random, work: str, sex: str) -> int:
    if work in ("retired", "at home", "unemployed"):
        return 0
    if work == "student":
        return int(16 * random.random()) if random.random() < 0.25 else 0
    if work == "self-employed":
        return 20 + int(51 * random.random())
    if random.random() < (0.42 if sex == "female" else 0.12):
        return 10 + int(22 * random.random())
    return 36 + int(9 * random.random())


def _income(random: Random, work: str, hours: int, education: str, region: str) -> float:
    spread = math.exp(0.35 * _normal(random))
    if work in ("at home", "student") and hours == 0:
        return 0.0
    if work in ("retired", "unemployed"):
        base = (0.55 if work == "retired" else 0.35) * _PAY[education]
    else:
        base = _PAY[education] * (0.2 + 0.8 * hours / 40)
    capital = 1.2 if region == "capital" else 1.0
    return round(base * capital * spread / 50) * 50.0


def _normal(random: Random) -> float:
    """The sum of twelve uniform draws less six: near enough to normal, and the same everywhere."""
    return sum(random.random() for _ in range(12)) - 6


def _smoking(age: int, education: str, sex: str) -> float:
    if age < 16:
        return 0.01
    low = {"degree": 0.12, "vocational": 0.24, "school": 0.28, "none": 0.33, "": 0.24}[education]
    return low + (0.05 if sex == "male" else 0.0) - (0.08 if age >= 65 else 0.0)


def _moved_in(random: Random, age: int, marital: str) -> datetime.date:
    most = (TODAY - FIRST_DAY).days
    years = {"single": 5.0, "married": 12.0, "separated": 4.0, "widowed": 22.0}[marital]
    days = int(-365.25 * years * math.log(1 - random.random()))
    return TODAY - datetime.timedelta(days=min(days, int(365.25 * age), most))


def write(path: Path) -> None:
    """The table as a compressed CSV file, the same bytes of text each time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(people())
    path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
