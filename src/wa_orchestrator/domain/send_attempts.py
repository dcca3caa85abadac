"""What the record of a message tells of attempts to send it: whether its recipient may have it, and who may send it."""

from collections.abc import Mapping


def may_have_arrived(fields: Mapping[str, str]) -> bool:
    """Say whether a worker has ever held it. A retry begins anew to count attempts, but does not undo what was sent."""
    return bool(fields.get("claimed_at"))


def is_tied_to_its_phone(fields: Mapping[str, str]) -> bool:
    """Say whether it may leave from its own phone only: from another the recipient would read it twice.

    It is free again once a person was told so and has asked for another try all the same (`failures.FREEING`).
    """
    return may_have_arrived(fields) and not fields.get("freed")
