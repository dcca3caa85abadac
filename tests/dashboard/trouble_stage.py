"""The fleet that gets into trouble: eleven sessions of the whole product, and what they do on a usual day."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from redis import Redis

from tests.dashboard import serving
from tests.dashboard.screenshots import afternoon
from tests.orchestrator.product import Product
from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import embedded_redis

#: Session ids and labels; some people write theirs in Hebrew.
LABELS = {
    "haifa": "Haifa branch",
    "jerusalem": "סניף ירושלים",
    "support": "Support line",
    "sales": "Sales",
    "deliveries": "Deliveries",
    "billing": "גבייה",
    "bookings": "Bookings",
    "repairs": "Repairs",
    "club": "Customers’ club",
    "pharmacy": "Pharmacy",
    "clinic": "Clinic",
}
NODES = {"node-a": "10.0.0.11", "node-b": "10.0.0.12"}
PROXIES = 3
CAMPAIGN = 1600
_FIRST_PHONE = 972501000001
_FIRST_CUSTOMER = 972524400000
FIRST_STRANGER = 972534400000
_FIRST_READER = 972544400000
CAMPAIGN_NAME = "Spring letter"
SETTINGS = {
    "timezone": afternoon(),
    "dashboard_password": serving.PASSWORD,
    "telegram_bot_token": "123456789:AAExampleExampleExampleExample",
    "telegram_chat_id": "-1001234567890",
    "allow_private_urls": "true",
    "ack_timeout_ms": 6000,
    "queue_limit": 2 * CAMPAIGN,
}


@dataclass
class Stage:
    """The running product, and which session has which part."""

    product: Product
    on_dying_proxy: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    campaign: str = ""
    """The id of the campaign one of whose sessions is banned."""
    groups: dict[str, str] = field(default_factory=dict)
    """A group of each of two sessions, by the session's id."""
    customers: Iterator[int] = field(default_factory=lambda: iter(range(_FIRST_CUSTOMER, _FIRST_CUSTOMER + 10_000)))

    def phone(self, session: str) -> str:
        return str(_FIRST_PHONE + list(LABELS).index(session))

    def cast(self) -> None:
        """Link all sessions, and see which proxies they are on: one with four of them will die."""
        self.product.link(*LABELS, first_phone=_FIRST_PHONE, labels=LABELS)
        proxy_of = {name: each["proxyId"] for name, each in self.product.sessions().items()}
        dying = max(set(proxy_of.values()), key=lambda proxy: (list(proxy_of.values()).count(proxy), proxy))
        self.on_dying_proxy = [name for name in LABELS if proxy_of[name] == dying]
        self.others = [name for name in LABELS if proxy_of[name] != dying]

    def send(self, session: str, count: int = 1) -> list[str]:
        """Send so many messages from a session to new customers; return their ids."""
        text = "Your order is ready. We are open until seven."
        body = {"message": text, "sessionId": session, "onLimit": "defer"}
        batch = [body | {"to": str(next(self.customers))} for _ in range(count)]
        answer = self.product.api.post("/api/v1/send/batch", json={"messages": batch})
        assert answer.is_success, answer.text
        assert answer.json()["refused"] == 0, answer.text
        return [each["messageId"] for each in answer.json()["items"]]

    def send_until(self, session: str, status: str) -> None:
        """Send a message, and wait until it has this status."""
        (message,) = self.send(session)
        path = f"/api/v1/messages/{message}"
        self.product.until(lambda: self.product.api.get(path).json()["status"] == status, f"a message is {status}")

    def fault(self, session: str, kind: str, **more: object) -> None:
        self.product.fault({"phone": self.phone(session)}, kind, **more)

    def say(self, customer: int | str, session: str, text: str) -> None:
        """Have somebody write to a session's phone."""
        body = {"to": self.phone(session), "text": text}
        assert self.product.world.post(f"/phones/{customer}/say", json=body).is_success

    @property
    def opted_out(self) -> str:
        """The customer who opted out."""
        return str(_FIRST_CUSTOMER + list(LABELS).index(self.others[4]))

    def needs(self) -> list[str]:
        """Return the lines of "Needs attention"."""
        found = self.product.api.get("/api/v1/dashboard/stats").json()["alerts"]
        return [f"{each['what']} {each['do']}" for each in found]

    def alerts(self) -> list[dict[str, Any]]:
        """Return what Telegram got."""
        return list(self.product.world.get("/telegram").json())


