"""Actions of the pages: each is a call of the product's own API as the logged-in person.

A form names its action, and `ACTIONS` maps it to a call. The result is a toast, and for some actions a page to go to or
a secret to show. For several selected sessions there is one call each, and the toast counts them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.datastructures import FormData

from wa_orchestrator.dashboard.html.labels import proxy_failure
from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.domain import whole_number
from wa_orchestrator.errors import Refused

Form = Mapping[str, str]
Body = dict[str, Any]
#: What is said to a program only: a request, a field of one, its key.
_FOR_PROGRAMS: Final = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE) /|/api/|[?&]\w+=|\b[a-z]+[A-Z]\w*|[{}`]|API key")


@dataclass(frozen=True, slots=True)
class Action:
    """A call of the API, made of a form; `{name}` in the path stands for a field."""

    method: str
    path: str | Callable[[Form], str]
    body: Callable[[Form], Body | None] = lambda _: None
    go: Callable[[Form, Any], str] = lambda _form, _response: ""
    """The page to open afterwards."""
    each: str = ""
    """The field that may occur several times: one call for each value."""

    def call(self, form: Form) -> tuple[str, str, Body | None]:
        path = self.path(form) if callable(self.path) else self.path
        fields = defaultdict(str, {name: quote(value, safe="") for name, value in form.items()})
        return self.method, path.format_map(fields), self.body(form)


def _filled(**names: str) -> Callable[[Form], Body]:
    """Return a body with the fields that are filled in: `field="nameInTheApi"`."""
    return lambda form: {name: form[field] for field, name in names.items() if form.get(field, "").strip()}


def _confirmation(form: Form) -> Body | None:
    """Return the body of a start; the form of a banned session carries the confirmation."""
    return {"confirm": form["confirm"]} if form.get("confirm") else None


def _delete_path(form: Form) -> str:
    return f"/api/sessions/{{id}}?queued={'reroute' if form.get('queued') == 'reroute' else 'cancel'}"


def _hold_path(form: Form) -> str:
    return "/api/anti-ban/holds/" + ("all" if form.get("scope", "all") == "all" else "{scope}:{id}")


def _send(form: Form) -> Body:
    fields = _filled(to="to", message="message", session="sessionId", reference="reference", key="idempotencyKey")
    return fields(form) | ({"onLimit": "defer"} if form.get("defer") else {})


def _reply(form: Form) -> Body:
    """Return an answer: before everything else that waits, and tomorrow where today's limit is reached."""
    body: Body = {"to": form.get("to", ""), "sessionId": form.get("session", ""), "priority": 1, "onLimit": "defer"}
    body |= _filled(key="idempotencyKey", quote="replyTo")(form)
    if not form.get("upload"):
        return body | {"message": form.get("message", "")}
    return body | {"media": _filled(upload="upload", filename="filename", caption="caption")(form)}


def _conversation_facts(form: Form) -> Body:
    """Return what people noted. The page of contacts does not say who answers, and leaves that as it is."""
    noted: Body = {"notes": form.get("notes", ""), "tags": _names(form.get("tags", ""))}
    return noted | ({"assignedTo": form["assigned"]} if "assigned" in form else {})


def _limits(form: Form) -> Body:
    names = {"per_day": "perDay", "per_minute": "perMinute"}
    numbers = {key: whole_number.parse(form.get(name, "").strip()) for name, key in names.items()}
    body: Body = {key: number for key, number in numbers.items() if number is not None}
    return body | ({"acknowledgeRisk": True} if form.get("acknowledge") else {})


def _tag_limits(form: Form) -> Body:
    """Return the limits of a tag: what is left empty stays by the preset. Pauses are typed in seconds."""
    pauses = {"pause_min": "pauseMinMs", "pause_max": "pauseMaxMs"}
    typed = {key: whole_number.parse(form.get(name, "").strip()) for name, key in pauses.items()}
    body: Body = {key: seconds * 1000 for key, seconds in typed.items() if seconds is not None}
    return _filled(tag="tag", opens="opens", closes="closes")(form) | body | _limits(form)


def _hold(form: Form) -> Body:
    targets: dict[str, Body] = {"session": {"sessionId": form.get("id", "")}, "group": {"group": form.get("id", "")}}
    return targets.get(form.get("scope", ""), {"all": True}) | ({"why": form["why"]} if form.get("why") else {})


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _key(form: Form) -> Body:
    days = whole_number.parse(form.get("days", "").strip())
    expiry: Body = {} if days is None else {"expiresInDays": days}
    return {
        "name": form.get("name", ""),
        "scopes": _names(form.get("scopes", "")),
        "labels": _names(form.get("labels", "")),
        "sessions": _names(form.get("sessions", "")),
    } | expiry


