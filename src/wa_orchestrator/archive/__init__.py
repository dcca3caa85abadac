"""History on disk: messages that ended, events and incoming messages, once they are no longer fresh.

`contract` says what an archive promises, `sqlite_archive` and `postgres` keep it, `archiver` moves and erases.
"""
