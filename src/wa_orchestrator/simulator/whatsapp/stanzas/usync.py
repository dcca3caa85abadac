"""usync queries: registered users, their devices and LIDs."""

import base64
import hashlib

from wa_orchestrator.simulator.protocol import curve25519, jid, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState

_INDEX_LIST_PREFIX = b"\x06\x02"


def answer(state: ServerState, stanza: Node) -> list[Node]:
    """Answer a usync query with the requested protocols."""
    request = stanza.require("usync")
    wanted = {part.tag for part in request.require("query").children()}
    users = [_user(state, user, wanted) for user in request.require("list").children("user")]
    attrs = {name: request.attr(name) for name in ("sid", "mode", "context", "index", "last") if request.attr(name)}
    results = node("result", content=[node(tag) for tag in sorted(wanted)])
    return [Node("usync", attrs, [results, node("list", content=users)])]


def _user(state: ServerState, user: Node, wanted: set[str]) -> Node:
    contact = user.child("contact")
    if contact is not None and contact.data:
        return _by_number(state, contact.data.decode("ascii", "replace").lstrip("+"))
    address = jid.parse(user.attr("jid"))
    phone = state.accounts.find(address) if address else None
    if phone is None or address is None:
        return node("user", {"jid": user.attr("jid")}, [node("contact", {"type": "out"})])
    content = []
    if "contact" in wanted:
        content.append(node("contact", {"type": "in"}))
    if "devices" in wanted:
        content.append(_devices(state, phone))
    if "lid" in wanted and address.server == jid.SERVER:
        content.append(node("lid", {"val": f"{phone.lid}@{jid.LID}"}))
    return node("user", {"jid": user.attr("jid")}, content)


def _by_number(state: ServerState, number: str) -> Node:
    address = Jid(number, jid.SERVER)
    phone = state.accounts.find(address)
    kind = "in" if phone else "out"
    return node("user", {"jid": str(address)}, [node("contact", {"type": kind}, f"+{number}")])


def _devices(state: ServerState, phone: Phone) -> Node:
    numbers = sorted(phone.devices)
    digest = hashlib.sha256(",".join(map(str, numbers)).encode()).digest()
    devices = [node("device", {"id": "0"})]
    devices += [node("device", {"id": number, "key-index": number}) for number in numbers]
    content = [node("device-list", {"hash": f"2:{base64.b64encode(digest[:6]).decode()}"}, devices)]
    if numbers:
        content.append(node("key-index-list", {"ts": state.now}, _index_list(state, phone, numbers)))
    return node("devices", content=content)


def _index_list(state: ServerState, phone: Phone, numbers: list[int]) -> bytes:
    """Return the phone's signed key index list; signed again only when its devices change."""
    key = (phone.number, tuple(numbers))
    if key not in state.index_lists:
        packed = b"".join(protobuf.varint(number) for number in numbers)
        details = protobuf.encode({1: phone.registration, 2: state.now, 3: max(numbers), 4: packed})
        signature = curve25519.sign(phone.identity.private, _INDEX_LIST_PREFIX + details)
        state.index_lists[key] = protobuf.encode({1: details, 2: signature, 3: phone.identity.public})
    return state.index_lists[key]
