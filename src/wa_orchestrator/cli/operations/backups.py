"""`wa-orchestrator backup`, `backups`, `restore`: of a running server; `restore-secrets`: before its first start."""

import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.terminal import tables
from wa_orchestrator.cli.terminal.command import EXIT_FAILED, Invocation, confirm
from wa_orchestrator.cli.terminal.download import save
from wa_orchestrator.errors import Refused

COLUMNS = {
    "backup": "id", "made": "createdAt", "sessions": "sessions", "bytes": "bytes", "verified": "verifiedAt",
    "encrypted": "encrypted", "copied": "copied", "left out": "leftOut",
}  # fmt: skip
#: Why a restore that was decided did not happen.
_NOT_RESTORED = {
    "NOT_EMPTY": "A session or a message came here after the check. Nothing was restored. Run the command again: then "
    "the sessions alone come back.",
}
_LOOK_S = 0.3
_MOST_S = 3600.0
BackupId = Annotated[str, typer.Argument(metavar="BACKUP", help="The backup's id, backup_…")]
Identity = Annotated[
    Path | None, typer.Option("--identity", help="The file with the secret key, for an encrypted backup.")
]


def backups(run: Invocation) -> None:
    """List backups."""
    found = run.client.backups()
    has_copies = found["copyDir"] or found["copyUrl"]
    rows = [
        each | {"sessions": len(each["sessions"]), "copied": each["copied"] if has_copies else None}
        for each in found["backups"]
    ]
    run.output(
        found, lambda: tables.table(COLUMNS, rows, empty="There are no backups. Make one: wa-orchestrator backup")
    )


def backup(run: Invocation) -> None:
    """Make a backup now, without stopping anyone, and wait for it. Exit code 1 when it fails."""
    before = run.client.backups()
    run.client.create_backup()
    ended = _follow(run, "backup", lambda now: _newer(now, before["latest"], "backup"))
    done = f"{ended['id']} was made and verified: {_counted(ended['sessions'])}."
    run.say(ended, _made(ended, done, older=before["backups"]))
    left_out = [
        name for each in run.client.backups()["backups"] if each["id"] == ended["id"] for name in each["leftOut"]
    ]
    if left_out:
        typer.echo(f"Not in it: {', '.join(left_out)}. Their credentials are missing or cannot be read.", err=True)
    if ended["error"]:
        raise typer.Exit(EXIT_FAILED)


def download_backup(
    run: Invocation,
    backup_id: BackupId,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: its own name.")] = None,
) -> None:
    """Save a backup on this machine."""
    from wa_orchestrator.client.api_call import in_path

    file = output or Path(Path(backup_id).name)
    size = save(run, f"/api/v1/backups/download/{in_path(backup_id)}", file)
    run.say({"file": str(file), "bytes": size}, f"{file}: {size} bytes.")


