"""usync queries: registered users, their devices and LIDs."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.stanzas import device_lists
from wa_orchestrator.simulator.whatsapp.state import ServerState

#: A device that the fault `dead_device` lists; whoever asks for its keys is refused.
DEAD_DEVICE = 99


def answer(state: ServerState, asking: str | None, stanza: Node) -> list[Node]:
    """Answer a usync query with the requested protocols; the answer depends on the account that asks."""
    request = stanza.require("usync")
    query = request.require("query")
    wanted = {part.tag: part for part in query.children()}
    asker = state.accounts.phone(asking) if asking else None
    if asker and "devices" in wanted:
        state.device_lookups[asker.number] += len(request.require("list").children("user"))
    users = [_user(state, asker, user, wanted) for user in request.require("list").children("user")]
    attrs = {name: request.attr(name) for name in ("sid", "mode", "context", "index", "last") if request.attr(name)}
    results = node("result", content=[node(tag) for tag in sorted(wanted)])
    return [Node("usync", attrs, [results, node("list", content=users)])]


def _user(state: ServerState, asker: Phone | None, user: Node, wanted: dict[str, Node]) -> Node:
    contact = user.child("contact")
    if contact is not None and contact.attr("username"):
        return _by_username(state, contact, wanted)
    if contact is not None and contact.data:
        return _by_number(state, contact.data.decode("utf-8", "replace"), wanted)
    address = jid.parse(user.attr("jid"))
    phone = state.accounts.find(address) if address else None
    if phone is None or address is None:
        return node("user", {"jid": user.attr("jid")}, [node("contact", {"type": "out"})])
    return node("user", {"jid": user.attr("jid")}, _protocols(state, asker, phone, address, wanted))


def _protocols(
    state: ServerState, asker: Phone | None, phone: Phone, address: Jid, wanted: dict[str, Node]
) -> list[Node]:
    content = []
    if "contact" in wanted:
        content.append(node("contact", {"type": "in"}))
    if "devices" in wanted:
        is_hidden = asker is not None and address.server == jid.SERVER and _is_hidden(state, asker, phone)
        content.append(node("devices", content=[node("device-list")]) if is_hidden else _devices(state, phone, address))
    if "lid" in wanted and address.server == jid.SERVER and not state.faults.active("no_lids", phone.number):
        content.append(node("lid", {"val": str(phone.address_in(jid.LID))}))
    return content


def _is_hidden(state: ServerState, asker: Phone, phone: Phone) -> bool:
    """Whether an account that has moved to LIDs learns nothing by a number: of all but members of its older groups."""
    if not asker.migrated or asker is phone:
        return False
    older = (group.members for group in state.groups.values() if group.mode == "pn")
    return not any(asker.number in members and phone.number in members for members in older)


def _by_number(state: ServerState, asked: str, wanted: dict[str, Node]) -> Node:
    """Answer for a number, `+972…` or `+972…@c.us`; the answer repeats it as asked, beside the registered form."""
    number, _, server = asked.partition("@")
    known = server in ("", jid.LEGACY_SERVER, jid.SERVER)
    digits = number.lstrip("+")
    address = Jid(state.accounts.other_forms.get(digits, digits), jid.SERVER)
    phone = state.accounts.find(address) if known else None
    found = node("contact", {"type": "in" if phone else "out"}, asked)
    if phone is None:
        return node("user", {"jid": str(address)} if known and address.user.isdecimal() else {}, [found])
    attrs = {"jid": str(address)}
    content = [found]
    if wanted.get("contact", found).attr("addressing_mode") == "lid":
        attrs = {"jid": str(phone.address_in(jid.LID)), "pn_jid": str(address)}
    elif "lid" in wanted:
        content.append(node("lid", {"val": str(phone.address_in(jid.LID))}))
    return node("user", attrs, content)


def _by_username(state: ServerState, asked: Node, wanted: dict[str, Node]) -> Node:
    """Answer for a username: its person is known by the LID only, and not at all without the key that they set."""
    username = asked.attr("username")
    phone = state.accounts.find_username(username)
    if phone is not None and phone.username_key not in ("", asked.attr("pin")):
        return node("user", {}, [node("contact", {"type": "in", "username": username})])
    if phone is None:
        return node("user", {}, [node("contact", {"type": "out", "username": username})])
    address = phone.address_in(jid.LID)
    content = [node("contact", {"type": "in", "username": username})]
    if "devices" in wanted:
        content.append(_devices(state, phone, address))
    return node("user", {"jid": str(address)}, content)


def _devices(state: ServerState, phone: Phone, address: Jid) -> Node:
    numbers = sorted(phone.devices)
    devices = [node("device", {"id": "0"})]
    devices += [node("device", {"id": number, "key-index": number}) for number in numbers]
    dead = state.faults.active("dead_device", phone.number)
    if dead:
        state.faults.use(dead)
        devices.append(node("device", {"id": DEAD_DEVICE, "key-index": DEAD_DEVICE}))
    content = [node("device-list", {"hash": device_lists.hash_of(phone, address.server)}, devices)]
    if numbers:
        content.append(node("key-index-list", {"ts": state.now}, device_lists.key_index_list(state, phone)))
    return node("devices", content=content)