def _person(form: Form) -> Body:
    return {"name": form.get("name", ""), "role": form.get("role", ""), "labels": _names(form.get("labels", ""))}


def _webhook(form: Form) -> Body:
    events = form.get("types", "").replace(",", " ").split()
    return {"url": form.get("url", "")} | ({"events": events} if events else {})


def _session_change(form: Form) -> Body:
    """Return all fields of the form: what is empty is taken away. The proxy stays unless another one was chosen."""
    names = ("label", "notes", "timezone")
    body: Body = {name: form.get(name, "").strip() or None for name in names} | {"tags": _names(form.get("tags", ""))}
    return body | ({"proxy": form["proxy"], "proxyMove": form.get("proxy_move")} if form.get("proxy") else {})


def _proxy_change(form: Form) -> Body:
    names = {"name": "name", "provider": "provider", "country": "country", "expires_on": "expiresOn"}
    body: Body = {name: form.get(field, "").strip() or None for field, name in names.items()}
    return body | ({"password": form["password"]} if form.get("password") else {})


def _webhook_change(form: Form) -> Body:
    names = {"types": "events", "sessions": "sessions", "labels": "labels"}
    return {"url": form.get("url", "")} | {name: _names(form.get(field, "")) for field, name in names.items()}


def _restore(form: Form) -> Body:
    """Return the body of a restore: chosen sessions only where some were to be chosen."""
    body: Body = {"identity": form["identity"]} if form.get("identity", "").strip() else {}
    if form.get("what") == "some" and form.get("listed"):
        body["sessions"] = [each for each in form.get("sessions", "").split(",") if each]
    return body


def _campaign(form: Form) -> Body:
    names = {"name": "name", "text": "text", "csv": "csv", "consent": "consent"}
    body: Body = {name: form.get(field, "").strip() for field, name in names.items()}
    chosen = {"tags": _names(form.get("tags", "")), "withCold": bool(form.get("with_cold"))}
    return body | chosen | {"skipBadLines": bool(form.get("skip"))}


def _to_the_code(form: Form, _response: Any) -> str:
    """Return the page with the code; the phone is in the address because nothing else stores it."""
    return f"/scan?{urlencode({'id': form.get('id', ''), 'phone': form.get('phone', '')})}"


def _to_group(form: Form, made: Any) -> str:
    return f"/sessions/{quote(form.get('session', ''))}/groups?{urlencode({'group': made['id']})}"


