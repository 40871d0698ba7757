"""Connections to the local page: how many, and how long one may wait.

Anyone on this machine can connect. So a connection that does not send a whole request soon is
closed, and where there are too many the one that has waited longest makes room; a browser, which
sends its request at once, is served. A request under way is never cut off here: what it may send is
limited where it is read (`app.py`), after the guard has let it in.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 64
HEAD_SECONDS = 10.0
HEAD_BYTES = 32 << 10
BACKLOG = 128
"""Also how many connections are accepted before the first of them is looked at."""


class Connection(H11Protocol):
    """A connection that must not wait for long."""

    _late: asyncio.TimerHandle | None = None
    _since = 0.0

    def __init__(self, *args: Any, patience: float, **given: Any) -> None:
        super().__init__(*args, **given)
        self.patience = patience

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        here = [c for c in self.connections if isinstance(c, Connection)]
        held = [c for c in here if not c.transport.is_closing()]
        if len(held) > MOST_CONNECTIONS:
            waiting = [c for c in held if not c.busy]
            min(waiting, key=lambda c: c._since).transport.abort()

    def data_received(self, data: bytes) -> None:
        # The time that a head may take is not prolonged by a piece of it.
        super().data_received(data)
        if self.busy:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._since = self.loop.time()
        self._late = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if not self.busy:
            self.transport.abort()


def server(app: ASGIApp, patience: float = HEAD_SECONDS, **settings: Any) -> uvicorn.Server:
    """A server for one person; `patience` is how many seconds the head of a request may take."""
    made = partial(Connection, patience=patience)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=cast(type[Connection], made),  # it is called, whatever makes a connection
            ws="none",
            lifespan="off",
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
            server_header=False,
            log_level="error",
            access_log=False,
            **settings,
        )
    )
