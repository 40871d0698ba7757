"""A release folder from anybody: a clear error or a sound release, and no other file touched.

Two kinds of damage: accidents, which the hashes find, and a hostile author, who writes right hashes
over wrong contents. What loads must also be usable: sampling, answers and bounds may refuse, in our
own words, and must not fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admeasure.auditing.release import audit_release
from admeasure.errors import AdmeasureError, ReleaseError
from admeasure.mechanisms import REGISTRY
from admeasure.queries import Cell
from admeasure.release import Release, store
from admeasure.reporting.text import text_report
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
ROWS = np.random.default_rng(1).integers(0, 2, (3, 40))
DATA = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}
FEW = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
KINDS = ("gaussian", "mwem", "aim", "all-zero")


@pytest.fixture(scope="module")
def sound(tmp_path_factory, small, served) -> dict[str, Path]:
    """One release of each mechanism whose model differs."""
    folder = tmp_path_factory.mktemp("sound")
    made, kinds = {}, set()
    for name in [*KINDS, *(n for n in REGISTRY if n not in KINDS)]:
        mechanism = small(name, SCHEMA)
        release = fit(
            DATA,
            SCHEMA,
            workload=served(mechanism, SCHEMA),
            mechanism=mechanism,
            epsilon=2.0,
            delta=1e-6,
        )
        if release.model.kind not in kinds or name in KINDS:
            kinds.add(release.model.kind)
            made[name] = release.save(folder / name)
    return made


def use(path: Path) -> str:
    """Load a release and use all of it; how it ended. Anything but an error of ours escapes."""
    try:
        release = Release.load(path)
    except ReleaseError as error:
        said = str(error)
        ok = said and "\n" not in said and len(said) < 500
        return "refused" if ok else f"refused in these words: {said}"
    for step in (
        lambda: release.sample_columns(5, seed=0),
        release.bounds,
        lambda: release.answer([Cell(["a"], [0]), Cell(["b", "c"], [0, 1])]),
        lambda: text_report(release),
        lambda: json.dumps(release.certificate.to_json()).encode(),
        lambda: audit_release(path),
    ):
        with contextlib.suppress(AdmeasureError):
            step()
    return "loaded"


def fuzzed(path: Path, tally: Callable[[str, int], None]) -> None:
    ended = use(path)
    assert ended in ("refused", "loaded")
    tally(f"hostile releases: fuzzed folders that were {ended}", 1)


def rewrite(source: Path, target: Path, change: Callable[[dict, dict[str, bytes]], None]) -> Path:
    """A copy with changed contents and right hashes: what a hostile author would write."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    head = json.loads((target / "release.json").read_text())
    files = {name: (target / name).read_bytes() for name in head["sha256"]}
    change(head, files)
    for name, content in files.items():
        (target / name).write_bytes(content)
        head["sha256"][name] = hashlib.sha256(content).hexdigest()
    (target / "release.json").write_text(json.dumps(head))
    return target


def test_what_was_written_loads_and_can_be_used(sound):
    assert {use(path) for path in sound.values()} == {"loaded"}
    assert all(audit_release(path).holds for path in sound.values())


@FEW
@given(st.data())
def test_an_accident_to_any_byte_of_any_file_is_found(sound, tmp_path, data):
    source = data.draw(st.sampled_from(list(sound.values())))
    name = data.draw(st.sampled_from(store.FILES))
    target = tmp_path / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    content = bytearray((target / name).read_bytes())
    if content:
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()) or not content:
        content = content[: data.draw(st.integers(0, max(0, len(content) - 1)))] or bytearray(b"x")
    (target / name).write_bytes(content)
    with pytest.raises(ReleaseError, match="hash does not match"):
        Release.load(target)
    assert not audit_release(target).holds


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["../../etc/passwd", "/etc/passwd", "\ud800", "NaN", "1e999", "m0"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def somewhere(value, draw, depth=0):
    """Replace one randomly chosen part of a JSON value by junk, or drop it."""
    if isinstance(value, dict) and value and (depth == 0 or draw(st.booleans())):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 5)) == 0:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: somewhere(value[key], draw, depth + 1)}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], somewhere(value[place], draw, depth + 1), *value[place + 1 :]]
    return draw(JUNK)


@settings(FEW, max_examples=300)
@given(st.data())
def test_junk_anywhere_in_release_json_is_refused_or_harmless(sound, tmp_path, tally, data):
    source = data.draw(st.sampled_from(list(sound.values())))
    target = tmp_path / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    head = json.loads((target / "release.json").read_text())
    changed = somewhere(head, data.draw)
    (target / "release.json").write_text(json.dumps(changed))
    fuzzed(target, tally)


