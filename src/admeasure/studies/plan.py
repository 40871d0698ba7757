"""What a study's file says (docs/how-to/studies.md has its form), checked before anything runs.

Paths begin at the file's folder. Every combination is one job for each epsilon and each seed.
Combinations that are the same run are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

from admeasure.errors import AdmeasureError, UsageError, WorkloadError
from admeasure.files import from_folder
from admeasure.limits import Limits
from admeasure.mechanisms import REGISTRY, LearnsFromPublic, Mechanism, build
from admeasure.planning.mechanism import options_of
from admeasure.queries.query import suggest
from admeasure.schema import Schema
from admeasure.sources.kinds import installed_kind
from admeasure.studies.budgets import Conversion, delta_for, epsilon_to_ask, read_delta
from admeasure.studies.jobs import Job, JudgedOn, Place, digest
from admeasure.untrusted import parse_toml, read_text
from admeasure.workload import parse_workload
from admeasure.workload.files import tables

STUDY = ("epsilons", "seeds", "workloads", "delta", "conversion", "judge", "seconds", "megabytes")
TABLE = ("name", "data", "schema", "public", "workloads")
MECHANISM = ("name", "options")
MOST_JOBS = 1_000_000


@dataclass(frozen=True)
class StudyPlan:
    """The jobs of a study, each once, and the limits of each."""

    jobs: tuple[Job, ...]
    limits: Limits


def load_plan(path: str | Path) -> StudyPlan:
    """The plan of a file; everything that can be refused without running is refused here."""
    path = Path(path)
    try:
        return _plan(parse_toml(read_text(path), str(path)), path.absolute().parent)
    except WorkloadError as error:
        raise UsageError(_in_file(path, error)) from None
    except AdmeasureError as error:
        raise type(error)(_in_file(path, error)) from None


def _in_file(path: Path, error: AdmeasureError) -> str:
    return str(error) if str(path) in str(error) else f"{path}: {error}"


def _plan(document: Mapping[str, Any], folder: Path) -> StudyPlan:
    _known(document, ("study", "table", "mechanism"), "the plan")
    study = document.get("study")
    if not isinstance(study, dict):
        raise UsageError("The plan has no [study]. Add one with epsilons, seeds and workloads.")
    _known(study, STUDY, "[study]")
    delta = read_delta(study.get("delta", 1e-9))
    conversion = study.get("conversion", "tight")
    if conversion not in get_args(Conversion):
        raise UsageError(f'conversion must be "tight" or "loose", not {conversion!r}.')
    epsilons = [_number(e, "epsilons") for e in _several(study, "epsilons")]
    for epsilon in epsilons:
        # Refuses what is no budget; how many rows there are does not matter to that.
        epsilon_to_ask(epsilon, delta_for(delta, 1000), conversion)
    seeds, judge = _seeds(study), study.get("judge", "answers")
    if judge not in get_args(JudgedOn):
        raise UsageError(f'judge must be "answers" or "rows", not {judge!r}.')
    limits = Limits(megabytes=_limit(study, "megabytes"), seconds=_limit(study, "seconds"))
    questions = list(_tables(document, study, folder))
    runs = [run for entry in _entries(document, "mechanism") for run in _mechanisms(entry)]
    if math.prod(map(len, (seeds, questions, runs, epsilons))) > MOST_JOBS:
        raise UsageError(f"A study has at most {MOST_JOBS:,} jobs. Divide the plan.")
    # The seed changes slowest, so that a study under way has every combination as soon as can be.
    jobs: dict[str, Job] = {}
    for seed, question, (given, built), epsilon in product(seeds, questions, runs, epsilons):
        table, workload, place, hashes = question
        if not isinstance(built, LearnsFromPublic):
            place = Place(place.data, place.schema, place.workload)
            hashes = {name: hashed for name, hashed in hashes.items() if name != "public"}
        job = Job(
            table=table,
            workload=workload,
            label=" ".join([built.name, *(f"{k}={v}" for k, v in given.items())]),
            mechanism=built.name,
            given=given,
            options=options_of(built),
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            judge=judge,
            hashes=hashes,
            place=place,
            conversion=conversion,
        )
        jobs[job.key] = job
    return StudyPlan(tuple(jobs.values()), limits)


def _tables(
    document: Mapping[str, Any], study: Mapping[str, Any], folder: Path
) -> Iterator[tuple[str, str, Place, dict[str, str]]]:
    """Each table with each of its workloads."""
    seen: set[str] = set()
    for entry in _entries(document, "table"):
        name = _text(entry, "name", "A [[table]]")
        called = f"Table {name!r}"
        if name in seen:
            raise UsageError(f"Two tables are named {name!r}. Rename one.")
        seen.add(name)
        _known(entry, TABLE, called)
        data = from_folder(_text(entry, "data", called), folder)
        schema_path = from_folder(_text(entry, "schema", called), folder)
        public = from_folder(_text(entry, "public", called), folder) if "public" in entry else None
        schema = Schema.load(schema_path)
        hashes = {"data": _contents(data), "schema": digest(schema.dumps())}
        if public is not None:
            hashes["public"] = _contents(public)
        for text in _several(entry if "workloads" in entry else study, "workloads"):
            if not isinstance(text, str):
                raise UsageError(f"A workload is a text, such as 'all-2way', not {text!r}.")
            rule = from_folder(text, folder) if text.endswith(".toml") else text
            workload = parse_workload(rule, schema.domain)
            place = Place(data, schema_path, rule, public)
            yield name, text, place, {**hashes, "workload": digest(workload.dumps())}


def _mechanisms(entry: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], Mechanism]]:
    """Each combination of the mechanism's options, and the mechanism with them."""
    name = _text(entry, "name", "A [[mechanism]]")
    _known(entry, MECHANISM, f"mechanism {name!r}")
    options = entry.get("options", {})
    if not isinstance(options, dict):
        raise UsageError(f"{name}: options must be a table, {{option = value}}, not {options!r}.")
    if name not in REGISTRY:
        build(name)  # says what there is
    grids = [_grid(name, option, values) for option, values in options.items()]
    if math.prod(map(len, grids)) > MOST_JOBS:
        raise UsageError(f"{name}: its options have more than {MOST_JOBS:,} combinations.")
    for combination in product(*grids):
        given = dict(zip(options, combination, strict=True))
        yield given, build(name, given)


