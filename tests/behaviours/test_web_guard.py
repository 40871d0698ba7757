"""The local page lets in the browser that was given its token, and nobody else."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from admeasure.web.app import make_app
from admeasure.web.entrance import Entrance, Keys
from admeasure.web.workspace import Workspace

PORT = 4321
KEYS = Keys(root="/correct-horse", cookie="battery-staple")
ROOT = KEYS.root
HOME = {"host": f"127.0.0.1:{PORT}"}
COOKIE = {"cookie": f"admeasure_{PORT}={KEYS.cookie}"}
OURS = {"origin": f"http://127.0.0.1:{PORT}"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


Ask = Callable[..., Answer]


@pytest.fixture
def entrance(tmp_path: Path) -> Entrance:
    Workspace(tmp_path / "work", tmp_path).prepare()
    return Entrance(tmp_path / "work", PORT)


@pytest.fixture
def ask(tmp_path: Path, entrance: Entrance) -> Ask:
    space = Workspace(tmp_path / "work", tmp_path)
    app = make_app(space, entrance=entrance, keys=KEYS, port=PORT)

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


def token_of(text: str) -> str:
    return re.findall(r"token=([\w-]+)", text)[0]


def test_without_both_keys_nothing_is_shown(ask: Ask) -> None:
    inside = ("/", "/book", "/static/page.js", "/tables/x/schema", "/nothing")
    for path in ("/", "/?token=wrong", "/?token=", *inside, *(ROOT + p for p in inside)):
        answer = ask(path, headers=HOME)
        assert answer.status == 403, path
        assert "let in" in answer.body
    for path in (*inside, "/correct-hors/", f"/x{ROOT}/", f"/{ROOT}/", "*", ""):
        assert ask(path, headers=HOME | COOKIE).status == 403, path
    wrong = {"cookie": f"admeasure_{PORT}=wrong; admeasure_1={KEYS.cookie}"}
    assert ask(f"{ROOT}/", headers=HOME | wrong).status == 403
    assert ask(f"{ROOT}/", headers=HOME | COOKIE).status == 200


def test_the_token_lets_one_browser_in_and_is_used_up(ask: Ask, entrance: Entrance) -> None:
    token = token_of(entrance.address)
    answer = ask(f"/?token={token}", headers=HOME)
    assert answer.status == 200
    assert "location" not in answer.headers
    assert re.findall(r"url=([^\"]*)", answer.body) == [f"{ROOT}/"]
    cookie = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", f"path={ROOT}"} <= set(cookie.split("; "))
    assert ask(f"/?token={token}", headers=HOME).status == 403
    assert token_of(entrance.address) != token


def test_the_next_token_is_in_a_file_for_its_owner_alone(ask: Ask, entrance: Entrance) -> None:
    for _ in range(3):
        assert stat.S_IMODE(entrance.file.stat().st_mode) == 0o600
        token = token_of(entrance.file.read_text())
        assert ask(f"/?token={token}", headers=HOME).status == 200
    entrance.close()
    assert not entrance.file.exists()


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"sec-fetch-dest": "iframe"}, {"host": "evil"}]
)
def test_a_token_is_not_used_up_by_what_is_refused(
    ask: Ask, entrance: Entrance, headers: dict[str, str]
) -> None:
    token = token_of(entrance.address)
    assert ask(f"/?token={token}", headers=HOME | headers).status == 403
    assert ask(f"/?token={token}", method="HEAD", headers=HOME).status == 403
    assert ask(f"/?token={token}", headers=HOME).status == 200


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example/", "/%2fevil.example", "/@x/"]
)
def test_no_answer_sends_a_browser_elsewhere(ask: Ask, entrance: Entrance, path: str) -> None:
    token = token_of(entrance.address)
    places = [f"{path}?token={token}", f"{ROOT}{path}?token={token}", f"{ROOT}/book/"]
    for place in (*places, f"/?token={token}&next={path}", f"/?token={token}"):
        answer = ask(place, headers=HOME | COOKIE)
        assert answer.status in (200, 403, 404), place
        assert "location" not in answer.headers
        assert "evil" not in answer.body


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_a_page_of_another_site_or_port_is_refused_with_both_keys(ask: Ask, site: str) -> None:
    headers = HOME | COOKIE | OURS | {"sec-fetch-site": site}
    for path in (f"{ROOT}/", f"{ROOT}/book", f"{ROOT}/static/page.js"):
        assert ask(path, headers=headers).status == 403
    assert ask(f"{ROOT}/demo", method="POST", headers=headers).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_and_the_user_are_let_through(ask: Ask, site: str) -> None:
    assert ask(f"{ROOT}/", headers=HOME | COOKIE | {"sec-fetch-site": site}).status == 200


def test_a_cookie_that_another_service_has_set_does_not_lock_the_user_out(ask: Ask) -> None:
    name = f"admeasure_{PORT}"
    for order in (f"{name}=theirs; {COOKIE['cookie']}", f"{COOKIE['cookie']}; {name}=theirs"):
        assert ask(f"{ROOT}/", headers=HOME | {"cookie": order}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "", f"127.0.0.1.evil:{PORT}"]
)
def test_another_name_for_this_machine_is_refused_even_with_the_keys(
    ask: Ask, entrance: Entrance, host: str
) -> None:
    assert ask(f"{ROOT}/", headers={"host": host} | COOKIE).status == 403
    token = token_of(entrance.address)
    assert ask(f"/?token={token}", headers={"host": host}).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}"])
def test_a_form_of_another_site_is_refused(ask: Ask, origin: str) -> None:
    given = {"dataset": "x", "epsilon": "1", "delta": "1e-9"}
    headers = HOME | COOKIE | {"origin": origin}
    assert ask(f"{ROOT}/book/create", method="POST", headers=headers, body=given).status == 403
    assert ask(f"{ROOT}/", headers=headers).status == 403


def test_a_change_without_an_origin_is_refused(ask: Ask) -> None:
    given = {"dataset": "x", "epsilon": "1", "delta": "1e-9"}
    path = f"{ROOT}/book/create"
    assert ask(path, method="POST", headers=HOME | COOKIE, body=given).status == 403
    assert ask(path, method="POST", headers=HOME | COOKIE | OURS, body=given).status == 200


def test_every_answer_forbids_what_is_from_elsewhere(ask: Ask) -> None:
    for path in ("/", "/book", "/static/page.js", "/static/page.css"):
        headers = ask(ROOT + path, headers=HOME | COOKIE).headers
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
    assert ask(ROOT + path, headers=HOME | COOKIE).status == 404


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": 3}, {"data": ""}])
def test_nonsense_from_a_page_is_an_error_and_not_a_crash(ask: Ask, body: Any) -> None:
    answer = ask(f"{ROOT}/open", method="POST", headers=HOME | COOKIE | OURS, body=body)
    assert answer.status in (400, 422)
    assert json.loads(answer.body)["error"]


def test_the_pages_load_nothing_from_elsewhere(ask: Ask) -> None:
    for path in ("/", "/book"):
        text = ask(ROOT + path, headers=HOME | COOKIE).body
        assert re.findall(r'(?:src|href|action)="([^"]*)"', text)
        outside = re.findall(rf'(?:src|href|action)="(?!{ROOT}/|#|data:,)([^"]*)"', text)
        assert outside == []
        assert "style=" not in text, "a style attribute is against our own policy"
