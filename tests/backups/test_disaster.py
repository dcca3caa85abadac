"""Everything is lost but the backups: real workers come back without a scan, judged by what WhatsApp saw.

BACKUP_FLEET and BACKUP_SECONDS make it larger: 20 sessions, a backup every ten seconds for two minutes.
"""

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.product import Product, running_product
from wa_orchestrator.orchestrator.backups import journal_file

FLEET = int(os.environ.get("BACKUP_FLEET", "3"))
SECONDS = float(os.environ.get("BACKUP_SECONDS", "6"))
EVERY_S = 10.0 if SECONDS > 60 else 2.0
PACE = {
    # A busy machine must not take a slow worker for a dead one, nor a late ack for none.
    "time_scale": 20, "ping_timeout_ms": 2_000_000, "lease_ms": 1_200_000, "ack_timeout_ms": 600_000,
    "provisioning_interval_ms": 200, "cold_hours": "00:00-00:00", "cold_per_day": 10_000,
    "cold_per_minute": 1000, "queue_limit": 10_000, "rate_limit_per_minute": 100_000,
    "auth_key": "m8Vq2ZpX7rLd4TnB9wKc3HsJ6yFg1QaE",  # an operator's own: a generated one is lost with its machine
}  # fmt: skip

pytestmark = pytest.mark.slow


def names(count: int) -> list[str]:
    return [f"s{number:02}" for number in range(count)]


def contact_of(session_id: str) -> str:
    return f"9725277{int(session_id[1:]):05}"


def exits(product: Product) -> dict[str, str]:
    """Phone → proxy, by WhatsApp's own list of connections."""
    return {each["phone"]: each["proxy"] for each in product.connections()}


def arrivals(product: Product) -> list[dict[str, Any]]:
    return [each for each in product.world.get("/arrivals").json() if each.get("text", "").startswith("out-")]


def send(product: Product, session_id: str, text: str) -> str:
    body = {"to": contact_of(session_id), "message": text, "sessionId": session_id}
    answer = product.api.post("/api/v1/send", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["messageId"])


def say(product: Product, session_id: str, phone: str, text: str) -> None:
    answer = product.world.post(f"/phones/{contact_of(session_id)}/say", json={"to": phone, "text": text})
    assert answer.status_code < 300, answer.text


def received(product: Product) -> Counter[str]:
    """The texts of incoming messages that the API reports, and how often each."""
    found: Counter[str] = Counter()
    after = "0"
    while True:
        page = product.api.get("/api/v1/events", params={"after": after, "limit": 500}).json()
        for event in page["events"]:
            text = (event.get("data") or event).get("text") if event["type"] == "message.received" else None
            if text:
                found[text] += 1
        if not page["events"] or page.get("next") in (None, after):
            return found
        after = page["next"]


def back_up(product: Product) -> dict[str, Any]:
    """Make a backup and return it."""
    known = {each["id"] for each in product.api.get("/api/v1/backups").json()["backups"]}
    ended = len(product.api.get("/api/v1/backups").json()["latest"])
    assert product.api.post("/api/v1/backups/create").status_code == 202

    def made() -> dict[str, Any] | None:
        now = product.api.get("/api/v1/backups").json()
        assert not now["latest"] or len(now["latest"]) == ended or now["latest"][0]["error"] is None, now["latest"][0]
        fresh = [each for each in now["backups"] if each["id"] not in known]
        return fresh[0] if fresh and now["running"] is None else None

    return product.until(made, "a backup")


def lose_everything(product: Product) -> None:
    """The machine dies: the server and all workers at once, and their disks with them."""
    product.end(signal.SIGKILL)
    for worker in product.workers().values():
        os.killpg(worker["pid"], signal.SIGKILL)
    product.until(lambda: not product.workers(), "the workers to be gone")
    end_embedded_redis(product.home / "data")
    shutil.rmtree(product.home / "data")


