"""Every call of the API, independent of the transport."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

Json = dict[str, Any]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request. `may_repeat`: it is idempotent, so it may be sent again."""

    method: str
    path: str
    json: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    may_repeat: bool = False


def _get(path: str, **query: Any) -> ApiCall:
    return ApiCall("GET", path, query=_given(query), may_repeat=True)


def _delete(path: str, **query: Any) -> ApiCall:
    return ApiCall("DELETE", path, query=_given(query), may_repeat=True)


def _post(path: str, body: Mapping[str, Any] | None = None) -> ApiCall:
    return ApiCall("POST", path, json=None if body is None else _given(body))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _in_path(name: str) -> str:
    return quote(name, safe="")


class Calls(ABC, Generic[R]):
    """The API. `R` is the response's JSON object, or an awaitable of it."""

    @abstractmethod
    def ask(self, call: ApiCall) -> R:
        """Send a request and return the response; raise `ApiError`."""

    # -- messages

    def send(
        self,
        to: str,
        message: str | None = None,
        *,
        session_id: str | None = None,
        phone: str | None = None,
        media: Mapping[str, Any] | None = None,
        location: Mapping[str, Any] | None = None,
        priority: int | None = None,
        send_at: str | int | None = None,
        expires_at: str | int | None = None,
        on_limit: str | None = None,
        reference: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Send one message. The idempotency key makes it safe to repeat after a lost response."""
        body = {
            "to": to,
            "message": message,
            "media": media,
            "location": location,
            "sessionId": session_id,
            "phone": phone,
            "priority": priority,
            "sendAt": send_at,
            "expiresAt": expires_at,
            "onLimit": on_limit,
            "reference": reference,
        }
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        return self.ask(ApiCall("POST", "/api/v1/send", json=_given(body), headers=headers, may_repeat=True))

    def send_batch(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        spread_minutes: float | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Send up to 1,000 messages; `items` of the response has the result of each."""
        body = _given({"messages": list(messages), "spreadMinutes": spread_minutes})
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        return self.ask(ApiCall("POST", "/api/v1/send/batch", json=body, headers=headers, may_repeat=True))

    def upload(self, content: bytes, *, mimetype: str, filename: str = "") -> R:
        """Store a file for `media={"upload": …}`."""
        headers = {"Content-Type": mimetype, "X-Filename": filename.encode("ascii", "replace").decode()}
        return self.ask(ApiCall("POST", "/api/v1/uploads", content=content, headers=headers))

    def message(self, message_id: str) -> R:
        """Return a message with its timeline and what it waits for."""
        return self.ask(_get(f"/api/v1/messages/{_in_path(message_id)}"))

    def messages(
        self,
        *,
        to: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        reference: str | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> R:
        """Return a page of a search; `next` of the response is the `cursor` of the next page."""
        query = {"to": to, "sessionId": session_id, "status": status, "reference": reference, "from": since}
        return self.ask(_get("/api/v1/messages", **query, until=until, cursor=cursor, limit=limit))

    def cancel(self, message_id: str) -> R:
        """Cancel a message that no worker has claimed."""
        return self.ask(_delete(f"/api/v1/messages/{_in_path(message_id)}"))

    def retry(self, message_id: str) -> R:
        """Queue a failed message again."""
        return self.ask(_post(f"/api/v1/messages/{_in_path(message_id)}/retry"))

    def queue(self, session_id: str) -> R:
        """Return what waits for a session."""
        return self.ask(_get(f"/api/v1/queue/{_in_path(session_id)}"))

    def empty_queue(self, session_id: str) -> R:
        """Cancel everything that waits for a session."""
        return self.ask(_delete(f"/api/v1/queue/{_in_path(session_id)}"))

    def stats(self, session_id: str, *, days: int | None = None) -> R:
        """Count a session's messages by day."""
        return self.ask(_get(f"/api/v1/stats/{_in_path(session_id)}", days=days))

    # -- sessions

    def provision(
        self,
        *,
        phone: str | None = None,
        proxy: str | None = None,
        session_id: str | None = None,
        label: str | None = None,
        pairing: str | None = None,
    ) -> R:
        """Create a session and queue the start of its worker."""
        body = {"phone": phone, "proxy": proxy, "sessionId": session_id, "label": label, "pairing": pairing}
        return self.ask(_post("/api/sessions/provision", body))

    def sessions(self, **filters: str | int | None) -> R:
        """List all sessions, or those that match `status`, `proxy`, `label`, `text`."""
        return self.ask(_get("/api/sessions", **filters))

    def session(self, session_id: str) -> R:
        """Return a session with its worker and its queue."""
        return self.ask(_get(f"/api/sessions/{_in_path(session_id)}"))

    def session_status(self, session_id: str) -> R:
        """The same as `session`, by another route."""
        return self.ask(_get(f"/api/sessions/{_in_path(session_id)}/status"))

    def qr(self, session_id: str) -> R:
        """Return the QR code to scan."""
        path = f"/api/sessions/{_in_path(session_id)}/qr"
        return self.ask(ApiCall("GET", path, headers={"Accept": "application/json"}, may_repeat=True))

    def pairing_code(self, session_id: str, *, phone: str | None = None) -> R:
        """Request an 8-character code instead of a QR code."""
        return self.ask(_post(f"/api/sessions/{_in_path(session_id)}/pairing-code", {"phone": phone}))

    def session_act(self, session_id: str, act: str, *, confirm: str | None = None) -> R:
        """`start`, `stop`, `restart` or `logout` a session; a banned one starts only with `confirm="BANNED"`."""
        body = {"confirm": confirm} if confirm else None
        return self.ask(_post(f"/api/sessions/{_in_path(session_id)}/{_in_path(act)}", body))

    def delete_session(self, session_id: str, *, forget: bool | None = None, queued: str | None = None) -> R:
        """Delete a session; `queued` is `cancel` (default) or `reroute`."""
        flag = None if forget is None else str(forget).lower()
        return self.ask(_delete(f"/api/sessions/{_in_path(session_id)}", forget=flag, queued=queued))

    # -- proxies

    def proxies(self, *, status: str | None = None, cursor: str | None = None, limit: int | None = None) -> R:
        """Return a page of proxies; `next` of the response is the `cursor` of the next page."""
        return self.ask(_get("/api/v1/proxies", status=status, cursor=cursor, limit=limit))

    def add_proxy(self, url: str) -> R:
        """Add a proxy: `socks5h://user:password@host:port`."""
        return self.ask(_post("/api/v1/proxies", {"url": url}))

    def import_proxies(self, text: str) -> R:
        """Add a list, one proxy per line; the response has the errors by line."""
        return self.ask(_post("/api/v1/proxies/import", {"text": text}))

    def proxy_act(self, proxy_id: str, act: str) -> R:
        """`check` or `reinstate` a proxy."""
        return self.ask(_post(f"/api/v1/proxies/{_in_path(proxy_id)}/{_in_path(act)}"))

    def delete_proxy(self, proxy_id: str, *, drain: bool | None = None) -> R:
        """Remove a proxy; with `drain`, move its sessions to others first."""
        flag = None if drain is None else str(drain).lower()
        return self.ask(_delete(f"/api/v1/proxies/{_in_path(proxy_id)}", drain=flag))

    # -- events, webhooks, opt-outs

    def events(self, *, after: str | None = None, types: str | None = None, limit: int | None = None) -> R:
        """Return events after a cursor; `next` of the response is the cursor to go on from."""
        return self.ask(_get("/api/v1/events", after=after, types=types, limit=limit))

    def webhooks(self) -> R:
        """List webhooks."""
        return self.ask(_get("/api/v1/webhooks"))

    def add_webhook(self, url: str, events: Sequence[str] = ("*",)) -> R:
        """Add a webhook; only this response shows its secret."""
        return self.ask(_post("/api/v1/webhooks", {"url": url, "events": list(events)}))

    def delete_webhook(self, webhook_id: str) -> R:
        """Delete a webhook."""
        return self.ask(_delete(f"/api/v1/webhooks/{_in_path(webhook_id)}"))

    def opt_outs(self) -> R:
        """List the recipients that opted out."""
        return self.ask(_get("/api/v1/opt-outs"))
