"""Deliberately broken variants of the local page, each with one hole that was found in it: the
check that looks for the hole sees it there, and sees nothing in the page as it is."""

from __future__ import annotations

import contextlib
import json
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.requests import Request
from starlette.responses import Response

from admeasure import files
from admeasure.errors import UsageError
from admeasure.web import actions, budget, entrance, guard, kept, runs, worker, workspace

PORT = 4321
KEYS = entrance.Keys(root="/correct-horse", cookie="battery-staple")
ASKED = {
    "epsilon": "1", "delta": "1e-9", "mechanism": "gaussian", "rows": "", "options": "",
    "public": "", "dataset": "", "total": "",
}  # fmt: skip

Patch = pytest.MonkeyPatch


def asked(door: entrance.Entrance, path: str, query: str = "", **headers: str) -> Response | None:
    """What the guard answers by itself; None where it lets a request through."""
    given = {"host": f"127.0.0.1:{PORT}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in given.items()],
    }  # fmt: skip
    found = guard.Guard(Response(), entrance=door, keys=KEYS, port=PORT)
    return found._answer(Request(scope))


def door(folder: Path) -> entrance.Entrance:
    return entrance.Entrance(folder, PORT)


def a_token_works_twice(folder: Path, _: Patch) -> bool:
    way = door(folder)
    query = way.address.partition("?")[2]
    answers = [asked(way, "/", query) for _ in range(2)]
    return [a.status_code for a in answers if a is not None] == [200, 200]


def others_can_read_the_address(folder: Path, _: Patch) -> bool:
    return bool(stat.S_IMODE(door(folder).file.stat().st_mode) & 0o077)


def other_ports_are_sent_the_cookie(folder: Path, _: Patch) -> bool:
    way = door(folder)
    answer = asked(way, "/", way.address.partition("?")[2])
    assert answer is not None
    return f"Path={KEYS.root}" not in answer.headers["set-cookie"]


def another_port_s_page_is_answered(folder: Path, _: Patch) -> bool:
    cookie = f"admeasure_{PORT}={KEYS.cookie}"
    assert asked(door(folder), f"{KEYS.root}/", cookie=cookie) is None
    found = asked(door(folder), f"{KEYS.root}/", cookie=cookie, sec_fetch_site="same-site")
    return found is None


def demo(folder: Path) -> tuple[workspace.Workspace, workspace.TableFolder]:
    space = workspace.Workspace(folder / "work", folder)
    space.prepare()
    return space, space.table(actions.open_demo(space)["next"].split("/")[2])


def two_changes_are_both_taken(folder: Path, patch: Patch) -> bool:
    _, table = demo(folder)
    seen = table.read()["version"]
    write, gate = workspace.write_json, threading.Barrier(2)
    patch.setattr(workspace, "write_json", lambda *given: (time.sleep(0.2), write(*given)))

    def change(i: int) -> bool:
        gate.wait()
        with contextlib.suppress(workspace.Stale):
            table.change(seen, {"budget": {"epsilon": str(i)}})
            return True
        return False

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(change, range(2))) == [True, True]


def two_posts_are_two_runs(folder: Path, patch: Patch) -> bool:
    space, table = demo(folder)
    patch.setattr(runs, "spawn", lambda run: None)
    plan = budget.plan(space, table, {"budget": ASKED})
    body = {"budget": ASKED, "shown": plan["shown"], "nonce": plan["nonce"]}
    for _ in range(2):
        budget.start(space, table, body)
    return len(runs.all_runs(table)) != 1


def what_is_run_was_not_shown(folder: Path, patch: Patch) -> bool:
    space, table = demo(folder)
    patch.setattr(runs, "spawn", lambda run: None)
    plan = budget.plan(space, table, {"budget": ASKED})
    table.schema_path.write_text(table.schema_path.read_text().replace("person", "household"))
    with contextlib.suppress(workspace.Stale):
        budget.start(space, table, {"budget": ASKED, **{k: plan[k] for k in ("shown", "nonce")}})
    return bool(runs.all_runs(table))


def a_release_is_called_a_failure(folder: Path, _: Patch) -> bool:
    (folder / "release").mkdir()
    (folder / worker.ENDED).write_text('{"code": 2}')
    return runs.RunFolder(folder).state == runs.FAILED


