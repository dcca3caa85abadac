"""Phone numbers as people write them to the control."""

import re

from wa_orchestrator.simulator.errors import SimulatorError


def digits(phone: str) -> str:
    """Take out what people put between digits; raise SimulatorError for what is no phone number."""
    found = re.sub(r"[+ -]", "", phone)
    if not re.fullmatch(r"\d{8,15}", found):
        raise SimulatorError("BAD_PHONE", f"{phone!r} is not a phone number: 8 to 15 digits.")
    return found


def chat(to: str) -> str:
    """A group keeps its address; a phone becomes digits."""
    return to if "@" in to else digits(to)