def _grid(name: str, option: str, values: Any) -> list[str]:
    found = values if isinstance(values, list) else [values]
    if not found:
        raise UsageError(f"{name}: {option} is an empty list. Name a value, or leave it out.")
    if not all(isinstance(v, str | int | float) for v in found):
        raise UsageError(f"{name}: {option} must be a value or a list of values, not {values!r}.")
    return [str(v).lower() if isinstance(v, bool) else str(v) for v in found]


def _contents(data: str) -> str:
    """A hash of a table's files. Of a table elsewhere it is its place, without who asks: the hash
    is written down, and a password could be guessed from it."""
    return digest(installed_kind(data).identity(data))


def _seeds(study: Mapping[str, Any]) -> list[int]:
    given: Any = study.get("seeds", 1)
    if type(given) is int and given > MOST_JOBS:
        raise UsageError(f"A study has at most {MOST_JOBS:,} jobs, and so no more seeds.")
    seeds = list(range(given)) if type(given) is int else given
    if not isinstance(seeds, list) or not seeds or any(type(s) is not int or s < 0 for s in seeds):
        raise UsageError(
            f"seeds must be how many (1 or more), or a list of whole numbers, not {given!r}."
        )
    return seeds


def _entries(document: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    found = tables(document, kind, "the plan")
    if not found:
        raise UsageError(f"The plan has no [[{kind}]]. Add one.")
    return found


def _several(entry: Mapping[str, Any], key: str) -> list[Any]:
    found = entry.get(key)
    if not isinstance(found, list) or not found:
        raise UsageError(f"{key} must be a list with at least one entry: `{key} = […]`.")
    return found


def _number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{key} must be a number, not {value!r}.")
    return float(value)


def _limit(study: Mapping[str, Any], key: str) -> float | None:
    return _number(study[key], key) if key in study else None


def _text(entry: Mapping[str, Any], key: str, called: str) -> str:
    found = entry.get(key)
    if not isinstance(found, str) or not found:
        raise UsageError(f'{called} has no {key}. Add `{key} = "…"`.')
    return found


def _known(entry: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in names:
            raise UsageError(f"There is no {key!r} in {where}. {suggest(key, names)}")
