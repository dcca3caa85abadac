"""Parses phone numbers of control requests."""

import re

from wa_orchestrator.simulator.errors import SimulatorError


def digits(phone: str) -> str:
    """Return the digits of a phone number. Raises SimulatorError for anything else."""
    found = re.sub(r"[+ -]", "", phone)
    if not re.fullmatch(r"\d{8,15}", found):
        raise SimulatorError("BAD_PHONE", f"{phone!r} is not a phone number: 8 to 15 digits.")
    return found


def chat(to: str) -> str:
    """Return a group's JID unchanged, or the digits of a phone number."""
    return to if "@" in to else digits(to)
