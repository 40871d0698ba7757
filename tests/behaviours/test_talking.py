"""What a command says beside its result: to people, as JSON lines, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from admeasure.cli.app import command
from admeasure.cli.run import run
from admeasure.schema import Schema
from admeasure.terminal.console import Voice, voice

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
FIT = ["fit", "data.csv", "--schema", "schema.toml", "--workload", "all-1way", "--epsilon", "1"]
FIT += ["--mechanism", "independent", "--out", "release"]
SECRET = "31337"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,b\n" + "0,1\n2,0\n1,1\n" * 100)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    return tmp_path


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_verb_can_be_quiet_and_log_json():
    verbs = command().commands
    assert len(verbs) > 15
    for verb in [*verbs.values(), *verbs["ledger"].commands.values()]:
        if verb is not verbs["ledger"]:
            assert {"quiet", "log"} <= {p.name for p in verb.params}, verb.name


def test_a_quiet_run_says_nothing_and_leaves_its_release(capfd, place):
    assert run([*FIT, "--quiet"]) == 0
    heard = capfd.readouterr()
    assert (heard.out, heard.err) == ("", "")
    assert (place / "release" / "release.json").exists()
    assert run(["sample", "release", "-n", "5", "-o", "rows.csv", "--quiet"]) == 0
    heard = capfd.readouterr()
    assert (heard.out, heard.err) == ("", "")


def test_quiet_keeps_the_result_that_was_asked_for(capfd):
    assert run([*FIT, "--quiet", "--json"]) == 0
    heard = capfd.readouterr()
    assert json.loads(heard.out)["mechanism"] == "independent"
    assert heard.err == ""


def test_quiet_keeps_warnings_and_errors(capfd):
    assert run([*FIT, "--quiet", "--seed", "1"]) == 0
    heard = capfd.readouterr()
    assert heard.err.startswith("warning: NOT PRIVATE")
    assert "NOT PRIVATE" in heard.out
    assert run([*FIT, "--quiet"]) == 2
    assert capfd.readouterr().err.startswith("error: ")


def test_the_log_of_a_run_is_json_lines_with_its_charge_phases_and_end(capfd):
    assert run([*FIT, "--log", "json", "--json"]) == 0
    heard = capfd.readouterr()
    result, lines = json.loads(heard.out), lines_of(heard.err)
    assert {tuple(line)[:3] for line in lines} == {("time", "level", "event")}
    assert [line["event"] for line in lines if line["event"] != "phase"] == [
        *("start", "planned", "released", "end")
    ]
    by_event = {line["event"]: line for line in lines}
    assert by_event["start"]["verb"] == "fit"
    assert by_event["planned"]["rho"] == result["rho"]
    assert by_event["planned"]["epsilon"] == 1
    assert by_event["released"]["rho_spent"] == result["rho_spent"]
    assert by_event["end"]["exit_code"] == 0
    phases = {line["phase"] for line in lines if line["event"] == "phase"}
    assert phases == {"reading data.csv", "spending the budget"}


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([*FIT, "--epsilon", "-1"], 2),
        (["check", "data.csv", "--schema", "schema.toml"], 3),
        (["fit", "--no-such"], 2),
        (["no-such-verb"], 2),
    ],
)
def test_an_error_is_a_json_line_with_its_exit_code_and_no_value(argv, code, capfd, place):
    (place / "data.csv").write_text(f"a,b\n{SECRET},1\n")
    assert run([*argv, "--log=json"]) == code
    heard = capfd.readouterr()
    *_, error, end = lines_of(heard.err)
    assert (error["level"], error["event"], error["exit_code"]) == ("error", "error", code)
    assert (end["event"], end["exit_code"]) == ("end", code)
    assert error["message"]
    assert SECRET not in heard.err


def test_no_password_is_in_the_log(capfd):
    argv = ["check", "postgres://ann:hunter2@127.0.0.1:1/db?table=t", "--schema", "schema.toml"]
    assert run([*argv, "--log", "json"]) != 0
    assert "hunter2" not in capfd.readouterr().err


def test_quiet_json_lines_are_warnings_and_errors_alone(capfd):
    assert run([*FIT, "--quiet", "--log", "json", "--seed", "1"]) == 0
    assert {line["level"] for line in lines_of(capfd.readouterr().err)} == {"warning"}


def test_another_form_of_log_is_refused(capfd):
    assert run([*FIT, "--log", "xml"]) == 2
    assert "--log" in capfd.readouterr().err


def test_how_one_command_talks_is_forgotten_by_the_next(capfd):
    run([*FIT, "--quiet", "--log", "json"])
    assert voice() == Voice()


@pytest.mark.parametrize("verb", [["draft", "data.csv"], [*FIT, "--quiet"]])
def test_a_process_that_read_a_file_ends_without_a_word(verb: list[str]):
    """Also where libraries have something to say about how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", "admeasure", *verb], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
