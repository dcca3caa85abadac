"""Texts for stored codes: actors, actions, causes, notes. An unknown code is shown as it is; tests find those."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.domain.messages.failures import FREEING
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.proxies.proxy_health import ProxyFailure
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.texts import catalogue

_ACTORS: Final = ("configured", "server", "administrator", "viewer", "nobody")


def actor(view: Locale, by: str, known_as: str = "") -> Markup:
    """Return who did something: a person or a key by its name, a key without one by its id, the server."""
    if known_as:
        return bdi(known_as)
    name = by.removeprefix("dashboard:")
    if name in _ACTORS:
        return view.t(f"actor.{name}")
    if not by.startswith("dashboard:") and name.startswith("k_"):
        return view.t("actor.key", id=ltr(name))
    return bdi(name or "—")


def action_name(view: Locale, action: str) -> Markup:
    return _text_or(view, f"action.{action}", action)


def target(
    view: Locale, snapshot: Snapshot, action: str, name: str, names: Mapping[str, str] = MappingProxyType({})
) -> Markup:
    """Return what it was done to, by its name; `names` are those of people and keys, by their ids."""
    if name in names:
        return bdi(names[name])
    kind, colon, rest = name.partition(":")
    if action.startswith("hold.") and name == "all":
        return view.t("hold.everything")
    if action.startswith("dashboard."):
        return _text_or(view, f"actor.{name}", name)
    row = snapshot.rows.get(rest if colon and kind == "session" else name)
    if row:
        return bdi(snapshot.called(row))
    if name in snapshot.webhook_hosts:
        return ltr(snapshot.webhook_hosts[name])
    if name in snapshot.campaign_names:
        return bdi(snapshot.campaign_names[name])
    if action.startswith("opt_out."):
        return ltr(f"••••{name}")
    return bdi(rest if colon and kind in ("session", "group", "phone") else name)


def cause(view: Locale, code: str) -> str:
    """Return why something happened to a session, its phone or its proxy; empty for an unknown code."""
    if code in Reason.__members__:
        return view.reason_short(code)  # not what to do: that was then
    if view.knows(f"cause.{code}"):
        return str(view.t(f"cause.{code}").striptags())
    return catalogue.proxy_failure(view.language, code) if code.partition(":")[0] in ProxyFailure.__members__ else ""


def proxy_failure(view: Locale, stored: str) -> Markup:
    return bdi(catalogue.proxy_failure(view.language, stored) or "—")


def message_note(view: Locale, code: str, status: str) -> str:
    """Return the note of a step in a message's timeline, which led to this status."""
    if status != MessageStatus.UNKNOWN and view.knows(f"note.{code}"):
        return str(view.t(f"note.{code}").striptags())
    return catalogue.message_failure(view.language, code, status) or code


def retry_question(view: Locale, reason: str | None) -> str:
    """Return what to ask before a retry that may reach its recipient twice; empty for one that cannot."""
    return str(view.t("message.retry_ask").striptags()) if reason in FREEING else ""


def delivery_note(view: Locale, note: str) -> Markup:
    """Return why an event was not delivered to a webhook."""
    if note.startswith("HTTP_"):
        return view.t("delivery.answered", status=ltr(note.removeprefix("HTTP_")))
    if view.knows(f"error.{note}"):
        return view.t(f"error.{note}")
    if note == "DISABLED":
        return view.t("settings.disabled")
    if note.endswith(("Timeout", "TimeoutError")):
        return view.t("delivery.no_answer")
    return view.t("delivery.unreachable") if note.startswith("Connect") else view.t("delivery.broke_off")


def _text_or(view: Locale, name: str, otherwise: str) -> Markup:
    return view.t(name) if view.knows(name) else bdi(otherwise)
