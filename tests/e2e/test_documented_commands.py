"""Every command of the documents is run, in their order, against one product with a simulated world; or a table says why not."""

import contextlib
import io
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cli.documents import ROOT, Documented, commands
from tests.cli.synopsis import expand
from tests.e2e.documented_world import ASKING, FLEET, FRIEND, World, documented_world
from tests.processes import PRODUCT, Program, bare_environment
from tests.waiting import PATIENCE_S, until_blocking
from wa_orchestrator.cli import main

#: A word of a synopsis or an example → what it is here. The longest key that fits wins: with its command, or its option.
FILLED: dict[str, str | Callable[[World], str]] = {
    "SESSION": World.connected,
    "S": World.connected,
    "ID": World.connected,
    "worker_3": lambda world: world.new_session("worker_3"),
    "worker_7": lambda world: world.with_code("worker_7"),
    "--id ID": "named",
    "sessions start SESSION": "support",
    "sessions qr SESSION": World.with_code,
    "sessions pairing-code SESSION": World.with_code,
    "sessions scan-link SESSION": World.with_code,
    "sessions logout SESSION": World.new_session,
    "sessions delete SESSION": World.new_session,
    "sessions worker-env SESSION": World.new_session,
    "sessions restore-credentials SESSION": World.logged_out,
    "sessions change SESSION": "sales",
    "limits set SESSION": "sales",
    "restore ID": "sales",
    "--status S": "sent",
    "sessions list S": "connected",
    "proxies list OK": "OK",
    "conversations list S": "open",
    "TO": FRIEND,
    "PHONE": FRIEND,
    "PERSON": FRIEND,
    "N": "5",
    "--phone N": lambda world: world.new_phone(),
    "send N": FLEET["support"],
    "--to N": FRIEND,
    "--count N": "1",
    "--interval S": "0.5",
    "--pause-min-ms N": "6000",
    "--pause-max-ms N": "9000",
    "--opens HH:MM": "09:00",
    "--closes HH:MM": "18:00",
    "campaign create N": "Autumn",
    "proxies change N": "Haifa",
    "RECIPIENT": "972527700091",
    "opt-outs add PHONE": "972527700091",
    "contacts erase PHONE": "972527700092",
    "G": "Support line",
    "L": "Support line",
    "T": "north",
    "--text T": "Hello. To stop, answer STOP.",
    "TAG": World.tag,
    "Z": "Europe/Berlin",
    "--assigned-to P": World.person,
    "BANNED": "BANNED",
    "--presence P": "while_sending",
    "--provider P": "Example",
    "CC": "IL",
    "DAY": "2030-12-31",
    "R": "order-1001",
    "B": "b_000000000000000000",
    "b_…": "b_000000000000000000",
    "TEXT": "Thank you.",
    "send TEXT": f"Thank you, @{FRIEND}.",
    "WORDS": "Hello",
    "WHERE": "the form of the shop",
    "NAME": "Dana Levi",
    "secrets rotate NAME": "DASHBOARD_PASSWORD",
    "jobs run NAME": "trash",
    "quick-replies put NAME": "thanks",
    "quick-replies delete NAME": "thanks",
    "CAPTION": "The menu",
    "EMOJI": "👍",
    "LAT,LON": "32.0853,34.7818",
    "TIME": "+1h",
    "--at TIME": "+0s",
    "SECONDS": "60",
    "KEY": World.key,
    "--idempotency-key KEY": "order-1001-where",
    "send-batch KEY": "orders-of-today",
    "MESSAGE": World.sent,
    "messages cancel MESSAGE": World.scheduled,
    "messages retry MESSAGE": World.failed,
    "messages media MESSAGE": World.received_picture,
    "chats react MESSAGE": World.received,
    "chats read MESSAGE": World.received,
    "CONVERSATION": World.conversation,
    "GROUP": World.group,
    "groups answer GROUP": World.group_with_request,
    "groups answer PERSON": ASKING,
    "HOLD": World.hold,
    "CAMPAIGN": World.campaign,
    "c_…": World.campaign,
    "campaign pause CAMPAIGN": World.started_campaign,
    "campaign resume CAMPAIGN": World.paused_campaign,
    "BACKUP": World.backup,
    "restore BACKUP": World.encrypted_backup,
    "backup_2026-01-31": World.backup,
    "backup_2026-02-28": World.encrypted_backup,
    "JOB": "trash",
    "NODE": "node-2",
    "PROFILE": "Windows/Edge/120.0",
    "--profile PROFILE": World.profile,
    "URL": World.new_proxy_url,
    "webhooks add URL": "http://127.0.0.1:9/whatsapp",
    "--address URL": "http://127.0.0.1:9/events",
    "PROXY": World.proxy,
    "sessions list PROXY": World.fleet_proxy,
    "people change PERSON": World.person,
    "people link PERSON": World.person,
    "people remove-second-factor PERSON": World.person,
    "people delete PERSON": World.person,
    "LOGIN": World.login,
    "WEBHOOK": World.webhook,
    "webhooks replay WEBHOOK": World.webhook_with_delivery,
    "NUMBER": lambda world: world.delivery,
    "TRASH": World.trash,
    "CURSOR": "0",
    "FILE": World.file,
    "--media FILE": "menu.pdf",
    "--identity FILE": "key.txt",
    "--data-dir /var/lib/wa-orchestrator": lambda world: str(world.home / "data"),
    "--file FILE": "data/audit.jsonl",
    "campaign create FILE": "people.csv",
    "send-batch FILE": "messages.jsonl",
    "sessions import FILE": "sessions.csv",
    "opt-outs import FILE": "opted-out.csv",
    "proxies import FILE": "proxies.txt",
    **dict.fromkeys(("ARCHIVE", "backup_….zip.age", "/mnt/nas/backup_2026-02-28.zip.age"), World.backup_with_secrets),
    "PLACE": "noweb",
    "/srv/waha/.sessions/noweb": "noweb",
}
#: What stands in a call by curl → what it is here.
IN_CALLS: dict[str, str | Callable[[World], str]] = {
    r"https?://(?:127\.0\.0\.1|localhost):3001|(?<= )localhost:3001|https://wa\.example\.com": lambda world: world.url,
    r"https://crm\.example\.com(?=/)": "http://127.0.0.1:9",
    r"\bi_dzEgM0EwMA\b": World.received_picture,
    "…": 'echo "$event"',
}
#: How a command of ours begins → why it is not run here, and the test that runs it.
NOT_HERE = {
    "up": ("it is what everything here runs against", "tests/orchestrator/test_demo.py"),
    "simulate": ("`up --simulate` runs it; alone", "tests/orchestrator/product.py"),
    "runner": ("needs a Docker engine", "tests/deploy/test_compose.py"),
    "nodes drain": ("needs an engine with several machines", "tests/e2e/test_swarm_fleet.py"),
    "nodes activate": ("needs an engine with several machines", "tests/e2e/test_swarm_fleet.py"),
    "sessions move": ("needs an engine with several machines", "tests/e2e/test_swarm_fleet.py"),
    "sessions confirm-phone": ("needs a worker that was taken over", "tests/security/test_changed_phone.py"),
    "chats picture": ("people of the simulated world have no pictures", "tests/worker/test_acts.py"),
    "messages confirm": ("needs a message that WhatsApp never confirmed", "tests/gateway/test_messages.py"),
    "messages send-again": ("needs a message that WhatsApp never confirmed", "tests/gateway/test_messages.py"),
}
_PLACEHOLDER = re.compile(r"[A-Z,:]+|.*…")
#: The exit code tells something, and is documented with the command.
MAY_END_WITH_1 = ("status", "doctor")
#: Follow what happens until Ctrl-C.
FOLLOWS = re.compile(r"^logs .*-f|^events --json --types")


