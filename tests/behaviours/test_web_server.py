"""The page stays up: connections that never say anything, bodies without end, a damaged folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

LocalPage = Any
DEEP = 100_000
PATIENCE = 120.0


@pytest.fixture(scope="module")
def page(run_page: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPage]:
    found = run_page(tmp_path_factory.mktemp("page"), files=256)
    yield found
    assert found.stop() == 0


def half_open(port: int, sent: bytes) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    if sent:
        found.sendall(sent)
    return found


def megabytes(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


HEADS = {
    "nothing": b"",
    "half a line": b"GE",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\nX: ",
    "a long head": b"GET / HTTP/1.1\r\nX: " + b"x" * 30_000,
}


def test_hundreds_of_half_open_connections_do_not_keep_a_browser_out(
    page: LocalPage, times: Callable[[int, int], int], tally: Callable[[str, int], None]
) -> None:
    """More of them than the page may have files open, and the page is answered each time."""
    before = megabytes(page.process.pid)
    many = times(300, 3000)
    held: list[socket.socket] = []
    for i in range(many):
        held.append(half_open(page.port, list(HEADS.values())[i % len(HEADS)]))
        if i % 100 == 99:
            assert page.ask("/book")[0] == 200
            assert len(os.listdir(f"/proc/{page.process.pid}/fd")) < 128, "far below its limit"
            del held[:-200]  # the client's own files
    assert page.ask("/")[0] == 200
    assert megabytes(page.process.pid) - before < 100
    for one in held:
        one.close()
    tally("page: half-open connections, and every request answered", many)


@pytest.fixture
def hasty(run_page: Any, tmp_path: Path) -> Iterator[LocalPage]:
    found = run_page(tmp_path, patience=2.0)
    yield found
    assert found.stop() == 0


def test_a_connection_that_sends_no_whole_request_is_closed(hasty: LocalPage) -> None:
    """Also one that sends a head drop by drop, or a stranger's body that never comes."""
    deadline = time.monotonic() + PATIENCE
    waiting = [half_open(hasty.port, sent) for sent in HEADS.values()]
    waiting.append(refused(hasty.port, deadline))
    dropping = half_open(hasty.port, b"GET / HTTP/1.1\r\n")
    dropping.settimeout(0.5)
    while not dropped(dropping):
        assert time.monotonic() < deadline, "it was never closed"
    for one in waiting:
        assert closed(one)


def refused(port: int, deadline: float) -> socket.socket:
    """A stranger's request, answered, whose body never comes; tried again where this process was
    too slow to send its head in time."""
    head = b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % port + LONG_BODY
    while time.monotonic() < deadline:
        found = half_open(port, b"")
        with contextlib.suppress(OSError):
            found.sendall(head)
            if found.recv(12) == b"HTTP/1.1 403":
                return found
    raise AssertionError("it was never answered")


LONG_BODY = b"Content-Length: 9999999\r\n\r\n"


def dropped(waiting: socket.socket) -> bool:
    """Send one header more; whether the other side has closed."""
    try:
        waiting.sendall(b"X: y\r\n")
        return waiting.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def closed(waiting: socket.socket) -> bool:
    """Read to the end; a timeout is an error."""
    try:
        while waiting.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return True


BODIES: dict[str, bytes] = {
    "deep JSON": b'{"data": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "an unclosed depth": b"[" * DEEP,
    "not JSON": b"data=1",
    "not text": b"\xff\xfe\x00",
    "a list": b"[1]",
    "a long number": b'{"data": ' + b"9" * 5000 + b"}",
    "a huge number": b'{"data": 1e999999999}',
    "too much": b'{"data": "' + b"x" * (9 << 20) + b'"}',
    "no such home": b'{"data": "~nobody-of-this-name/x.csv"}',
    "an option": b'{"data": "--help://"}',
    "a zero byte": b'{"data": "a\\u0000b"}',
    "half a character": b'{"data": "\\ud800"}',
    "nothing inside": b"{}",
}


