"""Why a message was not sent, and what can be done about it: a closed list with a remedy and a sentence each."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from wa_orchestrator.domain.sentences import Sentence


class Remedy(StrEnum):
    """What the server does after a failure."""

    RETRY_SAME_ID = "retry_same_id"
    """Wait a little and send the same message with the same WhatsApp id; it counts as an attempt."""
    REFRESH_THEN_RETRY = "refresh_then_retry"
    """The worker asks for the recipient's devices anew and sends again with the same id; counts as an attempt."""
    HAND_BACK = "hand_back"
    """The message is not at fault: it goes back to the front of its queue and no attempt is counted."""
    STOP_SESSION = "stop_session"
    """The account is at fault: the session stops sending and the message waits; no attempt is counted."""
    NEVER = "never"
    """Trying again cannot cure it, or makes it worse."""


class Failure(StrEnum):
    """Why an attempt to send a message did not succeed."""

    NO_ACK = "NO_ACK"
    CONNECTION_LOST = "CONNECTION_LOST"
    SERVER_ERROR = "SERVER_ERROR"
    RATE_LIMITED = "RATE_LIMITED"
    MEDIA_UNREACHABLE = "MEDIA_UNREACHABLE"
    UNKNOWN = "UNKNOWN"
    STALE_DEVICES = "STALE_DEVICES"
    HANDED_BACK = "HANDED_BACK"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    LOGGED_OUT = "LOGGED_OUT"
    BANNED = "BANNED"
    REPLACED_ELSEWHERE = "REPLACED_ELSEWHERE"
    REACHOUT_LOCKED = "REACHOUT_LOCKED"
    NOT_ON_WHATSAPP = "NOT_ON_WHATSAPP"
    OPTED_OUT = "OPTED_OUT"
    BAD_CONTENT = "BAD_CONTENT"
    MEDIA_REFUSED = "MEDIA_REFUSED"
    REFUSED = "REFUSED"
    SESSION_DELETED = "SESSION_DELETED"
    SESSION_RELINKED = "SESSION_RELINKED"
    NO_SENDER = "NO_SENDER"
    SENDER_LOST = "SENDER_LOST"
    WORKER_CRASHED = "WORKER_CRASHED"


F = Failure

REMEDIES: Mapping[Failure, Remedy] = MappingProxyType(
    {
        F.NO_ACK: Remedy.RETRY_SAME_ID,
        F.CONNECTION_LOST: Remedy.RETRY_SAME_ID,
        F.SERVER_ERROR: Remedy.RETRY_SAME_ID,
        F.RATE_LIMITED: Remedy.RETRY_SAME_ID,
        F.MEDIA_UNREACHABLE: Remedy.RETRY_SAME_ID,
        F.UNKNOWN: Remedy.RETRY_SAME_ID,
        F.STALE_DEVICES: Remedy.REFRESH_THEN_RETRY,
        F.HANDED_BACK: Remedy.HAND_BACK,
        F.LEASE_EXPIRED: Remedy.HAND_BACK,
        F.LOGGED_OUT: Remedy.STOP_SESSION,
        F.BANNED: Remedy.STOP_SESSION,
        F.REPLACED_ELSEWHERE: Remedy.STOP_SESSION,
        # A retry counts as another attempt to reach out to a stranger and makes the lock longer.
        F.REACHOUT_LOCKED: Remedy.NEVER,
        F.NOT_ON_WHATSAPP: Remedy.NEVER,
        F.OPTED_OUT: Remedy.NEVER,
        F.BAD_CONTENT: Remedy.NEVER,
        F.MEDIA_REFUSED: Remedy.NEVER,
        F.REFUSED: Remedy.NEVER,
        F.SESSION_DELETED: Remedy.NEVER,
        F.SESSION_RELINKED: Remedy.NEVER,
        F.NO_SENDER: Remedy.NEVER,
        F.SENDER_LOST: Remedy.NEVER,
        F.WORKER_CRASHED: Remedy.NEVER,
    }
)

FREEING: frozenset[Failure] = frozenset({F.SESSION_RELINKED, F.SENDER_LOST})
"""Failures whose sentence says that another try may leave from another phone; after any other, none does."""

