"""What a message waits for: a closed list. The sentence of each is `wait_reason.<code>` in `texts`."""

from enum import StrEnum


class WaitReason(StrEnum):
    """What a message waits for."""

    NOTHING = "NOTHING"
    PAUSE = "PAUSE"
    MINUTE_IS_FULL = "MINUTE_IS_FULL"
    DAY_IS_FULL = "DAY_IS_FULL"
    OUTSIDE_HOURS = "OUTSIDE_HOURS"
    HELD = "HELD"
    BANNED_HOLD = "BANNED_HOLD"
    REACHOUT_LOCKED = "REACHOUT_LOCKED"
    NEW_CHAT_CAP = "NEW_CHAT_CAP"
    SCHEDULED = "SCHEDULED"
    SESSION_OFFLINE = "SESSION_OFFLINE"
    BEHIND_OTHERS = "BEHIND_OTHERS"
    IN_FLIGHT = "IN_FLIGHT"
    NO_SENDER = "NO_SENDER"