@dataclass(frozen=True)
class Step:
    """One command to run: words with placeholders, or a line for the shell."""

    documented: Documented
    words: tuple[str, ...]
    line: str = ""

    def __str__(self) -> str:
        return f"{self.documented.page}: {self.line or ' '.join(self.words)}"


def _arguments(line: str) -> str:
    """Return what follows the program's name, without a remark."""
    return re.split(r"\s{2,}", re.sub(r"^.*?(?:^|/)wa-orchestrator(?: |$)", "", line))[0]


def _is_for_the_shell(line: str) -> bool:
    return "$(" in line or re.search(r"\| (?:while|python3) ", line) is not None


def _own_steps(documented: Documented) -> Iterator[Step]:
    if documented.program == "curl" or _is_for_the_shell(documented.line):
        yield Step(documented, (), documented.line)
        return
    for words in expand(_arguments(documented.line)):
        yield Step(documented, tuple(word[1:-1] if word[0] in "\"'" else word for word in words))


def steps() -> list[Step]:
    """Return what is run: each command once, where it is first written; the name of one that is run anyway is no command."""
    found = [step for each in commands() if each.program in ("wa-orchestrator", "curl") for step in _own_steps(each)]
    written = [step for step in found if not step.documented.is_mention]
    kept: dict[tuple[tuple[str, ...], str], Step] = {}
    for step in found:
        if not _is_a_name(step, written):
            kept.setdefault((step.words, step.line), step)
    return list(kept.values())


