"""Actions of the pages: each is a call of the product's own API as the logged-in person.

A form names its action, and `ACTIONS` maps it to a call. The result is a toast, and for some actions a page to go to or
a secret to show. For several selected sessions there is one call each, and the toast counts them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.datastructures import FormData

from wa_orchestrator.dashboard.html.labels import proxy_failure
from wa_orchestrator.dashboard.html.locale import Locale, bdi, ltr
from wa_orchestrator.dashboard.internal_api import ApiResponse
from wa_orchestrator.errors import Refused

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API."""

    method: str
    path: str
    json: Any = None


@dataclass(frozen=True, slots=True)
class Action:
    """Converts a form to a call; `go` is the page to open afterwards."""

    call: Callable[[Form], Call]
    go: Callable[[Form, Any], str] | None = None
    each: str = ""
    """The field that may occur several times: one call for each value."""


def _path(template: str, form: Form, **names: str) -> str:
    return template.format(**{name: quote(form.get(field, ""), safe="") for name, field in names.items()})


def _session(verb: str) -> Action:
    return Action(lambda form: Call("POST", _path(f"/api/sessions/{{id}}/{verb}", form, id="id")), each="id")


def _starting(verb: str) -> Action:
    """Return a start or restart; the form of a banned session carries the confirmation."""

    def call(form: Form) -> Call:
        body = {"confirm": form["confirm"]} if form.get("confirm") else None
        return Call("POST", _path(f"/api/sessions/{{id}}/{verb}", form, id="id"), body)

    return Action(call, each="id")


def _provision(form: Form) -> Call:
    fields = {"label": "label", "phone": "phone", "proxy": "proxy", "pairing": "pairing"}
    return Call("POST", "/api/sessions/provision", {key: form[name] for name, key in fields.items() if form.get(name)})


def _delete(form: Form) -> Call:
    queued = "reroute" if form.get("queued") == "reroute" else "cancel"
    return Call("DELETE", _path("/api/sessions/{id}", form, id="id") + f"?queued={queued}")


def _pairing(form: Form) -> Call:
    body = {"phone": form["phone"]} if form.get("phone") else {}
    return Call("POST", _path("/api/sessions/{id}/pairing-code", form, id="id"), body)


def _to_the_code(form: Form, _body: Any) -> str:
    """Return the page with the code; the phone is in the address because nothing else stores it."""
    return f"/scan?{urlencode({'id': form.get('id', ''), 'phone': form.get('phone', '')})}"


def _send(form: Form) -> Call:
    fields = {"to": "to", "message": "message", "session": "sessionId", "reference": "reference"}
    body: dict[str, Any] = {key: form[name] for name, key in fields.items() if form.get(name, "").strip()}
    if form.get("defer"):
        body["onLimit"] = "defer"
    if form.get("key"):
        body["idempotencyKey"] = form["key"]
    return Call("POST", "/api/v1/send", body)


def _limits(form: Form) -> Call:
    body: dict[str, Any] = {
        key: int(form[name])
        for name, key in {"per_day": "perDay", "per_minute": "perMinute"}.items()
        if form.get(name, "").strip().isdigit()
    }
    if form.get("acknowledge"):
        body["acknowledgeRisk"] = True
    return Call("PUT", _path("/api/anti-ban/sessions/{id}/limits", form, id="id"), body)


def _hold(form: Form) -> Call:
    target: dict[str, Any] = {"all": True}
    if form.get("scope") == "session":
        target = {"sessionId": form.get("id", "")}
    if form.get("scope") == "group":
        target = {"group": form.get("id", "")}
    return Call("POST", "/api/anti-ban/holds", target | ({"why": form["why"]} if form.get("why") else {}))


def _resume(form: Form) -> Call:
    if form.get("scope", "all") == "all":
        return Call("DELETE", "/api/anti-ban/holds/all")
    return Call("DELETE", _path("/api/anti-ban/holds/{scope}:{id}", form, scope="scope", id="id"))


def _webhook(form: Form) -> Call:
    events = [each for each in form.get("types", "").replace(",", " ").split() if each]
    return Call("POST", "/api/v1/webhooks", {"url": form.get("url", "")} | ({"events": events} if events else {}))


def _key(form: Form) -> Call:
    return Call("POST", "/api/v1/keys", {"name": form.get("name", ""), "scopes": form.get("scopes", "").split(",")})


