"""Cancellations that the Redis client swallows."""

import asyncio


def end_if_cancelled() -> None:
    """Raise CancelledError in a task whose cancellation the Redis client has swallowed.

    While it connects, the client takes a cancellation for a connection error and raises that, or retries and succeeds.
    While it sends, it is in `asyncio.wait_for`, which before Python 3.12 loses a cancellation once the send has ended.
    Call this before every sleep: a task is cancelled only once.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
