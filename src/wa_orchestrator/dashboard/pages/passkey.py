"""Page for linking with a passkey: for the account's owner, at his own screen."""

import json
import re
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.html.renderer import HERE, PageContent, Renderer, View
from wa_orchestrator.domain.sessions import passkey
from wa_orchestrator.store.sessions import passkeys
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony

_SNIPPET: Final = HERE / "templates" / "passkey-snippet.js"


async def show(renderer: Renderer, view: View, query: Mapping[str, str]) -> PageContent | None:
    made = await parts(renderer, view, query)
    session_id = query.get("id", "")
    return PageContent("passkey.html", made, watch={"page": "passkey", "id": session_id}) if made else None


async def parts(renderer: Renderer, view: View, query: Mapping[str, str]) -> dict[str, Markup]:
    row = view.snapshot.rows.get(query.get("id", ""))
    if row is None:
        return {}
    ceremony = await passkeys.get(renderer.context.scripts, row.id)
    if ceremony is not None and ceremony.epoch != row.session.epoch:
        ceremony = None
    text = snippet(ceremony, row.name) if ceremony and ceremony.stage == "required" else ""
    title = view.t("passkey.title" if text else "passkey.link")
    return {
        "headline": Markup('<h1 id="headline">{}</h1>').format(title),
        "passkey": renderer.macros.passkey(view, row, ceremony, text),
    }


def snippet(ceremony: PasskeyCeremony, name: str) -> str:
    """Return the code that a person pastes on WhatsApp's site. It holds the request, and sends nothing by itself."""
    values = {
        "__CHALLENGE__": passkey.challenge_of(ceremony.options),
        "__LABEL__": name,
        "__ORIGIN__": passkey.ORIGIN,
        "__RP_ID__": passkey.RP_ID,
    }
    # In one pass: a name that is spelled like a mark must not be replaced again.
    spelled = {mark: json.dumps(value, ensure_ascii=True).replace("<", "\\u003c") for mark, value in values.items()}
    return re.sub("|".join(spelled), lambda found: spelled[found[0]], _SNIPPET.read_text(encoding="utf-8"))
