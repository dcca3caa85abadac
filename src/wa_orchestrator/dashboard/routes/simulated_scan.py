"""Action "simulate a scan": a simulated phone scans the QR code or enters the pairing code."""

import secrets
from typing import Final

import httpx

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.html.locale import Locale
from wa_orchestrator.dashboard.routes.actions import Outcome
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import link_codes

ACTION: Final = "simulate-scan"
_TIMEOUT_S: Final = 30.0


async def scan(context: Context, session_id: str, asked_phone: str, locale: Locale) -> Outcome:
    """Scan with the session's simulated phone, else with the phone of the pairing code, else with a new one."""
    session = await records.session(context.scripts, session_id)
    shown = await link_codes.get(context.scripts, session_id)
    if context.simulator is None or session is None or shown is None:
        return Outcome("error", locale.t("scan.no_code_now"))
    phone = session.phone or asked_phone or f"97250{secrets.randbelow(10**7):07d}"
    verb, body = ("scan", {"qr": shown.qr}) if shown.qr else ("enter-code", {"code": shown.code})
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
            answer = await client.post(f"{context.simulator['control']}/phones/{phone}/{verb}", json=body)
    except httpx.HTTPError:
        return Outcome("error", locale.t("scan.simulator_away"))
    if not answer.is_success:
        return Outcome("error", locale.t("scan.no_code_now"))
    return Outcome("ok", locale.t("done.simulate-scan"))
