"""Archives for tests: sound ones, and ones that no backup writes, with every checksum right."""

import hashlib
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from wa_orchestrator.orchestrator.backups.archive_writer import COMMENT, digest_of

STATE = "redis.jsonl"


def auth_db(path: Path, session_id: str = "north", epoch: int = 3) -> Path:
    """A store as a worker writes it, with credentials that nobody reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value); CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB);"
        )
        rows = {"format": 1, "session": session_id, "epoch": epoch, "sequence": 0}
        opened.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
        opened.execute("INSERT INTO keys VALUES ('creds', ?)", (b"x" * 500,))
        opened.commit()
    return path


def contents(place: Path, session_id: str = "north") -> dict[str, bytes]:
    """The files of a small backup with one session."""
    session = ["id", session_id, "status", "connected", "phone", "972501000001", "wanted", "running", "epoch", "3"]
    lines = [["sessions:all", "set", 0, [session_id]], [f"session:{session_id}", "hash", 0, session]]
    return {
        STATE: "".join(json.dumps(line) + "\n" for line in lines).encode(),
        f"sessions/{session_id}/auth.db": auth_db(place / f"{session_id}.db", session_id).read_bytes(),
    }


def manifest(files: dict[str, bytes], **changes: Any) -> bytes:
    described = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    ]
    sessions = [{"id": name.split("/")[1], "how": "hot", "sealed": False} for name in files if name.endswith("auth.db")]
    content = {
        "product": "wa-orchestrator", "format": 1, "version": "0.1.0", "created_at": 1_700_000_000_000, "cursor": "0",
        "sessions": sessions, "files": described, "auth_key": "",
    }  # fmt: skip
    return json.dumps(content | changes).encode()


def write(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    """Write a zip with these entries, and the right checksum at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in entries:
            archive.writestr(entry, data)
        archive.comment = COMMENT
    digest = b"sha256:" + digest_of(path, leave_out=len(COMMENT)).encode()
    with path.open("r+b") as file:
        file.seek(-len(COMMENT), 2)
        file.write(digest)
    return path


def sound(path: Path, place: Path, session_id: str = "north") -> Path:
    """Write a backup that can be restored."""
    files = contents(place, session_id)
    return write(path, [("manifest.json", manifest(files)), *files.items()])
