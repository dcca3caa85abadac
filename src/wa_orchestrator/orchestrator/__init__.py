"""The control plane: sessions, proxies, workers and their events.

Requests and worker events change records in Redis and push the session to `control:attend`. Only the holder of the
leader lease starts, stops and watches workers, so any number of orchestrators may run and one of them acts.
"""
