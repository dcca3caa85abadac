"""Every command in the documents exists with its options, the reference has all of them, and each is run by a test."""

import re
from itertools import pairwise
from typing import Any

import pytest
import typer

from tests.cli.documents import ROOT, Documented, commands
from tests.cli.synopsis import expand
from wa_orchestrator.cli.main import app

ALL = sorted(set(commands()), key=str)
ROOT_COMMAND: Any = typer.main.get_command(app)
OWN = [each for each in ALL if each.program == "wa-orchestrator"]
#: Programs that tests/e2e/test_documented_commands.py runs.
RUN_TOGETHER = ("wa-orchestrator", "curl")
#: How a command begins → the test that runs it, or the one that does the same without it.
ELSEWHERE = {
    "make demo": "tests/orchestrator/test_demo.py",
    "make run": "tests/cli/test_start.py",
    "make setup": ".ci/run",
    "make test": ".ci/run",
    "make check": ".ci/run",
    "make dist": "tests/deploy/test_wheel.py",
    "make docs": "tests/e2e/test_docs.py",
    "make sbom": "tests/scripts/test_sbom.py",
    "make chaos-short": "tests/test_chaos.py",
    "make chaos": "tests/test_chaos.py",
    "make reached": "tests/security/test_hostile_worker_code.py",
    "make bench": "tests/scripts/test_bench_report.py",
    "cp env.example .env": "tests/deploy/test_compose.py",
    "docker compose": "tests/deploy/test_compose.py",
    "docker tag": "tests/deploy/test_compose.py",
    "DOCKER_BUILDKIT=1 docker build": "tests/deploy/test_one_container.py",
    "docker run": "tests/deploy/test_one_container.py",
    "docker exec": "tests/deploy/test_one_container.py",
    "useradd": "tests/deploy/test_systemd_live.py",
    "install -": "tests/deploy/test_systemd_live.py",
    "systemctl": "tests/deploy/test_systemd_live.py",
    "scripts/setup.sh": "tests/deploy/test_setup_script.py",
    "scripts/pin_base.sh": "tests/deploy/test_pin_base.py",
    "helm install": "tests/deploy/test_chart.py",
    "openapi-python-client generate": "tests/e2e/test_openapi.py",
    "npm ": "tests/worker/test_units.py",
    "mkdir -p backups": "tests/backups",
}
#: Not run by any test, and why. What is not in either table fails the test.
NOT_RUN = {
    "python3 -m venv /opt": "tests/deploy/test_wheel.py does the same with uv, in another directory",
    "/opt/wa-orchestrator/bin/pip": "the same",
    ".venv/bin/pre-commit install": "changes the repository of who runs the tests",
    "make lock": "asks the registries for newer versions",
    "make picture": "replaces a file of the repository",
    "make screenshots": "its pictures are for people; tests/dashboard opens the same pages",
    "make trouble": "takes a quarter of an hour",
}
#: Options that every command has, and the page explains once.
COMMON = {"--url", "--api-key", "--data-dir", "--json", "--install-completion", "--show-completion", "--help"}
#: Commands that start a server: the README has them.
STARTS = ("up", "gateway", "dispatcher", "orchestrator", "simulate", "fleet", "runner", "runner end")


def arguments_of(documented: Documented) -> str:
    """Return what follows the program's name, without a remark and without what reads its output."""
    after = re.sub(r"^.*?(?:^|/)wa-orchestrator(?: |$)", "", documented.line)
    return re.split(r"\s{2,}| \| (?:while|python3) ", after)[0]


def words_of(documented: Documented) -> list[str]:
    """Return the words after the program's name, without what a synopsis puts around them."""
    plain = re.sub(r'"[^"]*"', "TEXT", arguments_of(documented))
    return re.sub(r"[\[\]]", " ", plain).replace("|", " | ").split()


def command_of(words: list[str]) -> tuple[list[Any], list[str]]:
    """Return the commands that the words name, those beside it (`stop | start`) too, and the words that are left."""
    found = ROOT_COMMAND
    group, left = found, list(words)
    while left and left[0] in getattr(found, "commands", {}):
        group, found = found, found.commands[left.pop(0)]
    beside = [group.commands[word] for before, word in pairwise(left) if before == "|" and word in group.commands]
    return [found, *beside], left


def all_commands(found: Any, *path: str) -> dict[str, Any]:
    """Return every command that `--help` lists, by its name."""
    below = {name: each for name, each in getattr(found, "commands", {}).items() if not each.hidden}
    own = {} if below else {" ".join(path): found}
    return own | {key: each for name, sub in below.items() for key, each in all_commands(sub, *path, name).items()}


@pytest.mark.parametrize("documented", OWN, ids=str)
def test_a_command_of_ours_exists_with_its_options(documented: Documented) -> None:
    named, left = command_of(words_of(documented))
    assert named[0].name != "wa-orchestrator" or left == ["--help"], "no such command"
    assert left == ["--help"] or all(not hasattr(each, "commands") or each.invoke_without_command for each in named)
    known = {name for each in named for param in each.params for name in (*param.opts, *param.secondary_opts)}
    used = {word.partition("=")[0] for word in left if re.match(r"-{1,2}[a-z]", word)}
    assert used - known - {"--help"} == set()


def test_the_reference_has_every_command_with_every_option() -> None:
    reference = [each for each in OWN if each.page == "docs/command-line.md"]
    described: dict[str, set[str]] = {}
    for words in (words for each in reference for words in expand(arguments_of(each))):
        _, left = command_of(words)
        name = " ".join(words[: len(words) - len(left)])
        described.setdefault(name, set()).update(word for word in left if word.startswith("-"))
    missing = {}
    for name, each in all_commands(ROOT_COMMAND).items():
        parent, _, last = name.rpartition(" ")
        is_list = last == "list" and parent in described and name not in described
        if name.startswith(STARTS) or is_list:
            continue
        spelled = described.get(name)
        options = [(*each.opts, *each.secondary_opts) for each in each.params if each.opts[0].startswith("-")]
        left_out = [names[0] for names in options if not {*names} & ((spelled or set()) | COMMON)]
        if spelled is None or left_out:
            missing[name] = left_out
    assert missing == {}, missing


def test_every_other_command_is_run_by_a_test_or_says_why_not() -> None:
    others = [each for each in ALL if each.program not in RUN_TOGETHER]
    assert [str(each) for each in others if not each.line.startswith((*ELSEWHERE, *NOT_RUN))] == []
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).exists()] == []
    lines = [each.line for each in ALL]
    assert [begin for begin in (*ELSEWHERE, *NOT_RUN) if not any(line.startswith(begin) for line in lines)] == []


def test_a_synopsis_is_each_of_its_commands_with_every_option() -> None:
    assert expand("sessions stop | start SESSION [--confirm BANNED]") == [
        ["sessions", "stop", "SESSION", "--confirm", "BANNED"],
        ["sessions", "start", "SESSION", "--confirm", "BANNED"],
    ]
    assert expand("holds place --session S | --all [--until +2h]") == [
        ["holds", "place", "--session", "S"],
        ["holds", "place", "--all", "--until", "+2h"],
    ]
    assert expand('groups change GROUP [--yes | --no] | send "a b" [--to a|b]') == [
        ["groups", "change", "GROUP", "--yes"],
        ["groups", "send", '"a b"', "--to", "a"],
    ]


def test_the_documents_have_commands() -> None:
    assert len(OWN) > 60
    assert len([each for each in ALL if each.program == "curl"]) > 5
