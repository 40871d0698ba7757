"""Special folders: lying headers, pickles, bombs, paths, links, pipes, devices, no heads.

Each with right hashes, as a hostile author would write them.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import os
import pickle
import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from admeasure.auditing.release import audit_release
from admeasure.errors import ReleaseError
from admeasure.mechanisms import build
from admeasure.release import Release, store
from admeasure.schema import Schema
from admeasure.verbs.fit import fit


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sound") / "release"
    fit(
        {"a": [0, 1, 1], "b": [0, 0, 1]},
        Schema.coded("toy", {"a": 2, "b": 2}),
        workload="all-2way",
        mechanism=build("mwem", {"rounds": "2"}),
        epsilon=2.0,
        delta=1e-6,
        out=out,
    )
    return out


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


def npz(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def with_file(sound: Path, target: Path, name: str, content: bytes) -> Path:
    return rewrite(sound, target, lambda head, files: files.update({name: content}))


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2**70,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<U99999999', 'fortran_order': False, 'shape': (), }",
        "__import__('os').system('touch evaluated')",
        "{" * 3000,
    ],
)
def test_a_header_that_lies_is_refused_and_takes_no_memory(sound, tmp_path, header, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = pickle.dumps(Evil()) if "|O" in header else b"\0" * 16
    content = npz({"weights.npy": npy(header, body), "total.npy": npy(header, body)})
    path = with_file(sound, tmp_path / "copy", "model.npz", content)
    with pytest.raises(ReleaseError):
        Release.load(path)
    assert not (tmp_path / "evaluated").exists()
    assert not (tmp_path / "unpickled").exists()


class Evil:
    def __reduce__(self):
        return (os.system, ("touch unpickled",))


def test_a_pickled_array_is_never_unpickled(sound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], dtype=object), allow_pickle=True)
    content = npz({"weights.npy": buffer.getvalue()})
    with pytest.raises(ReleaseError):
        Release.load(with_file(sound, tmp_path / "copy", "model.npz", content))
    with pytest.raises(ReleaseError):
        Release.load(with_file(sound, tmp_path / "copy", "model.npz", pickle.dumps(Evil())))
    assert not (tmp_path / "unpickled").exists()


def test_a_file_that_unpacks_to_more_than_the_machine_can_spare_is_refused(
    sound, tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "spare_megabytes", lambda: 1.0)
    bomb = npz({"weights.npy": b"\0" * 3_000_000})
    assert len(bomb) < 10_000
    with pytest.raises(ReleaseError):
        Release.load(with_file(sound, tmp_path / "copy", "model.npz", bomb))


@pytest.mark.parametrize("name", ["../escape.npy", "/tmp/escape.npy", "a/../../escape.npy"])
def test_members_with_paths_write_nothing_anywhere(sound, tmp_path, name):
    content = npz({name: npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", b"\0" * 8)})
    before = set(tmp_path.rglob("*")) | set(Path("/tmp").glob("escape*"))
    with pytest.raises(ReleaseError):
        Release.load(with_file(sound, tmp_path / "copy", "model.npz", content))
    shutil.rmtree(tmp_path / "copy")
    assert set(tmp_path.rglob("*")) | set(Path("/tmp").glob("escape*")) == before


def _link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside)


def _pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def _device(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _socket(path: Path, outside: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("spoil", [_link, _pipe, _folder, _device, _socket])
@pytest.mark.parametrize("name", ["model.npz", "release.json", "schema.toml"])
def test_what_is_not_a_plain_file_of_the_folder_is_refused(
    sound, tmp_path, spoil, name, monkeypatch
):
    """Even where the hash of what a link leads to is right."""
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "outside"
    shutil.copytree(sound, Path("copy"))
    shutil.copy(Path("copy") / name, outside)
    spoil(Path("copy") / name, outside)
    with pytest.raises(ReleaseError):
        Release.load("copy")
    with pytest.raises(ReleaseError):
        raise_unless_refused("copy")


def raise_unless_refused(path: str) -> None:
    if not audit_release(path).holds:
        raise ReleaseError("the audit refuses it")


def test_only_the_named_files_of_the_folder_are_opened(sound, tmp_path, monkeypatch):
    """Names that release.json brings along are never opened, whatever they are."""
    names = {"../../../../etc/passwd": "0" * 64, "/etc/passwd": "0" * 64}

    def change(head, files):
        head["sha256"] |= names
        head["files"] = list(names)

    path = rewrite(sound, tmp_path / "copy", change)
    opened: list[str] = []
    plain_os, plain = os.open, builtins.open
    monkeypatch.setattr(
        os, "open", lambda p, *a, **k: opened.append(str(p)) or plain_os(p, *a, **k)
    )
    monkeypatch.setattr(
        builtins, "open", lambda p, *a, **k: opened.append(str(p)) or plain(p, *a, **k)
    )
    Release.load(path)
    inside = {str(path / name) for name in ("release.json", *store.FILES)}
    assert inside <= set(opened)
    assert not [p for p in opened if "passwd" in p]


@pytest.mark.parametrize("text", ["[" * 100_000, "", "null", "[]", "1", '{"format": 1}', "{"])
def test_a_head_that_is_none_is_refused(sound, tmp_path, text):
    shutil.copytree(sound, tmp_path / "copy")
    (tmp_path / "copy" / "release.json").write_text(text)
    with pytest.raises(ReleaseError):
        Release.load(tmp_path / "copy")
    with pytest.raises(ReleaseError):
        audit_release(tmp_path / "copy")
