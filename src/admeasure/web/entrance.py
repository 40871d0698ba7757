"""The way in: a token that works once, and a file for its owner alone, which holds the next.

A browser that is started with an address shows it to everyone who can list processes. So it is
started with the name of a file, and the file leads on to the address. Whoever came in has a cookie
(`guard.py`); the token that was used is worth nothing in the history of a browser or a terminal.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.files import write_private

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>admeasure</title>
</head>
<body><p><a href="{address}">Open the page</a></p></body>
</html>
"""


def _token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Keys:
    """What a browser that was let in has: the page's place, and a cookie that is sent there only.

    A cookie goes to every port of a host. Other services of this machine do not see this one,
    because its path is a secret too, and nothing of theirs is there.
    """

    root: str = field(default_factory=lambda: f"/{_token()}")
    cookie: str = field(default_factory=_token)


class Entrance:
    """Tokens, each good for one browser."""

    def __init__(self, folder: Path, port: int) -> None:
        self.file = folder / f"open-{port}.html"
        self._origin = f"http://127.0.0.1:{port}"
        self._renew()

    @property
    def address(self) -> str:
        """Where the next browser is let in."""
        return f"{self._origin}/?token={self._token}"

    def admits(self, token: str) -> bool:
        """Whether this is the token. It is used up by that."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return False
        with contextlib.suppress(UsageError):  # no room for the file: this browser is let in
            self._renew()
        return True

    def close(self) -> None:
        self.file.unlink(missing_ok=True)

    def _renew(self) -> None:
        self._token = _token()
        write_private(self.file, PAGE.format(address=self.address))
