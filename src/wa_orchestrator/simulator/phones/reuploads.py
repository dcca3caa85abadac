"""Phones upload a file again that WhatsApp has dropped, when a linked device asks for it."""

import secrets
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.message_content import FileRef
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.state import ServerState

_INFO = b"WhatsApp Media Retry Notification"
_UPLOADED = 1
_NOT_FOUND = "2"


def find_file(state: ServerState, phone: str, message_id: str) -> FileRef | None:
    """Return the file of a message in a phone's inbox."""
    entries: list[dict[str, Any]] = state.ledger.inbox(phone)
    return next((each["_file"] for each in entries if each["id"] == message_id and each.get("_file")), None)


def answer(state: ServerState, device: Device, stanza: Node) -> None:
    """Answer a device that asks its phone for a file: with its new path, or that the phone has it no more."""
    message_id, file = stanza.attr("id"), find_file(state, device.phone, stanza.attr("id"))
    gone = file is None or state.faults.active("no_reupload", device.phone)
    parts = [node("error", {"code": _NOT_FOUND})] if gone or file is None else [_path(state, message_id, file, stanza)]
    attrs = {"type": "mediaretry", "id": message_id, "from": str(state.accounts.phone(device.phone).address)}
    parts.append(node("rmr", dict(stanza.require("rmr").attrs)))
    state.deliver(device, Node("notification", {**attrs, "t": str(state.now)}, parts))


def _path(state: ServerState, message_id: str, file: FileRef, stanza: Node) -> Node:
    box = AESGCM(curve25519.hkdf(file.key, 32, info=_INFO))
    asked = stanza.require("encrypt")
    try:
        request = box.decrypt(asked.child_bytes("enc_iv"), asked.child_bytes("enc_p"), message_id.encode())
    except InvalidTag as error:
        raise ProtocolError("a request for a file is not encrypted with the file's key") from error
    if protobuf.decode(request).text(1) != message_id:
        raise ProtocolError("a request for a file names another message")
    plain = protobuf.encode({1: message_id, 2: state.shelf.put_again(file.path), 3: _UPLOADED})
    iv = secrets.token_bytes(12)
    sealed = box.encrypt(iv, plain, message_id.encode())
    return Node("encrypt", {}, [Node("enc_p", {}, sealed), Node("enc_iv", {}, iv)])
