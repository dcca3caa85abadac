"""Second copies of backups: in another directory, and in a bucket of an S3-compatible store."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wa_orchestrator import object_store
from wa_orchestrator.domain import backup_schedule
from wa_orchestrator.orchestrator.backups import backup_files
from wa_orchestrator.settings import Settings

Copy = Callable[[Path, str, int], None]
"""Copies an archive with its checksum and leaves so many there. Raises OSError, with what is kept here untouched."""

_CHUNK: Final = 1024 * 1024


def places(settings: Settings) -> dict[str, Copy]:
    """Return how to copy a backup to each place that the operator has set."""
    found: dict[str, Copy] = {}
    if (directory := settings.backup_copy_dir) is not None:

        def to_directory(source: Path, sha256: str, keep: int) -> None:
            backup_files.copy(source, directory, sha256)
            backup_files.prune(directory, keep)

        found[str(directory)] = to_directory
    if settings.backup_s3_url is not None:
        found[settings.backup_s3_url] = BucketCopies(settings).copy
    return found


class BucketCopies:
    """The place in an S3-compatible store."""

    def __init__(self, settings: Settings) -> None:
        secret = settings.backup_s3_secret_key
        self._bucket = object_store.Bucket(
            settings.backup_s3_url or "",
            settings.backup_s3_access_key,
            secret.get_secret_value() if secret else None,
            settings.backup_s3_region,
        )

    def copy(self, source: Path, sha256: str, keep: int) -> None:
        """Upload an archive and its note, read the archive back and compare it, and delete the oldest beyond `keep`."""
        with object_store.translated():
            store = object_store.client(self._bucket)
            name = f"{self._bucket.prefix}{source.name}"
            note = backup_files.note_path(source)
            store.fput_object(self._bucket.name, name, str(source))
            store.fput_object(self._bucket.name, f"{self._bucket.prefix}{note.name}", str(note), "application/json")
            if self._digest(store, name) != sha256:
                raise OSError("the copy differs from the backup")
            self._prune(store, keep)

    def _digest(self, store: Any, name: str) -> str:
        hashed = hashlib.sha256()
        answer = store.get_object(self._bucket.name, name)
        try:
            for chunk in answer.stream(_CHUNK):
                hashed.update(chunk)
        finally:
            answer.close()
            answer.release_conn()
        return hashed.hexdigest()

    def _prune(self, store: Any, keep: int) -> None:
        prefix = self._bucket.prefix
        listed = [str(each.object_name) for each in store.list_objects(self._bucket.name, prefix=prefix)]
        archives = {found: name for name in listed if (found := backup_files.id_in(name.removeprefix(prefix)))}
        for gone in backup_schedule.surplus(list(archives), keep):
            store.remove_object(self._bucket.name, archives[gone])
            store.remove_object(self._bucket.name, f"{archives[gone]}.json")
