"""The OpenAPI document of a service: what FastAPI does not derive from the routes by itself."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from wa_orchestrator.web import problems

DESCRIPTION: Final = """Runs an operator's own WhatsApp accounts, each with its own worker and its own proxy.

Every route under `/api` needs an API key in the header `X-API-Key`. `wa-orchestrator secrets` shows the first key; the
dashboard's settings create more. To try routes on this page, press *Authorize* and paste a key.

Every error has the same form: `{"error": {"code", "message", …}}`. `code` is stable; `message` says what to do.
"""
TAGS: Final = {
    "messages": "Send messages, follow them, cancel and retry them; queues and statistics.",
    "campaigns": "One text to many recipients who agreed to it, at the pace of the sessions that send it.",
    "sessions": "Linked WhatsApp accounts: create, link, start, stop and delete them.",
    "proxies": "The pool of SOCKS5 proxies through which sessions connect.",
    "anti-ban": "Limits and pauses of sending.",
    "opt-outs": "Recipients that get no more messages.",
    "exports": "Messages, sessions, opt-outs and the audit log as files.",
    "chats": "What a session does in a chat besides writing: typing, reading, looking a number up, blocking.",
    "groups": "The groups of an account: members, link, requests to join. Nobody is added.",
    "contacts": "The people who wrote, an export of what is stored about one of them, and its erasure.",
    "conversations": "What a session and a contact or a group wrote to each other, and what people note about it.",
    "radar": "What WhatsApp sends that no worker knows.",
    "events": "Everything that happened, by cursor or as a stream.",
    "webhooks": "Events delivered to your own systems.",
    "administration": "API keys, audit log, trash.",
    "backups": "Backups and their restoration.",
    "jobs": "What the server does by itself: when, how it went, and a run by hand.",
    "inventory": "What new sessions can be made of: free slots, and the profiles that they show as.",
    "nodes": "The machines that workers run on: what they hold, and how one is emptied.",
    "dashboard": "The dashboard's figures for scripts.",
    "workers": "What workers call. Not for clients.",
    "health": "Probes and metrics, without an API key.",
}


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: the name of its handler, or its `name`, in camelCase."""
    return to_camel(route.name)


def servers(public_url: str | None) -> list[dict[str, Any]]:
    """Return the addresses of a service. The relative one is first: `/docs` may call no other host."""
    here = {"url": "/", "description": "The server that this document comes from."}
    return [here, {"url": public_url, "description": "Its public address."}] if public_url else [here]


def install(app: FastAPI) -> None:
    """Complete the document that FastAPI generates for `app`."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    """Take summaries from docstrings, mark public operations, describe tags and errors."""
    components = document.setdefault("components", {})
    components["schemas"] = dict(sorted({**components.get("schemas", {}), **problems.schemas()}.items()))
    tags: set[str] = set()
    for operation in _operations(document):
        summary, _, rest = operation.pop("description", "").partition("\n\n")
        if summary:
            operation["summary"] = " ".join(summary.split()).removesuffix(".")
        if rest:
            operation["description"] = rest
        operation.setdefault("security", [])
        tags |= set(operation.get("tags", ()))
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in tags]


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in ("paths", "webhooks"):
        for methods in document.get(section, {}).values():
            yield from methods.values()
