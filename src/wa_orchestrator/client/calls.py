"""Every call of the API, independent of the transport."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

from wa_orchestrator.client.api_call import ApiCall, delete, get, in_path, patch, post, send_once
from wa_orchestrator.client.operation_calls import Json, OperationCalls, R

#: What reads an archive of gigabytes whole, or checks a proxy for each line of a file, before it answers.
_LONG_S: Final = 1800.0


class SendOptions(TypedDict, total=False):
    """Fields of a message that are not always given."""

    session_id: str | None
    phone: str | None
    media: Mapping[str, Any] | None
    location: Mapping[str, Any] | None
    contacts: Sequence[Mapping[str, Any]] | None
    poll: Mapping[str, Any] | None
    reply_to: str | None
    mentions: Sequence[str] | None
    link_preview: bool | None
    priority: int | None
    send_at: str | int | None
    expires_at: str | int | None
    on_limit: str | None
    reference: str | None


class Calls(OperationCalls[R]):
    """The API. `R` is the response's JSON object, or an awaitable of it."""

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
        return self.ask(send_once("/api/v1/send", {"to": to, "message": message, **options}, idempotency_key))

    def send_batch(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        spread_minutes: float | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Send up to 1,000 messages; `items` of the response has the result of each."""
        body = {"messages": list(messages), "spread_minutes": spread_minutes}
        return self.ask(send_once("/api/v1/send/batch", body, idempotency_key))

    def upload(self, content: bytes, *, mimetype: str, filename: str = "") -> R:
        """Store a file for `media={"upload": …}`."""
        headers = {"Content-Type": mimetype, "X-Filename": filename.encode("ascii", "replace").decode()}
        options = {"content": content, "headers": headers}
        return self.ask(ApiCall("POST", "/api/v1/uploads", may_repeat=False, options=options))

    def message(self, message_id: str) -> R:
        """Return a message with its timeline and what it waits for."""
        return self.ask(get(f"/api/v1/messages/{in_path(message_id)}"))

    def messages(
        self,
        *,
        to: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        reference: str | None = None,
        batch_id: str | None = None,
        text: str | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> R:
        """Return a page of a search; `next` of the response is the `cursor` of the next one."""
        query = {"to": to, "session_id": session_id, "status": status, "reference": reference, "batch_id": batch_id}
        query["text"] = text
        return self.ask(
            get("/api/v1/messages", query | {"from": since, "until": until, "cursor": cursor, "limit": limit})
        )

    def cancel(self, message_id: str) -> R:
        """Cancel a message that no worker has claimed."""
        return self.ask(delete(f"/api/v1/messages/{in_path(message_id)}"))

    def retry(self, message_id: str) -> R:
        """Queue a failed message again."""
        return self.ask(post(f"/api/v1/messages/{in_path(message_id)}/retry"))

    def confirm(self, message_id: str) -> R:
        """Settle a message of unknown outcome as sent: the recipient has it."""
        return self.ask(post(f"/api/v1/messages/{in_path(message_id)}/confirm"))

    def send_again(self, message_id: str) -> R:
        """Send a message of unknown outcome again, as a new one."""
        return self.ask(post(f"/api/v1/messages/{in_path(message_id)}/send-again"))

    def act_on_message(self, message_id: str, act: str, **body: str) -> R:
        """Do one of `reaction` (`emoji`), `edit` (`text`), `delete`, `read` on a message that was sent or came in."""
        return self.ask(post(f"/api/v1/messages/{in_path(message_id)}/{in_path(act)}", body))

    def act_in_chat(self, session_id: str, act: str, **body: str | bool) -> R:
        """Do one of `typing` (`to`, `state`), `number-check` (`phone`), `profile-picture` (`to`), `block` (`to`)."""
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/{in_path(act)}", body))

    # -- groups

    def groups(self, session_id: str) -> R:
        """List the groups that a session's account is in."""
        return self.ask(get(_groups(session_id)))

    def group(self, session_id: str, group_id: str) -> R:
        """Return a group with its members."""
        return self.ask(get(_groups(session_id, group_id)))

    def create_group(self, session_id: str, subject: str) -> R:
        """Create a group without other members; people join by its link."""
        return self.ask(post(_groups(session_id), {"subject": subject}))

    def change_group(self, session_id: str, group_id: str, **changes: str | bool) -> R:
        """Change the `subject` of a group, or whether admins decide who joins (`join_approval`)."""
        return self.ask(patch(_groups(session_id, group_id), changes))

    def leave_group(self, session_id: str, group_id: str) -> R:
        """Leave a group."""
        return self.ask(post(_groups(session_id, group_id, "leave")))

    def remove_group_member(self, session_id: str, group_id: str, member: str) -> R:
        """Remove a member, a phone or `lid:…`, from a group."""
        return self.ask(delete(_groups(session_id, group_id, "members", member)))

    def group_link(self, session_id: str, group_id: str, *, renew: bool = False) -> R:
        """Return the link by which people join, or make a new one: the old one then stops working."""
        path = _groups(session_id, group_id, "link")
        return self.ask(post(path) if renew else get(path))

    def join_requests(self, session_id: str, group_id: str) -> R:
        """List requests to join a group."""
        return self.ask(get(_groups(session_id, group_id, "join-requests")))

    def answer_join_request(self, session_id: str, group_id: str, member: str, answer: str) -> R:
        """`approve` or `reject` somebody who asked to join."""
        body = {"member": member, "answer": answer}
        return self.ask(post(_groups(session_id, group_id, "join-requests"), body))

    # -- sessions

    def provision(
        self,
        *,
        phone: str | None = None,
        proxy: str | None = None,
        session_id: str | None = None,
        label: str | None = None,
        pairing: str | None = None,
        tags: Sequence[str] | None = None,
        profile: str | None = None,
    ) -> R:
        """Create a session and queue the start of its worker."""
        body: Json = {"phone": phone, "proxy": proxy, "session_id": session_id, "label": label, "pairing": pairing}
        body |= {"tags": list(tags) if tags else None, "profile": profile}
        return self.ask(post("/api/sessions/provision", body))

    def import_account(self, account: Mapping[str, Any], **session: Any) -> R:
        """Take over a linked device: `account` is `{"files": …}` or `{"document": …}`; the rest as of `provision`.

        With `dry_run` it says what was found; else `old_place_is_off` must be true.
        """
        return self.ask(post("/api/sessions/import", {**account, **session}))

    def import_sessions(self, text: str, *, dry_run: bool = False) -> R:
        """Create the sessions of a CSV file; with `dry_run` only check its lines."""
        return self.ask(post("/api/sessions/import-list", {"text": text, "dry_run": dry_run}, timeout_s=_LONG_S))

    def sessions(
        self,
        *,
        status: str | None = None,
        proxy: str | None = None,
        label: str | None = None,
        tag: str | None = None,
        text: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> R:
        """Return a page of sessions; `next` of the response is the `cursor` of the next one."""
        query = {"status": status, "proxy": proxy, "label": label, "tag": tag, "text": text}
        return self.ask(get("/api/sessions", query | {"cursor": cursor, "limit": limit}))

    def session(self, session_id: str) -> R:
        """Return a session with its worker and its queue."""
        return self.ask(get(f"/api/sessions/{in_path(session_id)}"))

    def change_session(self, session_id: str, **changes: Any) -> R:
        """Change `label`, `tags`, `notes`, `timezone`, `presence`, `proxy` (and `proxy_move`); None removes a value."""
        return self.ask(patch(f"/api/sessions/{in_path(session_id)}", changes))

    def qr(self, session_id: str) -> R:
        """Return the QR code to scan."""
        return self.ask(get(f"/api/sessions/{in_path(session_id)}/qr", accept="application/json"))

    def pairing_code(self, session_id: str, *, phone: str | None = None) -> R:
        """Request an 8-character code instead of a QR code."""
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/pairing-code", {"phone": phone}))

    def scan_link(self, session_id: str, *, minutes: int | None = None, language: str | None = None) -> R:
        """Make a one-time link by which somebody elsewhere links the session; only this response shows it."""
        body = {"minutes": minutes, "language": language}
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/scan-link", body))

    def withdraw_scan_link(self, session_id: str) -> R:
        """Withdraw the one-time link of a session."""
        return self.ask(delete(f"/api/sessions/{in_path(session_id)}/scan-link"))

    def session_act(self, session_id: str, act: str, *, confirm: str | None = None) -> R:
        """`start`, `stop`, `restart` or `logout` a session; a banned one starts only with `confirm="BANNED"`."""
        body = {"confirm": confirm} if confirm else None
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/{in_path(act)}", body))

    def delete_session(self, session_id: str, *, forget: bool | None = None, queued: str | None = None) -> R:
        """Delete a session; `queued` is `cancel` (default) or `reroute`."""
        flag = None if forget is None else str(forget).lower()
        return self.ask(delete(f"/api/sessions/{in_path(session_id)}", forget=flag, queued=queued))

    def session_history(self, session_id: str, *, limit: int | None = None) -> R:
        """Return a session's latest events."""
        return self.ask(get(f"/api/sessions/{in_path(session_id)}/history", {"limit": limit}))

    def session_health(self, session_id: str) -> R:
        """Return the health of a session's number, with the evidence."""
        return self.ask(get(f"/api/sessions/{in_path(session_id)}/health"))

    def restore_credentials(self, session_id: str) -> R:
        """Give a session the newest credentials that the trash has of it."""
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/restore-credentials"))

    def confirm_phone(self, session_id: str, phone: str) -> R:
        """Confirm the phone that a session reported and was not expected to have."""
        return self.ask(post(f"/api/sessions/{in_path(session_id)}/confirm-phone", {"phone": phone}))

    # -- proxies

    def proxies(self, *, status: str | None = None, cursor: str | None = None, limit: int | None = None) -> R:
        """Return a page of proxies; `next` of the response is the `cursor` of the next page."""
        return self.ask(get("/api/v1/proxies", {"status": status, "cursor": cursor, "limit": limit}))

    def add_proxy(self, url: str) -> R:
        """Add a proxy: `socks5h://user:password@host:port`."""
        return self.ask(post("/api/v1/proxies", {"url": url}))

    def import_proxies(self, text: str) -> R:
        """Add a list, one proxy per line; the response has the errors by line."""
        return self.ask(post("/api/v1/proxies/import", {"text": text}, timeout_s=_LONG_S))

    def proxy_act(self, proxy_id: str, act: str) -> R:
        """`check` or `reinstate` a proxy."""
        return self.ask(post(f"/api/v1/proxies/{in_path(proxy_id)}/{in_path(act)}"))

    def change_proxy(self, proxy_id: str, **changes: Any) -> R:
        """Change `name`, `provider`, `country`, `expires_on` or `password` of a proxy; None removes a value."""
        return self.ask(patch(f"/api/v1/proxies/{in_path(proxy_id)}", changes))

    def delete_proxy(self, proxy_id: str, *, drain: bool | None = None) -> R:
        """Remove a proxy; with `drain`, move its sessions to others first."""
        flag = None if drain is None else str(drain).lower()
        return self.ask(delete(f"/api/v1/proxies/{in_path(proxy_id)}", drain=flag))

    # -- campaigns

    def campaigns(self) -> R:
        """List campaigns, the newest first."""
        return self.ask(get("/api/v1/campaigns"))

    def create_campaign(self, **fields: Any) -> R:
        """Make a draft of a campaign: name, text, csv, consent, sessions, tags, with_cold, skip_bad_lines."""
        return self.ask(post("/api/v1/campaigns", fields))

    def campaign(self, campaign_id: str) -> R:
        """Return a campaign: where its recipients are, and when it ends."""
        return self.ask(get(f"/api/v1/campaigns/{in_path(campaign_id)}"))

    def campaign_recipients(
        self, campaign_id: str, *, status: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> R:
        """List the recipients of a campaign, and what became of them."""
        query = {"status": status, "cursor": cursor, "limit": limit}
        return self.ask(get(f"/api/v1/campaigns/{in_path(campaign_id)}/recipients", query))

    def campaign_act(self, campaign_id: str, act: str) -> R:
        """`start`, `pause`, `resume` or `cancel` a campaign."""
        return self.ask(post(f"/api/v1/campaigns/{in_path(campaign_id)}/{in_path(act)}"))

    # -- jobs

    def jobs(self) -> R:
        """List jobs, how they went, and when they run next."""
        return self.ask(get("/api/v1/jobs"))

    def run_job(self, name: str) -> R:
        """Run a job now."""
        return self.ask(post(f"/api/v1/jobs/{in_path(name)}/run"))

    # -- backups

    def backups(self) -> R:
        """List backups, and the one that runs."""
        return self.ask(get("/api/v1/backups"))

    def create_backup(self) -> R:
        """Make a backup now."""
        return self.ask(post("/api/v1/backups/create"))

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
        return self.ask(post(f"/api/v1/backups/restore/{in_path(backup_id)}", body, timeout_s=_LONG_S))

    # -- access

    def keys(self) -> R:
        """List API keys."""
        return self.ask(get("/api/v1/keys"))

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
        return self.ask(post("/api/v1/keys", {"name": name, "scopes": list(scopes), **limits}))

    def revoke_key(self, key_id: str) -> R:
        """Revoke an API key."""
        return self.ask(delete(f"/api/v1/keys/{in_path(key_id)}"))

    def people(self) -> R:
        """List accounts."""
        return self.ask(get("/api/v1/people"))

    def add_person(self, name: str, role: str, *, labels: Sequence[str] = ()) -> R:
        """Create an account; `link` of the response is where its person sets a password."""
        return self.ask(post("/api/v1/people", {"name": name, "role": role, "labels": list(labels)}))

    def person_link(self, person_id: str) -> R:
        """Create a link with which a person sets a new password."""
        return self.ask(post(f"/api/v1/people/{in_path(person_id)}/link"))

    def change_person(self, person_id: str, **changes: Any) -> R:
        """Change the `role` or the `labels` of an account."""
        return self.ask(patch(f"/api/v1/people/{in_path(person_id)}", changes))

    def remove_second_factor(self, person_id: str) -> R:
        """Let a person who lost the second factor log in with the password alone, and set up a new one."""
        return self.ask(delete(f"/api/v1/people/{in_path(person_id)}/second-factor"))

    def logins(self) -> R:
        """List who is logged in."""
        return self.ask(get("/api/v1/logins"))

    def end_login(self, login_id: str) -> R:
        """End a login."""
        return self.ask(delete(f"/api/v1/logins/{in_path(login_id)}"))

    def delete_person(self, person_id: str) -> R:
        """Delete an account."""
        return self.ask(delete(f"/api/v1/people/{in_path(person_id)}"))

    def audit(self, *, before: str | None = None, limit: int | None = None) -> R:
        """Return a page of the audit log, the newest first."""
        return self.ask(get("/api/v1/audit", {"before": before, "limit": limit}))

    def audit_verification(self) -> R:
        """Check every line of the audit log."""
        return self.ask(get("/api/v1/audit/verification"))

    # -- events, webhooks

    def events(self, *, after: str | None = None, types: str | None = None, limit: int | None = None) -> R:
        """Return events after a cursor; `next` of the response is the cursor to go on from."""
        return self.ask(get("/api/v1/events", {"after": after, "types": types, "limit": limit}))

    def webhooks(self) -> R:
        """List webhooks."""
        return self.ask(get("/api/v1/webhooks"))

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
        return self.ask(post("/api/v1/webhooks", {"url": url, "events": list(events), **limits}))

    def change_webhook(self, webhook_id: str, **changes: Any) -> R:
        """Change `url`, `events`, `sessions` or `labels` of a webhook."""
        return self.ask(patch(f"/api/v1/webhooks/{in_path(webhook_id)}", changes))

    def rotate_webhook_secret(self, webhook_id: str, *, keep_days: int = 7) -> R:
        """Give a webhook a new secret; only this response shows it. The old one signs, too, for `keep_days`."""
        return self.ask(post(f"/api/v1/webhooks/{in_path(webhook_id)}/rotate-secret", {"keep_days": keep_days}))

    def delete_webhook(self, webhook_id: str) -> R:
        """Delete a webhook."""
        return self.ask(delete(f"/api/v1/webhooks/{in_path(webhook_id)}"))

    def enable_webhook(self, webhook_id: str) -> R:
        """Enable a webhook that was disabled after failing for long."""
        return self.ask(post(f"/api/v1/webhooks/{in_path(webhook_id)}/enable"))

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> R:
        """Return a webhook's latest deliveries."""
        return self.ask(get(f"/api/v1/webhooks/{in_path(webhook_id)}/deliveries", {"limit": limit}))

    def replay_delivery(self, webhook_id: str, number: str) -> R:
        """Deliver an event once more."""
        return self.ask(post(f"/api/v1/webhooks/{in_path(webhook_id)}/deliveries/{in_path(number)}/replay"))


def _groups(session_id: str, *parts: str) -> str:
    return "/".join([f"/api/sessions/{in_path(session_id)}/groups", *map(in_path, parts)])
