"""A driver in a process of its own, reached over a Unix socket.

Whoever may talk to a Docker engine is root on its machine. So the part with the dashboard does not: `server` has the
engine and no network, `client` has the network and no engine, and `protocol` is all that passes between them. The
server builds every container itself; a caller names a session, its epoch, and what its worker is told.
"""
