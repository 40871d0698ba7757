"""One column for each way to spell values, and texts that every one of them is given: for the tests
that hold the encoders together."""

from __future__ import annotations

import datetime

from admeasure.schema.categorical import BooleanColumn, StringColumn
from admeasure.schema.column import Column
from admeasure.schema.days import DateColumn
from admeasure.schema.model import Privacy, Schema, Table
from admeasure.schema.ordered import IntegerColumn, NumberColumn

FORMATS = (
    *("%d/%m/%Y", "%m/%d/%y", "%d.%m.%Y", "%d %b %Y", "%d %B %Y", "%d%m%Y", "%Y%m%d", "%d %b %y"),
    *("%d/%m/%Y %H:%M", "%d/%m/%Y %I:%M %p", "%a, %d %b %Y", "%A %d %B %Y", "%Y年%m月%d日"),
    *("%d'%m'%Y", "%Y-%m-%d", "%d/%m/%Y %H:%M:%S.%f", "%m-%d-%YT%H", "%H%M %d %m %y", "%y%b%d"),
)
DAYS = (
    "5/1/2020|05/01/2020|29/02/2020|29/02/2021|1/13/2020|13/1/2020|01/02/20|1/2/69|1/2/68"
    "|01.02.2020|1 Jan 2020|01 JAN 2020|1 January 2020|01 may 20|31 jun 2020|31 Jun 20|01012020"
    "|1012020|20200105|05/01/2020 9:05|05/01/2020 09:5|05/01/2020 24:00|05/01/2020 12:30 PM"
    "|05/01/2020 0:30 am|05/01/2020 1:30 aM|05/01/0000|5/1/20200|Wed, 01 Jan 2020|01-02-2020T5"
    "|wednesday 1 january 2020|05/01/2020 |2020年1月5日|05'01'2020|5/ 1/2020|٥/1/2020|1230 1 2 03"
    "|20Jan05|20jan5|05/01/2020 1:02:03.5|05/01/2020 1:02:03.1234567|05/01/2020 1:02:60.0"
    "|5/1/2020\n|5/1/2020\t|05-01-2020|0/1/2020|00/01/2020|32/01/2020|1/0/2020|05/01/9999"
)
MOMENTS = (
    "2020-01-01|2020-01-01 23:59|2020-01-01 24:00|2020-01-01T12:00:60|2020-02-30 10:00"
    "|2020-01-31 23:30:00.5-05:00|2020-02-01T00:15+0530|2020-01-01 00:00:00 UTC|2020-01-01T1:00"
    "|0001-01-01 00:00+01|9999-12-31 23:00-02:00|2020-01-01 00:00:00Z|2020-01-01 00:00 +14:00"
    "|2020-01-01 00:00+24:00|2020-01-01 00:00:00.|0000-12-31 23:00-05|2020-01-01t00:00"
    "|2020-01-01 12:00-12:00|2020-01-01 11:59-12|2020-12-31 23:59:59.999999999+00:00|2020-01-01 "
    "|2020-06-01T00:00:00.000-00:00|2020-06-01 05:30+05:30|2020-06-01 05:29+05:30|2020-06-01 05:29-"
)
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%H%M", "%H.%M", "%I:%M:%S%p", "%H:%M:%S.%f", "%Mm%Hh")
TIMES = (
    "13:45|9:05|09:5|24:00|23:59|00:00|0:0|1:45 PM|01:45 pm|12:00 AM|12:00 pm|13:00 PM|0:30 am"
    "|13:45:30|13:45:60|1:02:03am|12:59:59PM|1345|905|0905|2400|13.45|7.5|13:45:30.5|45m13h|5m7h"
    "|13:45 |13:60|-1:00|13:45:30.1234567|\u06613:45|13:45\n|0:00 xm|825"
)
NUMBERS = (
    "1,5|1.234|1.234,5|1,234.5|1 234|1'000|1'00|12.34|-1.000|1,000,000|,5|5,|.5,|1.2345|12,3e1|1_0"
    "|0.001|+1.000,25|1234,5|1.234.567|1,23,456|inf,|1\u00a0234|7,0|7.000|1\u202f000|1\u2019234|7"
    "|1,000|-,5|1.000e3|nan|-INF|.|,|1..5|1 234,5|1_000|9.9|1,5e-1|1234567|-9|-9,0|12 345 678"
)
WORDS = (
    "Yes|No|YES|Y|n| Yes |N/A|na|éa|Éa|éA|ÉA| a|A |a|A|Straße|STRASSE|STRAẞE|σ|Σ|ς|K|\u212a|k|İ|i"
    "|I|ı|ſ|S|s|ǅ|ǆ|Ǆ|日本|\U0001f600|it's|IT'S|back\\SLASH|%|true|false|1|0|two\nlines|TWO\nLINES"
)
TEXTS = list(
    dict.fromkeys(
        ["", None, *(t for s in (DAYS, MOMENTS, TIMES, NUMBERS, WORDS) for t in s.split("|"))]
    )
)
LISTED = ("Éa", "straße", "Σ", "k", "i", "s", "ǅ", "日本", "it's", "back\\slash", "two\nlines", "%")


