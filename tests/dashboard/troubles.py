"""Everything that can go wrong with a fleet: how to make it, and what people must be told."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tests.dashboard.screenshots import afternoon
from tests.dashboard.trouble_stage import CAMPAIGN, CAMPAIGN_NAME, FIRST_STRANGER, Stage, note_nodes
from tests.processes import free_port
from wa_orchestrator.domain.proxies.proxy_health import Patience
from wa_orchestrator.orchestrator.notifications.lasting_troubles import PATIENCE_MS
from wa_orchestrator.store.messages.contacts import UNPROVEN_PER_HOUR

_HOUR_S = 3600
_BATCH = 800
#: WhatsApp has never answered with it so far.
UNKNOWN_ERROR = 599
#: A check that failed is repeated after this time, before a proxy is called bad.
_CONFIRM_S = Patience().confirm_ms / 1000
#: What may mend itself is a trouble only after this time.
SLOW_S = PATIENCE_MS / 1000


def add_failing_webhook(stage: Stage) -> None:
    body = {"url": f"http://127.0.0.1:{free_port()}/events", "events": ["session.*"]}
    assert stage.product.api.post("/api/v1/webhooks", json=body).is_success
    stage.fault(stage.others[6], "drop")  # an event to deliver


def cut_off(stage: Stage) -> None:
    stage.fault(stage.others[0], "drop", seconds=_HOUR_S)


def unlink_on_the_phone(stage: Stage) -> None:
    stage.send(stage.others[1], 3)
    stage.product.world.post(f"/phones/{stage.phone(stage.others[1])}/unlink")


def ban(stage: Stage) -> None:
    stage.send(stage.others[2], 2)
    stage.fault(stage.others[2], "ban")


def stop_without_having_been_written_to(stage: Stage) -> None:
    """As a worker that was taken over would report it; here people do write it."""
    for number in range(UNPROVEN_PER_HOUR + 2):
        stage.say(FIRST_STRANGER + number, stage.others[6], "STOP")


def ban_for_an_hour(stage: Stage) -> None:
    stage.fault(stage.others[3], "temporary_ban", seconds=_HOUR_S)


def lock_reachout(stage: Stage) -> None:
    stage.fault(stage.others[4], "reachout_lock", seconds=_HOUR_S)


def submit_campaign(stage: Stage) -> None:
    for _ in range(CAMPAIGN // _BATCH):
        stage.send(stage.others[5], _BATCH)


def refuse_a_message(stage: Stage) -> None:
    stage.fault(stage.others[6], "ack_error", code=400)
    stage.send_until(stage.others[6], "failed")


def refuse_a_message_for_no_known_reason(stage: Stage) -> None:
    """It is given up, and the radar shows the error."""
    stage.fault(stage.others[6], "ack_error", code=UNKNOWN_ERROR)
    stage.send_until(stage.others[6], "failed")


def never_confirm_a_message(stage: Stage) -> None:
    session = stage.on_dying_proxy[0]
    stage.fault(session, "no_receipts")
    stage.fault(session, "ack_delay", seconds=_HOUR_S)
    stage.send_until(session, "unknown")


def lose_node(stage: Stage) -> None:
    note_nodes(stage, "node-b")


def kill_proxy(stage: Stage) -> None:
    """Its sessions need four slots and the others have one free; those that failed or must be scanned give theirs."""
    via = {each["phone"]: each["proxy"] for each in stage.product.connections()}
    dead = {"proxy": via[stage.phone(stage.on_dying_proxy[0])]}
    stage.product.fault(dead, "refuse")
    stage.product.fault(dead, "drop")


def ask_to_send_less(stage: Stage) -> None:
    session = stage.on_dying_proxy[3]
    stage.fault(session, "ack_error", code=429)
    stage.send(session)


def fail_backup(stage: Stage) -> None:
    """Directories where the file of today's backup should be, and tomorrow's; also root cannot replace them."""
    api, today = stage.product.api, datetime.now(ZoneInfo(afternoon()))
    for day in (today, today + timedelta(days=1)):
        (stage.product.home / "data" / "backups" / f"backup_{day:%Y-%m-%d}.zip").mkdir(parents=True)
    assert api.post("/api/v1/backups/create").is_success
    stage.product.until(lambda: any(each["error"] for each in api.get("/api/v1/backups").json()["latest"]), "a failure")


@dataclass(frozen=True)
class Trouble:
    """Something that needs a person: how to make it, and what people must be told."""

    name: str
    make: Callable[[Stage], None] | None
    """None: it follows from the trouble before it."""
    shown: str
    alerted: str
    patience_s: float = 0
    """It may mend itself: it is shown, and need be alerted, only after this time."""


TROUBLES = (
    Trouble("webhook fails", add_failing_webhook, "webhook", "webhook", SLOW_S),
    Trouble("disconnected for long", cut_off, "offline since", "Disconnected", SLOW_S),
    Trouble("unlinked on the phone", unlink_on_the_phone, "unlinked on the phone at .* 3 messages wait", "unlinked"),
    Trouble("banned", ban, "WhatsApp banned", "banned"),
    Trouble("campaign pauses itself", None, f"The campaign {CAMPAIGN_NAME} paused by itself", f"{CAMPAIGN_NAME} — "),
    Trouble("forged opt-outs", stop_without_having_been_written_to, "reported many opt-outs", "opt-outs"),
    Trouble("temporarily banned", ban_for_an_hour, "WhatsApp suspended", "suspended|[Tt]emporar"),
    Trouble("reach-out lock", lock_reachout, "locked", "new contacts"),
    Trouble("message given up", refuse_a_message, "1 message failed", "could not be sent|failed"),
    Trouble("refused for no known reason", refuse_a_message_for_no_known_reason, "2 messages failed", "failed"),
    Trouble("message never confirmed", never_confirm_a_message, "never confirmed", "never confirmed"),
    Trouble("asked to send less", ask_to_send_less, "asked .* to send less", "asked to send less"),
    Trouble("backup failed", fail_backup, "The last backup failed", "backup failed"),
    Trouble("node lost", lose_node, "node node-b has not answered", "node does not answer"),
    Trouble("proxy dead", kill_proxy, "proxy .* is bad", "Proxy failed", _CONFIRM_S),
    Trouble("waiting for a slot", None, "proxy slot", "proxy slot", _CONFIRM_S),
    Trouble("a queue of days", submit_campaign, "The queue of", "queue"),
)
