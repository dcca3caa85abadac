"""Calls of the API for operating the fleet: queues, holds, limits, nodes, contacts, conversations, the trash."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from wa_orchestrator.client.api_call import ApiCall, delete, get, in_path, patch, post, put

Json = dict[str, Any]
R = TypeVar("R")


class OperationCalls(ABC, Generic[R]):
    """`R` is the response's JSON object, or an awaitable of it."""

    @abstractmethod
    def ask(self, call: ApiCall) -> R:
        """Send a request and return the response; raise `ApiError`."""

    # -- how it goes

    def fleet_stats(self) -> R:
        """Count sessions, messages and proxies, and return what needs a person."""
        return self.ask(get("/api/v1/dashboard/stats"))

    def fleet(self) -> R:
        """Return every session with what it has sent today and what it may still send."""
        return self.ask(get("/api/v1/dashboard/sessions"))

    def readiness(self) -> R:
        """Return whether the server's parts run."""
        return self.ask(get("/ready"))

    def queue(self, session_id: str) -> R:
        """Return what waits for a session."""
        return self.ask(get(f"/api/v1/queue/{in_path(session_id)}"))

    def empty_queue(self, session_id: str) -> R:
        """Cancel everything that waits for a session."""
        return self.ask(delete(f"/api/v1/queue/{in_path(session_id)}"))

    def waiting(self, *, since: str | int | None = None, **filters: str | int | None) -> R:
        """Return the messages that wait. Filters: `session_id`, `to`, `reference`, `batch_id`, `until`, `due_from` …"""
        return self.ask(get("/api/v1/queue", {"from": since, **filters}))

    def cancel_waiting(self, *, since: str | int | None = None, **filters: str | int | None) -> R:
        """Cancel what waits and matches these filters of `waiting`; at least one is required."""
        return self.ask(delete("/api/v1/queue", **{"from": since, **filters}))

    def stats(self, session_id: str | None = None, *, days: int | None = None) -> R:
        """Count messages by day, of a session or of all."""
        path = "/api/v1/stats" if session_id is None else f"/api/v1/stats/{in_path(session_id)}"
        return self.ask(get(path, {"days": days}))

    def radar(self) -> R:
        """Return parts of WhatsApp's protocol that no worker knows."""
        return self.ask(get("/api/v1/radar"))

    def nodes(self) -> R:
        """List the machines that workers run on."""
        return self.ask(get("/api/v1/nodes"))

    def drain_node(self, name: str) -> R:
        """Empty a node: its sessions move to others."""
        return self.ask(post(f"/api/v1/nodes/{in_path(name)}/drain"))

    def activate_node(self, name: str) -> R:
        """Use a drained node again."""
        return self.ask(post(f"/api/v1/nodes/{in_path(name)}/activate"))

    def move_session(self, session_id: str, to: str, *, wait: int = 0) -> R:
        """Move a session to another node, and wait so many seconds until it is connected again."""
        path = f"/api/sessions/{in_path(session_id)}/move?wait={wait}"
        return self.ask(post(path, {"to": to}, timeout_s=wait + 30))

    def test_alert(self) -> R:
        """Send a test alert."""
        return self.ask(post("/api/v1/dashboard/test-alert"))

    # -- pace

    def holds(self) -> R:
        """List holds."""
        return self.ask(get("/api/anti-ban/holds"))

    def place_hold(
        self,
        *,
        session_id: str | None = None,
        group: str | None = None,
        everyone: bool = False,
        until: int | None = None,
        why: str = "",
    ) -> R:
        """Stop sending for a session, for a group or for all; `until` is a time in milliseconds."""
        body = {"session_id": session_id, "group": group, "all": everyone, "until": until, "why": why}
        return self.ask(post("/api/anti-ban/holds", body))

    def lift_hold(self, hold_id: str) -> R:
        """Lift a hold: sending resumes."""
        return self.ask(delete(f"/api/anti-ban/holds/{in_path(hold_id)}"))

    def presets(self) -> R:
        """Return the limits by trust, of each preset and in force."""
        return self.ask(get("/api/anti-ban/presets"))

    def limits(self, session_id: str) -> R:
        """Return a session's limits, and which are its own."""
        return self.ask(get(f"/api/anti-ban/sessions/{in_path(session_id)}/limits"))

    def set_limits(self, session_id: str, **limits: Any) -> R:
        """Set a session's own limits. Those not given come from its tags and the preset."""
        return self.ask(put(f"/api/anti-ban/sessions/{in_path(session_id)}/limits", limits))

    def reset_limits(self, session_id: str) -> R:
        """Remove a session's own limits."""
        return self.ask(delete(f"/api/anti-ban/sessions/{in_path(session_id)}/limits"))

    def inventory(self) -> R:
        """Return the free slots, and the profiles with the sessions that show as them."""
        return self.ask(get("/api/v1/inventory"))

    def add_profile(self, name: str) -> R:
        """Add a profile that new sessions may get: `System/Browser/Version`."""
        return self.ask(post("/api/v1/inventory/profiles", {"name": name}))

    def remove_profile(self, name: str) -> R:
        """Remove a profile from the list; sessions that have it keep it."""
        return self.ask(delete("/api/v1/inventory/profiles", name=name))

    def tag_limits(self) -> R:
        """Return the limits of all tags that have some."""
        return self.ask(get("/api/anti-ban/tag-limits"))

    def set_tag_limits(self, tag: str, **limits: Any) -> R:
        """Set the limits of a tag; without `acknowledge_risk` they only lower what the preset allows."""
        return self.ask(put("/api/anti-ban/tag-limits", {"tag": tag, **limits}))

    def delete_tag_limits(self, tag: str) -> R:
        """Remove the limits of a tag."""
        return self.ask(delete("/api/anti-ban/tag-limits", tag=tag))

    # -- people who are written to

    def opt_outs(self, *, cursor: str | None = None, limit: int | None = None) -> R:
        """Return a page of recipients that opted out; `next` of the response is the `cursor` of the next one."""
        return self.ask(get("/api/v1/opt-outs", {"cursor": cursor, "limit": limit}))

    def import_opt_outs(self, text: str) -> R:
        """Add the people of a file to the opt-out list: one number per line, or CSV."""
        return self.ask(post("/api/v1/opt-outs/import", {"text": text}))

    def add_opt_out(self, phone: str) -> R:
        """Add a recipient to the opt-out list, and cancel their messages that wait."""
        return self.ask(post("/api/v1/opt-outs", {"phone": phone}))

    def delete_opt_out(self, recipient: str) -> R:
        """Let a recipient be written to again: they have asked for it."""
        return self.ask(delete(f"/api/v1/opt-outs/{in_path(recipient)}"))

    def erase_contact(self, phone: str) -> R:
        """Erase what is stored about a person; an opt-out stays."""
        return self.ask(delete(f"/api/v1/contacts/{in_path(phone)}"))

    def contacts(self, *, search: str | None = None, cursor: str | None = None, limit: int | None = None) -> R:
        """Return a page of the people who wrote or were written to."""
        return self.ask(get("/api/v1/contacts", {"search": search, "cursor": cursor, "limit": limit}))

    def conversations(self, *, cursor: str | None = None, limit: int | None = None, **filters: str | None) -> R:
        """Return a page of conversations by `state`, `session_id`, `assigned_to`, `tag`, `search`."""
        return self.ask(get("/api/v1/conversations", {**filters, "cursor": cursor, "limit": limit}))

    def conversation(self, conversation_id: str) -> R:
        """Return a conversation: who, what for, and when a reply would leave."""
        return self.ask(get(f"/api/v1/conversations/{in_path(conversation_id)}"))

    def conversation_messages(self, conversation_id: str, *, cursor: str | None = None, limit: int | None = None) -> R:
        """Return a page of a conversation, the newest message first."""
        query = {"cursor": cursor, "limit": limit}
        return self.ask(get(f"/api/v1/conversations/{in_path(conversation_id)}/messages", query))

    def change_conversation(self, conversation_id: str, **changes: Any) -> R:
        """Change `notes`, `tags`, `assigned_to` or `state` of a conversation; None removes a value."""
        return self.ask(patch(f"/api/v1/conversations/{in_path(conversation_id)}", changes))

    def mark_conversation_read(self, conversation_id: str, *, unread: bool = False) -> R:
        """Mark a conversation as read here, or as unread."""
        return self.ask(post(f"/api/v1/conversations/{in_path(conversation_id)}/read", {"unread": unread}))

    def quick_replies(self) -> R:
        """List quick replies."""
        return self.ask(get("/api/v1/quick-replies"))

    def put_quick_reply(self, name: str, text: str) -> R:
        """Save a quick reply under a name."""
        return self.ask(put(f"/api/v1/quick-replies/{in_path(name)}", {"text": text}))

    def delete_quick_reply(self, name: str) -> R:
        """Delete a quick reply."""
        return self.ask(delete(f"/api/v1/quick-replies/{in_path(name)}"))

    # -- what was deleted

    def trash(self) -> R:
        """List credentials of deleted sessions."""
        return self.ask(get("/api/v1/trash"))

    def restore_from_trash(self, trash_id: str) -> R:
        """Create a deleted session again, with its credentials."""
        return self.ask(post(f"/api/v1/trash/{in_path(trash_id)}/restore"))
