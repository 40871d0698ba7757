"""A budget book whose total has a share of delta, for runs that find levels."""

from __future__ import annotations

import json
import math
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import admeasure
from admeasure.errors import AdmeasureError, BudgetError
from admeasure.mechanisms import build
from admeasure.privacy import changes
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp
from admeasure.request import ChargeTo
from admeasure.schema import Schema

PLAIN = """
[table]
name = "stays"
[privacy]
unit = "person"
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
"""
ONE = Schema.loads(PLAIN + '[[column]]\nname = "drug"\ntype = "string"\nenum = "private"\n')


def frame(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"drug": rng.choice(["alpha", "beta"], rows), "sex": rng.choice(["f", "m"], rows)}


def entered(tmp_path: Path, share: float = 1e-7, epsilon: float = 1) -> Book:
    book = tmp_path / "book.db"
    return Book.create(book, "stays", epsilon=epsilon, delta=1e-6, delta_share=share)


def charged(tmp_path: Path, **asked: Any) -> Any:
    given: dict[str, Any] = {"workload": "all-1way", "epsilon": 1, "delta": 1e-6, **asked}
    return admeasure.fit(
        frame(600, 4),
        ONE,
        mechanism=build("independent", {}),
        charge_to=ChargeTo(tmp_path / "book.db", "stays"),
        **given,
    )


def test_a_data_set_with_a_share_of_delta_is_charged_in_both_parts(tmp_path):
    book = entered(tmp_path)
    release = charged(tmp_path, out=tmp_path / "out")
    account = book.account("stays")
    assert account.left == account.total * 0
    assert account.spent.delta_share == Fraction(1, 10**7)
    assert release.certificate.delta_spent == pytest.approx(1e-7)
    assert account.epsilon_spent == pytest.approx(1, rel=1e-9)
    assert account.epsilon_spent <= 1
    (change,) = [c.what for c in book.changes() if c.what["change"] == "end"]
    assert change["delta_spent"] == pytest.approx(1e-7)
    with pytest.raises(BudgetError, match="Nothing is left"):
        charged(tmp_path)


def test_shares_of_delta_add_up_and_one_that_would_pass_the_total_is_refused(tmp_path):
    book = entered(tmp_path, share=2e-7, epsilon=3)
    for _ in range(2):
        charged(tmp_path)
    assert book.account("stays").left.delta_share == 0
    before = book.changes()
    with pytest.raises(BudgetError, match=r"0 is left of what was set aside.*enum = \[…\]"):
        charged(tmp_path)
    assert book.changes() == before
    ten = admeasure.fit(
        {"sex": ["f"] * 9},
        Schema.loads(PLAIN),
        workload="all-1way",
        epsilon=1,
        delta=1e-6,
        charge_to=ChargeTo(tmp_path / "book.db", "stays"),
        mechanism=build("independent", {}),
    )
    assert ten.certificate.delta_spent == 0


def test_a_data_set_without_a_share_of_delta_refuses_to_find_levels_and_says_why(tmp_path):
    book = entered(tmp_path, share=0.0, epsilon=3)
    with pytest.raises(BudgetError, match=r"none was set aside.*--delta-share"):
        charged(tmp_path, out=tmp_path / "out")
    assert not book.account("stays").spent
    assert not list(tmp_path.glob("*out*"))


def test_the_smaller_epsilon_that_a_refusal_names_is_granted(tmp_path):
    entered(tmp_path, share=3e-7)
    charged(tmp_path, epsilon=0.6)
    with pytest.raises(BudgetError, match="Ask for at most epsilon = ") as refused:
        charged(tmp_path)
    most = float(str(refused.value).split("at most epsilon = ")[1].split(" ")[0])
    assert 0.1 < most < 1
    charged(tmp_path, epsilon=most)


@pytest.mark.parametrize("share", [-1e-9, 1e-6, 2e-6, math.nan])
def test_what_is_no_share_of_delta_makes_no_book(share, tmp_path):
    with pytest.raises(AdmeasureError, match="share of delta"):
        entered(tmp_path, share=share)
    assert not (tmp_path / "book.db").exists()


def test_the_last_of_ten_float_tenths_fits_a_total_that_has_a_share_of_delta(tmp_path):
    book = entered(tmp_path)
    tenth = float(book.account("stays").total) / 10
    for i in range(10):
        book.reserve("stays", tenth, mechanism="aim", release=f"r{i}")
    assert book.account("stays").left.without_delta == Zcdp(Fraction(0))
    assert book.account("stays").left.delta_share == Fraction(1, 10**7)


def test_a_changed_share_in_the_book_is_damage(tmp_path):
    """Also by somebody who links the changes anew, where sums contradict each other."""
    book = entered(tmp_path, share=2e-7, epsilon=3)
    charged(tmp_path)
    with sqlite3.connect(tmp_path / "book.db") as db:
        found = [c.what for c in book.changes()]
        for what in found:
            if what["change"] == "end":
                what.pop("delta_share")
        for change in changes.linked(found):
            row = (json.dumps(change.what, separators=(",", ":")), change.link, change.number)
            db.execute("UPDATE change SET text = ?, link = ? WHERE number = ?", row)
        db.execute("UPDATE seal SET link = ?", (changes.linked(found)[-1].link,))
    with pytest.raises(BudgetError, match="damaged"):
        book.account("stays")
