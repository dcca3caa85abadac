"""Texts, numbers, phones and times in a person's language and time zone. Texts may have tags; values are escaped."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from wa_orchestrator.texts.catalogue import languages, text, texts
from wa_orchestrator.timestamps import iso


def ltr(value: object) -> Markup:
    """Isolate a left-to-right value (a phone, an id, a time) inside right-to-left text."""
    return Markup('<bdi class="ltr">{}</bdi>').format(value)


def bdi(value: object) -> Markup:
    """Isolate a name, so that its direction does not affect the sentence."""
    return Markup("<bdi>{}</bdi>").format(value)


def spelled_phone(phone: str) -> str:
    if len(phone) == 12 and phone.startswith("972"):
        return f"+972 {phone[3:5]}-{phone[5:8]}-{phone[8:]}"
    if len(phone) == 11 and phone.startswith("1"):
        return f"+1 {phone[1:4]}-{phone[4:7]}-{phone[7:]}"
    return f"+{phone}"


@dataclass(frozen=True, slots=True)
class Locale:
    """A person's language and time zone, and the current time."""

    language: str
    zone: ZoneInfo
    now_ms: int

    @property
    def direction(self) -> str:
        return text(self.language, "language.direction")

    @property
    def other_languages(self) -> dict[str, str]:
        return {code: text(code, "language.name") for code in languages() if code != self.language}

    def knows(self, name: str) -> bool:
        return name in texts(self.language)

    def t(self, name: str, /, **values: object) -> Markup:
        return Markup(texts(self.language)[name]).format(**values)  # noqa: S704 (our own files; values are escaped)

    def n(self, name: str, count: int, /, **values: object) -> Markup:
        """Return a text that depends on a count: `name.zero`, `.one` or `.two` if it exists, else `.other`."""
        forms = {0: f"{name}.zero", 1: f"{name}.one", 2: f"{name}.two"}
        chosen = forms.get(count, f"{name}.other")
        return self.t(chosen if self.knows(chosen) else f"{name}.other", n=self.number(count), **values)

    def plain(self, name: str, /, **values: object) -> Markup:
        """Return a text without tags, for attributes."""
        return Markup(escape(self.t(name, **values).striptags()))  # noqa: S704 (escaped just here)

    def number(self, value: float) -> str:
        return f"{int(value):,}"

    def percent(self, share: float) -> Markup:
        return ltr(f"{share * 100:.1f}%")

    def phone(self, phone: str) -> Markup:
        return ltr(spelled_phone(phone))

    def reason(self, code: str) -> str:
        return text(self.language, f"session_reason.{code}") or code

    def reason_short(self, code: str) -> str:
        """Return a session reason in a few words, for a table."""
        return text(self.language, f"session_reason_short.{code}") or self.reason(code)

    def kind(self, name: str) -> str:
        return self.t(f"kind.{name}").striptags() if self.knows(f"kind.{name}") else name

    def wait_reason(self, code: str) -> str:
        return text(self.language, f"wait_reason.{code}") or code

    # -- times

    def _local(self, at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone(self.zone)

    @property
    def today(self) -> date:
        """The day on which the page is shown."""
        return self._local(self.now_ms).date()

    def clock(self, at_ms: int, form: str = "%H:%M") -> Markup:
        """Format a time, with the day unless it is today."""
        then, today = self._local(at_ms), self._local(self.now_ms)
        clock, days = ltr(then.strftime(form)), (then.date() - today.date()).days
        if days == 0:
            return clock
        if days in (1, -1):
            return self.t("time.tomorrow" if days == 1 else "time.yesterday", clock=clock)
        day = self.t(f"weekday.{then.isoweekday()}") if abs(days) < 7 else self.date(at_ms)
        return Markup("{} {}").format(day, clock)

    def when(self, at_ms: int, form: str = "%H:%M") -> Markup:
        """Say within a sentence when something is: at 10:04, yesterday at 10:04, on Fri at 10:04."""
        return self._on_its_day(at_ms, self.t("time.at", clock=ltr(self._local(at_ms).strftime(form))))

    def when_s(self, at_ms: int) -> Markup:
        return self.when(at_ms, "%H:%M:%S")

    def about(self, at_ms: int) -> Markup:
        """Say within a sentence when something will be, as far as is known: tomorrow at about 10:04."""
        return self._on_its_day(at_ms, self.t("time.about", clock=ltr(self._local(at_ms).strftime("%H:%M"))))

    def _on_its_day(self, at_ms: int, at: Markup) -> Markup:
        then, days = self._local(at_ms), (self._local(at_ms).date() - self.today).days
        if days == 0:
            return at
        if days in (1, -1):
            return self.t("time.at_tomorrow" if days == 1 else "time.at_yesterday", at=at)
        if abs(days) < 7:
            return self.t("time.on_weekday", day=self.t(f"weekday.{then.isoweekday()}"), at=at)
        return self.t("time.on_date", day=self.date(at_ms), at=at)

    def clock_s(self, at_ms: int) -> Markup:
        return self.clock(at_ms, "%H:%M:%S")

    def clock_ms(self, at_ms: int) -> Markup:
        return self.clock(at_ms, f"%H:%M:%S.{at_ms % 1000:03d}")

    def hour(self, at_ms: int) -> Markup:
        """Format a time as HH:MM without the day, for axes."""
        return ltr(f"{self._local(at_ms):%H:%M}")

    def date(self, at_ms: int) -> Markup:
        then = self._local(at_ms)
        return self.t("time.date", day=then.day, month=self.t(f"month.{then.month}"))

    def day(self, at_ms: int) -> Markup:
        """Name the day of an instant: today, yesterday, or its date, with the year if it is another one."""
        then, today = self._local(at_ms).date(), self.today
        days = (today - then).days
        if days in (0, 1):
            return self.t("time.day_yesterday" if days else "time.day_today")
        date = (
            self.date(at_ms)
            if then.year == today.year
            else self.t("time.day_year", date=self.date(at_ms), year=then.year)
        )
        return self.t("time.day_of", weekday=self.t(f"weekday.{then.isoweekday()}"), date=date)

    def day_key(self, at_ms: int) -> str:
        """Return the day of an instant as an ISO date."""
        return self._local(at_ms).date().isoformat()

    def days_until(self, day: str) -> int:
        """Return how many days there are until an ISO date; negative once it has passed."""
        return (date.fromisoformat(day) - self._local(self.now_ms).date()).days

    def ago(self, at_ms: int) -> Markup:
        """Format how long ago something was; the page's script keeps it current."""
        if not at_ms:
            return Markup("—")
        exact = self.clock_s(at_ms).striptags()
        return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
            iso(at_ms), exact, self.span(max(0, self.now_ms - at_ms))
        )

    def span(self, length_ms: int) -> Markup:
        """Format a duration in its largest unit."""
        seconds = length_ms // 1000
        for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
            if seconds >= size:
                return self.t(f"unit.{unit}", n=seconds // size)
        return self.t("unit.s", n=seconds)

    def seconds(self, length_ms: int) -> Markup:
        """Format a short duration in seconds with one digit after the point."""
        return self.t("unit.s", n=ltr(f"{length_ms / 1000:.1f}"))

    def script_texts(self) -> str:
        """Return the texts that the page's script needs as JSON, for an attribute."""
        own = {name: said for name, said in texts(self.language).items() if name.startswith(("script.", "unit."))}
        return json.dumps({name.removeprefix("script."): said for name, said in own.items()}, ensure_ascii=False)
