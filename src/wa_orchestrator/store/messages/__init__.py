"""Messages in Redis: admission, queues, outbox, holds, contacts, indexes."""
