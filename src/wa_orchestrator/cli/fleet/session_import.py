"""`wa-orchestrator import`: linked devices of other programs on Baileys, shown before anything is done."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation, confirm, error_line
from wa_orchestrator.errors import Refused

_CREDENTIALS = "creds.json"
_KEYS = re.compile(r"(pre-key|session|sender-key|app-state-sync-key)-.+\.json")
#: Directories below the given one that are looked into: `.sessions/noweb/<name>/auth`.
_DEEPEST = 4
#: Names of directories that say nothing about whose account is in them.
_NAMELESS = frozenset({"auth", "auth_info", "auth_info_baileys", "baileys_auth_info", "session"})
_RECENT_S = 60
_COLUMNS = {
    "session": "id", "from": "place", "phone": "phone", "device": "device", "keys": "keys", "written": "written",
    "": "problem",
}  # fmt: skip


@dataclass
class Found:
    """An account in a directory, or in one exported document."""

    place: Path
    id: str
    written_at: float = 0
    answer: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def read(self) -> dict[str, Any]:
        """Return the account as the server takes it. Raises `Refused` if a file cannot be read."""
        try:
            if self.place.is_file():
                self.written_at = self.place.stat().st_mtime
                return {"document": self.place.read_text("utf-8")}
            files = [each for each in self.place.iterdir() if each.name == _CREDENTIALS or _KEYS.fullmatch(each.name)]
            self.written_at = max((each.stat().st_mtime for each in files), default=0)
            others = [each for each in self.place.glob("*.json") if each not in files]
            return {"files": {each.name: each.read_text("utf-8") for each in (*files, *others)}}
        except (OSError, UnicodeDecodeError) as error:
            raise Refused("BAD_FILE", f"{self.place}: cannot be read ({error}).") from None


def import_accounts(
    run: Invocation,
    places: Annotated[list[Path], typer.Argument(metavar="PLACE…", help="Directories with creds.json, or above them.")],
    *,
    label: Annotated[str | None, typer.Option(help="Display name of the sessions.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A group they belong to; may be repeated.")] = None,
    proxy: Annotated[str | None, typer.Option(help="socks5h://user:password@host:port for all of them.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was found; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: the old program is off.")] = False,
) -> None:
    """Take over linked devices of WAHA (NOWEB), Evolution or any program on Baileys, without a scan."""
    found = list(_accounts(places))
    if not found:
        raise Refused("NOTHING_FOUND", f"There is no {_CREDENTIALS} in {', '.join(map(str, places))} or below.")
    session = {"label": label, "tags": tag, "proxy": proxy}
    for each in found:
        _preview(run, each)
    good = [each for each in found if not each.problem]
    if not run.options.as_json:
        tables.table(_COLUMNS, [_row(each) for each in found])
    for each in good:
        if time.time() - each.written_at < _RECENT_S:
            typer.echo(f"! {each.place} was written to within the last minute. Is the old program off?", err=True)
    if good and not dry_run:
        text = "Two programs with one device push each other off WhatsApp."
        confirm(f"Import {len(good)} sessions? The old program must be off: {text}", yes=yes)
        for each in good:
            _take_over(run, each, session)
    _report(run, found, dry_run=dry_run)
    if any(each.problem for each in found):
        raise typer.Exit(EXIT_FAILED)


def _accounts(places: list[Path]) -> Iterator[Found]:
    names: set[str] = set()
    for place in places:
        for each in [place] if place.is_file() else _directories(place, _DEEPEST):
            named = each.parent.name if each.is_dir() and each.name in _NAMELESS else each.name.removesuffix(".json")
            plain = re.sub(r"[^A-Za-z0-9_-]+", "-", named).strip("-")[:60] or "imported"
            name = next(name for name in (plain, *(f"{plain}-{n}" for n in range(2, 10_000))) if name not in names)
            names.add(name)
            yield Found(each, name)


def _directories(place: Path, depth: int) -> Iterator[Path]:
    """Yield the directories that hold an account, or keys without one: those are shown, too."""
    try:
        inside = sorted(place.iterdir())
    except OSError as error:
        raise Refused("BAD_FILE", f"{place}: cannot be read: {error.strerror}.") from None
    if any(each.name == _CREDENTIALS or _KEYS.fullmatch(each.name) for each in inside):
        yield place
    elif depth > 0:
        for each in inside:
            if each.is_dir() and not each.is_symlink():
                yield from _directories(each, depth - 1)


def _preview(run: Invocation, found: Found) -> None:
    from wa_orchestrator.client import ApiError

    try:
        found.answer = run.client.import_account(found.read(), session_id=found.id, dry_run=True)
    except ApiError as error:
        if not error.code.startswith("IMPORT_"):
            raise  # it is not this account that is wrong
        found.problem = error_line(error, run)
    except Refused as error:
        found.problem = error.text


def _take_over(run: Invocation, found: Found, session: dict[str, Any]) -> None:
    from wa_orchestrator.client import ApiError

    seen = found.written_at
    try:
        account = found.read()
        if found.written_at != seen:
            found.problem = "STILL_RUNNING: it was written to just now. Stop the old program; nothing was changed."
            return
        found.answer = run.client.import_account(account, session_id=found.id, old_place_is_off=True, **session)
    except ApiError as error:
        found.problem = error_line(error, run)
    except Refused as error:
        found.problem = error.text


def _row(found: Found) -> dict[str, Any]:
    answer = found.answer
    written = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.written_at)) if found.written_at else ""
    return {
        "id": found.id, "place": str(found.place), "phone": answer.get("phone", ""), "device": answer.get("device", ""),
        "keys": sum(answer.get("keys", {}).values()) if answer else "", "written": written, "problem": found.problem,
    }  # fmt: skip


def _report(run: Invocation, found: list[Found], *, dry_run: bool) -> None:
    done = [each for each in found if not each.problem]
    shown = [{**each.answer, "place": str(each.place), "problem": each.problem or None} for each in found]

    def show() -> None:
        what = "can be imported; nothing was changed" if dry_run else "are imported and start without a scan"
        tables.line(f"{len(done)} of {len(found)} sessions {what}.")
        if not dry_run:
            for each in found:
                if each.problem and each.answer:
                    typer.echo(f"{each.place}: {each.problem}", err=True)

    run.output({"accounts": shown}, show)
