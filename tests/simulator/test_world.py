"""The complete simulator in one process, with a device client without Node."""

import asyncio
import json
import ssl
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.waiting import PATIENCE_S
from wa_orchestrator.simulator.device_client import DeviceClient
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.protocol.noise_channel import ClosedError
from wa_orchestrator.simulator.world import World

PHONE, FRIEND = "972501230001", "972501230002"


def _companion(world: World, proxy: int = 0, **more: Any) -> DeviceClient:
    return DeviceClient(world.proxies[proxy], ssl.create_default_context(cafile=str(world.ca_file)), **more)


async def _linked(world: World, phone: str = PHONE, proxy: int = 0) -> DeviceClient:
    client = _companion(world, proxy)
    await client.link(lambda qr: world.whatsapp.scan(phone, qr))
    await client.log_in()
    return client


async def test_ready_has_every_url_and_path() -> None:
    async with World(proxies=2) as world:
        assert list(world.ready) == ["control", "caFile", "proxies", "telegram"]
        assert json.loads(json.dumps(world.ready)) == world.ready
        assert [url.startswith("socks5h://proxy-") for url in world.proxies] == [True, True]
        assert ssl.create_default_context(cafile=world.ready["caFile"]).get_ca_certs()
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"{world.control}/connections")).json() == []
            sent = {"chat_id": 1, "text": "hello"}
            assert (await http.post(f"{world.telegram}/bot1:fake/sendMessage", json=sent)).status_code == 200
            assert [one["text"] for one in (await http.get(f"{world.control}/telegram")).json()] == ["hello"]
    assert not world.ca_file.exists(), "a world that nobody keeps leaves nothing behind"


async def test_a_device_is_linked_sends_and_is_recorded_everywhere() -> None:
    async with World(proxies=2) as world:
        client = await _linked(world, proxy=1)
        assert await client.send(FRIEND, "hello there", "3EB0" + "C3" * 9) is None
        (arrived,) = world.whatsapp.arrivals()
        assert {name: arrived[name] for name in ("n", "from", "to", "id", "text", "repeat", "proxy")} == {
            "n": 1, "from": PHONE, "to": FRIEND, "id": "3EB0" + "C3" * 9, "text": "hello there", "repeat": False, "proxy": "proxy-2",
        }  # fmt: skip
        assert [one["text"] for one in world.whatsapp.inbox(FRIEND)] == ["hello there"]
        assert [one["fromMe"] for one in world.whatsapp.inbox(PHONE)] == [True]
        await world.whatsapp.send_text(FRIEND, PHONE, "hello yourself")
        async with asyncio.timeout(PATIENCE_S):
            assert await client.texts.get() == (FRIEND, "hello yourself")
        first, second = (proxy.describe() for proxy in world.pool)
        assert (first["live"], first["highWater"], first["accepted"]) == (0, 0, 0)
        assert (second["live"], second["highWater"]) == (1, 1)
        assert second["addressTypes"] == {"domain": second["accepted"]}
        await client.close()


async def test_the_newest_connection_of_a_device_wins() -> None:
    async with World(proxies=1) as world:
        older = await _linked(world)
        newer = _companion(world, credentials=older.credentials)
        await newer.log_in()
        async with asyncio.timeout(PATIENCE_S):
            assert await older.ended() == 440
        assert next(iter(world.pool)).describe()["highWater"] == 1, "it is the same session all the time"
        await newer.close()
        await older.close()


async def test_a_device_with_other_keys_is_refused() -> None:
    async with World(proxies=1) as world:
        client = await _linked(world)
        await client.close()
        stranger = _companion(world)
        stranger.credentials.phone, stranger.credentials.device = PHONE, 1
        with pytest.raises(ClosedError) as refused:
            await stranger.log_in()
        assert refused.value.code == 401
        assert next(iter(world.pool)).describe()["highWater"] == 1, "who is refused was never a session"


async def test_a_state_directory_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    async with World(proxies=1, state_dir=tmp_path) as before:
        client = await _linked(before)
        await before.add_proxy()
        await client.close()
    assert stat.S_IMODE((tmp_path / "world.json").stat().st_mode) == 0o600
    async with World(proxies=1, state_dir=tmp_path) as after:
        assert after.ready == before.ready
        again = _companion(after, credentials=client.credentials)
        await again.log_in()
        assert await again.send(FRIEND, "still linked") is None
        await again.close()


async def test_a_damaged_state_file_prevents_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "world.json").write_text("{")
    with pytest.raises(SimulatorError, match=r"world\.json"):
        async with World(state_dir=tmp_path):
            pass


async def test_a_control_port_in_use_prevents_the_start_and_frees_everything_else(tmp_path: Path) -> None:
    async with World(proxies=1) as world:
        port = int(world.control.rpartition(":")[2])
        with pytest.raises(SimulatorError, match=str(port)):
            async with World(proxies=1, state_dir=tmp_path, control_port=port):
                pass
    async with World(proxies=1, state_dir=tmp_path) as later:
        assert later.proxies