WHOLES = (-2000, -1000, -999, -10, -9, -8, 0, 1, 2, 5, 6, 7, 8, 10, 12, 13, 123, 124, 1000, 1001)
WHOLES += (1233, 1234, 1235, 1236, 12345, 12346, 12347, 123456, 123457, 1234567)


def columns() -> list[Column]:
    low, high = datetime.date(2019, 12, 25), datetime.date(2020, 3, 5)
    days = [
        DateColumn(
            name=f"d{i}",
            type="date",
            format=form,
            minimum=low,
            maximum=high,
            clamp=True,
            other=True,
            missing_values=("05/01/2020 24:00", "05/01/9999"),
        )
        for i, form in enumerate((None, *FORMATS))
    ]
    groups = [(None, None), (",", None), (",", "."), (".", ","), (",", "\u202f"), (None, "'")]
    groups += [(None, "_"), (",", " ")]
    spelled = [{"decimal": d, "thousands": t, "other": True} for d, t in groups]
    numbers = [
        NumberColumn(
            name=f"n{i}",
            type="number",
            edges=(*map(float, WHOLES), 1234567.5, 9e9),
            clamp=True,
            missing_values=("-9,0",),
            **one,
        )
        for i, one in enumerate(spelled)
    ]
    wholes = [
        IntegerColumn(
            name=f"i{i}",
            type="integer",
            edges=(*WHOLES, 1234569, 10**8),
            clamp=True,
            missing_values=("1.234.567",),
            **one,
        )
        for i, one in enumerate(spelled)
    ]
    times = [
        IntegerColumn(
            name=f"t{i}",
            type="integer",
            format=form,
            minimum=0,
            maximum=1439,
            bins=720,
            other=True,
            missing_values=("00:00", "7.5"),
        )
        for i, form in enumerate(CLOCKS)
    ]
    letters = [
        StringColumn(
            name=f"s{i}",
            type="string",
            enum=LISTED,
            strip=strip,
            ignore_case=case,
            other=True,
            missing_values=("N/A",),
        )
        for i, (strip, case) in enumerate(
            ((False, False), (True, False), (False, True), (True, True))
        )
    ]
    words = BooleanColumn(
        name="b",
        type="boolean",
        true_values=("Yes", "Y", "it's"),
        false_values=("No", "back\\SLASH", " n "),
        other=True,
        missing_values=("N/A", "-9"),
    )
    return [*days, *numbers, *wholes, *times, *letters, words]


def schema() -> Schema:
    """Its column `row` tells the rows apart, so that a joint count shows the level of each text."""
    row = IntegerColumn(name="row", type="integer", minimum=0, maximum=len(TEXTS) - 1)
    found = (row, *columns())
    return Schema(table=Table(name="t"), privacy=Privacy(unit="person"), columns=found)  # type: ignore[arg-type]


def frame() -> dict[str, list]:
    return {"row": list(range(len(TEXTS))), **{c.name: TEXTS for c in columns()}}
