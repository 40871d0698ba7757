"""The parts of a `Release` as the files of its folder; and from these back, each validated first.

A release may come from anybody. Whatever is wrong with one, by accident or on purpose, is a
`ReleaseError`: nothing here unpickles, evaluates, follows a link or takes memory on the word of a
header.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from admeasure.certificate import Certificate, registry_yaml
from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ReleaseError
from admeasure.families import HALF_NORMAL, Model
from admeasure.families.answers import AnswersModel
from admeasure.families.graphical.family import GraphicalModel
from admeasure.families.registry import MODELS
from admeasure.measurement import Measurement, NoisyErrors
from admeasure.privacy.events import LARGEST_SIGMA, read_event
from admeasure.queries import from_record, to_record
from admeasure.release import store
from admeasure.schema import Schema
from admeasure.schema.inside import Inside
from admeasure.selectors.evidence import Selection
from admeasure.workload import Workload

if TYPE_CHECKING:
    from admeasure.release.release import Release

STORED_FACTS = ("rounds", "model_megabytes")
_SELECTIONS = TypeAdapter(tuple[Selection, ...])
_MAPS = ("weights", "distances")
"""Of a selection: by columns, which are no key of JSON."""
_FACTS = TypeAdapter(dict[str, int | float])
ERRORS = "errors"
"""Under what a release keeps the errors of its model: their values, and the scale of the noise."""
ERRORS_OF = "errors_of"
"""The hash of the marginals that these are of, which whoever reads the release draws again."""


def contents(release: Release) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The head of a release's folder, and its other files."""
    schema, certificate, errors = release.schema, release.certificate, release.errors
    values = {f"m{i}": m.values for i, m in enumerate(release.measurements)}
    certified = {}
    if errors is not None:
        values[ERRORS] = errors.values
        certified = {ERRORS: errors.sigma, ERRORS_OF: _digest(errors.marginals)}
    document = registry_yaml(certificate, schema.table.name, schema.domain.columns)
    files = {
        "schema.toml": schema.dumps().encode(),
        "workload.toml": release.workload.dumps().encode(),
        "measurements.npz": store.pack_arrays(values),
        "model.npz": store.pack_arrays(release.model.arrays()),
        "log.jsonl": "".join(json.dumps(event) + "\n" for event in release.log).encode(),
        "certificate.yaml": document.encode(),
    }
    if release.inside:
        files[store.INSIDE] = store.pack_arrays(leaf_arrays(release.inside, schema))
    head = {
        "stamp": certificate.stamp,
        "model": release.model.kind,
        "certificate": certificate.to_json(),
        "facts": {k: v for k, v in release.facts.items() if k in STORED_FACTS},
        "measurements": [
            {"query": to_record(m.query), "sigma": m.sigma} for m in release.measurements
        ],
        "selections": [_selection_record(s) for s in release.selections],
        **certified,
    }
    return head, files


def parts(folder: Path) -> dict[str, Any]:
    """The fields of the release at `folder`, or a `ReleaseError`."""
    head, files = store.read_folder(folder)
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
            "log": tuple(read_event(line, "log.jsonl") for line in files["log.jsonl"].splitlines()),
            "errors": _errors(head, workload, files),
            "inside": read_inside(schema, files),
        }
    except ReleaseError as error:
        said = str(error)
        raise ReleaseError(said if ". " in said else f"{said} Fetch the release again.") from None
    except Exception as error:  # whatever a hostile file provokes in the readers of its parts
        raise ReleaseError(
            f"{folder} is damaged: {type(error).__name__} while reading it. Fetch it again."
        ) from None


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


def _errors(
    head: Mapping[str, Any], workload: Workload, files: Mapping[str, bytes]
) -> NoisyErrors | None:
    """The certificate of accuracy, where the run bought one."""
    if head.get(ERRORS) is None:
        return None
    values = store.unpack_arrays(files["measurements.npz"], "measurements.npz")[ERRORS]
    scale, of = float(head[ERRORS]), workload.of_errors(values.size - 1)
    marginals = of.marginals()
    fits = values.dtype == np.int64 and values.shape == (1 + len(marginals),)
    if not (fits and 0 < scale <= LARGEST_SIGMA):
        raise ReleaseError("The errors that the release states are not sound. Fetch it again.")
    digest = _digest(marginals)
    if head.get(ERRORS_OF, digest) != digest:  # older releases do not say
        raise ReleaseError(
            "The release states errors of other marginals than this version draws from its "
            "workload. Read it with the version that its certificate names."
        )
    return NoisyErrors(marginals, values, scale, weighs_alike=of.weighs_alike)


def _digest(marginals: Sequence[Columns]) -> str:
    return hashlib.sha256(json.dumps(marginals).encode()).hexdigest()


def leaf_arrays(inside: Mapping[str, Inside], schema: Schema) -> dict[str, np.ndarray]:
    """By the numbers of the columns: an array's name must be a file's."""
    arrays = {}
    for i, name in enumerate(schema.names):
        if name in inside:
            of = inside[name]
            arrays |= {f"starts{i}": of.starts, f"shares{i}": of.shares}
            if of.counts is not None:
                arrays |= {f"counts{i}": of.counts, f"sigma{i}": np.array(of.sigma)}
    return arrays


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


def _selection_record(selection: Selection) -> dict[str, Any]:
    record = asdict(selection)
    return record | {k: [[list(c), v] for c, v in record[k].items()] for k in _MAPS}


def _selections(records: list[Any], domain: Domain) -> tuple[Selection, ...]:
    found = _SELECTIONS.validate_python(
        [
            # Releases of before there was another penalty have the paper's.
            {"penalty": HALF_NORMAL * r["sigma"]}
            | r
            | {k: {tuple(c): v for c, v in r[k]} for k in _MAPS}
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
