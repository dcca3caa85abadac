"""A device on whatsmeow (through neonize), driven by JSON lines: commands on stdin, events on stdout.

A process of its own, because the Go runtime does not share one. whatsmeow checks what Baileys does not: the certificate
chain of the Noise handshake, so the root key in a copy of its library is exchanged for the simulator's.
"""

import base64
import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

_ROOT_KEY = bytes.fromhex("142375574d0a587166aae71ebe516437c4a28b73e3695c6ce1f7f9545da8ee6b")
_DIRECTORY = Path(os.environ["CLIENT_DIR"])


class _PatchedLibrary(ctypes.CDLL):
    def __init__(self, name: Any, *arguments: Any, **options: Any) -> None:
        if str(name).endswith(".so") and "neonize" in str(name):
            library = Path(name).read_bytes()
            if library.count(_ROOT_KEY) != 1:
                raise RuntimeError("this whatsmeow has another root key")
            name = _DIRECTORY / "whatsmeow.so"
            name.write_bytes(library.replace(_ROOT_KEY, bytes.fromhex(os.environ["NOISE_ROOT"])))
        super().__init__(str(name) if name else name, *arguments, **options)


ctypes.CDLL = _PatchedLibrary  # type: ignore[misc]

from neonize._binder import ProxySettings  # noqa: E402
from neonize.client import NewClient  # noqa: E402
from neonize.events import (  # noqa: E402
    ConnectedEv,
    MessageEv,
    OfflineSyncPreviewEv,
    ReceiptEv,
    StreamReplacedEv,
    UndecryptableMessageEv,
)
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message  # noqa: E402
from neonize.utils.enum import MediaType, VoteType  # noqa: E402
from neonize.utils.jid import Jid2String, build_jid  # noqa: E402

_writing = threading.Lock()
# The library prints to standard output too: it gets standard error instead.
_events = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
_messages: dict[str, Message] = {}
_infos: dict[str, Any] = {}
#: What a file is uploaded as, and the field of the message that names it.
_FILES = {
    "image": (MediaType.MediaImage, "imageMessage"),
    "video": (MediaType.MediaVideo, "videoMessage"),
    "audio": (MediaType.MediaAudio, "audioMessage"),
    "document": (MediaType.MediaDocument, "documentMessage"),
    "sticker": (MediaType.MediaImage, "stickerMessage"),
}


def tell(kind: str, **fields: Any) -> None:
    with _writing:
        _events.write(json.dumps({"kind": kind, **fields}) + "\n")
        _events.flush()


def jid(text: str) -> Any:
    user, _, server = text.partition("@")
    return build_jid(user, server or "s.whatsapp.net")


def on_message(_client: Any, event: Any) -> None:
    source, message = event.Info.MessageSource, event.Message
    _messages[event.Info.ID], _infos[event.Info.ID] = message, event.Info
    fields = [field.name for field, _ in message.ListFields() if field.name != "messageContextInfo"]
    text = message.conversation or message.extendedTextMessage.text or message.imageMessage.caption
    names = {"chat": Jid2String(source.Chat), "sender": Jid2String(source.Sender), "alt": Jid2String(source.SenderAlt)}
    marks = {"quotes": message.extendedTextMessage.contextInfo.stanzaID, "viewOnce": message.imageMessage.viewOnce}
    names |= {**marks, "fields": fields}
    tell("message", id=event.Info.ID, text=text, fromMe=source.IsFromMe, isGroup=source.IsGroup, **names)


def file_message(client: Any, command: dict[str, Any]) -> Any:
    data, (media, field) = base64.b64decode(command["data"]), _FILES[command["kind"]]
    put = client.upload(data, media)
    message = Message()
    part = getattr(message, field)
    part.URL, part.directPath, part.fileLength = put.url, put.DirectPath, len(data)
    part.mediaKey, part.fileEncSHA256, part.fileSHA256 = put.MediaKey, put.FileEncSHA256, put.FileSHA256
    for name, value in command["facts"].items():
        setattr(part, name, value)
    return message


def obey(client: Any, command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "send":
            return {"id": client.send_message(jid(command["to"]), command["text"]).ID}
        case "file":
            return {"id": client.send_message(jid(command["to"]), file_message(client, command)).ID}
        case "protobuf":
            message = Message.FromString(base64.b64decode(command["data"]))
            return {"id": client.send_message(jid(command["to"]), message).ID}
        case "poll":
            poll = client.build_poll_vote_creation(command["question"], command["options"], VoteType.SINGLE)
            return {"id": client.send_message(jid(command["to"]), poll).ID}
        case "vote":
            info = _infos[command["id"]]
            vote = Message(pollUpdateMessage=client.build_poll_vote(info, command["options"]).pollUpdateMessage)
            return {"id": client.send_message(info.MessageSource.Chat, vote).ID}
        case "react":
            source = _infos[command["id"]].MessageSource
            reaction = client.build_reaction(source.Chat, source.Sender, command["id"], command["emoji"])
            return {"id": client.send_message(source.Chat, reaction).ID}
        case "edit":
            text = Message(conversation=command["text"])
            return {"id": client.edit_message(jid(command["to"]), command["id"], text).ID}
        case "revoke":
            return {"id": client.revoke_message(jid(command["to"]), client.get_me().JID, command["id"]).ID}
        case "join":
            return {"jid": Jid2String(client.join_group_with_link(command["code"]))}
        case "download":
            return {"data": base64.b64encode(client.download_any(_messages[command["id"]])).decode()}
        case "group":
            group = client.create_group(command["subject"], [jid(member) for member in command["members"]])
            return {"jid": Jid2String(group.JID)}
        case "look up":
            found = client.is_on_whatsapp(command["phone"])
            return {"found": [[one.Query, Jid2String(one.JID), one.IsIn] for one in found]}
        case other:
            raise ValueError(other)


def read_commands(client: Any) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        try:
            tell("done", n=command["n"], **obey(client, command))
        except Exception as error:  # whatever it is, the test shall see it
            tell("failed", n=command["n"], error=f"{type(error).__name__}: {error}")
    os._exit(0)


def main() -> None:
    client = NewClient(str(_DIRECTORY / "device.db"))
    client.event.qr(lambda _client, data: tell("qr", qr=data.decode()))
    client.event(ConnectedEv)(lambda _client, _event: tell("connected"))
    client.event(MessageEv)(on_message)
    client.event(ReceiptEv)(lambda _client, event: tell("receipt", ids=list(event.MessageIDs), type=str(event.Type)))
    client.event(OfflineSyncPreviewEv)(lambda _client, event: tell("preview", messages=event.Message))
    client.event(StreamReplacedEv)(lambda _client, _event: tell("replaced"))
    client.event(UndecryptableMessageEv)(lambda _client, event: tell("undecryptable", id=event.Info.ID))
    threading.Thread(target=read_commands, args=(client,), daemon=True).start()
    client.connect(ProxySettings(os.environ["PROXY_URL"].replace("socks5h://", "socks5://")))


main()