def a_folder_of_others_is_used(folder: Path, _: Patch) -> bool:
    (folder / "work").mkdir(mode=0o700)
    (folder / "work").chmod(0o777)
    try:
        workspace.Workspace(folder / "work", folder).prepare()
    except UsageError:
        return False
    return True


def a_file_of_the_folder_is_a_command(folder: Path, _: Patch) -> bool:
    request = runs.RunSettings(
        data="/t.csv", rule="all-2way", epsilon="1", delta="1e-9", mechanism="gaussian",
        options={"seed": "1"}, public="", dataset="", ledger="", rho=0.1, nonce="n",
    )  # fmt: skip
    try:
        return "--seed" in runs.command(request, folder)
    except UsageError:
        return False


def a_damaged_file_is_not_named(folder: Path, _: Patch) -> bool:
    path = folder / "table.json"
    path.write_text("[" * 100_000)
    try:
        kept.read_json(path)
    except kept.Damaged:
        return False
    except Exception:
        return True
    return True


def _no_lock(patch: Patch) -> None:
    patch.setattr(workspace, "locked", lambda path: contextlib.nullcontext())


def _no_nonce(patch: Patch) -> None:
    patch.setattr(runs, "with_nonce", lambda table, nonce: None)
    patch.setattr(budget.Offer, "digest", "the same")


def _one_token(patch: Patch) -> None:
    patch.setattr(entrance, "_token", lambda: "the same")


def _by_the_umask(patch: Patch) -> None:
    patch.setattr(entrance, "write_private", lambda p, t: files._write(p, t, 0o644))


def _cookie_for_all(patch: Patch) -> None:
    write = Response.set_cookie
    patch.setattr(Response, "set_cookie", lambda *a, **k: write(*a, **{**k, "path": "/"}))


def _no_site(patch: Patch) -> None:
    get = guard.Request.headers.fget

    def without(self: Any) -> dict[str, str]:
        return {k: v for k, v in get(self).items() if k != "sec-fetch-site"}

    patch.setattr(guard.Request, "headers", property(without))


def _by_its_code(patch: Patch) -> None:
    patch.setattr(runs.RunFolder, "state", property(lambda run: runs.FAILED if run.code else ""))


Check = Callable[[Path, Patch], bool]
BROKEN: dict[str, tuple[Check, Callable[[Patch], None]]] = {
    "token_without_end": (a_token_works_twice, _one_token),
    "address_for_all_to_read": (others_can_read_the_address, _by_the_umask),
    "cookie_for_all_ports": (other_ports_are_sent_the_cookie, _cookie_for_all),
    "site_not_asked": (another_port_s_page_is_answered, _no_site),
    "saves_without_a_lock": (two_changes_are_both_taken, _no_lock),
    "start_without_a_nonce": (two_posts_are_two_runs, _no_nonce),
    "plan_not_compared": (
        what_is_run_was_not_shown,
        lambda patch: patch.setattr(budget.Offer, "digest", "the same"),
    ),
    "state_by_exit_code": (a_release_is_called_a_failure, _by_its_code),
    "folder_not_looked_at": (
        a_folder_of_others_is_used,
        lambda patch: patch.setattr(workspace, "refuse_unless_own", lambda folder: None),
    ),
    "options_not_checked": (
        a_file_of_the_folder_is_a_command,
        lambda patch: patch.setattr(runs, "mechanism_of", lambda *given: None),
    ),
    "trusting_reader": (
        a_damaged_file_is_not_named,
        lambda patch: patch.setattr(kept, "parse_json", lambda raw, *_: json.loads(raw)),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_page_is_caught_by_the_check_that_should(
    name: str, tmp_path: Path, monkeypatch: Patch, tally: Any
) -> None:
    check, breaking = BROKEN[name]
    (tmp_path / "sound").mkdir()
    (tmp_path / "broken").mkdir()
    with monkeypatch.context() as patch:
        assert not check(tmp_path / "sound", patch), "the page as it is has this hole"
    with monkeypatch.context() as patch:
        breaking(patch)
        assert check(tmp_path / "broken", patch), "the check does not see the hole"
    tally("broken variants of the page caught", 1)
