"""AB properties: switches that WhatsApp sets per account, and the hash by which a client asks for changes only."""

import hashlib

from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState

LID_MIGRATION, TOKENS_ON_MESSAGES, TOKENS_TO_LID, FIRST_CONTACT_TOKENS = 9435, 10518, 14303, 24941
_WEEK_S = 604_800
#: Width and number of the periods in which a token of others, and of ours, is valid.
_PERIODS = {865: str(_WEEK_S), 909: "4", 996: str(_WEEK_S), 997: "4"}


def of_phone(phone: Phone) -> dict[int, str]:
    """Return the values of an account; no client knows all of them."""
    return {
        **dict.fromkeys(range(100, 400), "0"),
        **_PERIODS,
        LID_MIGRATION: "1" if phone.migrated else "0",
        TOKENS_ON_MESSAGES: "1",
        TOKENS_TO_LID: "1" if phone.migrated else "0",
        FIRST_CONTACT_TOKENS: "1",
    }


def answer(state: ServerState, phone: str | None, stanza: Node) -> list[Node]:
    """Answer with all values, or, if the client has the hash of a state that we know, with those that changed since."""
    if phone is None or state.faults.active("no_properties", phone):
        return [node("props", {"protocol": "1"})]
    values = of_phone(state.accounts.phone(phone))
    digest = _hash(values)
    state.properties[digest] = values
    request = stanza.child("props")
    known = state.properties.get(request.attr("hash")) if request else None
    changed = {code: value for code, value in values.items() if known is None or known.get(code) != value}
    attrs: dict[str, str | int | None] = {"protocol": "1", "hash": digest, "refresh": 86_400, "refresh_id": 1}
    attrs["delta_update"] = None if known is None else "true"
    props = [node("prop", {"config_code": code, "config_value": value}) for code, value in sorted(changed.items())]
    return [node("props", attrs, props)]


def _hash(values: dict[int, str]) -> str:
    text = ",".join(f"{code}={value}" for code, value in sorted(values.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