#: What WhatsApp's numbers mean when they answer a message. Everything else is `UNKNOWN`.
_BY_NUMBER: Mapping[str, Failure] = MappingProxyType(
    {
        "400": F.BAD_CONTENT,
        "401": F.LOGGED_OUT,
        "403": F.BANNED,
        "408": F.NO_ACK,
        "428": F.CONNECTION_LOST,
        "429": F.RATE_LIMITED,
        "440": F.REPLACED_ELSEWHERE,
        "463": F.REACHOUT_LOCKED,
        "479": F.STALE_DEVICES,
        "500": F.SERVER_ERROR,
        "503": F.SERVER_ERROR,
        "515": F.CONNECTION_LOST,
    }
)

SENTENCES: Mapping[Failure, Sentence] = MappingProxyType(
    {
        F.NO_ACK: Sentence(
            "WhatsApp did not confirm this message in time. It is sent again as the same message, so nobody sees it "
            "twice. Nothing to do.",
            "\u200fWhatsApp לא אישרה את ההודעה בזמן. היא נשלחת שוב כאותה הודעה, ואיש לא יראה אותה פעמיים. "
            "אין מה לעשות.",
        ),
        F.CONNECTION_LOST: Sentence(
            "The connection was lost while sending. The message is sent again when the session is back. Nothing to do.",
            "הקשר נותק בזמן השליחה. ההודעה תישלח שוב כשהחיבור יחזור. אין מה לעשות.",
        ),
        F.SERVER_ERROR: Sentence(
            "WhatsApp had a trouble of its own. The message is sent again after a pause. Nothing to do.",
            "ל־WhatsApp הייתה תקלה. ההודעה תישלח שוב אחרי השהיה. אין מה לעשות.",
        ),
        F.RATE_LIMITED: Sentence(
            "WhatsApp asked to slow down. The message is sent again after a pause. Send less from this phone.",
            "\u200fWhatsApp ביקשה להאט. ההודעה תישלח שוב אחרי השהיה. שלחו פחות מהמספר הזה.",
        ),
        F.MEDIA_UNREACHABLE: Sentence(
            "The file could not be fetched from its address. It is tried again. Check that the address answers.",
            "לא ניתן היה להביא את הקובץ מהכתובת. ננסה שוב. בדקו שהכתובת עונה.",
        ),
        F.UNKNOWN: Sentence(
            "The message was not accepted, and the answer is not one we know. Read the session's log, then retry.",
            "ההודעה לא התקבלה, והתשובה אינה מוכרת לנו. קראו את היומן של החיבור ונסו שוב.",
        ),
        F.STALE_DEVICES: Sentence(
            "The recipient changed devices. Their list is read anew and the message is sent again. Nothing to do.",
            "לנמען יש מכשירים חדשים. הרשימה נקראת מחדש וההודעה תישלח שוב. אין מה לעשות.",
        ),
        F.HANDED_BACK: Sentence(
            "The worker stopped before it sent this message and gave it back. It is sent next. Nothing to do.",
            "התהליך נעצר לפני השליחה והחזיר את ההודעה. היא הבאה בתור. אין מה לעשות.",
        ),
        F.LEASE_EXPIRED: Sentence(
            "The worker ended while it held this message. It is sent again as the same message. Nothing to do.",
            "התהליך הסתיים בזמן שהחזיק בהודעה. היא תישלח שוב כאותה הודעה. אין מה לעשות.",
        ),
        F.LOGGED_OUT: Sentence(
            "The device was removed on the phone. The message waits. Scan a new code to go on.",
            "המכשיר הוסר מהטלפון. ההודעה ממתינה. סרקו קוד חדש כדי להמשיך.",
        ),
        F.BANNED: Sentence(
            "WhatsApp banned the sending account. The message is held. Ask for a review in the phone's own app.",
            "\u200fWhatsApp חסמה את החשבון השולח. ההודעה מוקפאת. בקשו בדיקה מהאפליקציה שבטלפון.",
        ),
        F.REPLACED_ELSEWHERE: Sentence(
            "Another program opened the sending session. The message waits. Close it there, then press Start.",
            "תוכנה אחרת פתחה את החיבור השולח. ההודעה ממתינה. סגרו אותו שם ולחצו הפעלה.",
        ),
        F.REACHOUT_LOCKED: Sentence(
            "WhatsApp does not let this account write to new contacts now. Nothing was sent and it is not tried again. "
            "Wait until the lock ends, or let the person write first.",
            "\u200fWhatsApp לא מאפשרת לחשבון לכתוב כעת לאנשי קשר חדשים. דבר לא נשלח ולא ננסה שוב. "
            "המתינו לסוף הנעילה, או בקשו מהאדם לכתוב ראשון.",
        ),
        F.NOT_ON_WHATSAPP: Sentence(
            "This number has no WhatsApp. Nothing was sent. Check the number.",
            "למספר הזה אין WhatsApp. דבר לא נשלח. בדקו את המספר.",
        ),
        F.OPTED_OUT: Sentence(
            "This person asked not to be written to. Nothing is sent to them by any path.",
            "האדם ביקש שלא יכתבו לו. שום הודעה לא תישלח אליו, בשום דרך.",
        ),
        F.BAD_CONTENT: Sentence(
            "WhatsApp does not take a message like this. Nothing was sent. Change it and send it anew.",
            "\u200fWhatsApp לא מקבלת הודעה כזו. דבר לא נשלח. שנו אותה ושלחו מחדש.",
        ),
        F.MEDIA_REFUSED: Sentence(
            "The file is of a kind or size that cannot be sent. Nothing was sent. Send another file.",
            "סוג הקובץ או גודלו אינם ניתנים לשליחה. דבר לא נשלח. שלחו קובץ אחר.",
        ),
        F.REFUSED: Sentence(
            "The message was refused, and trying again would not help. Nothing was sent. Read the session's log.",
            "ההודעה נדחתה, וניסיון נוסף לא יעזור. דבר לא נשלח. קראו את היומן של החיבור.",
        ),
        F.SESSION_DELETED: Sentence(
            "The session that was to send this was deleted. Nothing was sent. Send it from another session.",
            "החיבור שהיה אמור לשלוח נמחק. דבר לא נשלח. שלחו מחיבור אחר.",
        ),
        F.SESSION_RELINKED: Sentence(
            "After an attempt to send this, its session was linked to another phone. The recipient may have it from "
            "the old one. Retry it to send it from another; they may then read it twice.",
            "אחרי ניסיון שליחה החיבור קושר לטלפון אחר. ייתכן שההודעה הגיעה מהטלפון הקודם. "
            "נסו שוב כדי לשלוח מטלפון אחר; ייתכן שתיקרא פעמיים.",
        ),
        F.NO_SENDER: Sentence(
            "The session that was to send this is gone, and no other may send it. Nothing was sent. "
            "Connect a session, then retry it or send it anew.",
            "החיבור שהיה אמור לשלוח איננו, ואף חיבור אחר אינו רשאי לשלוח. דבר לא נשלח. "
            "חברו חיבור ונסו שוב, או שלחו מחדש.",
        ),
        F.SENDER_LOST: Sentence(
            "After an attempt to send this, its session was gone, and no other took it over. The recipient may have "
            "it. Ask before you send it again: from another phone they may read it twice.",
            "אחרי ניסיון שליחה החיבור השולח איננו, ואף חיבור אחר לא לקח אותה. ייתכן שההודעה הגיעה לנמען. "
            "בררו לפני שליחה נוספת: מטלפון אחר היא עלולה להיקרא פעמיים.",
        ),
        F.WORKER_CRASHED: Sentence(
            "The worker ended again and again while it held this message, so it is not tried any more. "
            "Read the session's log, then retry it or send it without what may break it.",
            "התהליך הסתיים שוב ושוב בזמן שהחזיק בהודעה, ולכן לא ננסה עוד. "
            "קראו את היומן של החיבור ונסו שוב, או שלחו אותה בצורה אחרת.",
        ),
    }
)


def sentence(failure: Failure, language: str) -> str:
    """Say in `language` (`en` or `he`) why a message was not sent and what to do about it."""
    return SENTENCES[failure].in_language(language)


def failure_of(code: str | int, *, retryable: bool = True) -> Failure:
    """Name the failure that a worker reported by a word or by WhatsApp's number.

    A code that nobody knows is tried again, unless the worker says that it is no use.
    """
    word = str(code).strip().upper()
    if word in Failure.__members__:
        return Failure[word]
    return _BY_NUMBER.get(word, F.UNKNOWN if retryable else F.REFUSED)