def end_embedded_redis(data_dir: Path) -> None:
    """Redis outlives a killed server; here its machine is lost too."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == (data_dir / "redis").absolute():
                os.kill(int(link.parent.name), signal.SIGKILL)
        except OSError:
            continue


def statuses(product: Product, ids: Iterable[str]) -> Counter[str]:
    return Counter(product.api.get(f"/api/v1/messages/{each}").json()["status"] for each in ids)


@pytest.mark.parametrize("credentials", ["local", "server"])
def test_what_was_lost_with_its_machine_returns_without_a_scan_and_nothing_is_lost_or_sent_twice(
    tmp_path: Path, credentials: str
) -> None:
    ids = names(FLEET)
    settings = PACE | {"backups_dir": tmp_path / "backups", "max_backups": 3, "credentials": credentials}
    with running_product(tmp_path, proxies=-(-FLEET // 4) + 1, **settings) as product:
        product.link(*ids)
        phones = {each: str(product.sessions()[each]["phone"]) for each in ids}
        before, trust = exits(product), {each: product.sessions()[each]["trust"] for each in ids}

        # Messages flow in and out while backups are made.
        sent: list[str] = []
        said: list[str] = []
        began = time.monotonic()
        epochs = {each: worker["epoch"] for each, worker in product.workers().items()}
        backups = 0
        while time.monotonic() - began < SECONDS:
            for each in ids:
                sent.append(send(product, each, f"out-{each}-{len(sent)}"))
                said.append(f"in-{each}-{len(said)}")
                say(product, each, phones[each], said[-1])
            if time.monotonic() - began >= backups * EVERY_S:
                last = back_up(product)
                backups += 1
        assert {each: worker["epoch"] for each, worker in product.workers().items()} == epochs, "a worker was stopped"
        product.until(lambda: set(received(product)) >= set(said), "everything that was said to be received")

        # The last one has messages that wait; they are sent before everything is lost.
        for each in ids:
            sent += [send(product, each, f"out-{each}-late-{number}") for number in range(3)]
        last = back_up(product)
        product.until(lambda: len(arrivals(product)) >= len(sent), "the queues to be empty")
        product.until(lambda: set(statuses(product, sent)) <= {"sent", "delivered", "read"}, "all to be known as sent")
        noted = tmp_path / "backups" / journal_file.FILE
        left = {"sent", "delivered", "read"}
        late = sent[-3 * FLEET :]
        product.until(
            lambda: all(journal_file.read(noted, "0").trace(each)[0] in left for each in late),
            "the journal",
        )
        lose_everything(product)

        product.start()
        assert product.sessions() == {}
        restored = product.api.post(f"/api/v1/backups/restore/{last['id']}")
        assert restored.status_code == 202, restored.text
        assert restored.json()["whole"]
        product.until(lambda: set(product.sessions()) == set(ids) and product.connected(*ids), "all to be connected")
        assert exits(product) == before
        assert {each: product.sessions()[each]["trust"] for each in ids} == trust

        # On both sides messages still decrypt, and nothing is lost, nothing twice.
        product.until(lambda: set(statuses(product, sent)) <= {"sent", "delivered", "read"}, "all to be known as sent")
        for each in ids:
            sent.append(send(product, each, f"out-{each}-after"))
            said.append(f"in-{each}-after")
            say(product, each, phones[each], said[-1])
        product.until(lambda: set(received(product)) >= set(said), "what is said after the restore")
        product.until(lambda: len({each["text"] for each in arrivals(product)}) == len(sent), "what is sent after it")
        after = sent[-FLEET:]
        product.until(
            lambda: set(statuses(product, after)) <= {"delivered", "read"}, "their recipients to have decrypted them"
        )
        assert max(Counter(each["text"] for each in arrivals(product)).values()) == 1
        assert max(received(product).values()) == 1
        print(f"\n{FLEET} sessions, {backups + 1} backups, {len(sent)} out, {len(said)} in, last {last['bytes']} bytes")


def test_a_message_that_was_being_written_when_everything_was_lost_is_unknown_and_not_written_again(
    tmp_path: Path,
) -> None:
    settings = PACE | {"backups_dir": tmp_path / "backups"}
    with running_product(tmp_path, proxies=1, **settings) as product:
        product.link("s00")
        assert product.api.post("/api/anti-ban/holds", json={"sessionId": "s00"}).status_code == 201
        written, waiting = send(product, "s00", "out-written"), send(product, "s00", "out-waiting")
        backup = back_up(product)
        # WhatsApp takes the first and says nothing: neither Redis nor its events know that it arrived.
        product.fault("whatsapp", "ack_delay", seconds=3600)
        assert product.api.delete("/api/anti-ban/holds/session:s00").is_success
        product.until(lambda: arrivals(product), "the first to arrive")
        lose_everything(product)

        product.heal()
        product.start()
        assert product.api.post(f"/api/v1/backups/restore/{backup['id']}").status_code == 202
        product.until(lambda: product.connected("s00") if product.sessions() else None, "the session to be connected")
        assert statuses(product, [written, waiting]) == Counter(unknown=1, queued=1)
        assert product.api.delete("/api/anti-ban/holds/session:s00").is_success
        product.until(lambda: len(arrivals(product)) > 1, "what waited to arrive")
        product.until(lambda: set(statuses(product, [waiting])) <= {"sent", "delivered", "read"}, "it to be known")
        assert [each["text"] for each in arrivals(product)] == ["out-written", "out-waiting"]
        said = product.api.get(f"/api/v1/messages/{written}").json()
        assert (said["status"], said["reason"]) == ("unknown", "RESTORED")
