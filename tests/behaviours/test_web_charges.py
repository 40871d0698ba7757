"""What the page charges is what it has shown, once; what it keeps is its owner's alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import admeasure
from admeasure.errors import UsageError
from admeasure.privacy.book import Book
from admeasure.web import runs, worker
from admeasure.web.workspace import Workspace

LocalPage = Any
TEMPTING = ("admeasure", "numpy", "json", "duckdb", "typer", "sitecustomize", "usercustomize")
ASKED = {
    "epsilon": "1", "delta": "1e-9", "mechanism": "independent", "rows": "", "options": "",
    "public": "", "dataset": "", "total": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(run_page: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPage]:
    start = tmp_path_factory.mktemp("page")
    found = run_page(start)
    for name in TEMPTING:  # the page's processes are started where the tables lie
        for place in (start, found.folder):
            (place / f"{name}.py").write_text(f"open({str(start / 'RUN')!r}, 'w')\n")
            (place / f"{name}.py").chmod(0o600)
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def done(page: LocalPage) -> str:
    """The address of a finished run, from the start of many at once."""
    table = page.demo()
    start = shown(page, table, dataset="once", total="5")
    answers = at_once(6, lambda _: page.post(f"/tables/{table}/start", start))
    answers.append(page.post(f"/tables/{table}/start", start))
    assert {a.get("next") for a in answers} == {f"/tables/{table}/runs/1"}
    assert page.ended(answers[0]["next"]) == "done"
    return answers[0]["next"]


@pytest.fixture
def table(page: LocalPage) -> str:
    return page.demo()


def shown(page: LocalPage, table: str, **asked: str) -> dict[str, Any]:
    """A start as the page would send it."""
    budget = {**ASKED, **asked}
    plan = page.post(f"/tables/{table}/budget/plan", {"budget": budget})
    return {"budget": budget, "shown": plan["shown"], "nonce": plan["nonce"]}


def at_once(many: int, work: Callable[[int], Any]) -> list[Any]:
    """The same from several threads, as nearly at the same time as can be."""
    gate = threading.Barrier(many)

    def one(i: int) -> Any:
        gate.wait()
        return work(i)

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(one, range(many)))


def folders(page: LocalPage, table: str) -> list[str]:
    return sorted(os.listdir(page.folder / f"tables/{table}/runs"))


def test_the_same_start_many_times_at_once_charges_once(page: LocalPage, done: str) -> None:
    assert folders(page, done.split("/")[2]) == ["1"]
    (entry,) = Book.open(page.folder / "budget.db").history("once")
    assert entry.status == "released"


def test_two_tabs_that_start_the_same_plan_start_one_run(page: LocalPage, table: str) -> None:
    starts = [shown(page, table) for _ in range(4)]
    answers = at_once(4, lambda i: page.post(f"/tables/{table}/start", starts[i]))
    assert sorted(a["status"] for a in answers) == [200, 409, 409, 409]
    assert all("nothing is charged" in a["error"] for a in answers if "error" in a)
    assert folders(page, table) == ["1"]


def _by_hand(page: LocalPage, table: str) -> None:
    path = page.folder / f"tables/{table}/schema.toml"
    path.write_text(path.read_text().replace('unit = "person"', 'unit = "household"'))


def _in_a_tab(page: LocalPage, table: str) -> None:
    version = json.loads((page.folder / f"tables/{table}/table.json").read_text())["version"]
    given = {"kind": "rule", "rule": "all-1way", "entries": []}
    body = {"workload": given, "version": version}
    assert page.post(f"/tables/{table}/workload/save", body)["status"] == 200


@pytest.mark.parametrize("change", [_by_hand, _in_a_tab])
def test_what_was_changed_since_it_was_shown_is_not_run(
    page: LocalPage, table: str, change: Callable[[LocalPage, str], None]
) -> None:
    start = shown(page, table, dataset=f"changed {table}", total="5")
    change(page, table)
    assert page.post(f"/tables/{table}/start", start)["status"] == 409
    assert folders(page, table) == []
    book = page.folder / "budget.db"
    assert not book.exists() or f"changed {table}" not in {
        account.dataset for account in Book.open(book).datasets()
    }


def test_the_plan_that_is_shown_is_that_of_the_run_with_its_certificate(
    page: LocalPage, table: str
) -> None:
    """Where the mechanism is left to the page a twentieth buys the certificate, as in `fit`."""
    for asked, share in (({}, 0.05), ({"certify": "10"}, 0.1), ({"certify": "0"}, 0.0)):
        budget = {**ASKED, "mechanism": "auto", **asked}
        shown = page.post(f"/tables/{table}/budget/plan", {"budget": budget})
        folder = page.folder / f"tables/{table}"
        whole = admeasure.plan(
            folder / "schema.toml",
            workload=folder / "workload.toml",
            epsilon=1,
            certify=None if not asked else share,
        )
        assert shown["certify"] == share
        assert [i["what"] for i in shown["items"]] == [i.what for i in whole.plan.items]
        assert sum(i["share"] for i in shown["items"]) == pytest.approx(1)
    for typed in ("most", "100", "-5"):
        budget = {**ASKED, "certify": typed}
        assert page.post(f"/tables/{table}/budget/plan", {"budget": budget})["status"] == 422


@pytest.mark.parametrize(
    "other", [{"epsilon": "9"}, {"mechanism": "gaussian"}, {"delta": "1e-3"}, {"dataset": "x"}]
)
def test_another_budget_than_the_one_shown_is_not_spent(
    page: LocalPage, table: str, other: dict[str, str]
) -> None:
    start = shown(page, table)
    start["budget"] |= other
    assert page.post(f"/tables/{table}/start", start)["status"] == 409
    assert folders(page, table) == []


@pytest.mark.parametrize("missing", ["nonce", "shown"])
def test_a_start_without_nonce_or_version_is_refused(
    page: LocalPage, table: str, missing: str
) -> None:
    start = shown(page, table)
    del start[missing]
    assert page.post(f"/tables/{table}/start", start)["status"] == 400
    assert folders(page, table) == []


def test_a_start_that_fails_leaves_neither_data_set_nor_run(page: LocalPage, table: str) -> None:
    for total in ("nonsense", "-1"):
        start = shown(page, table, dataset=f"failed {table}", total=total)
        assert page.post(f"/tables/{table}/start", start)["status"] == 422
    assert folders(page, table) == []


def test_of_changes_to_one_version_the_first_is_taken_and_the_others_are_told(
    page: LocalPage,
    table: str,
    times: Callable[[int, int], int],
    tally: Callable[[str, int], None],
) -> None:
    path = page.folder / f"tables/{table}/table.json"
    for round_ in range(times(15, 200)):
        state = json.loads(path.read_text())

        def save(i: int, state: Any = state, n: int = round_) -> Any:
            if i % 2:
                rule = f"random:3:2way:seed={100 * n + i}"
                given = {"kind": "rule", "rule": rule, "entries": []}
                body = {"workload": given, "version": state["version"]}
                return page.post(f"/tables/{table}/workload/save", body)["status"]
            form = {**state["form"], "table": {**state["form"]["table"], "description": f"{n} {i}"}}
            body = {"form": form, "version": state["version"]}
            return page.post(f"/tables/{table}/schema/save", body)["status"]

        found = at_once(4, save)
        assert sorted(found) == [200, 409, 409, 409]
        assert json.loads(path.read_text())["version"] == state["version"] + 1
        winner = found.index(200)
        if winner % 2 == 0:
            text = (path.parent / "schema.toml").read_text()
            assert f'"{round_} {winner}"' in text, "the file is that of the form that was kept"
        tally("page: simultaneous saves of which one was taken", 4)


def test_a_page_that_is_only_opened_changes_nothing_for_the_others(
    page: LocalPage, table: str
) -> None:
    start = shown(page, table)
    state = json.loads((page.folder / f"tables/{table}/table.json").read_text())
    for body, path in (
        ({"form": state["form"]}, "schema/save"),
        ({"workload": {**state["workload"], "text": ""}}, "workload/save"),
    ):
        found = page.post(f"/tables/{table}/{path}", {**body, "version": state["version"]})
        assert found["version"] == state["version"]
    assert page.post(f"/tables/{table}/start", start)["status"] == 200


@pytest.mark.parametrize("version", [None, True, "1", 1.0, 10**30])
def test_a_version_that_is_no_number_is_never_current(
    page: LocalPage, table: str, version: Any
) -> None:
    state = json.loads((page.folder / f"tables/{table}/table.json").read_text())
    body = {"form": state["form"], "version": version}
    assert page.post(f"/tables/{table}/schema/save", body)["status"] == 409


def interrupted(page: LocalPage, table: str) -> str:
    """A run that was cancelled on its way; its address."""
    start = shown(page, table, mechanism="aim", dataset=f"book {table}", total="5")
    address = page.post(f"/tables/{table}/start", start)["next"]
    run = page.folder / address.strip("/")
    journal = run / "release.partial" / "journal.jsonl"
    while not (journal.exists() and b'"measure"' in journal.read_bytes()):
        assert not (run / "ended.json").exists(), "it ended before it could be cancelled"
    page.post(f"{address}/cancel", {})
    assert page.ended(address) == "stopped"
    return address


def test_continue_many_times_shows_done_and_charges_once(page: LocalPage, table: str) -> None:
    address = interrupted(page, table)
    answers = at_once(4, lambda _: page.post(f"{address}/resume", {"attempt": 1}))
    assert {a["status"] for a in answers} == {200}
    assert page.ended(address) == "done"
    assert page.post(f"{address}/resume", {"attempt": 1}) == {"state": "done", "status": 200}
    assert page.state(address) == "done"
    (entry,) = Book.open(page.folder / "budget.db").history(f"book {table}")
    assert entry.status == "released"


def test_a_release_is_never_called_a_failure(tmp_path: Path) -> None:
    run = runs.RunFolder(tmp_path)
    for ended in ('{"code": 2}', '{"code": 130}', "", None):
        if ended is not None:
            (tmp_path / worker.ENDED).write_text(ended)
        run.release.mkdir()
        assert run.state == runs.DONE
        run.release.with_name("release.partial").mkdir()
        assert (run.state, run.resumable, run.message) == (runs.STOPPED, True, runs.UNSETTLED)
        run.release.rmdir()
        run.release.with_name("release.partial").rmdir()
        (tmp_path / worker.ENDED).unlink(missing_ok=True)


def test_a_second_worker_of_a_run_that_goes_on_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.os, "umask", lambda _: 0)
    first = worker.locked(tmp_path / worker.LOCK)
    assert first is not None
    assert worker.main(tmp_path, tries=2) == worker.BUSY
    assert os.listdir(tmp_path) == [worker.LOCK]
    os.close(first)


def test_a_run_is_cancelled_by_the_number_that_holds_its_lock(tmp_path: Path) -> None:
    """Whatever else is written in its folder."""
    victim = os.fork()
    if victim == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pause()
    try:
        (tmp_path / worker.LOCK).write_text(str(victim))
        (tmp_path / "pid").write_text(str(victim))
        runs.cancel(runs.RunFolder(tmp_path))
        assert os.waitpid(victim, os.WNOHANG) == (0, 0), "nobody holds the lock"
    finally:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


def test_everything_that_the_page_keeps_is_for_its_owner_alone(page: LocalPage, done: str) -> None:
    assert page.ask(f"{done}/internal/make", {})[0] == 200
    for what in ("internal.html", "certificate.json", "release.zip", "synthetic.csv?rows=10"):
        assert page.ask(f"{done}/download/{what}")[0] == 200
    kept = [page.folder, *(p for p in page.folder.rglob("*") if p.name != "release")]
    assert len(kept) > 20, "all but the folder of the release, which is made to be published"
    assert [p for p in kept if stat.S_IMODE(p.stat().st_mode) & 0o077] == []


def test_no_file_of_the_folder_at_hand_is_run(page: LocalPage, done: str) -> None:
    table = done.split("/")[2]
    assert page.post(f"/tables/{table}/schema/verify", {})["ok"]
    assert not (page.start / "RUN").exists()


SETTINGS = runs.RunSettings(
    data="/t.csv", rule="all-2way", epsilon="1", delta="1e-9", mechanism="gaussian", options={},
    public="", dataset="", ledger="", rho=0.1, nonce="n",
)  # fmt: skip


@pytest.mark.parametrize(
    "planted",
    [
        {"options": {"seed": "1"}}, {"options": {"resume": ""}}, {"options": {"public": "x"}},
        {"options": ["x"]}, {"options": {"rounds": 1}}, {"data": "--help"}, {"data": None},
        {"mechanism": "no-such"}, {"dataset": "-x"}, {"rule": "--json"}, {"attempt": "2"},
        {"rho": None}, {"certify": 0.1}, {"certify": "all"},
    ],
    ids=str,
)  # fmt: skip
def test_a_run_file_with_more_than_settings_is_refused(
    tmp_path: Path, planted: dict[str, Any]
) -> None:
    path = tmp_path / worker.RUN
    path.write_text(json.dumps({**asdict(SETTINGS), **planted}))
    with pytest.raises(UsageError):
        runs.command(runs.RunFolder(tmp_path).settings, tmp_path)


@pytest.mark.parametrize("nonce", ["-OyVamThNVUYo6SvtlHDnuws", "--yVamThNVUYo6SvtlHDnuws"])
def test_a_nonce_may_begin_as_an_option_does(tmp_path: Path, nonce: str) -> None:
    """One of 64 that are drawn does. It is on no command line."""
    settings = replace(SETTINGS, nonce=nonce)
    (tmp_path / worker.RUN).write_text(json.dumps(asdict(settings)))
    assert runs.RunFolder(tmp_path).settings == settings
    assert nonce not in runs.command(settings, tmp_path)


def test_a_command_in_a_run_file_is_not_run(tmp_path: Path) -> None:
    planted = {"command": ["ledger", "create", "BOOK", "--dataset", "x", "--epsilon", "9"]}
    (tmp_path / worker.RUN).write_text(json.dumps({**asdict(SETTINGS), **planted}))
    argv = runs.command(runs.RunFolder(tmp_path).settings, tmp_path)
    assert argv[:2] == ["fit", "/t.csv"]
    assert "BOOK" not in argv


def _writable(path: Path) -> None:
    path.chmod(0o770)


def _writable_by_all(path: Path) -> None:
    path.chmod(0o707)


def _inside(path: Path) -> None:
    (path / "tables" / "t").mkdir()
    (path / "tables" / "t" / "table.json").write_text("{}")
    (path / "tables" / "t" / "table.json").chmod(0o666)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _link_inside(path: Path) -> None:
    (path / "budget.db").symlink_to("/etc/passwd")


def _others(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path, 65534, -1)


def _parent(path: Path) -> None:
    path.parent.chmod(0o777)


@pytest.mark.parametrize(
    "change", [_writable, _writable_by_all, _inside, _link, _link_inside, _others, _parent]
)
def test_a_folder_that_others_could_write_is_refused(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    above = tmp_path / "above"
    above.mkdir(mode=0o700)
    space = Workspace(above / "work", tmp_path)
    space.prepare()
    assert stat.S_IMODE(space.folder.stat().st_mode) == 0o700
    space.prepare()
    change(space.folder)
    with pytest.raises(UsageError, match="--folder"):
        space.prepare()
