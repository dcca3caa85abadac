"""A worker that was started wrongly says so in one line and with a code of its own; the whole table is among the unit tests."""

from pathlib import Path

import pytest

from tests.waiting import until
from tests.worker import harness

pytestmark = pytest.mark.asyncio(loop_scope="session")

GOOD = {
    "SESSION_ID": "worker_1",
    "EPOCH": "1",
    "PROXY_URL": "socks5h://user:fake-password@proxy.example.com:1080",
    "WEBHOOK_URL": "http://127.0.0.1:9/webhook",
    "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "OUTBOX_URL": "http://127.0.0.1:9/outbox",
    "WORKER_TOKEN": "fake-token",
}


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("SESSION_ID", None, 10),
        ("PROXY_URL", None, 10),
        ("PROXY_URL", "socks5://user:fake-password@proxy.example.com:1080", 12),
        ("EPOCH", "first", 11),
        ("WORKER_TOKEN_FILE", "/nowhere/at/all", 11),
    ],
)
async def test_a_missing_or_wrong_value_is_named_and_has_its_exit_code(
    tmp_path: Path, variable: str, value: str | None, code: int
) -> None:
    environment = {**GOOD, "AUTH_DIR": str(tmp_path / "auth")}
    if variable == "WORKER_TOKEN_FILE":
        del environment["WORKER_TOKEN"]
    if value is None:
        del environment[variable]
    else:
        environment[variable] = value
    run = await harness.launch(environment)
    assert await run.ended() == code
    [line] = run.lines
    assert len(run.raw) == 1
    assert (line["event"], line["variable"]) == ("setting.refused", variable)
    assert line["problem"]
    assert line["example"]
    assert "fake-password" not in run.text
    assert not (tmp_path / "auth").exists()


async def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    run = await harness.launch({"SESSION_ID": "worker_1"})
    assert await run.ended() == 10
    missing = {line["variable"] for line in run.lines}
    assert missing == set(GOOD) - {"SESSION_ID"}


async def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    environment = {**GOOD, "AUTH_DIR": str(tmp_path / "auth")}
    for name in ("PROXY_URL", "WORKER_TOKEN", "EPOCH"):
        path = tmp_path / name
        path.write_text(environment.pop(name) + "\n")
        environment[f"{name}_FILE"] = str(path)
    run = await harness.launch(environment)
    try:
        await until(lambda: run.lines, "it says something")
        assert run.lines[0]["event"] == "worker.started"
        assert run.lines[0]["epoch"] == 1
    finally:
        await run.kill()