@settings(FEW, max_examples=150)
@given(st.data())
def test_junk_in_the_log_is_refused_or_harmless_and_the_audit_answers(sound, tmp_path, tally, data):
    source = data.draw(st.sampled_from([sound["aim"], sound["gaussian"]]))

    def change(head, files):
        events = [json.loads(line) for line in files["log.jsonl"].splitlines()]
        place = data.draw(st.integers(0, len(events) - 1))
        events[place] = somewhere(events[place], data.draw)
        files["log.jsonl"] = "".join(json.dumps(e) + "\n" for e in events).encode()

    fuzzed(rewrite(source, tmp_path / "copy", change), tally)


@pytest.mark.parametrize("claim", ["0", "5e-324", "7"])
def test_a_log_that_misstates_what_a_measurement_cost_leaves_intervals(sound, tmp_path, claim):
    def change(head, files):
        events = [json.loads(line) for line in files["log.jsonl"].splitlines()]
        first = next(e for e in events if e["event"] == "measure")
        first["rho"] = str(Fraction(float(claim)))
        files["log.jsonl"] = "".join(json.dumps(e) + "\n" for e in events).encode()

    path = rewrite(sound["aim"], tmp_path / "copy", change)
    (answer,) = Release.load(path).answer([Cell(["a"], [0])])
    assert 0 <= answer.low <= answer.value <= answer.high
    assert not audit_release(path).holds


@settings(FEW, max_examples=150)
@given(st.data())
def test_junk_in_the_texts_is_refused_or_harmless(sound, tmp_path, tally, data):
    source = data.draw(st.sampled_from(list(sound.values())))
    name = data.draw(st.sampled_from(["schema.toml", "workload.toml", "log.jsonl"]))

    def change(head, files):
        content = files[name]
        place = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(place, min(len(content), place + 20)))
        junk = data.draw(
            st.binary(max_size=12)
            | st.sampled_from([b"[" * 5000, b"{" * 5000, b"9" * 400, b"1e400", b"inf", b"nan"])
        )
        files[name] = content[:place] + junk + content[end:]

    fuzzed(rewrite(source, tmp_path / "copy", change), tally)


SPOILERS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda a: a.astype(float) * np.nan if a.dtype.kind != "U" else a[:0],
    lambda a: a.astype(float) * np.inf if a.dtype.kind != "U" else a[:0],
    lambda a: -a if a.dtype.kind in "if" else a,
    lambda a: a.astype(float) * 1e300 if a.dtype.kind != "U" else a,
    lambda a: np.zeros_like(a),
    lambda a: a.ravel()[:0],
    lambda a: np.concatenate([a.ravel(), a.ravel()]),
    lambda a: a.astype(complex) if a.dtype.kind != "U" else a,
    lambda a: a.astype("U5"),
    lambda a: np.full(a.shape, 2**62) if a.dtype.kind != "U" else a,
    lambda a: np.asarray(a)[None],
    lambda a: a.astype(np.int8) if a.dtype.kind in "iufb" else a,
]


@settings(FEW, max_examples=300)
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_wrong_arrays_are_refused_or_harmless(sound, tmp_path, tally, data):
    source = data.draw(st.sampled_from(list(sound.values())))
    name = data.draw(st.sampled_from(["model.npz", "measurements.npz"]))

    def change(head, files):
        arrays = store.unpack_arrays(files[name], name)
        if not arrays:
            return
        key = data.draw(st.sampled_from(sorted(arrays)))
        spoil = data.draw(st.sampled_from(SPOILERS))
        if data.draw(st.integers(0, 9)) == 0:
            del arrays[key]
        else:
            with np.errstate(all="ignore"):
                arrays[key] = np.array(spoil(arrays[key]))
        files[name] = store.pack_arrays(arrays)

    with np.errstate(all="ignore"):
        fuzzed(rewrite(source, tmp_path / "copy", change), tally)


@settings(FEW, max_examples=150)
@given(st.data())
def test_junk_in_the_bytes_of_an_array_file_is_refused_or_harmless(sound, tmp_path, tally, data):
    source = data.draw(st.sampled_from(list(sound.values())))
    name = data.draw(st.sampled_from(["model.npz", "measurements.npz"]))

    def change(head, files):
        content = bytearray(files[name])
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] = data.draw(st.integers(0, 255))
        files[name] = bytes(content)

    fuzzed(rewrite(source, tmp_path / "copy", change), tally)
