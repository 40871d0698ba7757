"""A real `admeasure ui` and a client of it, over real sockets."""

from __future__ import annotations

import http.client
import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0
"""Seconds; the machine may be busy. No test asserts a speed."""


@dataclass
class LocalPage:
    """A running page, and a browser's part in a few words."""

    process: subprocess.Popen[str]
    folder: Path
    start: Path
    port: int
    keys: dict[str, str]
    root: str

    def ask(
        self, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> tuple[int, str]:
        """Status and body of a GET, or of a POST where there is a body."""
        content = json.dumps(body).encode() if raw is None and body is not None else raw
        ours = {**self.keys, "origin": f"http://127.0.0.1:{self.port}"} if content else self.keys
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            method = "GET" if content is None else "POST"
            connection.request(method, self.root + path, content, {**ours, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> dict[str, Any]:
        status, text = self.ask(path, body)
        return {**json.loads(text), "status": status}

    def demo(self) -> str:
        """The bundled table; its name."""
        return self.post("/demo", {})["next"].split("/")[2]

    def ended(self, address: str) -> str:
        """The state in which a run ends."""
        run = self.folder / address.strip("/")
        deadline = time.monotonic() + PATIENCE
        while not (run / "ended.json").exists():
            assert time.monotonic() < deadline, "the run did not end"
            time.sleep(0.1)
        while (found := self.state(address)) == "running":  # its process is on its way out
            assert time.monotonic() < deadline, "the run did not end"
            time.sleep(0.1)
        return found

    def state(self, address: str) -> str:
        _, text = self.ask(f"{address}/events")
        return json.loads(re.findall(r"^data: (.*)$", text, re.M)[0])["state"]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@pytest.fixture(scope="session")
def run_page() -> Callable[..., LocalPage]:
    """Makes running pages; whoever makes one stops it."""
    return _run_page


def _run_page(start: Path, *, files: int | None = None, patience: float = 0.0) -> LocalPage:
    """Start one and be let in; `files` is the most that it may have open, `patience` the seconds
    that the head of a request may take where that is not the page's own."""
    folder = start / "work"
    command = [sys.executable, "-P"]
    if patience:
        told = f"Path({str(folder)!r}), 0, browser=False, patience={patience}"
        program = f"from pathlib import Path\nfrom admeasure.cli.ui import serve\nserve({told})"
        command += ["-c", program]
    else:
        command += ["-m", "admeasure", "ui", "--no-browser", "--folder", str(folder)]

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=start, preexec_fn=limit
    )
    try:
        return _entered(process, folder, start)
    except BaseException:
        process.kill()
        raise


def _entered(process: subprocess.Popen[str], folder: Path, start: Path) -> LocalPage:
    """Be let in by the address that was printed."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    host, _, query = address.partition("/?")
    port = int(host.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", f"/?{query}")
    answer = connection.getresponse()
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    root = re.findall(r"url=(/[\w-]+)/", answer.read().decode())[0]
    connection.close()
    return LocalPage(process, folder, start, port, {"cookie": cookie}, root)
