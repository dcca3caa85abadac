"""Puts the message side of the orchestrator together: its routes, its loops and what it does with workers' events."""

from fastapi import APIRouter

from wa_orchestrator.domain import events
from wa_orchestrator.orchestrator import (
    antiban,
    events_api,
    incoming,
    limits,
    optouts,
    outbox,
    receipts,
    webhooks_api,
)
from wa_orchestrator.orchestrator.intake import Handlers
from wa_orchestrator.orchestrator.webhooks import Courier
from wa_orchestrator.web.context import Context


def handlers() -> Handlers:
    """What is done with the events of workers that are about messages, contacts and limits."""
    return {
        events.MessageSent: receipts.on_message_sent,
        events.MessageStatus: receipts.on_message_status,
        events.MessageFailed: receipts.on_message_failed,
        events.MessageReceived: incoming.on_message_received,
        events.AccountLimits: incoming.on_account_limits,
    }


def routers(context: Context) -> list[APIRouter]:
    """The routes of workers' outboxes, events, webhooks, opt-outs, holds and limits."""
    return [
        outbox.router(context),
        events_api.router(context),
        webhooks_api.router(context),
        optouts.router(context),
        antiban.router(context),
        limits.router(context),
    ]


def loops(context: Context) -> list[Courier]:
    """What runs for as long as the process does."""
    return [Courier(context)]
