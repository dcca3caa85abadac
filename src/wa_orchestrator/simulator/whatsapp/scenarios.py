"""Scenarios: what WhatsApp did to the attempts of one message, played back on the next message of a simulated phone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wa_orchestrator.simulator.phones import actions
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.whatsapp import fault_effects
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.faults import Fault
from wa_orchestrator.simulator.whatsapp.state import ServerState


@dataclass(frozen=True, slots=True)
class Attempt:
    """What happens to one attempt to send: these faults, and whether the recipient reads the message afterwards."""

    faults: Sequence[dict[str, Any]] = ()
    is_read: bool = False


@dataclass(slots=True)
class Scenario:
    """The attempts that are still to come of a message from one phone to another: of the first that comes."""

    sender: str
    recipient: str
    attempts: list[Attempt]
    message_id: str = ""
    current: Attempt = field(default_factory=Attempt)
    #: faults of the current attempt
    active: list[Fault] = field(default_factory=list)


class Scenarios:
    """All scenarios that are being played."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._playing: list[Scenario] = []

    def play(self, sender: str, recipient: str, attempts: list[Attempt]) -> None:
        """Play a scenario on the next message from `sender` to `recipient`."""
        self._playing.append(Scenario(sender, recipient, attempts))

    def before(self, connection: Connection, stanza: Node) -> None:
        """Let happen what belongs to this attempt: to be called before the stanza is handled."""
        scenario = self._of(connection, stanza)
        if scenario is None:
            return
        scenario.message_id = stanza.attr("id")
        if any(fault.extra.get("times") for fault in scenario.active):
            return  # sent once more within the attempt, which is not over
        for fault in scenario.active:
            self._state.faults.remove(fault)
        scenario.active.clear()
        if not scenario.attempts:  # one more than was recorded: nothing is known about it
            self._playing.remove(scenario)
            return
        scenario.current = scenario.attempts.pop(0)
        for described in scenario.current.faults:
            extra = dict(described)
            kind, seconds, code = extra.pop("kind"), extra.pop("seconds", None), extra.pop("code", None)
            known = {"phone": scenario.sender, "seconds": seconds, "code": code, "extra": extra}
            scenario.active.append(fault_effects.apply(self._state, kind, **known))

    def after(self, connection: Connection, stanza: Node) -> None:
        """Let the recipient read the message, if that was so."""
        scenario = self._of(connection, stanza)
        if scenario and scenario.current.is_read:
            actions.read(self._state, self._state.accounts.phone(scenario.recipient), scenario.sender)

    def _of(self, connection: Connection, stanza: Node) -> Scenario | None:
        to = jid.parse(stanza.attr("to"))
        recipient = self._state.accounts.find(to) if to else None
        if stanza.tag != "message" or recipient is None or stanza.attr("category") == "peer":
            return None
        people, message_id = (connection.phone, recipient.number), stanza.attr("id")
        for scenario in self._playing:
            if (scenario.sender, scenario.recipient) == people and scenario.message_id in ("", message_id):
                return scenario
        return None
