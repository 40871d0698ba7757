"""`ui`: serve the local page until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from admeasure.cli.arguments import flag, option
from admeasure.errors import UsageError
from admeasure.terminal.console import note, say


def ui(
    folder: Annotated[Path, option("DIR", "Where tables, runs and the book go.")] = Path(
        "admeasure-work"
    ),
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="0 takes any free port.", min=0, max=65535)
    ] = 0,
    *,
    browser: Annotated[bool, flag("--browser/--no-browser", "Open the page in a browser.")] = True,
) -> None:
    """A page on this machine that leads from a table to a release. Nobody else can reach it."""
    serve(folder, port, browser=browser)


def serve(folder: Path, port: int, *, browser: bool, **settings: Any) -> None:
    """Until Ctrl-C; `settings` are those of `web.server.server`."""
    import socket
    import webbrowser

    try:
        from admeasure.web.app import make_app
        from admeasure.web.server import server
    except ModuleNotFoundError as error:
        raise UsageError(
            f"The local page needs {error.name}. Install it with: pip install 'admeasure[ui]'"
        ) from None
    from admeasure.web.entrance import Entrance, Keys
    from admeasure.web.workspace import Workspace

    os.umask(0o077)  # whatever the page or a process of it writes is for its owner alone
    space = Workspace(folder.absolute(), Path.cwd())
    space.prepare()
    try:
        bound = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror}. Choose another with --port."
        ) from None
    port = bound.getsockname()[1]
    entrance = Entrance(space.folder, port)
    app = make_app(space, entrance=entrance, keys=Keys(), port=port)
    say(entrance.address)
    note("Open this address in a browser on this machine; it lets one browser in, once.")
    note(f"For another, open {entrance.file} there. The work is kept in {folder}.")
    note("Ctrl-C ends the page; runs that are under way go on, and are there when it is back.")
    try:
        if browser:  # by the file: what a browser is started with, every user can see
            webbrowser.open(entrance.file.as_uri())
        with contextlib.suppress(KeyboardInterrupt):  # the ordinary way to end it
            server(app, **settings).run(sockets=[bound])
    finally:
        entrance.close()
