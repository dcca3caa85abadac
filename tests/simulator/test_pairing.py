"""Linking by pairing code."""

import asyncio
import hashlib
import secrets

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.simulator.wireclient import WireClient, World
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.protocol import curve25519
from wa_orchestrator.simulator.protocol.binary_xml import node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.whatsapp.stanzas import pairing

DANA = "972501111111"
CODE = "ABCD1234"


def wrapped(key: bytes, salt: bytes, iv: bytes) -> bytes:
    wrapping = hashlib.pbkdf2_hmac("sha256", CODE.encode(), salt, 131_072, 32)
    encryptor = Cipher(algorithms.AES(wrapping), modes.CTR(iv)).encryptor()
    return encryptor.update(key) + encryptor.finalize()


async def announce(client: WireClient, display: str = "Chrome (Ubuntu)") -> KeyPair:
    """Send `companion_hello` for Dana's phone."""
    await client.register()
    ephemeral, salt, iv = KeyPair.generate(), secrets.token_bytes(32), secrets.token_bytes(16)
    body = salt + iv + wrapped(ephemeral.public, salt, iv)
    request = node("link_code_companion_reg", {"jid": f"{DANA}@s.whatsapp.net", "stage": "companion_hello"})
    request.content = [
        node("link_code_pairing_wrapped_companion_ephemeral_pub", content=body),
        node("companion_platform_display", content=display),
    ]
    answer = await client.ask("md", "set", request)
    if answer.attr("type") == "error":
        raise PermissionError(answer.require("error").attr("code"))
    assert answer.require("link_code_companion_reg").child_bytes("link_code_pairing_ref")
    return ephemeral


async def prove(client: WireClient, ephemeral: KeyPair) -> None:
    """Send `companion_finish`."""
    hello = (await client.until("notification")).require("link_code_companion_reg")
    body = hello.child_bytes("link_code_pairing_wrapped_primary_ephemeral_pub")
    primary = hello.child_bytes("primary_identity_pub")
    shared = curve25519.dh(ephemeral.private, wrapped(body[48:], body[:32], body[32:48]))
    salt, iv, random = secrets.token_bytes(32), secrets.token_bytes(12), secrets.token_bytes(32)
    key = curve25519.hkdf(shared, 32, salt=salt, info=b"link_code_pairing_key_bundle_encryption_key")
    sealed = AESGCM(key).encrypt(iv, client.identity.public + primary + random, None)
    client.adv = curve25519.hkdf(
        shared + curve25519.dh(client.identity.private, primary) + random, 32, info=b"adv_secret"
    )
    request = node("link_code_companion_reg", {"jid": f"{DANA}@s.whatsapp.net", "stage": "companion_finish"})
    request.content = [
        node("link_code_pairing_wrapped_key_bundle", content=salt + iv + sealed),
        node("link_code_pairing_ref", content=hello.child_bytes("link_code_pairing_ref")),
    ]
    await client.send(node("iq", {"id": "finish", "xmlns": "md", "type": "set"}, [request]))


async def test_the_right_code_links_the_device() -> None:
    async with World() as world:
        client = WireClient(world)
        ephemeral = await announce(client)
        typed = asyncio.create_task(world.whatsapp.enter_code(DANA, "abcd-1234"))
        await prove(client, ephemeral)
        assert (await client.complete()).attr("code") == "515"
        await typed
        assert (await client.login()).tag == "success"


async def test_a_device_with_a_custom_platform_name_gets_no_code() -> None:
    async with World() as world:
        with pytest.raises(PermissionError, match="400"):
            await announce(WireClient(world), "Chrome (My Brand)")


async def test_a_wrong_code_links_nothing() -> None:
    async with World() as world:
        client = WireClient(world)
        ephemeral = await announce(client)
        typed = asyncio.create_task(world.whatsapp.enter_code(DANA, "WRONG123"))
        await prove(client, ephemeral)
        with pytest.raises(SimulatorError) as refused:
            await typed
        assert refused.value.code == "WRONG_CODE"
        assert world.whatsapp.devices(DANA) == []


async def test_a_code_entered_before_companion_hello_waits_for_it() -> None:
    async with World() as world:
        client = WireClient(world)
        typed = asyncio.create_task(world.whatsapp.enter_code(DANA, CODE))
        ephemeral = await announce(client)
        await prove(client, ephemeral)
        assert (await client.complete()).attr("code") == "515"
        await typed


async def test_a_code_that_no_device_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "HELLO_TIMEOUT_S", 0.05)
    async with World() as world:
        with pytest.raises(SimulatorError) as refused:
            await world.whatsapp.enter_code(DANA, CODE)
        assert refused.value.code == "NO_CODE_EXPECTED"
