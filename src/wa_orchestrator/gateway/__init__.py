"""The public door for messages: key, limits, validation, idempotency, then `gateway:jobs`. Knows nothing of workers.

The way of a request: `doors` reads and checks the bytes → `taking` chooses the sender (`fleet`, `domain.routing`),
asks Redis in one step (`batching`, `store.admitting`) and says when it will leave (`forecast`) → 202.
"""
