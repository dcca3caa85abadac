"""Where uploads and received files are kept: in a directory, or in a bucket of an S3-compatible store."""

from enum import StrEnum
from pathlib import Path

from wa_orchestrator.messages.storage.bucket import BucketStore
from wa_orchestrator.messages.storage.contract import FileStore
from wa_orchestrator.messages.storage.directory import DirectoryStore
from wa_orchestrator.object_store import Bucket
from wa_orchestrator.settings import Settings


class Shelf(StrEnum):
    """What a store keeps; each has its own names."""

    UPLOADS = "uploads"
    RECEIVED = "received"


def directory(settings: Settings, shelf: Shelf) -> Path:
    """Return the directory of a shelf. With a bucket, files are in it only while they are on their way there."""
    return (settings.media_dir or settings.data_dir) / shelf


def stores(settings: Settings, shelf: Shelf) -> list[FileStore]:
    """Return the stores of a shelf: the one that gets new files, then one that may have some from before it was set."""
    local = DirectoryStore(directory(settings, shelf))
    if settings.media_s3_url is None:
        return [local]
    secret = settings.media_s3_secret_key
    bucket = Bucket(
        settings.media_s3_url,
        settings.media_s3_access_key,
        secret.get_secret_value() if secret else None,
        settings.media_s3_region,
    )
    return [BucketStore(bucket, shelf), local]
