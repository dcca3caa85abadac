"""Passkeys: a virtual authenticator that signs as a browser does, and the server's check of what it signed."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ORIGIN, RP_ID = "https://web.whatsapp.com", "whatsapp.com"
#: User present, user verified, and a passkey that is backed up.
_FLAGS: Final = 0x1D
_PRESENT_AND_VERIFIED: Final = 0x05


def encode(raw: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(slots=True)
class Passkey:
    """A passkey of an account: it belongs to the person, and signs challenges of WhatsApp's own site."""

    credential: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    user: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def pkcs8(self) -> bytes:
        """The private key, for a virtual authenticator of a browser."""
        return self.key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, challenge: str, *, origin: str = ORIGIN, rp_id: str = RP_ID, flags: int = _FLAGS) -> dict[str, Any]:
        """Return the assertion for a challenge, as a page of WhatsApp's makes it from the browser's answer."""
        client = {"type": "webauthn.get", "challenge": challenge, "origin": origin, "crossOrigin": False}
        client_data = json.dumps(client, separators=(",", ":")).encode()
        data = hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + bytes(4)
        signature = self.key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256()))
        name = encode(self.credential)
        response = {
            "clientDataJSON": encode(client_data),
            "authenticatorData": encode(data),
            "signature": encode(signature),
            "userHandle": encode(self.user),
        }
        return {"id": name, "rawId": name, "type": "public-key", "response": response}


def is_valid(passkey: Passkey, credential: bytes, assertion: dict[str, Any], challenge: str) -> bool:
    """Whether an assertion is this passkey's, for this challenge, and made on WhatsApp's own site."""
    try:
        response = assertion["response"]
        client_data, data = decode(response["clientDataJSON"]), decode(response["authenticatorData"])
        client = json.loads(client_data)
        is_own = credential == passkey.credential == decode(assertion["rawId"])
        is_meant = (client["type"], client["challenge"], client["origin"]) == ("webauthn.get", challenge, ORIGIN)
        is_site = data[:32] == hashlib.sha256(RP_ID.encode()).digest()
        is_verified = len(data) >= 37 and data[32] & _PRESENT_AND_VERIFIED == _PRESENT_AND_VERIFIED
        passkey.key.public_key().verify(
            decode(response["signature"]), data + hashlib.sha256(client_data).digest(), ec.ECDSA(hashes.SHA256())
        )
    except (KeyError, ValueError, TypeError, InvalidSignature):
        return False
    return is_own and is_meant and is_site and is_verified and not client.get("crossOrigin")
