"""Every call of the API, independent of the transport."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote

Json = dict[str, Any]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request; `options` are httpx's (`json`, `params` …). `may_repeat`: it is idempotent and may be sent again."""

    method: str
    path: str
    may_repeat: bool
    options: Mapping[str, Any]


class SendOptions(TypedDict, total=False):
    """Fields of a message that are not always given."""

    session_id: str | None
    phone: str | None
    media: Mapping[str, Any] | None
    location: Mapping[str, Any] | None
    priority: int | None
    send_at: str | int | None
    expires_at: str | int | None
    on_limit: str | None
    reference: str | None


def _get(path: str, query: Mapping[str, Any] | None = None, **headers: str) -> ApiCall:
    return ApiCall("GET", path, may_repeat=True, options={"params": _given(query or {}), "headers": headers})


def _delete(path: str, **query: Any) -> ApiCall:
    return ApiCall("DELETE", path, may_repeat=True, options={"params": _given(query)})


def _post(path: str, body: Mapping[str, Any] | None = None) -> ApiCall:
    return ApiCall("POST", path, may_repeat=False, options={} if body is None else {"json": _given(body)})


def _send(path: str, body: Mapping[str, Any], idempotency_key: str | None) -> ApiCall:
    headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
    return ApiCall("POST", path, may_repeat=True, options={"json": _given(body), "headers": headers})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, named as in JSON: `session_id` is `sessionId`."""
    return {_camel_case(name): value for name, value in fields.items() if value is not None}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


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
        idempotency_key: str | None = None,
        **options: Unpack[SendOptions],
    ) -> R:
        """Send one message. The idempotency key makes it safe to repeat after a lost response."""
        return self.ask(_send("/api/v1/send", {"to": to, "message": message, **options}, idempotency_key))

    def send_batch(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        spread_minutes: float | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Send up to 1,000 messages; `items` of the response has the result of each."""
        body = {"messages": list(messages), "spread_minutes": spread_minutes}
        return self.ask(_send("/api/v1/send/batch", body, idempotency_key))

    def upload(self, content: bytes, *, mimetype: str, filename: str = "") -> R:
        """Store a file for `media={"upload": …}`."""
        headers = {"Content-Type": mimetype, "X-Filename": filename.encode("ascii", "replace").decode()}
        options = {"content": content, "headers": headers}
        return self.ask(ApiCall("POST", "/api/v1/uploads", may_repeat=False, options=options))

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
        batch_id: str | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> R:
        """Return a page of a search; `next` of the response is the `cursor` of the next one."""
        query = {"to": to, "session_id": session_id, "status": status, "reference": reference, "batch_id": batch_id}
        return self.ask(
            _get("/api/v1/messages", query | {"from": since, "until": until, "cursor": cursor, "limit": limit})
        )

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

    def waiting(self, *, since: str | int | None = None, **filters: str | int | None) -> R:
        """What waits by `session_id`, `to`, `reference`, `batch_id`, `since`, `until`, `due_from`, `due_until`."""
        return self.ask(_get("/api/v1/queue", {"from": since, **filters}))

    def cancel_waiting(self, *, since: str | int | None = None, **filters: str | int | None) -> R:
        """Cancel what waits and matches these filters of `waiting`; at least one is required."""
        return self.ask(_delete("/api/v1/queue", **{"from": since, **filters}))

    def stats(self, session_id: str, *, days: int | None = None) -> R:
        """Count a session's messages by day."""
        return self.ask(_get(f"/api/v1/stats/{_in_path(session_id)}", {"days": days}))

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
        body = {"phone": phone, "proxy": proxy, "session_id": session_id, "label": label, "pairing": pairing}
        return self.ask(_post("/api/sessions/provision", body))

    def sessions(
        self,
        *,
        status: str | None = None,
        proxy: str | None = None,
        label: str | None = None,
        text: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> R:
        """Return a page of sessions; `next` of the response is the `cursor` of the next one."""
        query = {"status": status, "proxy": proxy, "label": label, "text": text, "cursor": cursor, "limit": limit}
        return self.ask(_get("/api/sessions", query))

    def session(self, session_id: str) -> R:
        """Return a session with its worker and its queue."""
        return self.ask(_get(f"/api/sessions/{_in_path(session_id)}"))

    def qr(self, session_id: str) -> R:
        """Return the QR code to scan."""
        return self.ask(_get(f"/api/sessions/{_in_path(session_id)}/qr", accept="application/json"))

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
        return self.ask(_get("/api/v1/proxies", {"status": status, "cursor": cursor, "limit": limit}))

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

    # -- jobs

    def jobs(self) -> R:
        """List jobs, how they went, and when they run next."""
        return self.ask(_get("/api/v1/jobs"))

    def run_job(self, name: str) -> R:
        """Run a job now."""
        return self.ask(_post(f"/api/v1/jobs/{_in_path(name)}/run"))

    # -- backups

    def backups(self) -> R:
        """List backups, and the one that runs."""
        return self.ask(_get("/api/v1/backups"))

    def create_backup(self) -> R:
        """Make a backup now."""
        return self.ask(_post("/api/v1/backups/create"))

    def restore_backup(
        self,
        backup_id: str,
        *,
        sessions: Sequence[str] | None = None,
        identity: str | None = None,
        dry_run: bool | None = None,
        accept_older: bool | None = None,
    ) -> R:
        """Check a backup and restore it, or with `dry_run` say what that would change."""
        body = {"sessions": sessions, "identity": identity, "dry_run": dry_run, "accept_older": accept_older}
        return self.ask(_post(f"/api/v1/backups/restore/{_in_path(backup_id)}", body))

    # -- access

    def keys(self) -> R:
        """List API keys."""
        return self.ask(_get("/api/v1/keys"))

    def create_key(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        sessions: Sequence[str] = (),
        labels: Sequence[str] = (),
        expires_in_days: int | None = None,
    ) -> R:
        """Create an API key; only this response shows it. With sessions or labels it is limited to those."""
        limits = {"sessions": list(sessions), "labels": list(labels), "expires_in_days": expires_in_days}
        return self.ask(_post("/api/v1/keys", {"name": name, "scopes": list(scopes), **limits}))

    def revoke_key(self, key_id: str) -> R:
        """Revoke an API key."""
        return self.ask(_delete(f"/api/v1/keys/{_in_path(key_id)}"))

    def people(self) -> R:
        """List accounts."""
        return self.ask(_get("/api/v1/people"))

    def add_person(self, name: str, role: str, *, labels: Sequence[str] = ()) -> R:
        """Create an account; `link` of the response is where its person sets a password."""
        return self.ask(_post("/api/v1/people", {"name": name, "role": role, "labels": list(labels)}))

    def person_link(self, person_id: str) -> R:
        """Create a link with which a person sets a new password."""
        return self.ask(_post(f"/api/v1/people/{_in_path(person_id)}/link"))

    def delete_person(self, person_id: str) -> R:
        """Delete an account."""
        return self.ask(_delete(f"/api/v1/people/{_in_path(person_id)}"))

    def audit(self, *, before: str | None = None, limit: int | None = None) -> R:
        """Return a page of the audit log, the newest first."""
        return self.ask(_get("/api/v1/audit", {"before": before, "limit": limit}))

    def audit_verification(self) -> R:
        """Check every line of the audit log."""
        return self.ask(_get("/api/v1/audit/verification"))

    # -- events, webhooks, opt-outs

    def events(self, *, after: str | None = None, types: str | None = None, limit: int | None = None) -> R:
        """Return events after a cursor; `next` of the response is the cursor to go on from."""
        return self.ask(_get("/api/v1/events", {"after": after, "types": types, "limit": limit}))

    def webhooks(self) -> R:
        """List webhooks."""
        return self.ask(_get("/api/v1/webhooks"))

    def add_webhook(
        self,
        url: str,
        events: Sequence[str] = ("*",),
        *,
        sessions: Sequence[str] = (),
        labels: Sequence[str] = (),
    ) -> R:
        """Add a webhook; only this response shows its secret. With sessions or labels it gets their events only."""
        limits = {"sessions": list(sessions), "labels": list(labels)}
        return self.ask(_post("/api/v1/webhooks", {"url": url, "events": list(events), **limits}))

    def rotate_webhook_secret(self, webhook_id: str, *, keep_days: int = 7) -> R:
        """Give a webhook a new secret; only this response shows it. The old one signs, too, for `keep_days`."""
        return self.ask(_post(f"/api/v1/webhooks/{_in_path(webhook_id)}/rotate-secret", {"keep_days": keep_days}))

    def delete_webhook(self, webhook_id: str) -> R:
        """Delete a webhook."""
        return self.ask(_delete(f"/api/v1/webhooks/{_in_path(webhook_id)}"))

    def opt_outs(self) -> R:
        """List the recipients that opted out."""
        return self.ask(_get("/api/v1/opt-outs"))