# -- what needs nobody, but belongs on the pages ----------------------------------------------------------------------


def everyday(stage: Stage) -> None:
    """Everybody sends something and is answered, one customer opts out; the operator pauses a session, changes two others
    and begins a campaign."""
    for session in LABELS:
        stage.send(session)
    session, customer = stage.others[4], stage.opted_out
    arrived = f"{customer} has a message of {session}"
    stage.product.until(lambda: stage.product.world.get(f"/phones/{customer}/inbox").json(), arrived)
    stage.product.world.post(f"/phones/{customer}/say", json={"to": stage.phone(session), "text": "STOP"})
    api = stage.product.api
    for answering in LABELS:
        if answering != session:
            stage.say(_FIRST_CUSTOMER + list(LABELS).index(answering), answering, "תודה! Is the shop open on Friday?")
    stage.product.until(lambda: len(conversations(stage)) == len(LABELS), "an answer to every session")
    stage.product.until(lambda: api.get("/api/v1/opt-outs").json()["optOuts"], "an opt-out")
    body = {"sessionId": stage.on_dying_proxy[1], "why": "Stocktaking until Monday"}
    assert api.post("/api/anti-ban/holds", json=body).is_success
    assert api.put(f"/api/sessions/{stage.others[4]}/presence", json={"presence": "never"}).is_success
    assert api.put(f"/api/anti-ban/sessions/{stage.others[6]}/limits", json={"perDay": 15}).is_success
    stage.product.until(lambda: stage.product.sessions()[stage.others[4]]["status"] == "connected", "a new presence")
    begin_campaign(stage)
    make_groups(stage)
    note_nodes(stage)
    for name, role, labels in (("Gili", "operator", [LABELS["haifa"]]), ("Noa", "viewer", [])):
        assert api.post("/api/v1/people", json={"name": name, "role": role, "labels": labels}).is_success
    key = {"name": "CRM", "scopes": ["send"], "labels": [LABELS["sales"]], "expiresInDays": 1}
    assert api.post("/api/v1/keys", json=key).is_success


def begin_campaign(stage: Stage) -> None:
    """Write to sixty people with two sessions; one of them will be banned."""
    api = stage.product.api
    for session in (stage.others[2], stage.on_dying_proxy[2]):
        assert api.patch(f"/api/sessions/{session}", json={"tags": ["spring"]}).is_success
    people = "".join(f"{_FIRST_READER + number},Reader {number}\n" for number in range(60))
    body = {"name": CAMPAIGN_NAME, "text": "Hello {{name}}, spring is here. To stop, answer STOP.", "withCold": True}
    body |= {"csv": f"phone,name\n{people}", "consent": "Signed up in the shop", "tags": ["spring"]}
    made = api.post("/api/v1/campaigns", json=body)
    assert made.is_success, made.text
    stage.campaign = made.json()["id"]
    assert api.post(f"/api/v1/campaigns/{stage.campaign}/start").is_success


def conversations(stage: Stage) -> dict[str, str]:
    """Return the conversation of each session, by its id."""
    found = stage.product.api.get("/api/v1/conversations").json()["conversations"]
    return {each["sessionId"]: each["conversationId"] for each in found}


def make_groups(stage: Stage) -> None:
    """Two sessions are in a group each; one of them will be cut off."""
    for session in (stage.others[0], stage.others[6]):
        members = [str(_FIRST_READER), str(_FIRST_READER + 1)]
        body = {"phone": stage.phone(session), "subject": "קורס 7: Spring", "members": members}
        made = stage.product.world.post("/groups", json=body)
        assert made.is_success, made.text
        stage.groups[session] = made.json()["jid"]


def note_nodes(stage: Stage, *lost: str) -> None:
    """Write down nodes as the leader does that has several; here all workers run on one machine."""
    state = {True: NodeState.LOST, False: NodeState.READY}
    nodes = [WorkerNode(name, state[name in lost], address, 8 * 1024**3, 256) for name, address in NODES.items()]
    with Redis.from_url(embedded_redis.url_in(stage.product.home / "data"), decode_responses=True) as redis:
        redis.set(keys.CONTROL_NODES, json.dumps([asdict(each) for each in nodes]))
        for session, name in zip(LABELS, itertools.cycle(NODES)):
            redis.hset(keys.session(session), "node", name)
