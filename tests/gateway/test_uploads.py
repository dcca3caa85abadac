"""Files that a client uploads, and messages that carry them."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.gateway.conftest import Gate, OpenGate, code_of, make_settings
from wa_orchestrator.messages import uploads
from wa_orchestrator.store import records

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100


async def _upload(gate: Gate, content: bytes = PNG, mimetype: str = "image/png", filename: str | None = None) -> str:
    headers = {} if filename is None else {"X-Filename": filename}
    response = await gate.client.post("/api/v1/uploads", content=content, headers={"Content-Type": mimetype, **headers})
    assert response.status_code == 201, response.text
    return str(response.json()["uploadId"])


async def test_a_raw_upload_can_be_sent(gate: Gate, tmp_path: Path) -> None:
    upload_id = await _upload(gate, filename="../../etc/cat.png")
    response = await gate.send(message=None, media={"upload": upload_id, "caption": "A cat"})
    assert response.status_code == 202
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert message.kind == "image"
    media = json.loads(message.body)["media"]
    assert media == {"upload": upload_id, "mimetype": "image/png", "filename": "cat.png", "caption": "A cat"}
    found = await uploads.open(make_settings(tmp_path), upload_id)
    assert found is not None
    async with found.on_disk() as path:
        assert path.read_bytes() == PNG
        assert path.stat().st_mode & 0o077 == 0


async def test_a_form_can_be_uploaded(gate: Gate) -> None:
    response = await gate.client.post("/api/v1/uploads", files={"file": ("voice.ogg", b"OggS", "audio/ogg")})
    told = response.json()
    assert response.status_code == 201
    assert (told["kind"], told["filename"], told["size"], told["mimetype"]) == ("audio", "voice.ogg", 4, "audio/ogg")


@pytest.mark.parametrize(
    ("content", "mimetype", "status", "code"),
    [
        (b"<svg/>", "image/svg+xml", 415, "UNSUPPORTED_TYPE"),
        (b"<html>", "text/html; charset=utf-8", 415, "UNSUPPORTED_TYPE"),
        (b"x", "nonsense", 415, "UNSUPPORTED_TYPE"),
        (b"", "image/png", 422, "FILE_EMPTY"),
        (b"x" * 2000, "image/png", 413, "FILE_TOO_LARGE"),
        (b"x", "multipart/form-data", 400, "BAD_FORM"),
    ],
)
async def test_what_cannot_be_sent_is_not_stored(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, mimetype: str, status: int, code: str
) -> None:
    monkeypatch.setitem(uploads.LARGEST, "image", 1000)
    response = await gate.client.post("/api/v1/uploads", content=content, headers={"Content-Type": mimetype})
    assert (response.status_code, code_of(response)) == (status, code)
    assert list((tmp_path / "uploads").glob("*")) == []


async def test_an_upload_needs_a_key_that_may_send(gate: Gate) -> None:
    response = await gate.client.post("/api/v1/uploads", content=PNG, headers={"X-API-Key": ""})
    assert response.status_code == 401


async def test_an_upload_that_does_not_exist_is_not_sent(gate: Gate) -> None:
    response = await gate.send(message=None, media={"upload": "u_" + "0" * 32})
    assert (response.status_code, code_of(response)) == (422, "NO_SUCH_UPLOAD")


async def test_an_upload_nobody_used_ends_and_a_used_one_stays(gates: OpenGate, tmp_path: Path) -> None:
    gate = await gates()
    await gate.add_session()
    settings = make_settings(tmp_path)
    unused, used = await _upload(gate), await _upload(gate)
    await gate.send(message=None, media={"upload": used})
    for name in (unused, used):
        described = tmp_path / "uploads" / f"{name}.json"
        ends = described.stat().st_mtime - uploads.UNUSED_S - 60  # a day later
        os.utime(described, (ends, ends))
    assert await uploads.open(settings, unused) is None
    assert await uploads.sweep(settings) == 1
    assert await uploads.open(settings, used) is not None
    assert not list((tmp_path / "uploads").glob(f"{unused}*"))


async def test_halves_that_a_crash_left_are_swept_after_a_day(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    directory = tmp_path / "uploads"
    directory.mkdir()
    half = directory / ("u_" + "1" * 32)
    half.write_bytes(b"x")
    assert await uploads.sweep(settings) == 0
    old = time.time() - uploads.UNUSED_S - 1
    os.utime(half, (old, old))
    assert await uploads.sweep(settings) == 1


@pytest.mark.parametrize("name", ["../secret", "u_", "u_" + "g" * 32, "u_" + "0" * 32 + "/x", ""])
async def test_an_upload_id_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    assert await uploads.open(make_settings(tmp_path), name) is None
