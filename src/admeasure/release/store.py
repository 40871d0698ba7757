"""A release as a folder: written whole or not at all, read without trust.

release.json       format, mechanism, certificate, hashes of the other files
certificate.yaml   the same promise with the fields of the OpenDP deployments registry
schema.toml        workload.toml
measurements.npz   noisy answers, one array for each measurement, in the order of the log
model.npz          the model's arrays (never pickled)
inside.npz         how values lie inside private bins, if any: leaves, their shares and noisy counts
log.jsonl          what the curator gave out, in order, with costs and hashes of the values

Reading trusts nothing: only these names are opened, never through a link, never what is not a plain
file; sizes are checked before memory is taken for them; nothing is unpickled or evaluated.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import shutil
import stat
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.errors import AdmeasureError, ReleaseError, ResourceError, UsageError
from admeasure.limits import available_megabytes
from admeasure.privacy.journal import flush_folder
from admeasure.untrusted import parse_json

FORMAT = 1
FILES = ("schema.toml", "workload.toml", "measurements.npz", "model.npz", "log.jsonl")

INSIDE = "inside.npz"
"""What only some releases have."""

LARGEST_MEGABYTES = 8192.0
"""The most that one file of a release may take, and all arrays in it together."""

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What the system calls a disk with no room."""


class DiskFull(ResourceError):
    """There was no room to write."""


def not_written(path: Path, error: OSError) -> AdmeasureError:
    """Why something could not be written, in words."""
    if error.errno in FULL:
        return DiskFull(f"{path} could not be written: {error.strerror}. Make room first.")
    return UsageError(f"{path} could not be written: {error.strerror}. Name another place.")


def write_durably(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and flush it and its name to the disk."""
    fresh = path.with_name(f".{path.name}.new")
    with open(fresh, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    flush_folder(path.parent)


def spare_megabytes() -> float:
    """What one file of a release may take on this machine now."""
    return min(LARGEST_MEGABYTES, available_megabytes() / 2)


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


def write_folder(
    path: Path,
    files: Mapping[str, bytes],
    head: dict[str, Any],
    scratch: Path | None = None,
    *,
    overwrite: bool = False,
    called: str = "release.json",
) -> None:
    """Write all files and the head beside the target (or in `scratch`, a folder on the same disk),
    flush them, then rename the folder. A release that stands there is moved away for that moment,
    and removed when the new one is in its place."""
    old = None
    if overwrite and path.exists():
        _check_release(path)
        old = path.with_name(f".{path.name}.{os.getpid()}.old")
    else:
        check_free(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    if scratch is not None:
        fresh = scratch / "release"
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        text = json.dumps({"format": FORMAT, **head, "sha256": hashes}, indent=1)
        for name, content in {**files, called: text.encode()}.items():
            write_durably(fresh / name, content)
        fresh.chmod(0o755)
        _date_by_day(fresh)
        if old is not None:
            os.rename(path, old)
        try:
            os.rename(fresh, path)
        except OSError:
            if old is not None:
                os.rename(old, path)
            raise
        flush_folder(path.parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise not_written(path, error) from None
    if old is not None:
        shutil.rmtree(old)


def _check_release(path: Path) -> None:
    """Refuse to replace what is no release: somebody's folder of other files would be lost."""
    known = {*FILES, INSIDE, "release.json", "certificate.yaml"}
    others = [] if not path.is_dir() else [p.name for p in path.iterdir() if p.name not in known]
    if path.is_symlink() or not (path / "release.json").is_file() or others:
        raise UsageError(
            f"{path} is not a release, or holds other files too, so it is not replaced. Name "
            "another folder, or remove it first."
        )


def _date_by_day(folder: Path) -> None:
    """Date a folder and what is in it by the day: the second in which a run ended tells how long it
    took, and that depends on the table."""
    day = int(time.time()) // 86400 * 86400
    for path in (*folder.iterdir(), folder):
        os.utime(path, (day, day))


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The head and the files of a release, checked against their hashes."""
    if not (path / "release.json").is_file():
        raise ReleaseError(
            f"{path} is not a release: it has no release.json. Give the folder that fit wrote."
        )
    head = read_head(path)
    files = {}
    for name in (*FILES, *({INSIDE} & set(head["sha256"]))):
        files[name] = read_plain(path / name)
        if head["sha256"].get(name) != hashlib.sha256(files[name]).hexdigest():
            raise ReleaseError(
                f"{path / name} is damaged or changed: its hash does not match. Fetch the release "
                "again."
            )
    return head, files


def read_head(path: Path) -> dict[str, Any]:
    """release.json, of a format that is known here."""
    try:
        head = parse_json(read_plain(path / "release.json"), "release.json", ReleaseError)
        version, hashes = head["format"], head["sha256"]
    except (ReleaseError, KeyError):
        raise ReleaseError(
            f"{path / 'release.json'} is damaged. Fetch the release again."
        ) from None
    if not isinstance(version, int) or version > FORMAT or not isinstance(hashes, dict):
        raise ReleaseError(
            f"{path} has a release format that this version does not read: it reads up to "
            f"{FORMAT}. Update admeasure."
        )
    return head


def read_plain(path: Path) -> bytes:
    """The content of a plain file of a sound size. A link, a pipe or a device is refused: a folder
    from elsewhere must not make us read what lies outside of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ReleaseError(f"{path} is not a plain file. Fetch the release again.")
            if found.st_size > spare_megabytes() * 2**20:
                raise ReleaseError(f"{path} takes more memory than there is. Use a larger machine.")
            return file.read(found.st_size)
    except OSError as error:
        raise ReleaseError(
            f"{path} cannot be read: {error.strerror}. Fetch the release again."
        ) from None


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{k: np.asarray(v) for k, v in arrays.items()})  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def unpack_arrays(content: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, of plain numbers, truth values or texts."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as stored:
            if sum(member.file_size for member in stored.infolist()) > spare_megabytes() * 2**20:
                raise ValueError("too large")
            return {
                member.filename.removesuffix(".npy"): _array(stored, member)
                for member in stored.infolist()
            }
    except Exception:  # whatever a hostile file provokes in the readers of its formats
        raise ReleaseError(
            f"{name} is damaged: it is not a file of plain arrays. Fetch it again."
        ) from None


def _array(stored: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array. Its header must agree with the bytes there are, before any is made of them."""
    with stored.open(member) as file:
        # One byte more than announced tells a member that unpacks to more than it says.
        raw = file.read(member.file_size + 1)
    if len(raw) != member.file_size:
        raise ValueError("a member is not as long as it says")
    body = io.BytesIO(raw)
    version = np.lib.format.read_magic(body)
    if version not in _HEADERS:
        raise ValueError("an unknown version of the array format")
    shape, column_order, dtype = _HEADERS[version](body)
    if dtype.kind not in "biufU" or dtype.hasobject:
        raise ValueError("not an array of numbers or texts")
    values = np.frombuffer(raw, dtype=dtype, offset=body.tell(), count=math.prod(shape))
    if body.tell() + values.nbytes != len(raw):
        raise ValueError("an array is not as long as its header says")
    return values.reshape(shape, order="F" if column_order else "C").copy()


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
