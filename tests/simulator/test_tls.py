"""The throw-away authority: only clients that trust it accept the simulator as WhatsApp."""

import asyncio
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wa_orchestrator.simulator.whatsapp import tls


async def _shake_hands(identity: tls.TlsIdentity, name: str, client: ssl.SSLContext) -> None:
    server = await asyncio.start_server(lambda _r, writer: writer.close(), "127.0.0.1", 0, ssl=identity.context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        writer.close()


@pytest.mark.parametrize(
    "name", ["web.whatsapp.com", "mmg.whatsapp.net", "media-lhr8-1.cdn.whatsapp.net", "g.whatsapp.net", "127.0.0.1"]
)
async def test_a_client_that_trusts_the_authority_accepts_the_server_as_whatsapp(tmp_path: Path, name: str) -> None:
    identity = tls.prepare(tmp_path)
    trusting = ssl.create_default_context(cafile=str(identity.ca_file))
    if name.count(".") == 3 and not name[0].isdigit():  # a star covers one label, as in real certificates
        with pytest.raises(ssl.SSLCertVerificationError):
            await _shake_hands(identity, name, trusting)
    else:
        await _shake_hands(identity, name, trusting)


async def test_the_certificate_is_refused_for_other_names_and_without_the_authority(tmp_path: Path) -> None:
    identity = tls.prepare(tmp_path)
    trusting = ssl.create_default_context(cafile=str(identity.ca_file))
    with pytest.raises(ssl.SSLCertVerificationError):
        await _shake_hands(identity, "bank.example.com", trusting)
    with pytest.raises(ssl.SSLCertVerificationError):
        await _shake_hands(identity, "web.whatsapp.com", ssl.create_default_context())


def test_a_restart_finds_the_same_authority_and_private_keys_are_private(tmp_path: Path) -> None:
    first = tls.prepare(tmp_path / "tls")
    before = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    tls.prepare(tmp_path / "tls")
    assert {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == before
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"ca.pem": 0o644, "server.pem": 0o644, "ca.key": 0o600, "server.key": 0o600}
    assert first.ca_file == tmp_path / "tls" / "ca.pem"


@pytest.mark.parametrize("damage", ["expired", "torn", "missing", "foreign"])
def test_unusable_files_are_created_again(tmp_path: Path, damage: str) -> None:
    tls.prepare(tmp_path / "a")
    before = (tmp_path / "a" / "ca.pem").read_bytes()
    now = datetime.now(UTC)
    match damage:
        case "expired":
            now += timedelta(days=800)
        case "torn":
            (tmp_path / "a" / "server.key").write_text("-----BEGIN")
        case "missing":
            (tmp_path / "a" / "server.pem").unlink()
        case "foreign":
            tls.prepare(tmp_path / "b")
            (tmp_path / "a" / "server.key").write_bytes((tmp_path / "b" / "server.key").read_bytes())
    tls.prepare(tmp_path / "a", now=lambda: now)
    assert (tmp_path / "a" / "ca.pem").read_bytes() != before
