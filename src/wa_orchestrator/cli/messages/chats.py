"""`wa-orchestrator chats …`: what a session does besides sending: react, edit, delete, read, type, look up, block."""

from typing import Annotated

import typer

from wa_orchestrator.cli.terminal.arguments import SessionId
from wa_orchestrator.cli.terminal.command import Invocation, command, group

app = group("Conversations: react, edit, delete for everyone, mark as read, typing, look-ups, blocks.")
MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, m_… or i_…")]
Person = Annotated[str, typer.Argument(metavar="TO", help="A phone, lid:…, or a group's id.")]


@command(app)
def react(run: Invocation, message_id: MessageId, emoji: Annotated[str, typer.Argument()] = "") -> None:
    """React to a message; without an emoji the reaction is taken back."""
    run.say(run.client.act_on_message(message_id, "reaction", emoji=emoji), "Done.")


@command(app)
def edit(run: Invocation, message_id: MessageId, text: Annotated[str, typer.Argument()]) -> None:
    """Replace the text of a message that was sent at most 15 minutes ago."""
    run.say(run.client.act_on_message(message_id, "edit", text=text), "Done.")


@command(app)
def delete(run: Invocation, message_id: MessageId) -> None:
    """Delete a message for everyone."""
    run.say(run.client.act_on_message(message_id, "delete"), f"{message_id} is deleted for everyone.")


@command(app)
def read(run: Invocation, message_id: MessageId) -> None:
    """Mark a message that came in as read."""
    run.say(run.client.act_on_message(message_id, "read"), "Done.")


@command(app, "typing")
def typing_(
    run: Invocation,
    session_id: SessionId,
    to: Person,
    *,
    state: Annotated[str, typer.Option(help="typing, recording or paused.")] = "typing",
) -> None:
    """Show in a chat that the account types or records."""
    run.say(run.client.act_in_chat(session_id, "typing", to=to, state=state), "Done.")


@command(app)
def check(run: Invocation, session_id: SessionId, phone: Annotated[str, typer.Argument()]) -> None:
    """Ask WhatsApp whether a phone has an account, a few times a day."""
    found = run.client.act_in_chat(session_id, "number-check", phone=phone)
    word = "has" if found["exists"] else "does not have"
    run.say(found, f"{found['phone']} {word} WhatsApp.")


@command(app)
def picture(run: Invocation, session_id: SessionId, to: Person) -> None:
    """Print the address of a person's or a group's picture."""
    found = run.client.act_in_chat(session_id, "profile-picture", to=to)
    run.say(found, found["url"])


@command(app)
def block(
    run: Invocation,
    session_id: SessionId,
    to: Person,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Unblock instead.")] = False,
) -> None:
    """Block a person for this account."""
    run.say(run.client.act_in_chat(session_id, "block", to=to, blocked=not undo), "Unblocked." if undo else "Blocked.")
