"""What a message waits for: a closed list, each with one sentence for a person."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from wa_orchestrator.domain.sentences import Sentence


class Because(StrEnum):
    """What a message waits for. The sentence of each is in `SENTENCES`."""

    NOTHING = "NOTHING"
    PAUSE = "PAUSE"
    MINUTE_IS_FULL = "MINUTE_IS_FULL"
    DAY_IS_FULL = "DAY_IS_FULL"
    OUTSIDE_HOURS = "OUTSIDE_HOURS"
    HELD = "HELD"
    BANNED_HOLD = "BANNED_HOLD"
    REACHOUT_LOCKED = "REACHOUT_LOCKED"
    SCHEDULED = "SCHEDULED"
    BACKOFF = "BACKOFF"
    SESSION_OFFLINE = "SESSION_OFFLINE"
    BEHIND_OTHERS = "BEHIND_OTHERS"
    IN_FLIGHT = "IN_FLIGHT"
    NO_SENDER = "NO_SENDER"


B = Because

SENTENCES: Mapping[Because, Sentence] = MappingProxyType(
    {
        B.NOTHING: Sentence("It waits for nothing and leaves now.", "ההודעה לא ממתינה לדבר ויוצאת עכשיו."),
        B.PAUSE: Sentence(
            "This phone pauses between two messages. It leaves by itself.",
            "המספר עושה השהיה בין שתי הודעות. ההודעה תצא מעצמה.",
        ),
        B.MINUTE_IS_FULL: Sentence(
            "This phone has sent all it may within a minute. It leaves by itself.",
            "המספר שלח את כל המותר בדקה. ההודעה תצא מעצמה.",
        ),
        B.DAY_IS_FULL: Sentence(
            "This phone has sent all it may today. It leaves by itself on the next day.",
            "המספר שלח את כל המותר היום. ההודעה תצא מעצמה ביום הבא.",
        ),
        B.OUTSIDE_HOURS: Sentence(
            "It is outside this phone's hours. It leaves by itself when they begin.",
            "זה מחוץ לשעות הפעילות של המספר. ההודעה תצא מעצמה כשהן יתחילו.",
        ),
        B.HELD: Sentence(
            "Someone paused sending. End the pause and it leaves.",
            "מישהו השהה את השליחה. סיימו את ההשהיה והיא תצא.",
        ),
        B.BANNED_HOLD: Sentence(
            "WhatsApp restricted this account, so sending is held. Read the session's reason and follow it.",
            "\u200fWhatsApp הגבילה את החשבון, ולכן השליחה מוקפאת. קראו את הסיבה שבחיבור ופעלו לפיה.",
        ),
        B.REACHOUT_LOCKED: Sentence(
            "WhatsApp does not let this account write to new contacts now. It leaves when the lock ends, "
            "or at once when the person writes first.",
            "\u200fWhatsApp לא מאפשרת לחשבון לכתוב כעת לאנשי קשר חדשים. ההודעה תצא בסוף הנעילה, "
            "או מיד כשהאדם יכתוב ראשון.",
        ),
        B.SCHEDULED: Sentence(
            "It was asked to leave at this time. Nothing to do.",
            "ביקשו שההודעה תצא בשעה הזו. אין מה לעשות.",
        ),
        B.BACKOFF: Sentence(
            "An attempt failed. It is tried again after a pause; nothing to do.",
            "ניסיון נכשל. ננסה שוב אחרי השהיה; אין מה לעשות.",
        ),
        B.SESSION_OFFLINE: Sentence(
            "Its session is not connected. It leaves when the session is back; read the session's reason.",
            "החיבור אינו פעיל. ההודעה תצא כשהחיבור יחזור; קראו את הסיבה שבחיבור.",
        ),
        B.BEHIND_OTHERS: Sentence(
            "Other messages of this phone are before it. It leaves by itself.",
            "הודעות אחרות של המספר לפניה. היא תצא מעצמה.",
        ),
        B.IN_FLIGHT: Sentence(
            "The message before it is being sent. It leaves by itself.",
            "ההודעה שלפניה נשלחת כעת. היא תצא מעצמה.",
        ),
        B.NO_SENDER: Sentence(
            "No session can send it now. Connect one and it leaves by itself.",
            "אין כעת חיבור שיכול לשלוח אותה. חברו אחד והיא תצא מעצמה.",
        ),
    }
)


def sentence(because: Because, language: str) -> str:
    """Say in `language` (`en` or `he`) what a message waits for."""
    return SENTENCES[because].in_language(language)
