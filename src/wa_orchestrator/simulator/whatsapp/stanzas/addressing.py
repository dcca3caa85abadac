"""Names of people on the wire. An account is addressed, and addresses others, by LIDs or by numbers, never by both."""

from collections.abc import Iterable

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.stanzas import groups
from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group

MALFORMED, STALE_GROUP_MODE, NOT_BY_NUMBER = 400, 421, 463


def refusal(sender: Phone, to: Jid, devices: Iterable[Jid]) -> int | None:
    """Return the code for a one-to-one message whose names are of the wrong kind for its account, or None."""
    servers = {to.server, *(device.server for device in devices)}
    if len(servers) > 1:
        return MALFORMED
    if sender.migrated:
        return None if to.server == jid.LID else NOT_BY_NUMBER
    return MALFORMED if to.server == jid.LID else None


def group_refusal(group: Group, mode: str, devices: Iterable[Jid]) -> int | None:
    """Return the code for a group message whose names are not of the group's kind, or None."""
    is_stale = mode not in ("", group.mode) or any(device.server != group.space for device in devices)
    return STALE_GROUP_MODE if is_stale else None


def in_chat(receiver: Phone, sender: Phone, device: int | None = None) -> dict[str, str]:
    """Return the attributes that name the sender of a message to another account, by both names."""
    if sender.hides_number:
        name = {"from": str(sender.address_in(jid.LID)._replace(device=device))}
        return {**name, "sender_username": sender.username} if sender.username else name
    other = "sender_pn" if receiver.migrated else "sender_lid"
    return {
        "from": str(sender.address_in(receiver.space)._replace(device=device)),
        other: str(sender.address_in(jid.other_space(receiver.space))),
    }


def in_list(name: str, receiver: Phone, sender: Phone) -> dict[str, str]:
    """Return the attributes that name a broadcast list, and the sender as a group's message does."""
    names = in_chat(receiver, sender)
    others = {each.replace("sender_", "participant_"): names[each] for each in names if each != "from"}
    return {"from": str(Jid(name, jid.BROADCAST)), "participant": names["from"], **others}


def own_copy(account: Phone, recipient: Phone, device: int | None = None) -> dict[str, str]:
    """Return the attributes of the copy for the sender's own devices: it names the other person, not the sender."""
    sender = str(account.address_in(account.space)._replace(device=device))
    if recipient.hides_number:
        name = {"from": sender, "recipient": str(recipient.address_in(jid.LID))}
        return {**name, "peer_recipient_username": recipient.username} if recipient.username else name
    other = "peer_recipient_pn" if account.migrated else "peer_recipient_lid"
    return {
        "from": sender,
        "recipient": str(recipient.address_in(account.space)),
        other: str(recipient.address_in(jid.other_space(account.space))),
    }


def in_group(group: Group, sender: Phone, device: int | None = None) -> dict[str, str]:
    return {"from": group.address, **groups.participant_names(group, sender, device)}
