"""What synthetic rows teach: judged where the best that can be learned is known. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.evaluation import prediction
from admeasure.schema import Schema

LEVELS = {"y": 2, "x": 8, "wide": 60}
SCHEMA = Schema.coded("generated", LEVELS)


def table(rows: int = 4000, seed: int = 0, *, flipped: bool = False) -> dict[str, np.ndarray]:
    """y is 1 where x is above 3, in nine rows of ten; where `flipped`, in one of ten."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 8, rows)
    right = rng.random(rows) < (0.1 if flipped else 0.9)
    return {"y": np.where(right, x > 3, x <= 3).astype(np.int64), "x": x, "wide": x * 7}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine take minutes."""
    library = pytest.importorskip("threadpoolctl")
    with library.threadpool_limits(1):
        yield


def judged(synthetic: dict[str, np.ndarray]) -> prediction.Prediction:
    found = admeasure.evaluate(synthetic, table(), SCHEMA, workload="all-1way", predict="y", seed=1)
    assert found.prediction is not None
    return found.prediction


@pytest.mark.statistical
def test_rows_of_the_same_kind_teach_as_much_as_real_ones_and_others_nothing() -> None:
    """The best rule is right in 0.9 of 2,000 rows, within 0.04 but with probability 3e-9."""
    pytest.importorskip("sklearn")
    good = judged(table(seed=5))
    assert [one.rows for one in good.learned] == [2000, 2000, 200]
    assert good.tested_on == 2000
    assert all(abs(one.accuracy - 0.9) < 0.04 for one in good.learned[:2])
    assert all(one.auc is not None and one.auc > 0.85 for one in good.learned[:2])
    assert 0.5 <= good.commonest < 0.55
    bad = judged(table(seed=5, flipped=True))
    assert abs(bad.learned[0].accuracy - 0.1) < 0.04
    assert bad.learned[0].auc is not None
    assert bad.learned[0].auc < 0.15
    assert bad.learned[1:] == good.learned[1:]  # the real ones do not change


def test_rows_with_one_level_teach_that_level() -> None:
    pytest.importorskip("sklearn")
    ones = table() | {"y": np.ones(4000, np.int64)}
    found = judged(ones)
    own = found.learned[0]
    assert own.accuracy in (found.commonest, pytest.approx(1 - found.commonest))
    assert own.balanced_accuracy == 0.5
    assert own.auc == 0.5


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 2, 60), rng.integers(0, 5, 60) / 5
    pairs = [(a > b) + (a == b) / 2 for a in score[y == 1] for b in score[y == 0]]
    found = prediction.area(np.stack([1 - score, score], axis=1), np.array([0, 1]), y)
    assert found == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(("column", "words"), [("yy", "'y'"), ("wide", "at most 50 levels")])
def test_columns_that_cannot_be_predicted_are_refused(column: str, words: str) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(UsageError, match=words):
        admeasure.evaluate(table(), table(), SCHEMA, workload="all-1way", predict=column)


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"admeasure\[learn\]"):
        prediction.check_predicted("y", SCHEMA)


def test_the_command_line_shows_it_and_says_that_it_is_not_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    schema, data = tmp_path / "schema.toml", tmp_path / "data.csv"
    schema.write_text(SCHEMA.dumps())
    own = table(400)
    lines = [",".join(own), *(",".join(map(str, line)) for line in zip(*own.values(), strict=True))]
    data.write_text("\n".join(lines) + "\n")
    asked = ["evaluate", str(data), str(data), "--schema", str(schema), "--workload", "all-1way"]
    assert run([*asked, "--predict", "y"]) == 0
    shown = capsys.readouterr()
    assert "NOT PRIVATE" in shown.out + shown.err
    assert "1 in 10 of the real rows" in shown.out
