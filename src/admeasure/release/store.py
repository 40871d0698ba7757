"""A release as a folder: written whole or not at all, read without trust.

release.json       format, mechanism, certificate, hashes of the other files
certificate.yaml   the same promise with the fields of the OpenDP deployments registry
schema.toml        workload.toml
measurements.npz   noisy answers, one array for each measurement, in the order of the log
model.npz          the model's arrays (never pickled)
log.jsonl          what the curator gave out, in order, with costs and hashes of the values
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.errors import ReleaseError, UsageError

FORMAT = 1
FILES = ("schema.toml", "workload.toml", "measurements.npz", "model.npz", "log.jsonl")


def partial_folder(path: Path) -> Path:
    """Where a run that will become the release at `path` keeps its journal."""
    return path.with_name(path.name + ".partial")


def check_free(path: Path) -> None:
    """Refuse a place where the release could not be written, before anything is spent."""
    if path.exists():
        raise UsageError(f"{path} exists already. Name another folder, or remove it first.")
    parent = path.parent
    if not parent.is_dir():
        raise UsageError(f"The folder {parent} does not exist. Create it, or name another place.")
    if not os.access(parent, os.W_OK):
        raise UsageError(f"The folder {parent} cannot be written to. Name another place.")


def write_folder(path: Path, files: Mapping[str, bytes], head: dict[str, Any]) -> None:
    """Write all files and the head beside the target, flush them, then rename the folder."""
    check_free(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.mkdir(mode=0o700)
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        text = json.dumps({"format": FORMAT, **head, "sha256": hashes}, indent=1)
        for name, content in {**files, "release.json": text.encode()}.items():
            with open(fresh / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        os.rename(fresh, path)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UsageError(f"{path} could not be written: {error.strerror}.") from None
    path.chmod(0o755)


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The head and the files of a release, checked against their hashes."""
    head_file = path / "release.json"
    if not head_file.is_file():
        raise ReleaseError(
            f"{path} is not a release: it has no release.json. Give the folder that fit wrote."
        )
    try:
        head = json.loads(head_file.read_bytes())
        version, hashes = head["format"], head["sha256"]
    except (ValueError, TypeError, KeyError, OSError):
        raise ReleaseError(f"{head_file} is damaged. Fetch the release again.") from None
    if not isinstance(version, int) or version > FORMAT:
        raise ReleaseError(
            f"{path} has release format {version}, and this version reads up to {FORMAT}. "
            "Update admeasure."
        )
    files = {}
    for name in FILES:
        try:
            content = (path / name).read_bytes()
        except OSError:
            raise ReleaseError(f"{path} lacks {name}. Fetch the release again.") from None
        if hashes.get(name) != hashlib.sha256(content).hexdigest():
            raise ReleaseError(f"{path / name} is damaged or changed: its hash does not match.")
        files[name] = content
    return head, files


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{k: np.asarray(v) for k, v in arrays.items()})  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def unpack_arrays(content: bytes, name: str) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
        raise ReleaseError(f"{name} is damaged: it is not a plain array file.") from None
