"""JIDs: user, server, device."""

from typing import NamedTuple

SERVER = "s.whatsapp.net"
LID = "lid"
GROUP = "g.us"
#: A list of recipients, each of whom gets the message in the chat with its sender.
BROADCAST = "broadcast"
#: The older name of SERVER, in texts of clients.
LEGACY_SERVER = "c.us"
#: Whose messages are what people post for all their contacts.
STATUS = "status@broadcast"
#: The server itself.
SERVER_JID = "@s.whatsapp.net"


class Jid(NamedTuple):
    """`user:device@server`; device None is the account as a whole."""

    user: str
    server: str
    device: int | None = None

    def __str__(self) -> str:
        device = "" if self.device is None else f":{self.device}"
        return f"{self.user}{device}@{self.server}"

    @property
    def is_group(self) -> bool:
        return self.server == GROUP

    @property
    def is_list(self) -> bool:
        return self.server == BROADCAST


def parse(text: str) -> Jid | None:
    """Parse a JID; None if the text is not one."""
    user, at, server = text.rpartition("@")
    if not at or not server:
        return None
    name, colon, device = user.partition(":")
    name = name.partition("_")[0]
    if not colon:
        return Jid(name, server)
    return Jid(name, server, int(device)) if device.isdecimal() and int(device) < 256 else None


def other_space(server: str) -> str:
    """Return the server under which the same account has its other JID."""
    return SERVER if server == LID else LID


def of_phone(number: str, device: int | None = None) -> Jid:
    return Jid(number, SERVER, device)
