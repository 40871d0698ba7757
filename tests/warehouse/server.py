"""A PostgreSQL server of its own for the tests: made in a folder of its own, gone afterwards.

It listens on a free port of 127.0.0.1 and asks for passwords, as a real one would. PostgreSQL will
not run as root, so that root starts it as the user `postgres`. Where no server is installed the
tests are skipped, unless ADMEASURE_NEEDS_POSTGRES is set, as it is in CI: there it is a failure.
`tests/warehouse/install.sh` installs it.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

OWNER = "owner"
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_connections": "40",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "autovacuum": "off",
    # What the sources must not depend on.
    "timezone": "America/New_York",
    "datestyle": "SQL, DMY",
    "extra_float_digits": "0",
}


@dataclass(frozen=True)
class Server:
    """Where it listens, and its owner's password."""

    port: int
    password: str

    def connect(self, **options: Any) -> Any:
        """A connection of the owner, which commits every statement."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname="postgres",
            user=OWNER,
            password=self.password,
            autocommit=True,
            **options,
        )

    def url(self, table: str, user: str = OWNER, password: str | None = None) -> str:
        secret = self.password if password is None else password
        place = f"{user}:{quote(secret, safe='')}@127.0.0.1:{self.port}"
        return f"postgres://{place}/postgres?table={quote(table, safe='.')}"

    def book(self, schema: str) -> str:
        """The address of a budget book."""
        place = f"{OWNER}:{quote(self.password, safe='')}@127.0.0.1:{self.port}"
        return f"postgres://{place}/postgres?schema={schema}"


@functools.cache
def running() -> Server:
    """The server of this process, started when it is first wanted."""
    bin_folder = _programs()
    if bin_folder is None:
        text = "no PostgreSQL server or no psycopg: run tests/warehouse/install.sh"
        if os.environ.get("ADMEASURE_NEEDS_POSTGRES"):
            pytest.fail(text)
        pytest.skip(text)
    return _start(bin_folder)


def _programs() -> Path | None:
    try:
        import psycopg  # noqa: F401
    except ModuleNotFoundError:
        return None
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        return None
    found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if (on_path := shutil.which("initdb")) is not None:
        found.append(Path(on_path).resolve().parent)
    return max(
        found, key=lambda p: int(p.parent.name) if p.parent.name.isdigit() else 0, default=None
    )


def _start(programs: Path) -> Server:
    folder = Path(tempfile.mkdtemp(prefix="admeasure-postgres-"))
    as_user: list[str] = []
    if os.geteuid() == 0:
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
    password = secrets.token_hex(12) + "@:/?%"
    secret = folder / "password"
    secret.write_text(password)
    secret.chmod(0o600)
    if as_user:
        shutil.chown(secret, "postgres")

    def call(*command: object) -> None:
        text = [*as_user, *map(str, command)]
        subprocess.run(text, check=True, cwd=folder, stdout=subprocess.DEVNULL)

    def stop() -> None:
        try:
            call(programs / "pg_ctl", "stop", "-D", folder / "data", "-m", "immediate", "-s")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        call(
            *(programs / "initdb", "-D", folder / "data", "-U", OWNER, "--pwfile", secret),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale", "C.UTF-8", "-N"),
            # An order of texts that is not that of their bytes, as on most real servers.
            *("--locale-provider", "icu", "--icu-locale", "en-US"),
        )
        secret.unlink()
        port = _free_port()
        chosen = {**SETTINGS, "port": str(port)}
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in chosen.items())
        call(programs / "pg_ctl", "start", "-D", folder / "data", "-w", "-l", folder / "log")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    atexit.register(stop)
    _stop_with_this_process(
        [*as_user, str(programs / "pg_ctl"), "-D", str(folder / "data")], folder
    )
    server = Server(port, password)
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION citext")
    return server


def _stop_with_this_process(control: list[str], folder: Path) -> None:
    """A watch that outlives this process, should it be killed, and then ends the server too."""
    script = (
        'mine=$0; folder=$1; shift; while kill -0 "$mine" 2>/dev/null; do sleep 1; done; '
        '[ -d "$folder" ] && cd / && "$@" stop -m immediate -s; rm -rf "$folder"'
    )
    subprocess.Popen(
        ["sh", "-c", script, str(os.getpid()), str(folder), *control],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
