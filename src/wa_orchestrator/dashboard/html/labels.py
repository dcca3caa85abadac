"""Says in a person's language what records keep in words for programs: who did something, what, and why.

What it does not know is shown as it stands: a new word is better than none. Tests look for those that are missing here.
"""

import re
from typing import Final

from markupsafe import Markup

from wa_orchestrator.dashboard.fleet.snapshot import Snapshot
from wa_orchestrator.dashboard.html.locale import Tongue, bdi, ltr
from wa_orchestrator.domain.session_reasons import Reason

#: Why a check of a proxy failed, as `orchestrator.checks` and `domain.proxy` say it, and the name of our text.
_PROXY_FAILURES: Final = (
    (re.compile(r"no answer within (?P<s>[\d.]+) s"), "no_answer"),
    (re.compile(r"it closed the connection"), "closed"),
    (re.compile(r"it cannot be reached \((?P<what>.*)\)"), "unreachable"),
    (re.compile(r"it did not connect: (?P<what>.*)"), "no_way_on"),
    (re.compile(r"it does not speak SOCKS5"), "not_socks5"),
    (re.compile(r"it wants another kind of login"), "other_login"),
    (re.compile(r"it refused the user or the password"), "login_refused"),
    (re.compile(r"it failed our check"), "check_failed"),
    (re.compile(r"it passed our check, but failed its sessions twice within 5 minutes"), "struck_out"),
)
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
    known = proxy_failure(view, code)
    return str(known.striptags()) if known else ""


def proxy_failure(view: Tongue, said: str) -> Markup | None:
    """Say why a proxy failed; None for what is no failure that we know."""
    for pattern, name in _PROXY_FAILURES:
        match = pattern.fullmatch(said)
        if match:
            return view.t(
                f"proxy.why.{name}", **{key: _detail(view, value) for key, value in match.groupdict().items()}
            )
    return None


def proxy_error(view: Tongue, said: str) -> Markup:
    """Say why a proxy failed, in any case."""
    return proxy_failure(view, said) or bdi(said)


def _detail(view: Tongue, said: str) -> Markup:
    """A SOCKS5 proxy's own words; a system's are left as they are."""
    return _or(view, f"proxy.reply.{said.replace(' ', '_')}", said)


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
