"""From the files of a release folder to the parts of a `Release`, each validated before use.

A release may come from anybody. Whatever is wrong with one, by accident or on purpose, is a
`ReleaseError`: nothing here unpickles, evaluates, follows a link or takes memory on the word of a
header.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from admeasure.certificate import Certificate
from admeasure.domain import Domain, canonical
from admeasure.errors import ReleaseError
from admeasure.families import HALF_NORMAL, Model
from admeasure.families.answers import AnswersModel
from admeasure.families.graphical.family import GraphicalModel
from admeasure.families.registry import MODELS
from admeasure.measurement import Measurement, NoisyErrors
from admeasure.privacy.events import LARGEST_SIGMA, Event, read_event
from admeasure.queries import from_record
from admeasure.release import store
from admeasure.schema import Schema
from admeasure.schema.inside import Inside
from admeasure.selectors.evidence import Selection
from admeasure.workload import Workload

_SELECTIONS = TypeAdapter(tuple[Selection, ...])
_FACTS = TypeAdapter(dict[str, int | float])
ERRORS = "errors"
"""Under what a release keeps the errors of its model: their values, and the scale of the noise."""


def parts(folder: Path) -> dict[str, Any]:
    """The fields of the release at `folder`, or a `ReleaseError`."""
    return parts_of(*store.read_folder(folder), str(folder))


def parts_of(head: Mapping[str, Any], files: Mapping[str, bytes], folder: str) -> dict[str, Any]:
    """The same, of the head and the files of a folder."""
    try:
        schema = Schema.loads(files["schema.toml"].decode())
        workload = Workload.loads(files["workload.toml"].decode())
        workload.validate(schema.domain)
        certificate = Certificate.from_json(head["certificate"])
        if head["stamp"] != certificate.stamp:
            raise ReleaseError(f"{folder} is damaged: its stamp is not that of its certificate.")
        return {
            "schema": schema,
            "workload": workload,
            "model": _model(head["model"], schema.domain, files["model.npz"]),
            "measurements": _measurements(head["measurements"], schema.domain, files),
            "selections": _selections(head["selections"], schema.domain),
            "certificate": certificate,
            "facts": _FACTS.validate_python(head["facts"]),
            "log": read_log(files["log.jsonl"]),
            "errors": _errors(head.get(ERRORS), workload, files),
            "inside": read_inside(schema, files),
        }
    except ReleaseError as error:
        said = str(error)
        raise ReleaseError(said if ". " in said else f"{said} Fetch the release again.") from None
    except Exception as error:  # whatever a hostile file provokes in the readers of its parts
        raise ReleaseError(
            f"{folder} is damaged: {type(error).__name__} while reading it. Fetch it again."
        ) from None


def read_log(content: bytes) -> tuple[Event, ...]:
    """The events of log.jsonl."""
    return tuple(read_event(line, "log.jsonl") for line in content.splitlines())


def _measurements(
    records: list[Any], domain: Domain, files: Mapping[str, bytes]
) -> tuple[Measurement, ...]:
    values = store.unpack_arrays(files["measurements.npz"], "measurements.npz")
    found = []
    for i, record in enumerate(records):
        query, array, sigma = from_record(record["query"]), values[f"m{i}"], float(record["sigma"])
        query.validate(domain)
        fits = array.dtype == np.int64 and array.shape == query.shape(domain)
        if not (fits and 0 <= sigma <= LARGEST_SIGMA):
            raise ReleaseError(f"The measurement number {i} of the release is not sound.")
        found.append(Measurement(query, array, sigma))
    return tuple(found)


def _errors(sigma: Any, workload: Workload, files: Mapping[str, bytes]) -> NoisyErrors | None:
    """The certificate of accuracy, where the run bought one."""
    if sigma is None:
        return None
    values = store.unpack_arrays(files["measurements.npz"], "measurements.npz")[ERRORS]
    marginals, scale = workload.marginals(), float(sigma)
    fits = values.dtype == np.int64 and values.shape == (1 + len(marginals),)
    if not (fits and 0 < scale <= LARGEST_SIGMA):
        raise ReleaseError("The errors that the release states are not sound. Fetch it again.")
    return NoisyErrors(marginals, values, scale, weighs_alike=workload.weighs_alike)


def read_inside(schema: Schema, files: Mapping[str, bytes]) -> dict[str, Inside]:
    if store.INSIDE not in files:
        return {}
    arrays, found = store.unpack_arrays(files[store.INSIDE], store.INSIDE), {}
    for i, column in enumerate(schema.columns):
        if f"starts{i}" in arrays:
            counts, sigma = arrays.get(f"counts{i}"), arrays.get(f"sigma{i}", np.zeros(()))
            sound = sigma.shape == () and sigma.dtype == np.float64
            inside = Inside(
                arrays[f"starts{i}"], arrays[f"shares{i}"], counts, float(sigma) if sound else 0.0
            )
            if not (sound and column.fits(inside)):
                raise ReleaseError(f"{store.INSIDE} does not fit the schema of its release.")
            found[column.name] = inside
    return found


def _selections(records: list[Any], domain: Domain) -> tuple[Selection, ...]:
    maps = ("weights", "distances")
    found = _SELECTIONS.validate_python(
        [
            # Releases of before there was another penalty have the paper's.
            {"penalty": HALF_NORMAL * r["sigma"]}
            | r
            | {k: {tuple(c): v for c, v in r[k]} for k in maps}
            for r in records
        ]
    )
    for s in found:
        numbers = (s.sigma, s.penalty, s.epsilon, s.sensitivity, s.estimated, s.share)
        named = {s.chosen, *s.weights, *s.distances}
        weighed = {s.chosen, *s.distances} <= set(s.weights)
        sound = all(math.isfinite(x) and x >= 0 for x in numbers) and s.epsilon > 0
        sound = sound and all(w > 0 for w in s.weights.values())
        if not (weighed and sound and all(c in domain for columns in named for c in columns)):
            raise ReleaseError("A selection of the release is not sound. Fetch it again.")
    return found


def _model(kind: str, domain: Domain, content: bytes) -> Model:
    arrays = store.unpack_arrays(content, "model.npz")
    if kind == GraphicalModel.kind:
        _check_tree(domain, arrays)
    model = MODELS[kind].load(domain, arrays)
    if isinstance(model, GraphicalModel) and model.megabytes > store.spare_megabytes():
        raise ReleaseError(
            "The model takes more memory than there is. Read the release on a larger machine."
        )
    if not (math.isfinite(model.total) and model.total >= 0):
        raise ReleaseError("model.npz holds no number of rows.")
    if isinstance(model, AnswersModel) and not all(
        math.isfinite(v) and v > 0 for v in model.variances.values()
    ):
        raise ReleaseError("model.npz holds a variance that is none.")
    return model


def _check_tree(domain: Domain, arrays: Mapping[str, np.ndarray]) -> None:
    """A junction tree has no more nodes than attributes; building it takes time for each pair."""
    levels = domain.shape(canonical(domain.columns))
    if tuple(arrays["levels"].tolist()) != levels or len(arrays["nodes"]) > len(levels):
        raise ReleaseError("model.npz does not fit the schema of its release.")
