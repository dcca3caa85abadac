"""Checks a campaign before it is created: its text, its file, and opt-outs. Reports all problems at once."""

from collections.abc import Sequence
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone
from wa_orchestrator.domain.campaigns import recipients, template
from wa_orchestrator.domain.campaigns.recipients import (
    BadFile,
    BadLine,
    FileProblem,
    LineProblem,
    Recipient,
    Recipients,
)
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.campaigns.campaign_models import MOST_RECIPIENTS, CampaignBody
from wa_orchestrator.store.messages import contacts

#: Lines with a problem that a refusal lists; it counts all.
_LISTED: Final = 200
_FILE_TEXTS: Final = {
    FileProblem.EMPTY: "The file has no lines. Its first line names the columns, one of them `phone`.",
    FileProblem.NO_PHONE_COLUMN: "No column is called `phone`. The file has: {names}. Rename the one with the numbers.",
    FileProblem.COLUMN_TWICE: "Two columns have one name: {names}. Rename one of them.",
    FileProblem.COLUMN_MISSING: "The text has fields for which the file has no column: {names}.",
    FileProblem.NOT_CSV: "The file is not CSV: a quotation mark is not closed. Export it again.",
    FileProblem.TOO_MANY: f"A campaign has at most {MOST_RECIPIENTS} recipients. Make several.",
}
_LINE_TEXTS: Final = {
    LineProblem.NO_NUMBER: "Line {line}: there is no number.",
    LineProblem.BAD_NUMBER: "Line {line}: {value} is not a phone number with its country code.",
    LineProblem.SPREADSHEET_NUMBER: "Line {line}: a spreadsheet turned the number into {value}. Format the column as "
    "text and export the file again.",
    LineProblem.RECIPIENT_IS_LID: "Line {line}: {value} is WhatsApp's LID of a person, not a phone number.",
    LineProblem.FIELD_EMPTY: "Line {line}: {{{{{value}}}}} is empty.",
    LineProblem.TOO_LONG: "Line {line}: the text gets too long.",
}


async def check(context: Context, body: CampaignBody) -> tuple[Sequence[Recipient], int, int]:
    """Return the recipients, how many lines repeat one, and how many have opted out; raises what must be corrected."""
    _check_text(context, body.text)
    read = recipients.read(body.csv, body.text, phone.parse, most=MOST_RECIPIENTS)
    if isinstance(read, BadFile):
        names = ", ".join(read.names)
        text = _FILE_TEXTS[read.problem].format(names=names)
        raise Refused(f"CAMPAIGN_FILE_{read.problem}", text, 422, names=list(read.names))
    read = await _without_lids(context, read)
    if read.problems and not body.skip_bad_lines:
        raise _bad_lines(read.problems)
    # Those that hold for one phone are a worker's word alone: they end a message when it is to leave from that phone.
    opted_out = {each.recipient for each in await contacts.opt_outs(context.scripts) if not each.only_from}
    found = [each for each in read.found if each.to not in opted_out]
    if not found:
        text = "Nobody is left to write to: all lines have errors, or the recipients have opted out."
        raise Refused("CAMPAIGN_NO_RECIPIENTS", text, 422)
    return found, read.doubles, len(read.found) - len(found)


async def _without_lids(context: Context, read: Recipients) -> Recipients:
    """Return the recipients without those whose digits are a known LID, each of which is a problem of its line."""
    lids = await contacts.known_lids(context.scripts, [each.to for each in read.found])
    refused = [BadLine(each.line, LineProblem.RECIPIENT_IS_LID, each.to) for each in read.found if each.to in lids]
    problems = sorted([*read.problems, *refused], key=lambda each: each.line)
    return Recipients([each for each in read.found if each.to not in lids], read.doubles, problems)


def _check_text(context: Context, text: str) -> None:
    if template.has_stray_braces(text):
        raise Refused("CAMPAIGN_BRACES", "The text has {{ or }} outside of a field. Write a field as {{name}}.", 422)
    words = context.settings.stop_words
    if not template.tells_how_to_stop(text, words):
        known = ", ".join(words)
        text = f"The text must say how to stop, with one of these words: {known}. Such as: To stop, answer {words[0]}."
        raise Refused("CAMPAIGN_NO_STOP_WORD", text, 422, words=list(words))


def _bad_lines(problems: Sequence[BadLine]) -> Refused:
    errors = [
        {
            "path": f"csv.{each.line}",
            "code": str(each.problem),
            "message": _LINE_TEXTS[each.problem].format(line=each.line, value=each.value),
            "line": each.line,
            "value": each.value,
        }
        for each in problems[:_LISTED]
    ]
    text = (
        f"{len(problems)} lines of the file have a problem; `errors` lists them. Correct them, or leave them out with "
        "`skipBadLines`."
    )
    return Refused("CAMPAIGN_LINES", text, 422, count=len(problems), errors=errors)
