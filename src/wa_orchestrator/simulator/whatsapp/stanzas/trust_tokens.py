"""Tokens of acquaintance: one that a person gives to whom they write, and one for a first contact."""

import hmac

from wa_orchestrator.simulator.protocol import curve25519, jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState

_WEEK_S, _WEEKS_VALID = 604_800, 4


def hand_over(state: ServerState, giver: Phone, holder: Phone) -> None:
    """Give the devices of an account the token of a person who writes to it, once a week."""
    known = giver.trusted.get(holder.number)
    if giver is holder or (known is not None and _week(known) == _week(state.clock())):
        return
    giver.trusted[holder.number] = state.clock()
    names = {"from": str(giver.address_in(holder.space)), "sender_lid": str(giver.address_in(jid.LID))}
    for device in holder.devices.values():
        attrs = {**names, "type": "privacy_token", "id": state.next_id(), "t": str(state.now)}
        given = {"jid": str(device.address(holder.space)), "t": str(state.now), "type": "trusted_contact"}
        token = node("token", given, token_of(giver, holder))
        state.deliver(device, Node("notification", attrs, [node("tokens", content=[token])]))


def take_in(state: ServerState, giver: Phone, stanza: Node) -> None:
    """Hand over the tokens that a linked device gives to people it writes to."""
    given = stanza.child("tokens")
    for token in given.children("token") if given else []:
        address = jid.parse(token.attr("jid"))
        holder = state.accounts.find(address) if address else None
        if holder and token.attr("type") == "trusted_contact":
            hand_over(state, giver, holder)


def _week(at: float) -> int:
    return int(at) // _WEEK_S


def token_of(giver: Phone, holder: Phone) -> bytes:
    return curve25519.mac(giver.identity.private, b"trusted contact", holder.number.encode())[:16]


def first_contact_token(sender: Phone, recipient: Phone) -> bytes:
    """Return the token for a person who has given none: the account's salt, and the LID of the person."""
    return curve25519.mac(sender.first_contact_salt, str(recipient.address_in(jid.LID)).encode())


def is_given(state: ServerState, sender: Phone, recipient: Phone, stanza: Node) -> bool:
    """Whether a message carries the token that its recipient gave to the sender, and that is not too old."""
    given, at = stanza.child("tctoken"), recipient.trusted.get(sender.number)
    if given is None or at is None or _week(at) <= _week(state.clock()) - _WEEKS_VALID:
        return False
    return hmac.compare_digest(given.data, token_of(recipient, sender))


def are_valid(state: ServerState, sender: Phone, recipient: Phone, stanza: Node) -> bool:
    """Whether a message carries a valid token of either kind."""
    if stanza.child("tctoken") and sender.number in recipient.trusted:
        return is_given(state, sender, recipient, stanza)
    first = stanza.child("cstoken")
    return first is not None and hmac.compare_digest(first.data, first_contact_token(sender, recipient))
