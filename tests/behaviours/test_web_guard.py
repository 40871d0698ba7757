"""The local page lets in the browser that was given its token, and nobody else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from admeasure.web.app import make_app
from admeasure.web.workspace import Workspace

TOKEN, PORT = "correct-horse", 4321
HOME = {"host": f"127.0.0.1:{PORT}"}
COOKIE = {"cookie": f"admeasure_{PORT}={TOKEN}"}
OURS = {"origin": f"http://127.0.0.1:{PORT}"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


Ask = Callable[..., Answer]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    app = make_app(Workspace(tmp_path / "work", tmp_path), token=TOKEN, port=PORT)

    def call(
        path: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: Any = None
    ) -> Answer:
        # In a thread of its own: the browser tests leave a loop in the main one.
        with ThreadPoolExecutor(1) as pool:
            asked = _request(app, path, method, headers or {}, body)
            return pool.submit(asyncio.run, asked).result()

    return call


async def _request(app: Any, path: str, method: str, headers: dict[str, str], body: Any) -> Answer:
    """One request by the ASGI protocol itself."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
    }  # fmt: skip
    sent = [{"type": "http.request", "body": json.dumps(body).encode() if body else b""}]
    got: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        got.append(message)

    await app(scope, receive, send)
    start = next(m for m in got if m["type"] == "http.response.start")
    found = {k.decode().lower(): v.decode() for k, v in start["headers"]}
    content = b"".join(m.get("body", b"") for m in got if m["type"] == "http.response.body")
    return Answer(start["status"], found, content.decode())


def test_without_a_token_nothing_is_shown(ask: Ask) -> None:
    for path in ("/", "/book", "/static/page.js", "/tables/x/schema", "/?token=wrong", "/nothing"):
        answer = ask(path, headers=HOME)
        assert answer.status == 403, path
        assert "token" in answer.body


def test_the_token_of_the_address_goes_into_a_cookie_that_scripts_cannot_read(ask: Ask) -> None:
    answer = ask(f"/?token={TOKEN}", headers=HOME)
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert ask("/", headers=HOME | COOKIE).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "", f"127.0.0.1.evil:{PORT}"]
)
def test_another_name_for_this_machine_is_refused_even_with_the_token(ask: Ask, host: str) -> None:
    assert ask("/", headers={"host": host} | COOKIE).status == 403
    assert ask(f"/?token={TOKEN}", headers={"host": host}).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}"])
def test_a_form_of_another_site_is_refused(ask: Ask, origin: str) -> None:
    given = {"dataset": "x", "epsilon": "1", "delta": "1e-9"}
    headers = HOME | COOKIE | {"origin": origin}
    assert ask("/book/create", method="POST", headers=headers, body=given).status == 403
    assert ask("/", headers=headers).status == 403


def test_a_change_without_an_origin_is_refused(ask: Ask) -> None:
    given = {"dataset": "x", "epsilon": "1", "delta": "1e-9"}
    path = "/book/create"
    assert ask(path, method="POST", headers=HOME | COOKIE, body=given).status == 403
    assert ask(path, method="POST", headers=HOME | COOKIE | OURS, body=given).status == 200


def test_every_answer_forbids_what_is_from_elsewhere(ask: Ask) -> None:
    for path in ("/", "/book", "/static/page.js", "/static/page.css"):
        headers = ask(path, headers=HOME | COOKIE).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/tables/..%2f..%2fetc/schema", "/tables/../schema", "/tables/nobody/schema",
        "/static/../app.py", "/static/app.py", "/tables/a%00b/schema",
    ],
)  # fmt: skip
def test_a_path_leads_to_nothing_outside_the_workspace(ask: Ask, path: str) -> None:
    assert ask(path, headers=HOME | COOKIE).status == 404


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": 3}, {"data": ""}])
def test_nonsense_from_a_page_is_an_error_and_not_a_crash(ask: Ask, body: Any) -> None:
    answer = ask("/open", method="POST", headers=HOME | COOKIE | OURS, body=body)
    assert answer.status in (400, 422)
    assert json.loads(answer.body)["error"]


def test_the_pages_load_nothing_from_elsewhere(ask: Ask) -> None:
    for path in ("/", "/book"):
        text = ask(path, headers=HOME | COOKIE).body
        assert re.findall(r'(?:src|href|action)="([^"]*)"', text)
        outside = re.findall(r'(?:src|href|action)="(?!/|#|data:,)([^"]*)"', text)
        assert outside == []
        assert "style=" not in text, "a style attribute is against our own policy"
