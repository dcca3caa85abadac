"""Worker credentials: a token and a signing secret, bound to a session and an epoch.

Both are derived from the installation's root secret, so read access to Redis does not let anyone act as a worker.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from functools import lru_cache

from fastapi import Request
from pydantic import SecretStr

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.web import auth


@dataclass(frozen=True, slots=True, repr=False)
class WorkerCredentials:
    """The credentials that a worker is started with."""

    token: str
    webhook_secret: str


def mint(settings: Settings, session_id: str, epoch: int) -> WorkerCredentials:
    """Return the credentials of the worker of this session and epoch; they are always the same."""
    return _mint(settings.webhook_secret, session_id, epoch)


def accepted(settings: Settings, session_id: str, epoch: int) -> list[WorkerCredentials]:
    """Return the credentials that this worker may have: of the present secret, and of the one before a rotation."""
    roots = (settings.webhook_secret, settings.webhook_secret_previous)
    return [_mint(root, session_id, epoch) for root in roots if root is not None]


@lru_cache(maxsize=4096)  # every request of a worker is checked with them
def _mint(root: SecretStr, session_id: str, epoch: int) -> WorkerCredentials:
    token = _derive(root, f"token {session_id} {epoch}").hex()
    secret = base64.b64encode(_derive(root, f"events {session_id} {epoch}")).decode()
    return WorkerCredentials(f"wwt_{session_id}.{epoch}.{token}", f"whsec_{secret}")


def _derive(root: SecretStr, purpose: str) -> bytes:
    return hmac.new(root.get_secret_value().encode(), purpose.encode(), hashlib.sha256).digest()


def fenced(epoch: int) -> Refused:
    """Return the error for a worker that has been replaced; the worker exits when it receives this."""
    return Refused("FENCED", "Superseded by a newer worker; exit.", 409, epoch=epoch)


def require_token(context: Context, request: Request, session_id: str) -> int:
    """Return the epoch of a worker's token. Asks nobody, so it is done before anything of the request is read.

    Raises 401 for a missing or forged token, 403 for another session's.
    """
    owner, epoch = require_genuine(context, request)
    if owner != session_id:
        raise Refused("OTHER_SESSION", "This token belongs to another session.", 403)
    return epoch


def require_genuine(context: Context, request: Request) -> tuple[str, int]:
    """Return the session and epoch of a worker's token; raises 401 for a missing or forged one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    owner, epoch = _claims(token.strip()) if scheme.lower() == "bearer" else ("", 0)
    given = token.strip().encode()
    genuine = [each.token.encode() for each in accepted(context.settings, owner, epoch)]
    if not owner or not any(hmac.compare_digest(each, given) for each in genuine):
        auth.count_stranger(context, request)
        raise Refused("WORKER_TOKEN_WRONG", "Not a valid worker token of this server.", 401)
    return owner, epoch


def sender(session_id: str, epoch: int) -> str:
    """Return what the bodies of a worker are counted as. One that was replaced takes no room of its successor."""
    return f"{session_id} {epoch}"


async def authenticate_worker(context: Context, request: Request, session_id: str) -> Session:
    """Return the session that this worker may act for.

    Raises 401 for a missing or forged token, 403 for another session's, 409 FENCED for an older epoch's.
    """
    return await require_current(context, request, session_id, require_token(context, request, session_id))


async def require_current(context: Context, request: Request, session_id: str, epoch: int) -> Session:
    """Return the session of a worker whose token was checked; raises 409 FENCED if a newer one runs it."""
    session = await records.session(context.scripts, session_id)
    said = request.headers.get("x-epoch", str(epoch))
    if session is None or session.epoch != epoch or said != str(epoch):
        raise fenced(session.epoch if session else 0)
    return session


def _claims(token: str) -> tuple[str, int]:
    """Return the session and epoch that a token claims; ("", 0) if it is malformed."""
    owner, _, rest = token.removeprefix("wwt_").partition(".")
    epoch, _, _ = rest.partition(".")
    ours = token.startswith("wwt_") and epoch.isascii() and epoch.isdigit() and len(epoch) < 10
    return (owner, int(epoch)) if ours else ("", 0)