def _is_a_name(step: Step, written: Sequence[Step]) -> bool:
    """Whether a sentence only names a command that a code block has in full."""
    size = len(step.words)
    named = [each for each in written if each.words[:size] == step.words and each.words != step.words]
    return step.documented.is_mention and bool(named)


def _is_elsewhere(step: Step) -> bool:
    return any(step.words[: len(begin.split())] == tuple(begin.split()) for begin in NOT_HERE)


STEPS = steps()
HERE = [step for step in STEPS if not _is_elsewhere(step)]


class Terminal:
    """A person at a terminal in the directory of the product, who answers every question with yes."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.world = world
        self._env = {"PATH": f"{world.home}/bin:/usr/bin:/bin", "HOME": str(world.home), "TERM": "dumb"}
        self._env |= dict.fromkeys(("KEY", "API_KEY", "ADMIN_KEY"), world.api_key)
        for name in [name for name in os.environ if name.startswith(("WA_", "API_KEY", "DATA_DIR", "PROXY_URL"))]:
            patch.delenv(name)
        patch.chdir(world.home)
        patch.setenv("TERM", "dumb")
        self._patch = patch
        for place in ("bin", ".venv/bin"):
            (world.home / place).mkdir(parents=True)
            program = world.home / place / "wa-orchestrator"
            program.write_text(f'#!/bin/sh\nexec {shlex.join(PRODUCT)} "$@"\n')
            program.chmod(0o755)
        (world.home / ".curlrc").write_text('write-out = "%{stderr}HTTP %{http_code}"\n')

    def problem_with(self, step: Step) -> str:
        """Run a step; return what went wrong."""
        try:
            if step.line:
                return self._in_a_shell(step)
            words = self._filled(step.words)
        except (AssertionError, httpx.HTTPError, LookupError, OSError) as missing:
            return f"its example could not be prepared: {missing!r}"
        if FOLLOWS.match(" ".join(words)):
            return self._followed((*PRODUCT, *words))
        with self._somebody_scans(words):
            code, out, err = self._run(words)
        allowed = (0, 1) if words[0] in MAY_END_WITH_1 else (0,)
        good = code in allowed and not re.search(r"^[A-Z][A-Z_]+: |Traceback", err, re.MULTILINE)
        return "" if good else f"{shlex.join(words)}: {code} {err.strip() or out.strip()}"

    def _filled(self, words: Sequence[str]) -> list[str]:
        command = " ".join(words[: next((n for n, word in enumerate(words) if not re.match(r"[a-z]", word)), None)])
        filled = []
        for before, word in zip(("", *words), words, strict=False):
            keys = (f"{command} {word}", f"{before} {word}" if before.startswith("-") else "", word)
            value = next((FILLED[key] for key in keys if key in FILLED), None)
            assert value is not None or not _PLACEHOLDER.fullmatch(word), f"nobody says what {word} is"
            filled.append(word if value is None else value if isinstance(value, str) else value(self.world))
        return filled

    def _run(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Run a command line in this process: `main()` with its exit code; imports take longer than most commands."""
        person, terminal = pty.openpty()
        os.write(person, self._typed(words))
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with os.fdopen(terminal, encoding="utf-8") as stdin, self._patch.context() as patch:
            if words[0] == "restore-secrets":  # for a machine that has no server yet
                patch.setenv("DATA_DIR", self.world.file())
            patch.setattr(sys, "argv", ["wa-orchestrator", *words])
            patch.setattr(sys, "stdin", stdin)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main.main()
        os.close(person)
        code = ended.value.code
        said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
        return (code if isinstance(code, int) else 0), said, complained

    def _typed(self, words: Sequence[str]) -> bytes:
        if "--password" not in words:
            return b"y\n"
        newest = self.world.phones.get("/proxies").json()[-1]
        password = newest["url"].split(":")[2].partition("@")[0]
        return f"{password}\n".encode()

    @contextlib.contextmanager
    def _somebody_scans(self, words: Sequence[str]) -> Iterator[None]:
        """Scan the code that a command waits for."""
        if words[0] != "sessions" or "--wait" not in words or "move" in words:
            yield
            return
        over = threading.Event()
        if words[1] == "qr":
            scan = partial(self.world.scan, words[2], self.world.new_phone(), over.is_set)
        else:
            scan = partial(self.world.scan_new, self.world.session_ids(), over.is_set)
        person = threading.Thread(target=scan)
        person.start()
        yield
        over.set()
        person.join(PATIENCE_S)

    def _followed(self, command: Sequence[str]) -> str:
        """Run a command that goes on until Ctrl-C, and wait for its first line."""
        env = bare_environment() | self._env
        program = Program(("setsid", *command), log=self.world.home / "followed.log", env=env)
        until_blocking(lambda: self.world.received() and program.lines, program.tail)
        os.killpg(program.process.pid, signal.SIGINT)  # Ctrl-C is for all of a pipe
        code = program.end(signal.SIGINT)
        good = code in (0, -signal.SIGINT, 128 + signal.SIGINT) and "Traceback" not in program.tail()
        return "" if good else f"{code}: {program.tail()}"

    def _in_a_shell(self, step: Step) -> str:
        line = step.line
        for pattern, value in IN_CALLS.items():
            if re.search(pattern, line):
                line = re.sub(pattern, value if isinstance(value, str) else value(self.world), line)
        if "while" in line:
            return self._followed(("sh", "-c", line))
        variable = re.match(r"([A-Z_]+)=", line)
        told = subprocess.run(
            ("sh", "-c", f'{line}\nprintf %s "${variable[1]}"' if variable else line), cwd=self.world.home,
            env=self._env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if variable:
            self._env[variable[1]] = told.stdout
            return "" if told.returncode == 0 and told.stdout else f"{told.returncode}: {told.stderr}"
        good = told.returncode == 0 and re.search(r"HTTP 2\d\d$", told.stderr) and '"error":{' not in told.stdout
        return "" if good else f"{line}: {told.returncode} {told.stdout} {told.stderr}"


@pytest.mark.slow
def test_every_command_of_the_documents_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed here")
    with documented_world(tmp_path) as world:
        terminal = Terminal(world, monkeypatch)
        problems = [f"{step}\n    {problem}" for step in HERE if (problem := terminal.problem_with(step))]
    assert problems == [], "\n".join(problems)


def test_what_is_not_run_here_is_run_by_a_test_that_exists() -> None:
    assert [path for _, path in NOT_HERE.values() if not (ROOT / path).is_file()] == []
    elsewhere = [" ".join(step.words) for step in STEPS if _is_elsewhere(step)]
    assert [begin for begin in NOT_HERE if not any(line.startswith(begin) for line in elsewhere)] == []


def test_every_placeholder_of_the_documents_is_known() -> None:
    """A new command of the documents is run by what its words stand for; one with a new word must say what that is."""
    words = {word for step in HERE for word in step.words if _PLACEHOLDER.fullmatch(word)}
    assert words - {key.rpartition(" ")[2] for key in FILLED} == set()
    assert len(HERE) > 150
