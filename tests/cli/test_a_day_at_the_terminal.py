"""An operator moves in and works at a terminal: import, scan, send, campaign, backup, restore; workers are real."""

import asyncio
import re
import shutil
import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.terminal import at_a_terminal
from tests.orchestrator.product import API_KEY, Product, running_product
from tests.worker.plain import plain_client

OLD, NEW, FRIEND = "972501000001", "972501000002", "972527700001"
SETTINGS = {
    "time_scale": 20, "cold_hours": "00:00-00:00", "cold_per_minute": 1000, "provisioning_interval_ms": 100,
    "auth_key": "m8Vq2ZpX7rLd4TnB9wKc3HsJ6yFg1QaE", "timezone": "UTC",
}  # fmt: skip

pytestmark = pytest.mark.slow


async def another_program(product: Product, directory: Path) -> None:
    """Link a phone to an ordinary client on Baileys, which then ends."""
    world = cast("Any", SimpleNamespace(proxies=product.ready["proxies"], ca_file=product.ready["caFile"]))
    async with plain_client(world, directory) as client:
        code = (await client.event("qr"))["qr"]
        await asyncio.to_thread(product.world.post, f"/phones/{OLD}/scan", json={"qr": code})
        await client.event("open")
        product.world.post(f"/phones/{FRIEND}/say", json={"to": OLD, "text": "before the move"})
        await client.event("message", text="before the move")


def scan(product: Product, session_id: str) -> None:
    """Scan each code that a session shows, until it is connected."""
    scanned: set[str] = set()

    def step() -> bool:
        shown = product.api.get(f"/api/sessions/{session_id}/qr")
        code = shown.json().get("qr") if shown.status_code == 200 else None
        if code and code not in scanned:
            scanned.add(code)
            product.world.post(f"/phones/{NEW}/scan", json={"qr": code})
        return product.sessions().get(session_id, {}).get("status") == "connected"

    product.until(step, f"{session_id} to be linked")


def test_everything_of_a_day_works_at_a_terminal(tmp_path: Path) -> None:
    old_place = tmp_path / "waha" / "noweb" / "branch one"
    with running_product(tmp_path, 2, **SETTINGS) as product:
        asyncio.run(another_program(product, old_place))
        data = tmp_path / "data"
        at = partial(at_a_terminal, data, key=API_KEY)

        # An account of another program, shown first; no code is asked for.
        code, shown = at("import", str(tmp_path / "waha"), typed="n\n")
        assert (code, product.sessions()) == (1, {}), shown
        assert OLD in shown
        code, shown = at("import", str(tmp_path / "waha"), "--tag", "moved", typed="y\n")
        assert code == 0, shown
        assert "1 of 1 sessions are imported and start without a scan." in shown
        product.until(lambda: product.connected("branch-one"), "the imported session to be connected")
        plain = {path.name for path in (data / "sessions" / "branch-one").glob("*.json")} - {"version.json"}
        assert plain == set(), "its keys lie unsealed beside the sealed store"

        # A second phone, scanned from the terminal.
        code, shown = at("sessions", "add", "--id", "second", "--wait", meanwhile=lambda: scan(product, "second"))
        assert code == 0, shown
        assert "█" in shown or "▄" in shown
        assert "connected" in shown

        # A message under the keys that came along.
        code, shown = at("send", FRIEND, "after the move", "--session", "branch-one", "--wait")
        assert code == 0, shown
        texts = [each.get("text") for each in product.world.get("/arrivals").json()]
        assert texts.count("after the move") == 1

        # A campaign.
        people = tmp_path / "people.csv"
        people.write_text(f"phone,name\n{FRIEND},Dana\n", "utf-8")
        words = (
            "--name",
            "Spring",
            "--text",
            "Hello {{name}}. Reply STOP to end this.",
            "--consent",
            "the shop's form",
        )
        code, shown = at("campaign", "create", str(people), *words, "--with-cold")
        assert code == 0, shown
        (campaign,) = [each["id"] for each in product.api.get("/api/v1/campaigns").json()["campaigns"]]
        assert campaign in shown
        code, shown = at("campaign", "start", campaign, typed="y\n")
        assert code == 0, shown
        arrived = "Hello Dana. Reply STOP to end this."
        product.until(
            lambda: arrived in [each.get("text") for each in product.world.get("/arrivals").json()] or None,
            "the campaign's message",
        )

        # A backup, and a session that was deleted and comes back without a scan.
        code, shown = at("backup")
        assert code == 0, shown
        (backup,) = set(re.findall(r"backup_[0-9_-]+[0-9]", shown))
        code, shown = at("sessions", "delete", "branch-one", typed="y\n")
        assert code == 0, shown
        shutil.rmtree(data / "sessions" / ".trash")
        code, shown = at("restore", backup, "--session", "branch-one", typed="y\n")
        assert code == 0, shown
        assert "+ 1 come back" in shown
        product.until(lambda: product.connected("branch-one", "second"), "both to be connected")
        product.end(signal.SIGINT)
