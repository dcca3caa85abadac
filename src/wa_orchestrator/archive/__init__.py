"""History on disk: messages that ended, events and incoming messages, once they are no longer fresh.

`contract` defines what an archive guarantees; `threaded` runs one in threads, for `sqlite_archive` (a file) and
`postgres` (a database). `archiver` moves and erases.
"""
