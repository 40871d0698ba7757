"""`admeasure audit` finds every claim of a release that its own log does not bear out."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admeasure.auditing.release import audit_release
from admeasure.errors import ReleaseError
from admeasure.mechanisms import REGISTRY
from admeasure.release import store
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from commands import Ended, command

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
ROWS = np.random.default_rng(1).integers(0, 2, (3, 40))
DATA = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}


def made(name: str, small, served, out: Path, **changes: Any) -> Path:
    mechanism = small(name, SCHEMA)
    workload = served(mechanism, SCHEMA)
    fit(
        DATA, SCHEMA, workload=workload, mechanism=mechanism,
        epsilon=2.0, delta=1e-6, out=out, **changes,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def sound(tmp_path_factory, small, served) -> Path:
    return made("aim", small, served, tmp_path_factory.mktemp("sound") / "aim")


@pytest.mark.parametrize("name", REGISTRY)
def test_the_release_of_every_mechanism_passes(name, small, served, tmp_path, tally):
    found = audit_release(made(name, small, served, tmp_path / "out"))
    assert found.holds, found
    assert found.lost_draws == 0
    tally("release audit: releases that pass", 1)


def test_what_was_spent_is_recomputed_exactly(sound):
    log = [json.loads(line) for line in (sound / "log.jsonl").read_text().splitlines()]
    spent = sum(Fraction(e["rho"]) for e in log if e["event"] != "intent")
    assert audit_release(sound).spent.rho == spent


Events = list[dict[str, Any]]
Tamper = Callable[[dict, Events], None]


def first(events: Events, kind: str) -> dict[str, Any]:
    return next(e for e in events if e["event"] == kind)


def _less_noise(head, events):
    event = first(events, "measure")
    event["sigma"] = math.nextafter(event["sigma"], 0) * 0.999


def _one_ulp_less_noise(head, events):
    """The least double that is too small for its rho."""
    for event in events:
        if event.get("event") == "measure":
            sigma = Fraction(event["sigma"])
            event["rho"] = str(
                Fraction(event["l2_squared"]) / (2 * sigma**2) * (1 - Fraction(1, 2**80))
            )


def _other_sensitivity(head, events):
    first(events, "measure")["l2_squared"] = 2


def _hidden_measurement(head, events):
    events.remove(first(events, "measure"))


def _doubled_measurement(head, events):
    events.append(first(events, "measure"))


def _cheaper_choice(head, events):
    event = first(events, "choose")
    event["epsilon"] *= 2


def _several_choices(head, events):
    first(events, "choose")["k"] = 4


def _wrong_sum(head, events):
    head["certificate"]["rho_spent"] *= 0.9


def _less_epsilon(head, events):
    head["certificate"]["epsilon"] *= 0.9


def _less_delta(head, events):
    head["certificate"]["delta"] /= 10


def _other_epsilon_spent(head, events):
    head["certificate"]["epsilon_spent"] *= 0.5


def _other_unit(head, events):
    head["certificate"]["max_rows_per_unit"] = 5


def _other_relation(head, events):
    head["certificate"]["neighbours"] = "replace"


def _other_charges(head, events):
    head["certificate"]["charges"].pop()


def _over_budget(head, events):
    head["certificate"]["rho"] = head["certificate"]["rho_spent"] / 2


def _other_sigma_of_a_measurement(head, events):
    head["measurements"][0]["sigma"] *= 2


def _swapped_measurements(head, events):
    m = head["measurements"]
    b, c = (next(i for i in m if i["query"]["columns"] == [name]) for name in "bc")
    b["query"], c["query"] = c["query"], b["query"]  # both have two levels


def _unannounced(head, events):
    events.remove(first(events, "intent"))


def _negative_cost(head, events):
    event = first(events, "measure")
    events.append({**event, "rho": str(-Fraction(event["rho"]))})


TAMPERS: dict[Tamper, str] = {
    _less_noise: "every noise scale",
    _one_ulp_less_noise: "every noise scale",
    _other_sensitivity: "every noise scale",
    _hidden_measurement: "the measurements",
    _doubled_measurement: "the spends",
    _cheaper_choice: "every choice",
    _several_choices: "every choice",
    _wrong_sum: "the spends",
    _less_epsilon: "rho and",
    _less_delta: "rho and",
    _other_epsilon_spent: "rho and",
    _other_unit: "the certificate and the schema",
    _other_relation: "the certificate and the schema",
    _other_charges: "the spends",
    _over_budget: "the spends",
    _other_sigma_of_a_measurement: "the measurements",
    _swapped_measurements: "the measurements",
    _unannounced: "every result",
    _negative_cost: "the spends",
}


def tampered(source: Path, target: Path, tamper: Tamper) -> Path:
    """Changed with right hashes, so that only the contents can tell."""
    shutil.copytree(source, target)
    head = json.loads((target / "release.json").read_text())
    events = [json.loads(line) for line in (target / "log.jsonl").read_text().splitlines()]
    tamper(head, events)
    log = "".join(json.dumps(e) + "\n" for e in events).encode()
    (target / "log.jsonl").write_bytes(log)
    head["sha256"]["log.jsonl"] = hashlib.sha256(log).hexdigest()
    (target / "release.json").write_text(json.dumps(head))
    return target


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda t: t.__name__.strip("_"))
def test_a_claim_that_the_log_does_not_bear_out_is_named(sound, tmp_path, tamper, tally):
    found = audit_release(tampered(sound, tmp_path / "copy", tamper))
    failed = [check.name for check in found.checks if check.problems]
    assert not found.holds
    assert any(name.startswith(TAMPERS[tamper]) for name in failed), failed
    tally("release audit: forged claims found", 1)


@pytest.mark.parametrize("name", [*store.FILES, "certificate.yaml"])
def test_a_changed_file_is_named(sound, tmp_path, name):
    shutil.copytree(sound, tmp_path / "copy")
    with (tmp_path / "copy" / name).open("ab") as file:
        file.write(b" ")
    found = audit_release(tmp_path / "copy")
    assert not found.holds
    assert any(name in problem for problem in found.checks[0].problems)


def test_changed_values_are_found_through_the_log(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "copy")
    path = tmp_path / "copy" / "measurements.npz"
    arrays = store.unpack_arrays(path.read_bytes(), path.name)
    arrays["m0"] = arrays["m0"] + 1
    path.write_bytes(store.pack_arrays(arrays))
    head = json.loads((tmp_path / "copy" / "release.json").read_text())
    head["sha256"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "copy" / "release.json").write_text(json.dumps(head))
    failed = [c.name for c in audit_release(tmp_path / "copy").checks if c.problems]
    assert failed == ["the measurements are those of the log"]


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    with pytest.raises(ReleaseError, match=r"no release\.json"):
        audit_release(tmp_path)


def audited(*args: object) -> Ended:
    environment = {**os.environ, "NO_COLOR": "1"}
    return command(("audit", *map(str, args)), Path.cwd(), environment).ended()


def test_the_command_says_what_holds_and_leaves_with_0(sound):
    done = audited(sound)
    assert done.code == 0, done.err.decode()
    assert done.out.count(b"ok ") == 10
    assert b"FAILED" not in done.out
    as_json = json.loads(audited(sound, "--json").out)
    assert as_json["ok"] is True
    assert as_json["measurements"] > 0


def test_the_command_names_what_failed_and_leaves_with_3(sound, tmp_path):
    path = tampered(sound, tmp_path / "copy", _wrong_sum)
    done = audited(path)
    assert done.code == 3
    assert b"FAILED  the spends add up to the certificate" in done.out
    assert b"the log adds up to rho" in done.err
    as_json = audited(path, "--json")
    assert as_json.code == 3
    assert json.loads(as_json.out)["ok"] is False
    assert audited(tmp_path / "nothing").code == 3


def test_a_seeded_release_passes_and_is_stamped(small, served, tmp_path):
    found = audit_release(made("gaussian", small, served, tmp_path / "out", seed=1))
    assert found.holds
    assert found.stamp.startswith("NOT PRIVATE")
