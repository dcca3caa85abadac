"""Moves the credentials of a session to the trash, wherever the newest are: in its directory, or stored here."""

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store.sessions import stored_credentials


async def discard(context: Context, session_id: str, *, phone: str, label: str, why: str) -> None:
    """Move the session's directory to the trash, with the server's copy if that is newer. No worker may run."""
    settings, scripts = context.settings, context.scripts
    stored = await stored_credentials.read(scripts, session_id)
    if stored is not None and stored.epoch != await credential_files.stored_epoch(settings, session_id):
        await credential_files.keep_copy(settings, session_id, stored_credentials.pack(stored))
    now = await scripts.now_ms()
    await credential_files.discard(settings, session_id, now, phone=phone, label=label, why=why)
