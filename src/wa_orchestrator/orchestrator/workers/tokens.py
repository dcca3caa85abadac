"""What a worker proves itself with: a token and a signing secret of its own, bound to its session and its epoch.

Both are derived from the installation's root secret, so nothing that Redis holds lets anyone speak as a worker.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from fastapi import Request

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.api_keys import digest
from wa_orchestrator.store.records import Session


@dataclass(frozen=True, slots=True, repr=False)
class WorkerCredentials:
    """What one worker is given at its start."""

    token: str
    webhook_secret: str

    @property
    def token_hash(self) -> str:
        """What the session's record holds of the token."""
        return digest(self.token)


def mint(settings: Settings, session_id: str, epoch: int) -> WorkerCredentials:
    """Give the credentials of the worker of this session and epoch: always the same ones."""
    token = _derive(settings, f"token {session_id} {epoch}").hex()
    secret = base64.b64encode(_derive(settings, f"events {session_id} {epoch}")).decode()
    return WorkerCredentials(f"wwt_{session_id}.{epoch}.{token}", f"whsec_{secret}")


def _derive(settings: Settings, purpose: str) -> bytes:
    root = settings.webhook_secret.get_secret_value().encode()
    return hmac.new(root, purpose.encode(), hashlib.sha256).digest()


def fenced(epoch: int) -> Refused:
    """The refusal for a worker that a newer one has replaced; it ends itself when it hears this."""
    return Refused("FENCED", "A newer worker runs this session. End yourself.", 409, epoch=epoch)


async def authenticate_worker(context: Context, request: Request, session_id: str) -> Session:
    """Give the session for which this worker may speak now.

    Raises 401 for no or a forged token, 403 for another session's, 409 FENCED for an older epoch's.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    owner, epoch = _claims(token.strip()) if scheme.lower() == "bearer" else ("", 0)
    genuine = mint(context.settings, owner, epoch).token
    if not owner or not hmac.compare_digest(genuine.encode(), token.strip().encode()):
        raise Refused("WORKER_TOKEN_WRONG", "This is no token of a worker of this server.", 401)
    if owner != session_id:
        raise Refused("OTHER_SESSION", "This token belongs to another session.", 403)
    session = await records.session(context.scripts, session_id)
    said = request.headers.get("x-epoch", str(epoch))
    if session is None or session.epoch != epoch or said != str(epoch):
        raise fenced(session.epoch if session else 0)
    return session


def _claims(token: str) -> tuple[str, int]:
    """Read whose token this says to be; ("", 0) for what has another shape."""
    owner, _, rest = token.removeprefix("wwt_").partition(".")
    epoch, _, _ = rest.partition(".")
    ours = token.startswith("wwt_") and epoch.isascii() and epoch.isdigit() and len(epoch) < 10
    return (owner, int(epoch)) if ours else ("", 0)
