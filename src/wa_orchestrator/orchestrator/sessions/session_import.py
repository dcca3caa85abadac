"""Takes over linked devices from other programs on Baileys: a new session with their credentials, without a scan."""

from dataclasses import replace

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.baileys_account import BaileysAccount
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.sessions.provision import SessionRequest, provision
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.records import Session


async def same_phone(context: Context, account: BaileysAccount) -> list[Session]:
    """Return the sessions here that have the account's phone. Raises `Refused` if one is this very device."""
    found = list(await records.sessions_of_phone(context.scripts, account.phone))
    for each in found:
        if each.jid == account.jid:
            text = f"This very device is session {each.id} here. Two with one device push each other off WhatsApp."
            raise Refused("IMPORT_ALREADY_HERE", text, 409, sessionId=each.id)
    return found


async def take_over(context: Context, account: BaileysAccount, request: SessionRequest) -> Session:
    """Create a session with the account's credentials and queue its start. Raises `Refused`, with nothing changed.

    The credentials wait in the trash, and the session's record names them: what a crash cuts off goes on after it.
    """
    await same_phone(context, account)
    session_id = request.session_id or f"worker_{await sessions.next_number(context.scripts)}"
    now_ms = await context.scripts.now_ms()
    trash_id = await credential_files.bring_in(
        context.settings, session_id, now_ms, account.files, phone=account.phone, label=request.label
    )
    try:
        return await provision(
            context, replace(request, session_id=session_id, phone=account.phone, restore=trash_id, pairing="qr")
        )
    except Refused:
        await credential_files.forget(context.settings, trash_id)
        raise
