"""The page's budget book: a file, or one on a server, whose password the page never holds."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from admeasure.errors import UsageError
from admeasure.privacy.book import Book
from admeasure.web.workspace import Workspace
from factories import loaded

SERVER = Path(__file__).resolve().parents[1] / "warehouse" / "server.py"
ASKED = {
    "epsilon": "1", "delta": "1e-9", "mechanism": "independent", "rows": "", "options": "",
    "public": "", "dataset": "people", "total": "",
}  # fmt: skip


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path / "work", tmp_path)
    found.prepare()
    return found


@pytest.mark.parametrize(
    "address",
    [
        "postgres://ann:hunter2@127.0.0.1:1/db",
        "postgres://ann:hun/ter2@127.0.0.1:1/db",
        "postgres://127.0.0.1:1/db?schema=x&password=hunter2",
        "postgres://ann@127.0.0.1:1/db?sslkey=a:hunter2",
        "postgres://ann%3Ahunter2@127.0.0.1:1/db",
        "postgres:/ann:hunter2@127.0.0.1:1/db",
        "budget.db",
        "hunter2",
    ],
)
def test_what_may_hold_a_password_or_is_no_server_is_refused_and_not_kept(space, address):
    with pytest.raises(UsageError, match="leave the password out") as refused:
        space.use_book(address)
    assert "ter2" not in str(refused.value)
    assert not (space.folder / "book.json").exists()
    assert space.book == space.folder / "budget.db"


def test_a_server_that_does_not_answer_is_not_taken(space):
    with pytest.raises(Exception, match="No server answers"):
        space.use_book("postgres://ann@127.0.0.1:1/db?connect_timeout=2")
    assert space.book == space.folder / "budget.db"


def test_a_file_that_names_no_book_is_damaged_and_its_words_are_not_shown(space):
    for text in ('{"address": "postgres://ann:hunter2@h/db"}', '{"address": 3}', "{}"):
        (space.folder / "book.json").write_text(text)
        with pytest.raises(UsageError, match="damaged") as refused:
            _ = space.book
        assert "hunter2" not in str(refused.value)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = loaded(SERVER).running()
    monkeypatch.setenv("PGPASSWORD", found.password)
    return found


@pytest.fixture
def page(server: Any, run_page: Any, tmp_path: Path) -> Iterator[Any]:
    found = run_page(tmp_path)
    yield found
    assert found.stop() == 0


def test_runs_are_charged_to_the_book_on_the_server_that_was_chosen(page, server, tmp_path):
    schema = f"book_{uuid.uuid4().hex}"
    address = f"postgres://owner@127.0.0.1:{server.port}/postgres?schema={schema}"
    table = page.demo()
    plan = page.post(f"/tables/{table}/budget/plan", {"budget": ASKED})
    seen = {"budget": ASKED, "shown": plan["shown"], "nonce": plan["nonce"]}

    said = page.post("/book/use", {"address": address})
    assert said["next"] == "/book"
    assert page.post(f"/tables/{table}/start", seen)["status"] == 409  # it was shown for another
    entered = {"dataset": "people", "epsilon": "3", "delta": "1e-9"}
    assert page.post("/book/create", entered)["next"] == "/book"
    plan = page.post(f"/tables/{table}/budget/plan", {"budget": ASKED})
    assert plan["book"]["enough"]
    started = page.post(
        f"/tables/{table}/start",
        {"budget": ASKED, "shown": plan["shown"], "nonce": plan["nonce"]},
    )
    assert page.ended(started["next"]) == "done"
    (entry,) = Book.open(address).history("people")
    assert entry.status == "released"
    assert not (page.folder / "budget.db").exists()

    for place in ("/book", f"/tables/{table}/budget", started["next"]):
        shown = page.ask(place)[1]
        assert schema in shown
        assert server.password not in shown
    files = [f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()]
    assert all(server.password.encode() not in content for content in files)
    assert page.post("/book/use", {"address": ""})["next"] == "/book"
    assert re.search(r"Kept in [^<]*budget\.db", page.ask("/book")[1])
