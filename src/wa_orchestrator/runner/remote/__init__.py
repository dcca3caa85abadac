"""A driver in a process of its own, reached over a Unix socket.

Access to a Docker engine means root on its machine. So the part with the dashboard has none: `server` has the engine
and no network, `client` has the network and no engine, and `protocol` is all that passes between them. The server
builds every container itself; a caller names a session, its epoch, and its worker's environment.
"""
