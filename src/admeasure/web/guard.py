"""Who may talk to the local page: the browser that was given the token, on this machine, and no
page of another site.

- The `Host` header must name this server by its number or as localhost: a name that an attacker
  points at 127.0.0.1 (DNS rebinding) is refused.
- A request that changes something must come from a page of this server (`Origin`).
- Every request needs the token, once in the address and from then on in a cookie that scripts
  cannot read.
- Answers forbid the browser to load, run, frame or send anything from or to elsewhere.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Guard:
    """Refuses what is not from the steward's browser, before any handler sees it."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # Cookies do not know ports, so two servers need two names.
        self._cookie = f"admeasure_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._refusal(request)
        if refused is not None:
            await PlainTextResponse(refused, status_code=403, headers=HEADERS)(scope, receive, send)
            return
        if not self._knows(request.cookies.get(self._cookie, "")):
            await self._enter(request)(scope, receive, send)
            return
        await self._app(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> str | None:
        if request.headers.get("host", "").lower() not in self._hosts:
            return "This page answers only at 127.0.0.1. Open the address that was printed."
        origin = request.headers.get("origin")
        changes = request.method not in ("GET", "HEAD")
        ours = {f"http://{host}" for host in self._hosts}
        if (changes and origin not in ours) or (origin is not None and origin not in ours):
            return "This request comes from another site, and was refused."
        return None

    def _enter(self, request: Request) -> PlainTextResponse | RedirectResponse:
        """Take the token out of the address and keep it in a cookie."""
        if request.method != "GET" or not self._knows(request.query_params.get("token", "")):
            return PlainTextResponse(
                "The token is missing or wrong. Open the address that `admeasure ui` printed.",
                status_code=403,
                headers=HEADERS,
            )
        rest = [(k, v) for k, v in parse_qsl(request.url.query) if k != "token"]
        target = request.url.path + (f"?{urlencode(rest)}" if rest else "")
        response = RedirectResponse(target, status_code=303, headers=HEADERS)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", path="/")
        return response

    def _knows(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())


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