ACTIONS: Final[dict[str, Action]] = {
    "provision": Action(_provision, go=lambda _, body: f"/scan?id={quote(body['sessionId'])}"),
    "restart": _starting("restart"),
    "stop": _session("stop"),
    "start": _starting("start"),
    "logout": _session("logout"),
    "new-code": Action(
        lambda form: Call("POST", _path("/api/sessions/{id}/logout", form, id="id")),
        go=lambda form, _: f"/scan?id={quote(form.get('id', ''))}",
    ),
    "delete": Action(_delete, each="id"),
    "undelete": Action(lambda form: Call("POST", _path("/api/v1/trash/{id}/restore", form, id="trash"))),
    "pairing": Action(_pairing, go=_to_the_code),
    "hold": Action(_hold, each="id"),
    "resume": Action(_resume, each="id"),
    "proxy-add": Action(lambda form: Call("POST", "/api/v1/proxies", {"url": form.get("url", "").strip()})),
    "proxy-import": Action(lambda form: Call("POST", "/api/v1/proxies/import", {"text": form.get("text", "")})),
    "proxy-check": Action(lambda form: Call("POST", _path("/api/v1/proxies/{id}/check", form, id="id")), each="id"),
    "proxy-reinstate": Action(lambda form: Call("POST", _path("/api/v1/proxies/{id}/reinstate", form, id="id"))),
    "proxy-remove": Action(lambda form: Call("DELETE", _path("/api/v1/proxies/{id}", form, id="id"))),
    "proxy-drain": Action(lambda form: Call("DELETE", _path("/api/v1/proxies/{id}?drain=true", form, id="id"))),
    "send": Action(_send, go=lambda _, body: f"/messages?id={quote(body['messageId'])}"),
    "cancel": Action(lambda form: Call("DELETE", _path("/api/v1/messages/{id}", form, id="id"))),
    "retry": Action(lambda form: Call("POST", _path("/api/v1/messages/{id}/retry", form, id="id"))),
    "empty-queue": Action(lambda form: Call("DELETE", _path("/api/v1/queue/{id}", form, id="id"))),
    "limits": Action(_limits),
    "limits-reset": Action(lambda form: Call("DELETE", _path("/api/anti-ban/sessions/{id}/limits", form, id="id"))),
    "opt-out": Action(lambda form: Call("POST", "/api/v1/opt-outs", {"phone": form.get("phone", "")})),
    "opt-in": Action(lambda form: Call("DELETE", _path("/api/v1/opt-outs/{id}", form, id="phone"))),
    "key-make": Action(_key),
    "key-revoke": Action(lambda form: Call("DELETE", _path("/api/v1/keys/{id}", form, id="id"))),
    "webhook-add": Action(_webhook),
    "webhook-enable": Action(lambda form: Call("POST", _path("/api/v1/webhooks/{id}/enable", form, id="id"))),
    "webhook-replay": Action(
        lambda form: Call(
            "POST", _path("/api/v1/webhooks/{id}/deliveries/{number}/replay", form, id="id", number="number")
        )
    ),
    "webhook-remove": Action(lambda form: Call("DELETE", _path("/api/v1/webhooks/{id}", form, id="id"))),
    "alert-test": Action(lambda _: Call("POST", "/api/v1/dashboard/test-alert")),
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


def find(name: str) -> Action:
    """Return an action by its name, or raise `Refused`."""
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
    name: str, action: Action, forms_sent: Sequence[Form], responses: Sequence[ApiResponse], locale: Locale
) -> Outcome:
    """Return the result of an action."""
    if len(responses) > 1:
        return _bulk_outcome(name, forms_sent, responses, locale)
    form, response = forms_sent[0], responses[0]
    if not response.ok:
        return Outcome("error", error_message(response, locale, name))
    body = response.body or {}
    go = action.go(form, body) if action.go else ""
    text = locale.t(f"done.{name}", **_values(form, body)) if locale.knows(f"done.{name}") else locale.t("done.done")
    if name == "proxy-import":
        return _import_outcome(form, body, locale)
    if name == "proxy-check" and body.get("status") == "BAD":
        why = proxy_failure(locale, body.get("lastFailure") or "")
        return Outcome("error", locale.t("done.proxy-check-bad", why=why, id=ltr(form["id"])))
    return Outcome("ok", text, go=go, secret=str(body.get("key") or body.get("code") or body.get("secret") or ""))


def _values(form: Form, body: Mapping[str, Any]) -> dict[str, object]:
    session = body.get("sessionId") or form.get("id", "")
    return {
        "id": ltr(session or body.get("id", "")),
        "name": bdi(form.get("name_") or form.get("label") or session),
        "n": body.get("cancelled", ""),
        "latency": ltr(f"{body.get('latencyMs')} ms"),
        "phone": ltr(form.get("phone", "")),
    }


def _bulk_outcome(name: str, forms_sent: Sequence[Form], responses: Sequence[ApiResponse], locale: Locale) -> Outcome:
    good = len([response for response in responses if response.ok])
    lines = [
        Markup("{}: {}").format(bdi(form.get("id", "")), error_message(response, locale, name))
        for form, response in zip(forms_sent, responses, strict=True)
        if not response.ok
    ]
    text = locale.n("done.many", good, what=locale.t(f"many.{name}") if locale.knows(f"many.{name}") else "")
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
    """Return an error in the person's language. In English it is the API's message, which has the details."""
    name = f"error.{code}"
    if locale.language != "en" and locale.knows(name):
        return locale.t(name, fields=locale.t("field.something"))
    return Markup("{}").format(message or locale.t("error.unknown"))
