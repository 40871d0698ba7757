"""Who may talk to the local page: a browser that was let in, on this machine, and no page of
another site or of another service of this machine.

- The `Host` header must name this server by its number or as localhost: a name that an attacker
  points at 127.0.0.1 (DNS rebinding) is refused.
- `Sec-Fetch-Site` must say that the request comes from a page of this server, or from the user. A
  page of another port of this machine is the same *site*, and is refused like any other.
- A request that changes something must come from a page of this server (`Origin`).
- The way in (`entrance.py`) takes a token once and gives a cookie that scripts cannot read. From
  then on every request needs the cookie, and a path that begins with a secret.
- Nothing redirects: a way in leads to the first page and nowhere else.
- Answers forbid the browser to load, run, frame or send anything from or to elsewhere.
"""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admeasure.web.entrance import Entrance, Keys

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NO_KEY = (
    "This browser was not let in, or the address was used already: it works once. Open the file "
    "that `admeasure ui` named."
)
# A page of its own that leads on, and not a redirect: what follows a redirect still counts as
# coming from the file that the browser was started with, and would be refused.
WELCOME = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>admeasure</title>'
    '<meta http-equiv="refresh" content="0; url={root}/"></head>'
    '<body><p><a href="{root}/">Go on</a></p></body></html>'
)


class Guard:
    """Refuses what is not from the steward's browser, before any handler sees it."""

    def __init__(self, app: ASGIApp, *, entrance: Entrance, keys: Keys, port: int) -> None:
        self._app = app
        self._entrance = entrance
        self._keys = keys
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"admeasure_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        answer = self._answer(request)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        inside = {**scope, "root_path": self._keys.root}
        await self._app(inside, receive, _with_headers(send))

    def _answer(self, request: Request) -> Response | None:
        """What is answered here; None where the request may go on."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return _refused("This page answers only at 127.0.0.1. Open the address as printed.")
        if request.scope["path"] == "/":
            return self._enter(request)
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refused("This request comes from another site, and was refused.")
        origin = request.headers.get("origin")
        changes = request.method not in ("GET", "HEAD")
        ours = {f"http://{host}" for host in self._hosts}
        if (changes and origin not in ours) or (origin is not None and origin not in ours):
            return _refused("This request comes from another site, and was refused.")
        return None if self._knows(request) else _refused(NO_KEY)

    def _enter(self, request: Request) -> Response:
        """Take the token of the address, once, for a cookie."""
        shown = request.headers.get("sec-fetch-dest", "document") == "document"
        asked = request.method == "GET" and shown and request.headers.get("origin") is None
        if not (asked and self._entrance.admits(request.query_params.get("token", ""))):
            return _refused(NO_KEY)
        response = HTMLResponse(WELCOME.format(root=self._keys.root))
        response.set_cookie(
            self._cookie,
            self._keys.cookie,
            path=self._keys.root,
            httponly=True,
            samesite="strict",
        )
        return response

    def _knows(self, request: Request) -> bool:
        """Whether path and cookie are ours. Another service may set a cookie of the same name for
        all paths; it is sent too, and does not matter."""
        _, slash, rest = request.scope["path"].partition("/")
        root = slash + rest.partition("/")[0]
        given = request.headers.get("cookie", "").split(";")
        wanted = f"{self._cookie}={self._keys.cookie}"
        known = [_same(pair.strip(), wanted) for pair in given]
        return _same(root, self._keys.root) and any(known)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _refused(text: str) -> Response:
    return PlainTextResponse(text, status_code=403)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.setdefault("headers", [])
            present = {name.lower() for name, _ in headers}
            ours = {"content-security-policy": PAGE_POLICY, **HEADERS}
            headers.extend(
                (name.encode(), value.encode())
                for name, value in ours.items()
                if name.encode() not in present
            )
        await send(message)

    return sending
