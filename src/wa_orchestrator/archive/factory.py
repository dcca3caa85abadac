"""The archive that the settings ask for."""

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.sqlite_archive import SqliteArchive
from wa_orchestrator.settings import Settings


def archive_for(settings: Settings) -> Archive:
    """Return the archive; nothing is opened yet."""
    if settings.archive_url is None:
        return SqliteArchive(settings.archive_path)
    from wa_orchestrator.archive.postgres.driver import PostgresArchive  # slow, and not needed by most

    return PostgresArchive(settings.archive_url.get_secret_value())
