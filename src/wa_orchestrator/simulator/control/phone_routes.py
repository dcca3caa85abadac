"""Routes for actions on a simulated phone."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from wa_orchestrator.simulator.control.request_models import (
    Account,
    Album,
    Call,
    EndCall,
    EnterCode,
    Join,
    Read,
    Say,
    SayContent,
    SayMedia,
    Scan,
    Unlink,
)
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.phones.numbers import chat, digits
from wa_orchestrator.simulator.protocol.passkey import RP_ID

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.server import WhatsApp

OK = {"ok": True}
Phone = Annotated[str, Path(pattern=r"^\+?\d{8,15}$", description="8 to 15 digits")]


class PhoneRoutes:
    """The routes of one phone."""

    def __init__(self, whatsapp: WhatsApp) -> None:
        self._whatsapp = whatsapp

    def router(self) -> APIRouter:
        """Return the router."""
        routes = APIRouter(prefix="/phones/{phone}", tags=["phones"])
        routes.post("/scan", summary="link a device by its QR code")(self.scan)
        routes.post("/enter-code", summary="link a device by its pairing code")(self.enter_code)
        routes.post("/say", summary="send a text")(self.say)
        routes.post("/say-media", summary="send an image, video, audio or document")(self.say_media)
        routes.post("/say-content", summary="send a reply, a place, a poll, a reaction, …")(self.say_content)
        routes.post("/album", summary="begin an album")(self.album)
        routes.post("/call", summary="call another phone")(self.call)
        routes.post("/call/{call_id}/end", summary="end a call")(self.end_call)
        routes.post("/files/{message_id}/drop", summary="drop the file of a message, as after weeks")(self.drop_file)
        routes.post("/files/{message_id}/damage", summary="change a byte of a file")(self.damage_file)
        routes.post("/join", summary="follow the link of a group")(self.join)
        routes.post("/read", summary="read messages")(self.read)
        routes.post("/unlink", summary="remove linked devices")(self.unlink)
        routes.post("/unregister", summary="unregister the number from WhatsApp")(self.unregister)
        routes.post("/migrate", summary="move the account's chats from numbers to LIDs")(self.migrate)
        routes.post("/reassign", summary="give the number to another person")(self.reassign)
        routes.post("/account", summary="set the kind of account, before it is linked")(self.account)
        routes.get("/inbox", summary="the decrypted messages of this phone")(self.inbox)
        routes.get(
            "/inbox/{message_id}/media", summary="the file of a message, decrypted", response_class=Response
        )(self.media)  # fmt: skip
        routes.get("/pushes", summary="how often this phone has rung for a message")(self.pushes)
        routes.get("/passkey", summary="the passkey of this account, for a virtual authenticator")(self.passkey)
        routes.post("/confirm-link", summary="confirm the code that a device shows that is linked by passkey")(
            self.confirm_link
        )
        routes.get("/devices", summary="the devices linked to this phone")(self.devices)
        return routes

    async def scan(self, phone: Phone, body: Scan) -> dict[str, Any]:
        await self._whatsapp.scan(digits(phone), body.qr)
        return OK

    async def enter_code(self, phone: Phone, body: EnterCode) -> dict[str, Any]:
        await self._whatsapp.enter_code(digits(phone), body.code)
        return OK

    async def say(self, phone: Phone, body: Say) -> dict[str, Any]:
        options = {"expires": body.expires, "by_lid": body.by_lid}
        return {"id": await self._whatsapp.send_text(digits(phone), chat(body.to), body.text, **options)}

    async def say_media(self, phone: Phone, body: SayMedia) -> dict[str, Any]:
        content = _decoded(body.data)
        described: dict[str, Any] = {"caption": body.caption, "name": body.filename}
        described |= {"form": body.form, "album": body.album, "thumbnail": _decoded(body.thumbnail)}
        to = chat(body.to)
        sent = await self._whatsapp.send_media(digits(phone), to, body.kind, content, body.mimetype, **described)
        return {"id": sent}

    async def say_content(self, phone: Phone, body: SayContent) -> dict[str, Any]:
        return {"id": await self._whatsapp.send_content(digits(phone), chat(body.to), body.content)}

    async def album(self, phone: Phone, body: Album) -> dict[str, Any]:
        return {"id": await self._whatsapp.begin_album(digits(phone), chat(body.to), body.images, body.videos)}

    async def call(self, phone: Phone, body: Call) -> dict[str, Any]:
        return {"id": await self._whatsapp.call(digits(phone), chat(body.to), video=body.video)}

    async def end_call(self, phone: Phone, call_id: str, body: EndCall) -> dict[str, Any]:
        await self._whatsapp.end_call(digits(phone), chat(body.to), call_id, body.how)
        return OK

    async def drop_file(self, phone: Phone, message_id: str) -> dict[str, Any]:
        self._whatsapp.drop_file(digits(phone), message_id)
        return OK

    async def damage_file(self, phone: Phone, message_id: str) -> dict[str, Any]:
        self._whatsapp.damage_file(digits(phone), message_id)
        return OK

    async def join(self, phone: Phone, body: Join) -> dict[str, Any]:
        return {"outcome": await self._whatsapp.join_group(digits(phone), body.link)}

    async def read(self, phone: Phone, body: Read | None = None) -> dict[str, Any]:
        return {"read": await self._whatsapp.read(digits(phone), chat(body.of) if body and body.of else None)}

    async def unlink(self, phone: Phone, body: Unlink | None = None) -> dict[str, Any]:
        await self._whatsapp.unlink(digits(phone), body.device if body else None)
        return OK

    async def unregister(self, phone: Phone) -> dict[str, Any]:
        self._whatsapp.unregister(digits(phone))
        return OK

    async def migrate(self, phone: Phone) -> dict[str, Any]:
        await self._whatsapp.migrate(digits(phone))
        return OK

    async def reassign(self, phone: Phone) -> dict[str, Any]:
        return {"lid": self._whatsapp.reassign(digits(phone))}

    async def account(self, phone: Phone, body: Account) -> dict[str, Any]:
        self._whatsapp.describe_account(digits(phone), **body.model_dump())
        return OK

    async def inbox(self, phone: Phone) -> list[dict[str, Any]]:
        return self._whatsapp.inbox(digits(phone))

    async def media(self, phone: Phone, message_id: str) -> Response:
        return Response(self._whatsapp.media_of(digits(phone), message_id), media_type="application/octet-stream")

    async def pushes(self, phone: Phone) -> dict[str, int]:
        return {"pushes": self._whatsapp.pushes(digits(phone))}

    async def passkey(self, phone: Phone) -> dict[str, str]:
        held = self._whatsapp.passkey(digits(phone))
        names = {"credentialId": held.credential, "userHandle": held.user, "privateKey": held.pkcs8}
        return {name: base64.b64encode(value).decode() for name, value in names.items()} | {"rpId": RP_ID}

    async def confirm_link(self, phone: Phone) -> dict[str, str]:
        ceremony = self._whatsapp.ceremony(digits(phone))
        ceremony.is_confirmed = True
        return {"code": ceremony.code}

    async def devices(self, phone: Phone) -> list[dict[str, Any]]:
        return self._whatsapp.devices(digits(phone))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise SimulatorError("BAD_DATA", "data must be base64.") from error
