"""The written forms of a workload: a short rule, or the path of a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from admeasure.domain import Domain
from admeasure.errors import UsageError, WorkloadError
from admeasure.untrusted import read_text
from admeasure.workload import history
from admeasure.workload.builders import (
    all_kway,
    random_kway,
    random_thresholds,
    regression,
    skewed_kway,
    target_kway,
)
from admeasure.workload.workload import Workload

FORMS = (
    "all-3way",
    "target:COLUMN:3way",
    "skewed:256:3way:seed=0",
    "random:64:3way:seed=0",
    "threshold:2of3:64:seed=0",
    "regression:Y~A+B",
    "logistic:Y~A+B",
    history.FORM,
    "a TOML file",
)
_N = r"\d{1,9}"
_KWAY = rf"(?P<k>{_N})-?way"
_SEED = rf"(:seed=(?P<seed>{_N}))?"
# `target` takes all between the first colon and the last, since a column's name may hold colons.
_RULES: dict[str, Callable[[Domain, Mapping[str, str]], Workload]] = {
    rf"all-{_KWAY}": lambda d, m: all_kway(d, int(m["k"])),
    rf"target:(?P<target>.+):{_KWAY}": lambda d, m: target_kway(d, m["target"], int(m["k"])),
    rf"skewed:(?P<n>{_N}):{_KWAY}{_SEED}": lambda d, m: skewed_kway(
        d, int(m["n"]), int(m["k"]), int(m["seed"] or 0)
    ),
    rf"random:(?P<n>{_N}):{_KWAY}{_SEED}": lambda d, m: random_kway(
        d, int(m["n"]), int(m["k"]), int(m["seed"] or 0)
    ),
    rf"threshold:(?P<r>{_N})of(?P<k>{_N}):(?P<n>{_N}){_SEED}": lambda d, m: random_thresholds(
        d, int(m["r"]), int(m["k"]), int(m["n"]), int(m["seed"] or 0)
    ),
    r"(?P<kind>regression|logistic):(?P<of>[^~]+)~(?P<on>.+)": lambda d, m: regression(
        d,
        m["of"].strip(),
        [name.strip() for name in m["on"].split("+")],
        whole=m["kind"] == "logistic",
    ),
    r"(?P<text>history:.*)": lambda d, m: history.parse_history(m["text"], d),
}


def parse_workload(text_or_path: str | Path, domain: Domain) -> Workload:
    """The workload of a rule or of a TOML file, with every column checked against the domain."""
    text = str(text_or_path)
    if not isinstance(text_or_path, Path):
        for rule, build in _RULES.items():
            if match := re.fullmatch(rule, text, re.DOTALL):
                return build(domain, match.groupdict())
    if isinstance(text_or_path, Path) or text.endswith(".toml") or os.path.isfile(text):
        return load_workload(Path(text_or_path), domain)
    raise WorkloadError(f"There is no workload {text!r}. The forms are {', '.join(FORMS)}.")


def load_workload(path: Path, domain: Domain) -> Workload:
    """The workload of a TOML file, with every column checked against the domain."""
    return Workload.loads(
        read_text(path, WorkloadError, missing=UsageError), name=str(path), domain=domain
    )
