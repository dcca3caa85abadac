"""What buttons do: each is one call of the product's own API, made as the person who pressed it.

A form names its action; the table below says which call that is. The answer is a toast, and where it helps a place to
go to or something to show. Several picked sessions are one call each, and the answer counts them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.datastructures import FormData

from wa_orchestrator.dashboard.html.labels import proxy_failure
from wa_orchestrator.dashboard.html.locale import Tongue, bdi, ltr
from wa_orchestrator.dashboard.internal_api import Answer
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
    """How a form becomes a call, and where a person goes after it."""

    call: Callable[[Form], Call]
    go: Callable[[Form, Any], str] | None = None
    each: str = ""
    """The name of the field that may come several times, one call for each."""


def _path(template: str, form: Form, **names: str) -> str:
    return template.format(**{name: quote(form.get(field, ""), safe="") for name, field in names.items()})


def _session(verb: str) -> Action:
    return Action(lambda form: Call("POST", _path(f"/api/sessions/{{id}}/{verb}", form, id="id")), each="id")


def _provision(form: Form) -> Call:
    said = {"label": "label", "phone": "phone", "proxy": "proxy", "pairing": "pairing"}
    return Call("POST", "/api/sessions/provision", {key: form[name] for name, key in said.items() if form.get(name)})


def _delete(form: Form) -> Call:
    queued = "reroute" if form.get("queued") == "reroute" else "cancel"
    return Call("DELETE", _path("/api/sessions/{id}", form, id="id") + f"?queued={queued}")


def _pairing(form: Form) -> Call:
    body = {"phone": form["phone"]} if form.get("phone") else {}
    return Call("POST", _path("/api/sessions/{id}/pairing-code", form, id="id"), body)


def _to_the_code(form: Form, _body: Any) -> str:
    """The card shows the code; the address says for which phone, which nothing else remembers."""
    return f"/scan?{urlencode({'id': form.get('id', ''), 'phone': form.get('phone', '')})}"


def _send(form: Form) -> Call:
    said = {"to": "to", "message": "message", "session": "sessionId", "reference": "reference"}
    body: dict[str, Any] = {key: form[name] for name, key in said.items() if form.get(name, "").strip()}
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
    "restart": _session("restart"),
    "stop": _session("stop"),
    "start": _session("start"),
    "logout": _session("logout"),
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
    """What a person is told: a state for its colour, a sentence, further lines, and where to go."""

    state: str
    text: Markup
    lines: Sequence[Markup] = ()
    go: str = ""
    secret: str = ""
    """Something that is shown this once: a key, a pairing code."""
    left: str | None = None
    """Of a text that was typed, what was refused and may be corrected; None leaves it as it is."""
    undo: Mapping[str, str] = field(default_factory=dict)


def find(name: str) -> Action:
    """Give an action by its name, or refuse."""
    action = ACTIONS.get(name)
    if action is None:
        raise Refused("NO_SUCH_ACTION", "There is no such button. Load the page again.", 404)
    return action


def forms(action: Action, data: FormData) -> list[Form]:
    """Split what was sent into one form per call; fields that come several times are joined with commas."""
    plain = {name: ",".join(str(each) for each in data.getlist(name)) for name in data}
    if not action.each or len(data.getlist(action.each)) < 2:
        return [plain]
    return [plain | {action.each: str(each)} for each in data.getlist(action.each)]


def told(name: str, action: Action, asked: Sequence[Form], answers: Sequence[Answer], tongue: Tongue) -> Outcome:
    """Say what came of it."""
    if len(answers) > 1:
        return _counted(name, asked, answers, tongue)
    form, answer = asked[0], answers[0]
    if not answer.ok:
        return Outcome("error", complaint(answer, tongue, name))
    body = answer.body or {}
    go = action.go(form, body) if action.go else ""
    text = tongue.t(f"done.{name}", **_facts(form, body)) if tongue.knows(f"done.{name}") else tongue.t("done.done")
    if name == "proxy-import":
        return _imported(form, body, tongue)
    if name == "proxy-check" and body.get("status") == "BAD":
        why = proxy_failure(tongue, body.get("lastFailure") or "")
        return Outcome("error", tongue.t("done.proxy-check-bad", why=why, id=ltr(form["id"])))
    return Outcome("ok", text, go=go, secret=str(body.get("key") or body.get("code") or body.get("secret") or ""))


def _facts(form: Form, body: Mapping[str, Any]) -> dict[str, object]:
    session = body.get("sessionId") or form.get("id", "")
    return {
        "id": ltr(session or body.get("id", "")),
        "name": bdi(form.get("name_") or form.get("label") or session),
        "n": body.get("cancelled", ""),
        "latency": ltr(f"{body.get('latencyMs')} ms"),
        "phone": ltr(form.get("phone", "")),
    }


def _counted(name: str, asked: Sequence[Form], answers: Sequence[Answer], tongue: Tongue) -> Outcome:
    good = len([answer for answer in answers if answer.ok])
    lines = [
        Markup("{}: {}").format(bdi(form.get("id", "")), complaint(answer, tongue, name))
        for form, answer in zip(asked, answers, strict=True)
        if not answer.ok
    ]
    text = tongue.n("done.many", good, what=tongue.t(f"many.{name}") if tongue.knows(f"many.{name}") else "")
    return Outcome("error" if lines else "ok", text, lines)


def _imported(form: Form, body: Mapping[str, Any], tongue: Tongue) -> Outcome:
    """Count what was added; the refused lines stay, and are numbered as they stand then."""
    errors = body.get("errors") or []
    typed = form.get("text", "").splitlines()
    lines = [
        tongue.t("proxies.line", n=number, why=translated(each["code"], each["message"], tongue))
        for number, each in enumerate(errors, start=1)
    ]
    text = tongue.n("done.proxy-import", len(body.get("added") or []))
    if body.get("known"):
        text = Markup("{} {}").format(text, tongue.n("proxies.known", len(body["known"])))
    left = "\n".join(typed[each["line"] - 1] for each in errors)
    return Outcome("error" if errors else "ok", text, lines, left=left)


def complaint(answer: Answer, tongue: Tongue, action: str = "") -> Markup:
    """Say why the API did not do it, in the person's language where we have the sentence."""
    if tongue.knows(f"error.{action}.{answer.code}"):  # the API's own sentence speaks of something else
        return tongue.t(f"error.{action}.{answer.code}")
    if answer.code == "VALIDATION_FAILED":
        return _misshapen(answer, tongue)
    return translated(answer.code, answer.message, tongue)


def _misshapen(answer: Answer, tongue: Tongue) -> Markup:
    """Name the fields that are wrong as the form names them; the API's words about them are English."""
    names = dict.fromkeys(path.partition(".")[0] for path in answer.paths)
    known = [tongue.t(f"field.{name}" if tongue.knows(f"field.{name}") else "field.something") for name in names]
    said = tongue.t("error.VALIDATION_FAILED", fields=Markup(", ").join(known or [tongue.t("field.something")]))
    return Markup("{} {}").format(said, answer.message) if tongue.language == "en" else said


def translated(code: str, message: str, tongue: Tongue) -> Markup:
    """Say a refusal in the person's language. English has the API's own sentence, which knows the particulars."""
    name = f"error.{code}"
    if tongue.language != "en" and tongue.knows(name):
        return tongue.t(name, fields=tongue.t("field.something"))
    return Markup("{}").format(message or tongue.t("error.unknown"))
