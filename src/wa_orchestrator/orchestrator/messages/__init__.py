"""Messages on the worker side: outbox, retry policy, receipts, incoming messages, reach-out lock."""