def restore(
    run: Invocation,
    backup_id: BackupId,
    *,
    session: Annotated[list[str] | None, typer.Option("--session", help="Only this one; may be repeated.")] = None,
    identity: Identity = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Check a backup completely, show what would change, and restore it. If a check fails, nothing is changed.

    Exit code 1 when it fails, and when a session did not come back as it was.
    """
    key = _read(identity) if identity else None
    plan = run.client.restore_backup(backup_id, sessions=session, identity=key, dry_run=True)
    for text in _described(plan):
        typer.echo(text, err=True)
    confirm(_question(backup_id, plan), yes=yes)
    before = run.client.backups()
    run.client.restore_backup(backup_id, sessions=session, identity=key, accept_older=True)
    ended = _follow(run, "restore", lambda now: _newer(now, before["latest"], "restore"))
    run.say(ended, _restored(backup_id, ended))
    if not ended["complete"]:
        raise typer.Exit(EXIT_FAILED)


def restore_secrets(data_dir: Path, archive: Path, identity: Path) -> Path:
    """Write the generated secrets of an encrypted backup into a data directory that has none; return their file."""
    from wa_orchestrator.orchestrator.backups import archive_reader, manifest

    target = data_dir / manifest.SECRETS
    if target.exists():
        raise Refused("HAS_SECRETS", f"{target} exists. Move it away first, if the secrets of the backup are wanted.")
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / "archive.zip"
        archive_reader.decrypt(archive, plain, archive_reader.identity_of(_read(identity)))
        archive_reader.unpack(plain, Path(place) / "files")
        with zipfile.ZipFile(plain) as opened:
            if manifest.SECRETS not in opened.namelist():
                raise Refused("NO_SECRETS", "The backup has no generated secrets: its installation had its own.")
            content = opened.read(manifest.SECRETS)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.touch(mode=0o600, exist_ok=False)
    target.write_bytes(content)
    return target


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("BAD_FILE", f"{file}: cannot be read.") from error


def _described(plan: dict[str, Any]) -> list[str]:
    """Say what a restore would do: with sessions, and with everything else that the server has."""
    changes: dict[str, list[str]] = plan["changes"]
    rows = [
        ("+", "returns", "come back: they do not exist now"),
        ("=", "goesBack", "restart with the link of the backup; no scan, and those of now go to the trash"),
        (
            "!",
            "older",
            "of them were online after the backup: chat keys go back, messages since then may be unreadable",
        ),
        ("!", "noRoom", "of those that come back have no free slot on their proxy: they wait for another one"),
        ("−", "phoneFull", "do not come back: their phones have as many sessions as they may"),
        ("·", "kept", "were linked again after the backup and stay as they are"),
        ("·", "untouched", "are not restored and stay as they are"),
    ]
    told = [f"{sign} {len(changes[name])} {text}" for sign, name, text in rows if changes[name]]
    others = "Queued messages, limits, opt-outs, keys and webhooks stay as they are now."
    if plan["whole"]:
        others = "This server is empty: queues, limits, opt-outs, keys, webhooks and history come back, too."
    return [*told, others]


def _question(backup_id: str, plan: dict[str, Any]) -> str:
    """Return what is asked before a restore; raise `Refused` if it would change nothing."""
    changes = plan["changes"]
    count = _counted(len(changes["returns"]) + len(changes["goesBack"]))
    if plan["whole"]:
        return f"Restore everything from {backup_id}, with {count}?"
    if not any(changes[name] for name in ("returns", "goesBack", "phoneFull")):
        raise Refused("NOTHING_TO_RESTORE", f"No session would be restored from {backup_id}. Nothing was changed.")
    return f"Restore {count} from {backup_id}?"


def _newer(now: dict[str, Any], before: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """Return the first run of a kind that was not among those before."""
    fresh = [each for each in now["latest"] if each["kind"] == kind and each not in before]
    return fresh[-1] if fresh else None


def _follow(run: Invocation, kind: str, look: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, Any]:
    """Wait for the end of a run, with a bar where a person looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(kind), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    shown = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
    until, told = time.monotonic() + _MOST_S, ""
    with shown as bar:
        task = bar.add_task("", total=None)
        while time.monotonic() < until:
            now = run.client.backups()
            if (running := now["running"]) and running["kind"] == kind:
                said = running["session"] or running["phase"]
                bar.update(task, completed=running["done"], total=running["total"] or None, description=said)
                if (stops := running["error"]) and stops != told:
                    typer.echo(f"{stops}: the {kind} cannot go on. It is tried again until it can.", err=True)
                told = stops or told
            if ended := look(now):
                return ended
            time.sleep(_LOOK_S)
    raise Refused("TOO_SLOW", f"The {kind} has not ended within an hour. To check: wa-orchestrator backups")


def _restored(backup_id: str, ended: dict[str, Any]) -> str:
    """Say how a restore ended, and how for each session: those that did not come back as they were first."""
    if ended["error"]:
        return f"{ended['error']}: {_NOT_RESTORED.get(ended['error'], ended['text'] or 'It failed.')}"
    outcomes = ended["outcomes"]
    count = sum(each["outcome"] == "RESTORED" for each in outcomes)
    said = f"{backup_id} is restored: {_counted(count)} came back."
    if not ended["complete"]:
        said = f"{backup_id} is restored in part: {count} of {_counted(ended['sessions'])} came back as they were."
    return "\n".join([f"{said}{_told(ended)}", *(_ended(each) for each in outcomes)])


def _ended(session: dict[str, Any]) -> str:
    return f"{session['sessionId']}: {session['outcome']}. {session['text']}"


def _counted(sessions: int) -> str:
    return f"{sessions} session" if sessions == 1 else f"{sessions} sessions"


def _told(ended: dict[str, Any]) -> str:
    """Say what became of messages that waited in the backup, if everything was restored."""
    said = {
        "waiting": "messages wait and are sent",
        "unknown": "may have been sent before and are not sent again by themselves: wa-orchestrator messages",
        "held": "wait for you, and all sending is paused: there was no journal beside the backup",
    }
    return "".join(f" {ended['messages'][kind]} {text}." for kind, text in said.items() if ended["messages"].get(kind))


def _made(ended: dict[str, Any], done: str, *, older: Sequence[object]) -> str:
    """Say how a backup ended."""
    if not ended["error"]:
        return done
    kept = "older backups are intact" if older else "there is no older backup"
    return f"{ended['error']}: {ended['text'] or 'It failed.'} Nothing was written; {kept}."