@pytest.mark.parametrize("raw", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("where", ["/open", "/demo/schema/text", "/demo/start", "/book/create"])
def test_a_hostile_body_is_refused_in_words(page: LocalPage, where: str, raw: bytes) -> None:
    path = where.replace("/demo", f"/tables/{one_table(page)}")
    status, text = page.ask(path, raw=raw)
    assert status in (400, 422)
    assert len(json.loads(text)["error"]) > 10
    assert page.ask("/")[0] == 200


TOML = {
    "deep": "a = " + "[" * 20_000 + "]" * 20_000,
    "deep tables": "[" + ".".join("a" * 20_000) + "]",
    "a long number": "a = " + "9" * 5000,
    "not TOML": "a = = 1",
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_hostile_schema_is_refused_in_words(page: LocalPage, text: str) -> None:
    name = one_table(page)
    version = json.loads((page.folder / f"tables/{name}/table.json").read_text())["version"]
    for path, body in (
        (f"/tables/{name}/schema/text", {"text": text, "version": version}),
        (f"/tables/{name}/workload/save", {"workload": text, "version": version}),
    ):
        status, answer = page.ask(path, body)
        assert status in (400, 422)
        assert json.loads(answer)["error"]
    assert page.ask("/")[0] == 200


def one_table(page: LocalPage) -> str:
    found = [p.parent.name for p in page.folder.glob("tables/adult*/table.json")]
    return found[0] if found else page.demo()


def _link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(3 << 30)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda p: p.write_bytes(b""),
    "not JSON": lambda p: p.write_bytes(b"{"),
    "not text": lambda p: p.write_bytes(b"\xff\xff"),
    "a list": lambda p: p.write_bytes(b"[]"),
    "an empty object": lambda p: p.write_bytes(b"{}"),
    "other kinds": lambda p: p.write_bytes(
        b'{"data": 1, "header": {}, "form": [], "version": "1", "mechanism": [], "options": 3}'
    ),
    "deep": lambda p: p.write_bytes(b"[" * DEEP),
    "a long number": lambda p: p.write_bytes(b'{"version": ' + b"9" * 5000 + b"}"),
    "huge": _huge,
    "a pipe": os.mkfifo,
    "a device": _link_to_zeros,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_table_is_named_and_the_others_can_be_worked_with(
    page: LocalPage, damage: Callable[[Path], Any]
) -> None:
    sound = one_table(page)
    folder = page.folder / "tables" / f"broken-{len(os.listdir(page.folder / 'tables'))}"
    (folder / "runs").mkdir(parents=True)
    damage(folder / "table.json")
    try:
        status, text = page.ask("/")
        assert status == 200
        assert sound in text
        assert folder.name in text
        assert "is damaged" in text
        for step in ("schema", "workload", "budget"):
            status, text = page.ask(f"/tables/{folder.name}/{step}")
            assert status == 404
            assert "damaged" in text or "no such table" in text
        status, text = page.ask(f"/tables/{folder.name}/schema/save", {"form": {}, "version": 1})
        assert status in (400, 422)
        assert page.ask(f"/tables/{sound}/schema")[0] == 200
    finally:
        (folder / "table.json").unlink()


@pytest.mark.parametrize(
    "name", ["run.json", "ended.json", "lock", "release.partial/journal.jsonl"]
)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_run_is_shown_as_such(
    page: LocalPage, damage: Callable[[Path], Any], name: str
) -> None:
    table = one_table(page)
    run = page.folder / "tables" / table / "runs" / "7"
    run.mkdir()
    request = dict.fromkeys(
        ("rule", "epsilon", "delta", "public", "dataset", "ledger", "nonce"), "1"
    )
    request |= {"data": "x.csv", "mechanism": "gaussian", "rule": "all-2way"}
    (run / "run.json").write_text(json.dumps({**request, "options": {}, "rho": 1.0}))
    schema = (page.folder / "tables" / table / "schema.toml").read_text()
    (run / "schema.toml").write_text(schema)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    damage(run / name)
    at = f"/tables/{table}/runs/7"
    try:
        status, text = page.ask("/")
        assert status == 200
        assert f"{at}" in text or stat.S_ISFIFO((run / name).lstat().st_mode)
        assert page.ask(at)[0] in (200, 404)
        assert page.ask(f"{at}/events")[0] in (200, 404)
        assert page.ask(f"{at}/cancel", {})[0] in (200, 422)
        assert page.ask(f"/tables/{table}/compare")[0] in (200, 404)
        assert page.ask(f"{at}/download/report.html")[0] == 404
    finally:
        (run / name).unlink()
        for path in sorted(run.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        run.rmdir()
