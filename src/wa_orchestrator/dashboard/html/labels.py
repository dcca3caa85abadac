"""Says in a person's language what records keep in words for programs: who did something, what, and why.

What it does not know is shown as it stands: a new word is better than none. Tests look for those that are missing here.
"""

from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.html.locale import Tongue, bdi, ltr
from wa_orchestrator.domain.proxy import ProxyFailure
from wa_orchestrator.domain.session_reasons import Reason
from wa_orchestrator.texts import catalogue

_DOERS: Final = ("configured", "server", "administrator", "viewer", "nobody")


def doer(view: Tongue, by: str) -> Markup:
    """Say who did something: a person by name, a key, the server."""
    name = by.removeprefix("dashboard:")
    if name in _DOERS:
        return view.t(f"doer.{name}")
    if not by.startswith("dashboard:") and name.startswith("k_"):
        return view.t("doer.key", id=ltr(name))
    return bdi(name or "—")


def deed(view: Tongue, action: str) -> Markup:
    """Say what was done, for the audit log."""
    return _or(view, f"deed.{action}", action)


def target(view: Tongue, snapshot: Snapshot, action: str, name: str) -> Markup:
    """Say to what it was done: a session by its name."""
    kind, colon, rest = name.partition(":")
    if action.startswith("hold.") and name == "all":
        return view.t("hold.everything")
    if action.startswith("dashboard."):
        return _or(view, f"doer.{name}", name)
    row = snapshot.rows.get(rest if colon and kind == "session" else name)
    if row:
        return bdi(snapshot.called(row))
    if action.startswith("opt_out."):
        return ltr(f"••••{name}")
    return bdi(rest if colon and kind in ("session", "group", "phone") else name)


def held_because(hold_why: str) -> str:
    """What a person wrote about a hold; nothing where they wrote nothing."""
    return "" if hold_why == "OPERATOR" else hold_why


def circumstance(view: Tongue, code: str) -> str:
    """Say why something happened to a session, its phone or its proxy; empty where there is nothing to say."""
    if code in Reason.__members__:
        return view.reason(code)
    if view.knows(f"circumstance.{code}"):
        return str(view.t(f"circumstance.{code}").striptags())
    return catalogue.proxy_failure(view.language, code) if code.partition(":")[0] in ProxyFailure.__members__ else ""


def proxy_failure(view: Tongue, stored: str) -> Markup:
    """Return why a proxy is bad."""
    return bdi(catalogue.proxy_failure(view.language, stored) or "—")


def message_note(view: Tongue, code: str) -> str:
    """Say what happened to a message in one step of its story."""
    return str(view.t(f"note.{code}").striptags()) if view.knows(f"note.{code}") else view.failure(code)


def delivery_note(view: Tongue, note: str) -> Markup:
    """Say why an event did not reach a webhook."""
    if note.startswith("HTTP_"):
        return view.t("delivery.answered", status=ltr(note.removeprefix("HTTP_")))
    if view.knows(f"error.{note}"):
        return view.t(f"error.{note}")
    if note == "DISABLED":
        return view.t("settings.disabled")
    if note.endswith(("Timeout", "TimeoutError")):
        return view.t("delivery.no_answer")
    return view.t("delivery.unreachable") if note.startswith("Connect") else view.t("delivery.broke_off")


def _or(view: Tongue, name: str, otherwise: str) -> Markup:
    return view.t(name) if view.knows(name) else bdi(otherwise)
