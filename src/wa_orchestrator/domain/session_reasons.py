"""Why a session is where it is: a closed list, each with one sentence that says what to do."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from wa_orchestrator.domain.sentences import Sentence


class Reason(StrEnum):
    """Why a session has its state. The sentence of each is in `SENTENCES`."""

    WAITING_FOR_TURN = "WAITING_FOR_TURN"
    STARTING = "STARTING"
    SCAN_THE_CODE = "SCAN_THE_CODE"
    ENTER_THE_CODE = "ENTER_THE_CODE"
    WAITING_FOR_PROXY = "WAITING_FOR_PROXY"
    PROXY_FAILOVER = "PROXY_FAILOVER"
    PROXY_RETRY = "PROXY_RETRY"
    MOVING_TO_STICKY_PROXY = "MOVING_TO_STICKY_PROXY"
    RECONNECTING = "RECONNECTING"
    RESTARTING = "RESTARTING"
    WORKER_SILENT = "WORKER_SILENT"
    WORKER_CRASHED = "WORKER_CRASHED"
    SERVER_STOPPED = "SERVER_STOPPED"
    LOGGED_OUT = "LOGGED_OUT"
    REPLACED_ELSEWHERE = "REPLACED_ELSEWHERE"
    BANNED = "BANNED"
    TEMPORARY_BAN = "TEMPORARY_BAN"
    PASSKEY_REQUIRED = "PASSKEY_REQUIRED"
    CLIENT_OUTDATED = "CLIENT_OUTDATED"
    AUTH_FAILURE = "AUTH_FAILURE"
    TOO_MANY_RESTARTS = "TOO_MANY_RESTARTS"
    QR_EXPIRED = "QR_EXPIRED"
    STOPPED_BY_OPERATOR = "STOPPED_BY_OPERATOR"
    BACKUP = "BACKUP"
    RESTORE = "RESTORE"


R = Reason

#: One sentence per reason. Details that change (an end time, a count) are shown beside it, not inside it.
SENTENCES: Mapping[Reason, Sentence] = MappingProxyType(
    {
        R.WAITING_FOR_TURN: Sentence(
            "Waits for its turn to start: sessions start one after another. Nothing to do.",
            "ממתין לתורו: חיבורים מופעלים בזה אחר זה. אין מה לעשות.",
        ),
        R.STARTING: Sentence(
            "Its worker is starting. A code or the connection follows in a moment; nothing to do.",
            "התהליך עולה. קוד או התחברות יגיעו בעוד רגע; אין מה לעשות.",
        ),
        R.SCAN_THE_CODE: Sentence(
            "A code is ready. Open WhatsApp on the phone, Linked devices, and scan it.",
            "קוד מוכן. פתחו את WhatsApp בטלפון, מכשירים מקושרים, וסרקו אותו.",
        ),
        R.ENTER_THE_CODE: Sentence(
            "A pairing code is ready. Open WhatsApp on the phone, Linked devices, and enter it.",
            "קוד קישור מוכן. פתחו את WhatsApp בטלפון, מכשירים מקושרים, והקלידו אותו.",
        ),
        R.WAITING_FOR_PROXY: Sentence(
            "Waits for a proxy slot: all are taken. Add a proxy and it goes on by itself.",
            "ממתין למקום בפרוקסי: כל המקומות תפוסים. הוסיפו פרוקסי והוא ימשיך מעצמו.",
        ),
        R.PROXY_FAILOVER: Sentence(
            "Its proxy failed our check. It is moving to another one; no new scan is needed.",
            "הפרוקסי נכשל בבדיקה שלנו. החיבור עובר לאחר; אין צורך בסריקה חדשה.",
        ),
        R.PROXY_RETRY: Sentence(
            "It lost its proxy, but the proxy passed our check. It starts again on the same one; nothing to do.",
            "הקשר לפרוקסי נפל, אבל הפרוקסי עבר את הבדיקה שלנו. החיבור עולה שוב על אותו פרוקסי; אין מה לעשות.",
        ),
        R.MOVING_TO_STICKY_PROXY: Sentence(
            "This phone already has a proxy of its own. The session is moving to it; no new scan is needed.",
            "למספר הזה כבר יש פרוקסי קבוע. החיבור עובר אליו; אין צורך בסריקה חדשה.",
        ),
        R.RECONNECTING: Sentence(
            "The connection to WhatsApp was lost. It reconnects by itself; nothing to do.",
            "הקשר עם WhatsApp נותק. החיבור מתחבר מחדש מעצמו; אין מה לעשות.",
        ),
        R.RESTARTING: Sentence(
            "It is restarting because someone asked for it. Credentials stay; no new scan is needed.",
            "החיבור מופעל מחדש לפי בקשה. פרטי ההתחברות נשמרים; אין צורך בסריקה חדשה.",
        ),
        R.WORKER_SILENT: Sentence(
            "Its worker went silent, so a new one is starting. No new scan is needed.",
            "התהליך השתתק, ולכן עולה תהליך חדש. אין צורך בסריקה חדשה.",
        ),
        R.WORKER_CRASHED: Sentence(
            "Its worker ended unexpectedly, so a new one is starting. No new scan is needed.",
            "התהליך הסתיים במפתיע, ולכן עולה תהליך חדש. אין צורך בסריקה חדשה.",
        ),
        R.SERVER_STOPPED: Sentence(
            "Its worker ended with the server, or while that was away. It starts again by itself; no scan is needed.",
            "התהליך הסתיים יחד עם השרת, או בזמן שהשרת לא פעל. הוא עולה שוב מעצמו; אין צורך בסריקה חדשה.",
        ),
        R.LOGGED_OUT: Sentence(
            "Someone removed this device on the phone. Scan the new code to go on. Trust starts again.",
            "המכשיר הוסר מהטלפון. סרקו את הקוד החדש כדי להמשיך. הוותק מתחיל מחדש.",
        ),
        R.REPLACED_ELSEWHERE: Sentence(
            "Another program opened this session. Close it there, then press Start.",
            "תוכנה אחרת פתחה את החיבור. סגרו אותו שם ולחצו הפעלה.",
        ),
        R.BANNED: Sentence(
            "WhatsApp banned this account. Its messages are held. Ask for a review in the phone's own app; "
            "do not link it again before that.",
            "\u200fWhatsApp חסמה את החשבון. ההודעות שלו מוקפאות. בקשו בדיקה מהאפליקציה שבטלפון; אל תקשרו שוב לפני כן.",
        ),
        R.TEMPORARY_BAN: Sentence(
            "WhatsApp paused this account for a while. Sending is held and goes on by itself. "
            "Send less, and only to people who know you.",
            "\u200fWhatsApp השעתה את החשבון לזמן מה. השליחה מוקפאת ותתחדש מעצמה. שלחו פחות, ורק למי שמכיר אתכם.",
        ),
        R.PASSKEY_REQUIRED: Sentence(
            "WhatsApp wants this account's passkey before it links a device. Nothing was changed. "
            "Link it again in a few days, or another number now.",
            "\u200fWhatsApp מבקשת את מפתח הגישה של החשבון לפני קישור מכשיר. דבר לא השתנה. "
            "נסו שוב בעוד כמה ימים, או קשרו מספר אחר.",
        ),
        R.CLIENT_OUTDATED: Sentence(
            "WhatsApp no longer accepts this version. Update the server; credentials stay.",
            "\u200fWhatsApp כבר לא מקבלת את הגרסה הזו. עדכנו את השרת; פרטי ההתחברות נשמרים.",
        ),
        R.AUTH_FAILURE: Sentence(
            "Its credentials cannot be read. They were left as they are. Restore a backup, or delete the session "
            "and link the phone again.",
            "אי אפשר לקרוא את פרטי ההתחברות. הם נשארו כמו שהם. שחזרו מגיבוי, או מחקו את החיבור וקשרו את המספר שוב.",
        ),
        R.TOO_MANY_RESTARTS: Sentence(
            "Restarted 3 times in 15 minutes and still silent. Read its log, then press Start.",
            "הופעל מחדש 3 פעמים ב־15 דקות ועדיין שותק. קראו את היומן ואז לחצו הפעלה.",
        ),
        R.QR_EXPIRED: Sentence(
            "Nobody scanned the codes. Press Start to show new ones when the phone is at hand.",
            "הקודים לא נסרקו. לחצו הפעלה כדי להציג חדשים כשהטלפון ביד.",
        ),
        R.STOPPED_BY_OPERATOR: Sentence(
            "Someone stopped this session. Its messages wait. Press Start to go on.",
            "החיבור נעצר לפי בקשה. ההודעות ממתינות. לחצו הפעלה כדי להמשיך.",
        ),
        R.BACKUP: Sentence(
            "Stopped for a moment while its files are backed up. It goes on by itself.",
            "נעצר לרגע לצורך גיבוי הקבצים. ימשיך מעצמו.",
        ),
        R.RESTORE: Sentence(
            "Stopped while a backup is restored. It goes on by itself.",
            "נעצר בזמן שחזור מגיבוי. ימשיך מעצמו.",
        ),
    }
)


def sentence(reason: Reason, language: str) -> str:
    """Say in `language` (`en` or `he`) why a session is where it is and what to do about it."""
    return SENTENCES[reason].in_language(language)
