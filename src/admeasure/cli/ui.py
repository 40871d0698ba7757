"""`ui`: serve the local page until Ctrl-C."""

from __future__ import annotations

import contextlib
import secrets
import socket
import webbrowser
from pathlib import Path

from admeasure.cli.console import note, say
from admeasure.errors import UsageError


def serve(folder: Path, port: int, *, browser: bool) -> None:
    try:
        import uvicorn

        from admeasure.web.app import make_app
    except ModuleNotFoundError as error:
        raise UsageError(
            f"The local page needs {error.name}. Install it with: pip install 'admeasure[ui]'"
        ) from None
    from admeasure.web.workspace import Workspace

    try:
        bound = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror}. Choose another with --port."
        ) from None
    token = secrets.token_urlsafe(24)
    port = bound.getsockname()[1]
    space = Workspace(folder.absolute(), Path.cwd())
    app = make_app(space, token=token, port=port)
    address = f"http://127.0.0.1:{port}/?token={token}"
    say(address)
    note(f"Open this address in a browser on this machine. The work is kept in {folder}.")
    note("Ctrl-C ends the page; runs that are under way go on, and are there when it is back.")
    if browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off"
    )
    with contextlib.suppress(KeyboardInterrupt):  # the ordinary way to end it
        uvicorn.Server(config).run(sockets=[bound])
