"""Who is let in, and what is charged, in a real browser: its cookies, its headers, its clicks."""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from local_page import not_recorded

Open = Callable[..., Any]


@dataclass
class Neighbour:
    """Another service of this machine, with what it was sent."""

    port: int
    page: str = "<p>hello</p>"
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    found = Neighbour(0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(found.page.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = service.server_port
    threading.Thread(target=service.serve_forever, daemon=True).start()
    yield found
    service.shutdown()


def test_a_browser_opened_with_the_file_is_let_in_and_the_address_works_once(
    chromium: Any, server: Any, open_tab: Open
) -> None:
    used = re.findall(r"http://[^\"]*token=[\w-]+", server.file.read_text())[0]
    page = open_tab().page
    assert page.url.startswith(server.origin)
    assert "token" not in page.url
    assert server.file.stat().st_mode & 0o077 == 0
    page.reload()
    page.wait_for_selector("body[data-ready]")
    stranger = chromium.new_context()
    other = stranger.new_page()
    for address in (used, server.root, f"{server.root}/", f"{server.root}/book"):
        assert other.goto(address).status == 403
    stranger.close()


def test_the_cookie_is_sent_to_no_other_service_of_this_machine(
    open_tab: Open, server: Any, neighbour: Neighbour
) -> None:
    page = open_tab().page
    (cookie,) = [c for c in page.context.cookies() if c["name"].startswith("admeasure")]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert server.root.endswith(cookie["path"])
    visitor = page.context.new_page()
    for path in ("/", "/book", "/tables/x/schema"):
        visitor.goto(neighbour.address + path)
    assert len(neighbour.asked) >= 3
    assert not [h for _, headers in neighbour.asked for h in headers if h.lower() == "cookie"]
    visitor.close()


@pytest.mark.parametrize("how", ["fetch", "post", "link", "frame", "script"])
def test_a_page_of_another_port_gets_nothing_even_if_it_knows_the_place(
    open_tab: Open, server: Any, neighbour: Neighbour, how: str
) -> None:
    """It is the same site to the browser, which sends it the cookie."""
    page = open_tab().page
    attacks = {
        "fetch": f"<script>fetch('{server.root}/', {{mode: 'no-cors', credentials: 'include'}})"
        "</script>",
        "post": f"<form method=post action='{server.root}/demo' enctype='text/plain'></form>"
        "<script>document.forms[0].submit()</script>",
        "link": f"<meta http-equiv=refresh content='0; url={server.root}/book'>",
        "frame": f"<iframe src='{server.root}/book'></iframe>",
        "script": f"<script src='{server.root}/static/page.js'></script>",
    }
    neighbour.page = attacks[how]
    before = len(os.listdir(server.folder / "tables"))
    visitor = page.context.new_page()
    # What the browser itself keeps from the other page is a failed request, and no response.
    hidden = how in ("fetch", "script")
    event = "requestfailed" if hidden else "response"
    with visitor.expect_event(event, lambda r: r.url.startswith(server.root)) as got:
        visitor.goto(neighbour.address)
    assert hidden or got.value.status == 403
    assert len(os.listdir(server.folder / "tables")) == before
    visitor.close()


def to_budget(page: Any) -> None:
    page.click("#demo")
    page.wait_for_selector("#schema-state.fine")
    page.click("#next")
    page.wait_for_selector("#preview .tile")
    page.click("#next")
    page.wait_for_selector("#budget-form")
    page.wait_for_selector("body[data-ready]")
    not_recorded(page)


def test_clicks_in_a_row_start_one_run(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    to_budget(page)
    page.evaluate(
        """() => { const button = document.querySelector('#start');
            for (let i = 0; i < 5; i++) { button.disabled = false; button.click(); } }"""
    )
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    table = page.url.split("/")[-3]
    assert os.listdir(server.folder / f"tables/{table}/runs") == ["1"]


def test_a_plan_that_is_out_of_date_is_shown_anew_and_not_run(open_tab: Open, server: Any) -> None:
    first = open_tab()
    page = first.page
    to_budget(page)
    table = page.url.split("/")[-2]
    other = open_tab(page.context).page
    other.goto(page.url.replace("/budget", "/workload"))
    other.wait_for_selector("#preview .tile")
    other.check("input[name=kind][value=rule]")
    other.fill("#k", "1")
    other.wait_for_function(
        "() => /all-1way/.test(document.querySelector('#code-command').textContent)"
    )
    page.click("#start")
    page.wait_for_selector("#plan-state.problem")
    assert "not what this page has shown" in page.inner_text("#plan-state")
    page.wait_for_function(
        "() => /all-1way/.test(document.querySelector('#code-command').textContent)"
    )
    assert os.listdir(server.folder / f"tables/{table}/runs") == []
    page.click("#start")
    page.wait_for_url(re.compile(r"/runs/1$"))
    stored = json.loads((server.folder / f"tables/{table}/runs/1/run.json").read_text())
    assert stored["rule"] == "all-1way"


def test_a_damaged_table_is_told_on_the_first_page(open_tab: Open, server: Any) -> None:
    page = open_tab().page
    page.click("#demo")
    page.wait_for_selector("#schema-state.fine")
    table = page.url.split("/")[-2]
    (server.folder / "tables" / "broken-0").mkdir()
    (server.folder / "tables" / "broken-0" / "table.json").write_text("")
    page.goto(f"{server.root}/")
    row = page.locator("tr", has_text="broken-0")
    assert "is damaged: it is empty" in row.inner_text()
    assert page.locator(f"a:has-text('{table}')").count() == 1, "the others are there"
    (server.folder / "tables" / "broken-0" / "table.json").unlink()
