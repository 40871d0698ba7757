"""Dockerfile and scheduler examples: what of them can be checked without Docker or a scheduler."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from admeasure.cli.app import command
from admeasure.errors import ExitCode
from admeasure.verbs.run_file import RunFile

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SCHEDULER = ROOT / "examples" / "scheduler"
STEPS = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
RETRIED = {ExitCode.RESOURCE, ExitCode.INTERRUPTED}


def of(word: str) -> list[str]:
    return [step.partition(" ")[2] for step in STEPS if step.startswith(f"{word} ")]


def test_there_are_two_targets_and_neither_runs_as_root():
    names = [re.search(r"AS (\w+)$", text) for text in of("FROM")]
    assert [name[1] for name in names if name] == ["build", "base", "full"]
    for target in re.split(r"^FROM ", "\n".join(STEPS), flags=re.MULTILINE)[2:]:
        users = re.findall(r"^USER (\w+)", target, re.MULTILINE)
        assert users
        assert users[-1] != "root"


def test_only_the_package_registry_is_asked():
    for step in of("RUN"):
        assert shlex.split(step)[0] in ("python", "useradd"), step
        assert not re.search(r"https?:|git\+|curl|wget|apt", step), step
    assert not of("ADD")


def test_what_is_copied_is_there_and_nothing_else_gets_into_the_image():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    for text in of("COPY"):
        if text.startswith("--from"):
            continue
        *sources, _ = text.split()
        assert all((ROOT / source).exists() for source in sources)
        assert set(sources) <= let_in


def test_the_full_image_has_extras_that_there_are():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"admeasure\[([\w,-]+)\]", "\n".join(STEPS))
    assert named
    for text in named:
        assert set(text.split(",")) <= set(extras["optional-dependencies"])


def test_the_run_file_of_the_example_is_one():
    document = tomllib.loads((SCHEDULER / "release.toml").read_text())
    assert RunFile.model_validate(document).budget.dataset == "people"


def commands() -> list[list[str]]:
    """What the examples start."""
    cron = re.findall(r"admeasure [^\n>]*?(?= 2>>|$)", (SCHEDULER / "crontab").read_text(), re.M)
    service = (SCHEDULER / "admeasure-release.service").read_text()
    found = [shlex.split(line) for line in cron]
    found.append(shlex.split(re.findall(r"^ExecStart=(.*)$", service, re.MULTILINE)[0]))
    tree = ast.parse((SCHEDULER / "airflow_dag.py").read_text())
    values = {
        target.id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found.append(eval(values["COMMAND"], {"RUN_FILE": ast.literal_eval(values["RUN_FILE"])}))
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_of_the_examples_can_be_parsed(words):
    assert words[0] == "admeasure"
    verb = command().commands[words[1]]
    verb.make_context(words[1], list(words[2:]), resilient_parsing=False)


def test_schedulers_retry_after_what_a_retry_can_mend_alone():
    never = {code for code in ExitCode if code} - RETRIED
    service = (SCHEDULER / "admeasure-release.service").read_text()
    listed = re.findall(r"^RestartPreventExitStatus=(.*)$", service, re.MULTILINE)[0]
    assert {int(code) for code in listed.split()} == never
    dag = (SCHEDULER / "airflow_dag.py").read_text()
    assert set(ast.literal_eval(re.findall(r"^COMES_AGAIN = (.*)$", dag, re.M)[0])) == never
