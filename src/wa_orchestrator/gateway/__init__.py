"""Accepts messages over HTTP: API key, limits, validation, idempotency, then the queue `gateway:jobs`.

The path of a request: `routes.send` parses it (`message_body`) → `acceptance` chooses the sender (`sender_choice`),
admits it in one atomic step (`redis_access`, the script `admit_messages`) and estimates when it leaves (`forecast`) →
202. `hot_path` makes this faster and can be switched off.
"""
