"""The control plane: sessions, proxies, workers and what they report.

Requests and events change records in Redis and ring `control:attend`; only the holder of the control lease starts,
stops and watches workers. So any number of orchestrators may run, and one of them acts.
"""