_GROUP: Final = "/api/sessions/{session}/groups/{group}"
#: What these answer with is on the page afterwards, and no secret.
_SHOWN: Final = frozenset({"group-link", "passkey", "passkey-confirm"})
_CAMPAIGN_ACTS: Final = ("start", "pause", "resume", "cancel")
ACTIONS: Final[dict[str, Action]] = {
    "provision": Action(
        "POST",
        "/api/sessions/provision",
        _filled(label="label", phone="phone", proxy="proxy", pairing="pairing", presence="presence", profile="profile"),
        go=lambda _, session: f"/scan?id={quote(session['sessionId'])}",
    ),
    "restart": Action("POST", "/api/sessions/{id}/restart", _confirmation, each="id"),
    "stop": Action("POST", "/api/sessions/{id}/stop", each="id"),
    "presence": Action("PUT", "/api/sessions/{id}/presence", lambda form: {"presence": form.get("presence") or None}),
    "session-change": Action("PATCH", "/api/sessions/{id}", _session_change),
    "start": Action("POST", "/api/sessions/{id}/start", _confirmation, each="id"),
    "confirm-phone": Action("POST", "/api/sessions/{id}/confirm-phone", _filled(phone="phone")),
    "logout": Action("POST", "/api/sessions/{id}/logout", each="id"),
    "new-code": Action("POST", "/api/sessions/{id}/logout", go=lambda form, _: f"/scan?id={quote(form.get('id', ''))}"),
    "delete": Action("DELETE", _delete_path, each="id"),
    "undelete": Action("POST", "/api/v1/trash/{trash}/restore"),
    "passkey": Action("POST", "/api/sessions/{id}/passkey", _filled(answer="answer")),
    "passkey-confirm": Action("POST", "/api/sessions/{id}/passkey/confirm"),
    "scan-link": Action("POST", "/api/sessions/{id}/scan-link"),
    "pairing": Action("POST", "/api/sessions/{id}/pairing-code", _filled(phone="phone"), go=_to_the_code),
    "hold": Action("POST", "/api/anti-ban/holds", _hold, each="id"),
    "resume": Action("DELETE", _hold_path, each="id"),
    "profile-add": Action("POST", "/api/v1/inventory/profiles", _filled(name="name")),
    "profile-remove": Action("DELETE", "/api/v1/inventory/profiles?name={name}"),
    "proxy-add": Action("POST", "/api/v1/proxies", lambda form: {"url": form.get("url", "").strip()}),
    "proxy-import": Action("POST", "/api/v1/proxies/import", lambda form: {"text": form.get("text", "")}),
    "proxy-change": Action("PATCH", "/api/v1/proxies/{id}", _proxy_change),
    "proxy-check": Action("POST", "/api/v1/proxies/{id}/check", each="id"),
    "proxy-reinstate": Action("POST", "/api/v1/proxies/{id}/reinstate"),
    "proxy-remove": Action("DELETE", "/api/v1/proxies/{id}"),
    "proxy-drain": Action("DELETE", "/api/v1/proxies/{id}?drain=true"),
    "send": Action("POST", "/api/v1/send", _send, go=lambda _, sent: f"/messages?id={quote(sent['messageId'])}"),
    "reply": Action("POST", "/api/v1/send", _reply),
    "conversation-facts": Action("PATCH", "/api/v1/conversations/{id}", _conversation_facts),
    "conversation-close": Action("PATCH", "/api/v1/conversations/{id}", lambda _: {"state": "closed"}),
    "conversation-open": Action("PATCH", "/api/v1/conversations/{id}", lambda _: {"state": "open"}),
    "conversation-read": Action(
        "POST",
        "/api/v1/conversations/{id}/read",
        lambda form: _filled(until="until")(form) | {"tell": bool(form.get("tell"))},
    ),
    "message-react": Action("POST", "/api/v1/messages/{id}/reaction", lambda form: {"emoji": form.get("emoji", "")}),
    "message-edit": Action("POST", "/api/v1/messages/{id}/edit", _filled(text="text")),
    "message-delete": Action("POST", "/api/v1/messages/{id}/delete"),
    "conversation-unread": Action("POST", "/api/v1/conversations/{id}/read", lambda _: {"unread": True}),
    "group-create": Action("POST", "/api/sessions/{session}/groups", _filled(subject="subject"), go=_to_group),
    "group-rename": Action("PATCH", _GROUP, _filled(subject="subject")),
    "group-approval": Action("PATCH", _GROUP, lambda form: {"joinApproval": bool(form.get("approval"))}),
    "group-leave": Action("POST", f"{_GROUP}/leave", go=lambda form, _: f"/sessions/{quote(form['session'])}/groups"),
    "group-remove": Action("DELETE", f"{_GROUP}/members/{{member}}"),
    "group-link": Action("POST", f"{_GROUP}/link"),
    "group-answer": Action("POST", f"{_GROUP}/join-requests", _filled(member="member", answer="answer")),
    "cancel": Action("DELETE", "/api/v1/messages/{id}"),
    "retry": Action("POST", "/api/v1/messages/{id}/retry"),
    "confirm": Action("POST", "/api/v1/messages/{id}/confirm"),
    "empty-queue": Action("DELETE", "/api/v1/queue/{id}"),
    "limits": Action("PUT", "/api/anti-ban/sessions/{id}/limits", _limits),
    "limits-reset": Action("DELETE", "/api/anti-ban/sessions/{id}/limits"),
    "tag-limits": Action("PUT", "/api/anti-ban/tag-limits", _tag_limits),
    "tag-limits-reset": Action("DELETE", "/api/anti-ban/tag-limits?tag={tag}"),
    "opt-out": Action("POST", "/api/v1/opt-outs", lambda form: {"phone": form.get("phone", "")}),
    "opt-out-import": Action("POST", "/api/v1/opt-outs/import", lambda form: {"text": form.get("text", "")}),
    "opt-in": Action("DELETE", "/api/v1/opt-outs/{phone}"),
    "key-make": Action("POST", "/api/v1/keys", _key),
    "key-revoke": Action("DELETE", "/api/v1/keys/{id}"),
    "person-add": Action("POST", "/api/v1/people", _person),
    "person-link": Action("POST", "/api/v1/people/{id}/link"),
    "person-unfactor": Action("DELETE", "/api/v1/people/{id}/second-factor"),
    "person-delete": Action("DELETE", "/api/v1/people/{id}"),
    "login-end": Action("DELETE", "/api/v1/logins/{id}"),
    "webhook-add": Action("POST", "/api/v1/webhooks", _webhook),
    "webhook-change": Action("PATCH", "/api/v1/webhooks/{id}", _webhook_change),
    "webhook-enable": Action("POST", "/api/v1/webhooks/{id}/enable"),
    "webhook-replay": Action("POST", "/api/v1/webhooks/{id}/deliveries/{number}/replay"),
    "webhook-remove": Action("DELETE", "/api/v1/webhooks/{id}"),
    "backup-create": Action("POST", "/api/v1/backups/create"),
    "backup-check": Action("POST", "/api/v1/backups/restore/{id}", lambda form: _restore(form) | {"dryRun": True}),
    # The dialog has said what goes back, and how many.
    "backup-restore": Action(
        "POST", "/api/v1/backups/restore/{id}", lambda form: _restore(form) | {"acceptOlder": True}
    ),
    "campaign-create": Action(
        "POST", "/api/v1/campaigns", _campaign, go=lambda _, made: f"/campaigns/{quote(made['id'])}"
    ),
    **{f"campaign-{act}": Action("POST", f"/api/v1/campaigns/{{id}}/{act}") for act in _CAMPAIGN_ACTS},
    "job-run": Action("POST", "/api/v1/jobs/{id}/run"),
    "node-drain": Action("POST", "/api/v1/nodes/{id}/drain"),
    "node-activate": Action("POST", "/api/v1/nodes/{id}/activate"),
    "session-move": Action("POST", "/api/sessions/{id}/move", _filled(to="to")),
    "alert-test": Action("POST", "/api/v1/dashboard/test-alert"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action: a state for its colour, a sentence, further lines, and a page to go to."""

    state: str
    text: Markup
    lines: Sequence[Markup] = ()
    go: str = ""
    secret: str = ""
    """Shown only once: a key, a pairing code."""
    left: str | None = None
    """The lines of a list that were refused, to be corrected; None leaves the field as it is."""
    undo: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Markup] = field(default_factory=dict)
    """Parts of the open dialog that the answer replaces, by id. Then nothing else happens."""


def find(name: str) -> Action:
    action = ACTIONS.get(name)
    if action is None:
        raise Refused("NO_SUCH_ACTION", "There is no such action. Reload the page.", 404)
    return action


def forms(action: Action, data: FormData) -> list[Form]:
    """Split form data into one form per call; fields that occur several times are joined with commas."""
    plain = {name: ",".join(str(each) for each in data.getlist(name)) for name in data}
    if not action.each or len(data.getlist(action.each)) < 2:
        return [plain]
    return [plain | {action.each: str(each)} for each in data.getlist(action.each)]


def outcome_of(
    name: str,
    action: Action,
    forms_sent: Sequence[Form],
    responses: Sequence[ApiResponse],
    locale: Locale,
    *,
    known_as: Callable[[str], Markup] = ltr,
) -> Outcome:
    """Return what came of an action; `known_as` names a session or a proxy by its id."""
    if len(responses) > 1:
        return _bulk_outcome(name, forms_sent, responses, locale, known_as)
    form, response = forms_sent[0], responses[0]
    if not response.ok:
        return Outcome("error", error_message(response, locale, name), _bad_lines(response, locale))
    body = response.body or {}
    if name == "proxy-import":
        return _import_outcome(form, body, locale)
    if name == "opt-out-import":
        return _opt_outs_outcome(body, locale)
    if name == "proxy-check" and body.get("status") == "BAD":
        why = proxy_failure(locale, body.get("lastFailure") or "")
        return Outcome("error", locale.t("done.proxy-check-bad", why=why, id=known_as(form["id"])))
    secret = str(body.get("key") or body.get("code") or body.get("secret") or body.get("link") or "")
    shown = "" if name in _SHOWN else secret
    done = locale.t(f"done.{name}", **_values(form, body, known_as))
    if name in ("send", "reply"):
        done = _with_warnings(done, body, locale)
    return Outcome("ok", done, go=action.go(form, body), secret=shown)


def _with_warnings(done: Markup, body: Mapping[str, Any], locale: Locale) -> Markup:
    """Return what came of a message, and why writing to its recipient may harm the number."""
    told = [
        locale.t(f"warning.{each['code']}", count=locale.number(each.get("count") or 0))
        for each in body.get("warnings") or ()
        if locale.knows(f"warning.{each['code']}")
    ]
    return Markup(" ").join([done, *(locale.t("warning.said", why=each) for each in told)])


def _bad_lines(response: ApiResponse, locale: Locale) -> list[Markup]:
    """Return the lines of a campaign's file that have a problem, in the person's language."""
    if response.code != "CAMPAIGN_LINES":
        return []
    return [
        locale.t(f"campaigns.line_{each['code']}", line=locale.number(each["line"]), value=bdi(each["value"]))
        for each in response.errors
    ]


def _values(form: Form, body: Mapping[str, Any], known_as: Callable[[str], Markup]) -> dict[str, object]:
    session = body.get("sessionId") or form.get("id", "")
    return {
        "id": known_as(session or body.get("id", "")),
        "name": bdi(form.get("name_") or form.get("label") or session),
        "n": body.get("cancelled", ""),
        "latency": ltr(f"{body.get('latencyMs')} ms"),
        "phone": ltr(form.get("phone", "")),
    }


def _bulk_outcome(
    name: str,
    forms_sent: Sequence[Form],
    responses: Sequence[ApiResponse],
    locale: Locale,
    known_as: Callable[[str], Markup],
) -> Outcome:
    lines = [
        Markup("{}: {}").format(known_as(form.get("id", "")), error_message(response, locale, name))
        for form, response in zip(forms_sent, responses, strict=True)
        if not response.ok
    ]
    what = locale.t(f"many.{name}") if locale.knows(f"many.{name}") else ""
    text = locale.n("done.many", len(responses) - len(lines), what=what)
    return Outcome("error" if lines else "ok", text, lines)


def _import_outcome(form: Form, body: Mapping[str, Any], locale: Locale) -> Outcome:
    """Count what was added; refused lines stay in the field and are numbered as they stand there."""
    errors = body.get("errors") or []
    typed = form.get("text", "").splitlines()
    lines = [
        locale.t("proxies.line", n=number, why=error_sentence(each["code"], each["message"], locale))
        for number, each in enumerate(errors, start=1)
    ]
    text = locale.n("done.proxy-import", len(body.get("added") or []))
    if body.get("known"):
        text = Markup("{} {}").format(text, locale.n("proxies.known", len(body["known"])))
    left = "\n".join(typed[each["line"] - 1] for each in errors)
    return Outcome("error" if errors else "ok", text, lines, left=left)


def _opt_outs_outcome(body: Mapping[str, Any], locale: Locale) -> Outcome:
    errors = body.get("errors") or []
    lines = [locale.t("files.line", line=locale.number(each["line"])) for each in errors]
    text = locale.t(
        "done.opt-out-import", n=locale.number(body["added"]), known=locale.number(body["known"]),
        cancelled=locale.number(body["cancelled"]),
    )  # fmt: skip
    return Outcome("error" if errors else "ok", text, lines)


def error_message(response: ApiResponse, locale: Locale, action: str = "") -> Markup:
    """Return why a call failed, in the person's language where there is a text."""
    if locale.knows(f"error.{action}.{response.code}"):  # the API's message does not fit this action
        return locale.t(f"error.{action}.{response.code}")
    if response.code == "VALIDATION_FAILED":
        return _invalid_fields(response, locale)
    return error_sentence(response.code, response.message, locale)


def _invalid_fields(response: ApiResponse, locale: Locale) -> Markup:
    """Name the invalid fields as the form does; the API's messages about them are English."""
    names = dict.fromkeys(path.partition(".")[0] for path in response.paths)
    known = [locale.t(f"field.{name}" if locale.knows(f"field.{name}") else "field.something") for name in names]
    text = locale.t("error.VALIDATION_FAILED", fields=Markup(", ").join(known or [locale.t("field.something")]))
    return Markup("{} {}").format(text, response.message) if locale.language == "en" else text


def error_sentence(code: str, message: str, locale: Locale) -> Markup:
    """Return an error in the person's language.

    In English it is the API's message, which has the details, unless that tells a program what to send.
    """
    name = f"error.{code}"
    if locale.knows(name) and (locale.language != "en" or _FOR_PROGRAMS.search(message)):
        return locale.t(name, fields=locale.t("field.something"))
    return Markup("{}").format(message or locale.t("error.unknown"))
